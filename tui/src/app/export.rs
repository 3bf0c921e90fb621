//! A list as a file, and the name of a row for the clipboard.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{App, Request};
use crate::{
    format::{UNKNOWN, printable},
    keys::Format,
    screens::{Content, Panel},
    theme::Tone,
};

/// A list as it is seen: its headings, and the cells of each row that the filter lets through, in the order in which the
/// rows stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sheet {
    pub headings: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
}

impl App {
    /// Writes the list that the keys act on, to this file or to one that is named for it.
    pub(super) fn export(
        &mut self,
        format: Format,
        file: Option<&str>,
        now_unix_ns: u64,
    ) -> Option<Request> {
        let panel = self.focused();
        let Some((panel, Content::List(list))) = panel.map(|panel| (panel, panel.row().content))
        else {
            self.say(
                "no list is open that could be written",
                Tone::Warning,
                now_unix_ns,
            );
            return None;
        };
        let sheet = list.sheet(self, self.table(panel));
        let text = match format {
            Format::Csv => csv(&sheet),
            Format::Json => self.json(panel, list.title(), &sheet),
        };
        let file = file.map_or_else(|| self.file_name(panel, format), str::to_owned);
        Some(Request::Write { file, text })
    }

    /// `ax-checkout-lanes-20261130T140327.csv`: nothing of a service's name that a file could trip over.
    fn file_name(&self, panel: Panel, format: Format) -> String {
        let service = self.view().map_or("", |view| &view.summary.service);
        let service: String = service
            .chars()
            .take(40)
            .map(|c| if c.is_alphanumeric() { c } else { '_' })
            .collect();
        let at = Timestamp::from_nanosecond(i128::from(self.world.now_unix_ns)).unwrap_or_default();
        let at = self
            .zone
            .to_datetime(at)
            .strftime("%Y%m%dT%H%M%S")
            .to_string();
        let ending = match format {
            Format::Csv => "csv",
            Format::Json => "json",
        };
        let list = format!("{panel:?}").to_lowercase();
        format!("ax-{service}-{list}-{at}.{ending}")
    }

    fn json(&self, panel: Panel, title: &str, sheet: &Sheet) -> String {
        let rows: Vec<Value> = sheet
            .rows
            .iter()
            .map(|row| {
                let cells = sheet.headings.iter().zip(row);
                let cells = cells.map(|(heading, cell)| (heading.trim().to_owned(), value(cell)));
                Value::Object(cells.collect::<Map<_, _>>())
            })
            .collect();
        let whole = json!({
            "service": self.view().map(|view| &view.summary.service),
            "pid": self.view().map(|view| view.summary.pid),
            "at_unix_ns": self.world.now_unix_ns,
            "list": title,
            "filter": self.table(panel).filter().text(),
            "rows": rows,
        });
        format!("{whole:#}\n")
    }

    /// Copies what the selected row is called: where it is a file, its path; where it is a trace, its id.
    pub(super) fn copy(&mut self, now_unix_ns: u64) -> Option<Request> {
        let panel = self.focused();
        let name = panel.and_then(|panel| match panel.row().content {
            Content::List(list) if panel == Panel::Snapshots => {
                Some(list.detail(self, self.table(panel))?.first)
            }
            Content::List(_) if Panel::TRACES.contains(&panel) => {
                self.table(panel).selected().cloned()
            }
            Content::List(list) => list.name(self, self.table(panel)),
            Content::Lines(_) if panel == Panel::Trace => Some(self.looks.trace?.to_string()),
            Content::Lines(_) => None,
        });
        let Some(name) = name else {
            self.say(
                "no row is selected that could be copied",
                Tone::Warning,
                now_unix_ns,
            );
            return None;
        };
        let name = printable(name.trim());
        self.say(&format!("copied: {name}"), Tone::Good, now_unix_ns);
        Some(Request::Copy(name))
    }
}

/// A cell as JSON: a number where it is one, null where it is unknown.
fn value(cell: &str) -> Value {
    let cell = cell.trim();
    match cell.parse::<f64>() {
        _ if cell == UNKNOWN || cell.is_empty() => Value::Null,
        Ok(number) if number.is_finite() => json!(number),
        _ => Value::String(cell.to_owned()),
    }
}

fn csv(sheet: &Sheet) -> String {
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        for (at, cell) in cells.enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let cell = cell.trim();
            let quoted = cell.contains([',', '"', '\n', '\r']);
            let written = if quoted {
                write!(text, "{comma}\"{}\"", cell.replace('"', "\"\""))
            } else {
                write!(text, "{comma}{cell}")
            };
            // A String takes everything.
            debug_assert!(written.is_ok());
        }
        text.push_str("\r\n");
    };
    line(&mut sheet.headings.iter().copied());
    for row in &sheet.rows {
        line(&mut row.iter().map(String::as_str));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jiff::tz::TimeZone;

    use super::*;
    use crate::{fixture, keys::Action};

    #[test]
    fn a_sheet_is_quoted_where_it_must_be() {
        let sheet = Sheet {
            headings: vec!["name", "p99 "],
            rows: vec![vec!["a,\"b\"".to_owned(), " 1.5".to_owned()]],
        };
        assert_eq!(csv(&sheet), "name,p99\r\n\"a,\"\"b\"\"\",1.5\r\n");
    }

    /// `F97`: what is exported is what is seen, filter and order included.
    #[test]
    fn a_list_is_written_as_it_is_seen() {
        let mut app = App::new(None, TimeZone::UTC);
        app.take(fixture::world(vec![fixture::firing()]));
        app.set_filter("!db");
        let asked = app.update(Action::Export(Format::Json), fixture::NOW_UNIX_NS);
        let Some(Request::Write { file, text }) = asked else {
            panic!("{asked:?}");
        };
        assert_eq!(file, "ax-checkout-lanes-20241004T140327.json");
        let json: Value = serde_json::from_str(&text).expect("is JSON");
        assert_eq!(json["rows"].as_array().map(Vec::len), Some(1));
        assert_eq!(json["rows"][0]["lane"], "api");
        assert_eq!(json["rows"][0]["pending"], 57.0);
        assert_eq!(json["filter"], "!db");
        let Some(Request::Write { file, text }) = app.command("export csv x.csv", 0) else {
            panic!("writes");
        };
        assert_eq!(file, "x.csv");
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(app.command("export html", 0).is_none());
        assert!(app.note.is_some_and(|note| note.text.contains("`html`")));
    }

    #[test]
    fn the_name_of_a_row_is_copied() {
        let mut app = App::new(None, TimeZone::UTC);
        app.take(fixture::world(vec![fixture::firing()]));
        assert_eq!(
            app.update(Action::Copy, 0),
            Some(Request::Copy("db".to_owned()))
        );
        app.update(Action::Open(crate::screens::Mode::Snapshots), 0);
        let Some(Request::Copy(path)) = app.update(Action::Copy, 0) else {
            panic!("copies");
        };
        assert_eq!(
            Path::new(&path).extension(),
            Some("json".as_ref()),
            "{path}"
        );
        app.update(Action::Toggle(crate::screens::Mode::Help), 0);
        assert_eq!(app.update(Action::Copy, 0), None);
    }
}
