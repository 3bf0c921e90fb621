//! Bodies of JSON with placeholders: `{"summary": "{{service}}: {{sentence}}"}`.
//!
//! A placeholder stands inside a text, and what it stands for is put in as text, so that no name of a service can make
//! another JSON of it.

use serde_json::Value;

use super::facts::{Facts, NAMES};
use crate::config::table::instead;

/// Longest template that is read.
pub(crate) const MAX_BYTES: u64 = 64 * 1024;

/// A body that has been read and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Template(Value);

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    ///
    /// It is no JSON, or names a placeholder that there is not; for a person.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let value =
            serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
        check(&value)?;
        Ok(Self(value))
    }

    /// The body for an alert.
    pub(crate) fn fill(&self, facts: &Facts) -> Value {
        filled(&self.0, facts)
    }
}

fn check(value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) => {
            for piece in pieces(text) {
                if let Piece::Placeholder(name) = piece
                    && !NAMES.iter().any(|(known, _)| *known == name)
                {
                    let hint = instead(name, NAMES.iter().map(|(known, _)| *known));
                    return Err(format!("unknown placeholder `{{{{{name}}}}}`{hint}"));
                }
            }
            Ok(())
        }
        Value::Array(items) => items.iter().try_for_each(check),
        Value::Object(fields) => fields.values().try_for_each(check),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn filled(value: &Value, facts: &Facts) -> Value {
    match value {
        Value::String(text) => {
            let put = |piece| match piece {
                Piece::Text(text) => text,
                Piece::Placeholder(name) => facts.get(name).unwrap_or_default(),
            };
            Value::String(pieces(text).map(put).collect())
        }
        Value::Array(items) => items.iter().map(|item| filled(item, facts)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            Value::Object(
                fields
                    .map(|(key, value)| (key.clone(), filled(value, facts)))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

/// A part of a text.
enum Piece<'t> {
    Text(&'t str),
    Placeholder(&'t str),
}

/// Two opening braces without two closing ones are text.
fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let placeholder = |text: &'_ str| {
            let (name, after) = text.strip_prefix("{{")?.split_once("}}")?;
            Some((name.len(), after.len()))
        };
        if let Some((name, after)) = placeholder(rest) {
            let named = rest[2..2 + name].trim();
            rest = &rest[rest.len() - after..];
            return Some(Piece::Placeholder(named));
        }
        let skip = usize::from(rest.starts_with("{{")) * 2;
        let end = rest[skip..].find("{{").map_or(rest.len(), |at| at + skip);
        let (before, after) = rest.split_at(end);
        rest = after;
        Some(Piece::Text(before))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::action::tests::facts;

    #[test]
    fn placeholders_are_filled_and_nothing_can_break_out_of_its_text() {
        let template = r#"{"a": "{{rule}} of {{ service }}: {{sentence}}", "b": [1, "{{"], "c": "{{subject}}"}"#;
        let template = Template::parse(template).expect("is a template");
        let filled = template.fill(&facts(r#"shop", "evil": "{{rule}}"#));
        assert_eq!(
            filled.to_string(),
            r#"{"a":"lag-page of shop\", \"evil\": \"{{rule}}: the event loop is 6.0 s late","b":[1,"{{"],"c":""}"#
        );
    }

    #[test]
    fn an_unknown_placeholder_is_said_with_the_one_that_is_like_it() {
        let why = |text| Template::parse(text).expect_err("is wrong");
        assert_eq!(
            why(r#"{"a": ["{{servce}}"]}"#),
            "unknown placeholder `{{servce}}`; did you mean `service`?"
        );
        assert!(why("{").starts_with("it is no JSON"), "{}", why("{"));
    }
}
