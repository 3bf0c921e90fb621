//! What a list is narrowed to, as it is typed: words that a row must hold, words that it must not, and comparisons with a
//! column.
//!
//! ```text
//!  pdf                 some cell holds `pdf`, in capitals or not
//!  !pdf                no cell does
//!  lane=db  lane!=db   the cell of the first column whose heading begins with `lane` is that
//!  wait>100ms          its figure is larger; also < >= <=; ns us ms s m h, or none: the figure as it stands
//! ```
//!
//! Terms stand side by side and must all hold. A name that no column has is a word like any other, and where no row holds it,
//! is said. Where a row is known by the id of a trace, the whole id finds it, although its cell shows the beginning.

use super::{Cell, Column, SortKey, Table};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    text: String,
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq)]
struct Term {
    /// Whether it must not hold.
    inverse: bool,
    /// In small letters, as typed: what is looked for where it compares with no column.
    word: String,
    comparison: Option<Comparison>,
}

#[derive(Clone, Debug, PartialEq)]
struct Comparison {
    /// In small letters, without blanks.
    column: String,
    operator: Operator,
    /// In small letters.
    value: String,
    number: Option<Number>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Is,
    IsNot,
    Less,
    More,
    AtMost,
    AtLeast,
}

/// The longer ones first: `>=` begins with `>`.
const OPERATORS: [(&str, Operator); 6] = [
    ("!=", Operator::IsNot),
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    ("=", Operator::Is),
    (">", Operator::More),
    ("<", Operator::Less),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    /// A span of time.
    Nanoseconds(f64),
    /// As it stands in the cell.
    Shown(f64),
}

impl Filter {
    /// Reads what was typed. Any text is a filter.
    pub fn parse(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            terms: text.split_whitespace().filter_map(Term::parse).collect(),
        }
    }

    /// As it was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it lets everything through.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The name in a comparison that is none of a column.
    pub fn unknown_column<R>(&self, table: &Table<R>) -> Option<&str> {
        let comparisons = self
            .terms
            .iter()
            .filter_map(|term| term.comparison.as_ref());
        let mut unknown = comparisons.filter(|comparison| comparison.column_of(table).is_none());
        unknown.next().map(|comparison| comparison.column.as_str())
    }

    /// Whether a row holds to it.
    pub fn matches<R>(&self, table: &Table<R>, row: &R) -> bool {
        let holds = |term: &Term| term.holds(table, row) != term.inverse;
        self.terms.iter().all(holds)
    }
}

impl Term {
    /// `None` for a lone `!`, which is about to become something.
    fn parse(text: &str) -> Option<Self> {
        let small = text.to_lowercase();
        let (inverse, word) = match small.strip_prefix('!') {
            Some(word) => (true, word),
            None => (false, small.as_str()),
        };
        (!word.is_empty()).then(|| Self {
            inverse,
            word: word.to_owned(),
            comparison: Comparison::parse(word),
        })
    }

    fn holds<R>(&self, table: &Table<R>, row: &R) -> bool {
        let compared = self.comparison.as_ref().and_then(|comparison| {
            let column = comparison.column_of(table)?;
            Some(comparison.holds(&(column.cell)(row), &(column.sort)(row)))
        });
        compared.unwrap_or_else(|| {
            if is_trace(&self.word) && (table.row_key)(row).starts_with(&self.word) {
                return true;
            }
            let mut cells = table.columns.iter().map(|column| (column.cell)(row));
            cells.any(|cell| cell.text.to_lowercase().contains(&self.word))
        })
    }
}

/// Whether it is the id of a trace, or more of one than a cell shows.
fn is_trace(word: &str) -> bool {
    word.len() > 16 && word.chars().all(|c| c.is_ascii_hexdigit())
}

impl Comparison {
    fn parse(word: &str) -> Option<Self> {
        // The operator that stands first, and of two at one place the longer one.
        let found = OPERATORS.iter().filter_map(|(sign, operator)| {
            let at = word.find(sign)?;
            Some((at, *sign, *operator))
        });
        let (at, sign, operator) =
            found.min_by_key(|(at, sign, _)| (*at, usize::MAX - sign.len()))?;
        let (column, value) = (&word[..at], &word[at + sign.len()..]);
        (!column.is_empty() && !value.is_empty()).then(|| Self {
            column: column.to_owned(),
            operator,
            value: value.to_owned(),
            number: Number::parse(value),
        })
    }

    /// The first column whose heading is that or begins so.
    fn column_of<'a, R>(&self, table: &'a Table<R>) -> Option<&'a Column<R>> {
        let name = |column: &Column<R>| column.title.replace([' ', '/'], "").to_lowercase();
        let mut columns = table.columns.iter();
        columns
            .clone()
            .find(|column| name(column) == self.column)
            .or_else(|| columns.find(|column| name(column).starts_with(&self.column)))
    }

    fn holds(&self, cell: &Cell, key: &SortKey) -> bool {
        let is = cell.text.trim().to_lowercase() == self.value;
        let order = self.number.and_then(|number| {
            let (figure, value) = match number {
                Number::Nanoseconds(ns) => (key.figure()?, ns),
                Number::Shown(value) => (shown(&cell.text)?, value),
            };
            figure.partial_cmp(&value)
        });
        match self.operator {
            Operator::Is => is || order.is_some_and(std::cmp::Ordering::is_eq),
            Operator::IsNot => !is && order.is_none_or(std::cmp::Ordering::is_ne),
            // What is unknown is neither more nor less.
            Operator::Less => order.is_some_and(std::cmp::Ordering::is_lt),
            Operator::More => order.is_some_and(std::cmp::Ordering::is_gt),
            Operator::AtMost => order.is_some_and(std::cmp::Ordering::is_le),
            Operator::AtLeast => order.is_some_and(std::cmp::Ordering::is_ge),
        }
    }
}

impl Number {
    fn parse(text: &str) -> Option<Self> {
        let units = [
            ("ns", 1.0),
            ("us", 1e3),
            ("ms", 1e6),
            ("s", 1e9),
            ("m", 60e9),
            ("h", 3_600e9),
        ];
        if let Ok(value) = text.parse() {
            return Some(Self::Shown(value));
        }
        units.into_iter().find_map(|(unit, ns)| {
            let value: f64 = text.strip_suffix(unit)?.parse().ok()?;
            Some(Self::Nanoseconds(value * ns))
        })
    }
}

/// The figure at the beginning of a cell, such as the 31 of `31/40`.
fn shown(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let digits = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
    let end = text.find(|c| !digits(c)).unwrap_or(text.len());
    text[..end].parse().ok()
}
