//! Reading a TOML file so that everything that is wrong with it is said at once, each with its line.

use std::{cell::RefCell, collections::HashSet, fmt, ops::Range, time::Duration};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::units;

/// More than a person will read.
const MAX_PROBLEMS: usize = 20;

/// How alike two words must be for one to be a slip of the other, 0 to 1.
const ALIKE: f64 = 0.8;

/// One thing that is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// For a person.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.text)
    }
}

/// The text of a file, and what is wrong with it so far.
pub(crate) struct Source<'s> {
    text: &'s str,
    problems: RefCell<Vec<Problem>>,
}

impl<'s> Source<'s> {
    pub(crate) fn new(text: &'s str) -> Self {
        Self {
            text,
            problems: RefCell::default(),
        }
    }

    /// The whole file as a table; an empty one where it is no TOML, which is noted.
    pub(crate) fn parse(&self) -> Spanned<DeTable<'s>> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in errors {
            self.problem(error.span().unwrap_or(0..0), error.message().to_owned());
        }
        table
    }

    pub(crate) fn problem(&self, span: Range<usize>, text: impl Into<String>) {
        let (line, column) = self.place(span.start);
        self.problems.borrow_mut().push(Problem {
            line,
            column,
            text: text.into(),
        });
    }

    /// The line and the column of a byte, from 1.
    pub(crate) fn place(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (
            before.matches('\n').count() + 1,
            before[line_start..].chars().count() + 1,
        )
    }

    /// What is wrong, in the order of the file.
    pub(crate) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| (problem.line, problem.column));
        problems.truncate(MAX_PROBLEMS);
        problems
    }
}

/// A table whose keys are taken one by one; [`Fields::finish`] notes those that nobody has asked for.
pub(crate) struct Fields<'a, 's> {
    pub(crate) source: &'a Source<'s>,
    /// Of the whole table, to say where something is missing.
    pub(crate) span: Range<usize>,
    table: &'a DeTable<'s>,
    asked: HashSet<&'static str>,
}

impl<'a, 's> Fields<'a, 's> {
    pub(crate) fn new(source: &'a Source<'s>, span: Range<usize>, table: &'a DeTable<'s>) -> Self {
        Self {
            source,
            span,
            table,
            asked: HashSet::new(),
        }
    }

    /// Notes that a value is not what it should be.
    pub(crate) fn wrong(&self, value: &Spanned<DeValue<'_>>, text: impl Into<String>) {
        self.source.problem(value.span(), text);
    }

    pub(crate) fn value(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'s>>> {
        self.asked.insert(key);
        self.table.get(key)
    }

