//! The typed query for jobs, such as `lane=db wait>100ms state=failed type~pdf`: read as it is typed, completed, and where
//! it is wrong, told what is wrong where.
//!
//! ```text
//! query = term { space term }          each must hold
//! term  = field op value               such as wait>100ms
//!       | word | !word                 a word alone: some part of the type, or none of it
//!       | #710 | !#710 | 0af76519..    a job by its number, a trace by its first 16 digits or more
//! op    = = != ~ !~ < <= > >=
//! value = word | "words with spaces" | 100ms | failed,ready
//! ```

mod complete;

use std::fmt;

use ax_wire::job::{Comparison, JobState, MAX_TERMS, MatchKind, NumberField, Term, TextField};

pub use self::complete::{completed, completions};

/// What a field holds, and with it how it can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text(TextField),
    Count(NumberField),
    Duration(NumberField),
    State,
}

/// The fields, in the order in which they are offered.
const FIELDS: [(&str, Kind); 13] = [
    ("type", Kind::Text(TextField::Type)),
    ("lane", Kind::Text(TextField::Lane)),
    ("state", Kind::State),
    ("wait", Kind::Duration(NumberField::Wait)),
    ("run", Kind::Duration(NumberField::Run)),
    ("age", Kind::Duration(NumberField::Age)),
    ("id", Kind::Count(NumberField::Id)),
    ("trace", Kind::Text(TextField::Trace)),
    ("name", Kind::Text(TextField::Name)),
    ("place", Kind::Text(TextField::Place)),
    ("awaits", Kind::Text(TextField::Awaits)),
    ("error", Kind::Text(TextField::Error)),
    ("priority", Kind::Count(NumberField::Priority)),
];

/// The operators, the longer ones first.
const OPS: [&str; 8] = ["!=", "!~", "<=", ">=", "=", "~", "<", ">"];

/// How many digits make a word the beginning of a trace id: no name of a type is so long and made of these alone.
const TRACE_DIGITS: std::ops::RangeInclusive<usize> = 16..=32;

/// The words for states, each with those that it means.
const STATES: [(&str, &[JobState]); 11] = [
    ("running", &[JobState::Running]),
    ("ready", &[JobState::Ready]),
    ("waiting", &[JobState::Waiting]),
    (
        "live",
        &[JobState::Running, JobState::Ready, JobState::Waiting],
    ),
    (
        "failed",
        &[JobState::Failed, JobState::Panicked, JobState::TimedOut],
    ),
    ("panicked", &[JobState::Panicked]),
    ("timedout", &[JobState::TimedOut]),
    ("cancelled", &[JobState::Cancelled]),
    ("rejected", &[JobState::Rejected]),
    ("succeeded", &[JobState::Succeeded]),
    (
        "ended",
        &[
            JobState::Succeeded,
            JobState::Failed,
            JobState::Panicked,
            JobState::TimedOut,
            JobState::Cancelled,
            JobState::Rejected,
        ],
    ),
];

/// What is wrong with a query, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryError {
    /// Characters before what is wrong.
    pub at: usize,
    pub what: String,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at character {})", self.what, self.at + 1)
    }
}

/// One word of a query, with its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Token<'a> {
    at: usize,
    text: &'a str,
}

impl Token<'_> {
    fn error(&self, after: usize, what: impl Into<String>) -> QueryError {
        QueryError {
            at: self.at + self.text[..after].chars().count(),
            what: what.into(),
        }
    }
}

/// Reads a query.
///
/// # Errors
///
/// What is wrong, and where.
pub fn parse(text: &str) -> Result<Vec<Term>, QueryError> {
    let tokens = tokens(text)?;
    if let Some(extra) = tokens.get(MAX_TERMS) {
        return Err(extra.error(0, format!("a query has at most {MAX_TERMS} terms")));
    }
    tokens.iter().map(term).collect()
}

/// Cut at spaces outside quotes.
fn tokens(text: &str) -> Result<Vec<Token<'_>>, QueryError> {
    let mut found = Vec::new();
    let mut begun: Option<(usize, usize)> = None;
    let mut quote = None;
    for (position, (byte, c)) in text.char_indices().enumerate() {
        if c == '"' {
            quote = if quote.is_none() {
                Some(position)
            } else {
                None
            };
        }
        match begun {
            Some((at, from)) if c == ' ' && quote.is_none() => {
                found.push(Token {
                    at,
                    text: &text[from..byte],
                });
                begun = None;
            }
            None if c != ' ' => begun = Some((position, byte)),
            _ => {}
        }
    }
    if let Some(at) = quote {
        let what = "the quote is not closed".to_owned();
        return Err(QueryError { at, what });
    }
    found.extend(begun.map(|(at, from)| Token {
        at,
        text: &text[from..],
    }));
    Ok(found)
}

/// Where the first operator of a token is, and which.
fn operator(text: &str) -> Option<(usize, &'static str)> {
    let at = text.find(['=', '~', '<', '>', '!'])?;
    let op = OPS.into_iter().find(|op| text[at..].starts_with(op))?;
    Some((at, op))
}

