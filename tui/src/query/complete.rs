//! The completion of a query as it is typed.

use ax_wire::job::TextField;

use super::{FIELDS, Kind, STATES, operator};

/// What may stand where the query ends: each the whole of its last word.
pub fn completions(text: &str, types: &[&str], lanes: &[&str]) -> Vec<String> {
    let last = text.rsplit(' ').next().unwrap_or_default();
    let Some((at, op)) = operator(last) else {
        let fields = FIELDS.iter().filter(|(name, _)| name.starts_with(last));
        return fields
            .map(|(name, kind)| {
                let op = match kind {
                    Kind::Text(TextField::Type | TextField::Name | TextField::Error) => "~",
                    Kind::Text(_) | Kind::State | Kind::Count(_) => "=",
                    Kind::Duration(_) => ">",
                };
                format!("{name}{op}")
            })
            .collect();
    };
    let (name, value) = (&last[..at], &last[at + op.len()..]);
    let states: Vec<_> = STATES.iter().map(|(word, _)| *word).collect();
    let values: &[&str] = match name {
        "type" => types,
        "lane" => lanes,
        "state" => &states,
        _ => return Vec::new(),
    };
    // Of a list, the word behind the last comma.
    let (before, word) = match value.rfind(',') {
        Some(comma) if name == "state" => value.split_at(comma + 1),
        _ => ("", value),
    };
    let mut found: Vec<_> = values
        .iter()
        .filter(|known| known.starts_with(word) && **known != word)
        .map(|known| {
            let quote = if known.contains(' ') { "\"" } else { "" };
            format!("{name}{op}{before}{quote}{known}{quote}")
        })
        .collect();
    found.dedup();
    found
}

/// The query with its last word completed as far as there is no choice; a space behind it where it is whole.
pub fn completed(text: &str, completions: &[String]) -> Option<String> {
    let first = completions.first()?;
    let common = completions.iter().fold(first.as_str(), |common, next| {
        let same = common
            .char_indices()
            .zip(next.chars())
            .take_while(|((_, a), b)| a == b)
            .last();
        let end = same.map_or(0, |((at, c), _)| at + c.len_utf8());
        &common[..end]
    });
    let last = text.rsplit(' ').next().unwrap_or_default();
    let whole = completions.len() == 1 && !common.ends_with(['=', '~', '>']);
    let space = if whole { " " } else { "" };
    let before = &text[..text.len() - last.len()];
    let completed = format!("{before}{common}{space}");
    (completed != text && common.len() >= last.len()).then_some(completed)
}