    /// A value that `read` understands. Where it does not, that is noted, and the answer is `None`.
    pub(crate) fn read<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&DeValue<'s>) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.value(key)?;
        match read(value.get_ref()) {
            Ok(read) => Some(read),
            Err(why) => {
                self.wrong(value, format!("`{key}`: {why}"));
                None
            }
        }
    }

    pub(crate) fn text(&mut self, key: &'static str) -> Option<String> {
        self.read(key, text)
    }

    pub(crate) fn flag(&mut self, key: &'static str) -> Option<bool> {
        self.read(key, |value| {
            value
                .as_bool()
                .ok_or_else(|| format!("expected true or false, found {}", value.type_str()))
        })
    }

    pub(crate) fn duration(&mut self, key: &'static str) -> Option<Duration> {
        self.read(key, |value| units::duration(&text(value)?))
    }

    /// A span of time that is not zero.
    pub(crate) fn some_time(&mut self, key: &'static str) -> Option<Duration> {
        self.read(key, |value| match units::duration(&text(value)?)? {
            Duration::ZERO => Err("that is no time at all; write a span such as `10s`".to_owned()),
            span => Ok(span),
        })
    }

    /// A whole number within bounds.
    pub(crate) fn count(&mut self, key: &'static str, bounds: Range<u64>) -> Option<u64> {
        self.read(key, |value| {
            let number = value.as_integer().map(ToString::to_string);
            let number = number.and_then(|number| number.parse::<u64>().ok());
            number
                .filter(|number| bounds.contains(number))
                .ok_or_else(|| {
                    let (least, most) = (bounds.start, bounds.end - 1);
                    format!("expected a whole number from {least} to {most}")
                })
        })
    }

    /// A table inside this one.
    pub(crate) fn fields(&mut self, key: &'static str) -> Option<Fields<'a, 's>> {
        let value = self.value(key)?;
        let Some(table) = value.get_ref().as_table() else {
            self.wrong(value, format!("`{key}` is a table: write `[{key}]`"));
            return None;
        };
        Some(Fields::new(self.source, value.span(), table))
    }

    /// The tables of a list such as `[[rule]]`.
    pub(crate) fn list(&mut self, key: &'static str) -> Vec<Fields<'a, 's>> {
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        let Some(list) = value.get_ref().as_array() else {
            self.wrong(value, format!("`{key}` is a list: write `[[{key}]]`"));
            return Vec::new();
        };
        let fields = list.iter().filter_map(|item| {
            let table = item.get_ref().as_table();
            if table.is_none() {
                self.wrong(item, format!("each `{key}` is a table: write `[[{key}]]`"));
            }
            Some(Fields::new(self.source, item.span(), table?))
        });
        fields.collect()
    }

    /// Notes the keys that nobody has asked for, each with the known one that it is most like.
    pub(crate) fn finish(self, what: &str) {
        for key in self.table.keys() {
            let name = key.get_ref().as_ref();
            if !self.asked.contains(name) {
                let hint = instead(name, self.asked.iter().copied());
                self.source
                    .problem(key.span(), format!("unknown key `{name}` of {what}{hint}"));
            }
        }
    }
}

/// A text.
pub(crate) fn text(value: &DeValue<'_>) -> Result<String, String> {
    let text = value.as_str();
    let text =
        text.ok_or_else(|| format!("expected text in quotes, found {}", value.type_str()))?;
    if text.chars().any(char::is_control) {
        return Err("text with a line break or another control character".to_owned());
    }
    Ok(text.to_owned())
}

/// What to write instead of an unknown word: the known one that it is most like, else all of them.
pub(crate) fn instead<'k>(unknown: &str, known: impl Iterator<Item = &'k str>) -> String {
    let mut known: Vec<_> = known.collect();
    known.sort_unstable();
    let alike = |word: &&str| strsim::jaro_winkler(unknown, word);
    let closest = known
        .iter()
        .max_by(|a, b| alike(a).total_cmp(&alike(b)))
        .filter(|word| alike(word) >= ALIKE);
    match closest {
        Some(word) => format!("; did you mean `{word}`?"),
        None => format!("; there are: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str, read: impl FnOnce(&mut Fields<'_, '_>)) -> Vec<String> {
        let source = Source::new(text);
        let table = source.parse();
        let mut fields = Fields::new(&source, table.span(), table.get_ref());
        read(&mut fields);
        fields.finish("the file");
        let problems = source.into_problems();
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_that_is_wrong_is_said_with_its_place() {
        let text = "quite = '1s'\nlimit = 0\n# comment\nwait = 5\nflag = 'yes'\n";
        let told = problems(text, |fields| {
            fields.duration("quiet");
            fields.count("limit", 1..10);
            fields.duration("wait");
            fields.flag("flag");
        });
        assert_eq!(
            told,
            [
                "1:1: unknown key `quite` of the file; did you mean `quiet`?",
                "2:9: `limit`: expected a whole number from 1 to 9",
                "4:8: `wait`: expected text in quotes, found integer",
                "5:8: `flag`: expected true or false, found string",
            ]
        );
    }

    #[test]
    fn what_is_no_toml_is_said_with_its_place() {
        let told = problems("a = 'b'\nc = \n", |fields| {
            fields.text("a");
            fields.value("c");
        });
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("2:"), "{told:?}");
    }
}