fn term(token: &Token<'_>) -> Result<Term, QueryError> {
    let text = token.text;
    let (not, alone) = match text.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let Some((at, op)) = operator(text).filter(|_| operator(alone).is_some()) else {
        return word_alone(&unquoted(alone), not).map_err(|what| token.error(0, what));
    };
    let (name, value) = (&text[..at], unquoted(&text[at + op.len()..]));
    let value_at = at + op.len();
    let Some((_, kind)) = FIELDS.iter().find(|(known, _)| *known == name) else {
        return Err(token.error(0, unknown_field(name)));
    };
    if value.is_empty() {
        return Err(token.error(value_at, format!("`{name}{op}` wants a value")));
    }
    match *kind {
        Kind::Text(field) => text_term(field, op, &value)
            .map_err(|what| token.error(at, what))
            .and_then(|term| checked_trace(term).map_err(|what| token.error(value_at, what))),
        Kind::State => state_term(op, &value, name).map_err(|(after, what)| {
            let after = if after == usize::MAX {
                at
            } else {
                value_at + after
            };
            token.error(after, what)
        }),
        Kind::Count(field) => {
            let how = comparison(op, name).map_err(|what| token.error(at, what))?;
            let number = value.trim_start_matches('#').parse();
            let value = number
                .map_err(|_| token.error(value_at, format!("`{value}` is no whole number")))?;
            Ok(Term::Number { field, how, value })
        }
        Kind::Duration(field) => {
            let how = comparison(op, name).map_err(|what| token.error(at, what))?;
            let value = nanoseconds(&value).ok_or_else(|| {
                let what = format!("`{value}` is no duration: 250us, 100ms, 1.5s, 5m, 2h");
                token.error(value_at, what)
            })?;
            Ok(Term::Number { field, how, value })
        }
    }
}

/// A job or a trace by what it is called on every screen, so that it can be pasted; else a part of the type.
fn word_alone(word: &str, not: bool) -> Result<Term, String> {
    if word.is_empty() {
        return Err("`!` stands before a word, or before `=` or `~`: !pdf, type!=pdf".to_owned());
    }
    if let Some(number) = word.strip_prefix('#') {
        let value = number
            .parse()
            .map_err(|_| format!("`{word}` is no job: # and its number"))?;
        let how = if not {
            Comparison::NotEqual
        } else {
            Comparison::Equal
        };
        let field = NumberField::Id;
        return Ok(Term::Number { field, how, value });
    }
    let is_trace =
        TRACE_DIGITS.contains(&word.len()) && word.chars().all(|c| c.is_ascii_hexdigit());
    let (field, how) = if is_trace {
        (TextField::Trace, MatchKind::Begins)
    } else {
        (TextField::Type, MatchKind::Contains)
    };
    let value = word.to_owned();
    Ok(Term::Text {
        field,
        how,
        value,
        not,
    })
}

fn unquoted(value: &str) -> String {
    value.replace('"', "")
}

fn unknown_field(name: &str) -> String {
    let near = FIELDS
        .iter()
        .map(|(known, _)| *known)
        .min_by_key(|known| distance(known, name))
        .filter(|known| distance(known, name) <= 2);
    if let Some(near) = near {
        return format!("there is no field `{name}`; did you mean `{near}`?");
    }
    let all: Vec<_> = FIELDS.iter().map(|(known, _)| *known).collect();
    format!("there is no field `{name}`; there are {}", all.join(" "))
}

/// How many characters two words are apart (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, c) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (position, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(c != *other);
            diagonal = row[position + 1];
            row[position + 1] = replaced.min(diagonal + 1).min(row[position] + 1);
        }
    }
    row[b.len()]
}

fn text_term(field: TextField, op: &str, value: &str) -> Result<Term, String> {
    let is = if field == TextField::Trace {
        MatchKind::Begins
    } else {
        MatchKind::Is
    };
    let (how, not) = match op {
        "=" => (is, false),
        "!=" => (is, true),
        "~" => (MatchKind::Contains, false),
        "!~" => (MatchKind::Contains, true),
        _ => return Err(format!("a text is compared by = != ~ !~, not by {op}")),
    };
    let value = value.to_owned();
    Ok(Term::Text {
        field,
        how,
        value,
        not,
    })
}

/// A trace is told by its first digits, as they are shown.
fn checked_trace(term: Term) -> Result<Term, String> {
    if let Term::Text {
        field: TextField::Trace,
        value,
        ..
    } = &term
        && !value.chars().all(|c| c.is_ascii_hexdigit())
    {
        return Err(format!(
            "`{value}` is no trace id: the digits 0-9 and a-f, or the first of them"
        ));
    }
    Ok(term)
}

/// The position of an error counts from the value's beginning; `usize::MAX` for the operator.
fn state_term(op: &str, value: &str, name: &str) -> Result<Term, (usize, String)> {
    let not = match op {
        "=" => false,
        "!=" => true,
        _ => {
            return Err((
                usize::MAX,
                format!("`{name}` is compared by = !=, not by {op}"),
            ));
        }
    };
    let mut any_of = Vec::new();
    let mut after = 0;
    for word in value.split(',') {
        let Some((_, states)) = STATES.iter().find(|(known, _)| *known == word) else {
            let all: Vec<_> = STATES.iter().map(|(known, _)| *known).collect();
            let what = format!("there is no state `{word}`; there are {}", all.join(" "));
            return Err((after, what));
        };
        any_of.extend_from_slice(states);
        after += word.len() + 1;
    }
    Ok(Term::State { any_of, not })
}

fn comparison(op: &str, name: &str) -> Result<Comparison, String> {
    Ok(match op {
        "=" => Comparison::Equal,
        "!=" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::AtMost,
        ">" => Comparison::More,
        ">=" => Comparison::AtLeast,
        _ => {
            return Err(format!(
                "`{name}` is a figure: compare it by = != < <= > >="
            ));
        }
    })
}

/// `100ms`, `1.5s`; without a unit, milliseconds.
fn nanoseconds(text: &str) -> Option<u64> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().ok()?;
    let unit = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" | "" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3_600e9,
        _ => return None,
    };
    Some((number * unit) as u64)
}

#[cfg(test)]
mod tests;
