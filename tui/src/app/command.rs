//! The `:` commands: every action by its name, and some that take a word more.

use super::{App, Request};
use crate::{
    keys::{Action, Format},
    screens::Content,
    theme::{Palette, Tone},
    widget::table::{SortBy, Step},
};

/// The commands that take a word more, each with what it is.
const WITH_WORDS: [(&str, &str); 9] = [
    (
        "export",
        "csv or json, and a file unless ax-top is to name it",
    ),
    (
        "filter",
        "what to narrow the list to; nothing takes it away",
    ),
    ("go", "the number of a row"),
    ("resize", "the new limit of the selected lane"),
    (
        "seek",
        "a time of day such as 14:03:21, or how long ago: 5m",
    ),
    ("service", "a name or a pid"),
    ("sort", "the heading of a column"),
    ("speed", "of a replay: 1, 10, 1000"),
    ("theme", "dark, light, high-contrast or colour-blind"),
];

impl App {
    /// Does what was typed.
    pub(super) fn command(&mut self, text: &str, now_unix_ns: u64) -> Option<Request> {
        let text = text.trim();
        let (name, words) = text.split_once(' ').unwrap_or((text, ""));
        let words = words.trim();
        let by_name = |app: &Self| {
            let mut bindings = app.keymap.bindings().iter();
            bindings
                .find(|binding| binding.name == name)
                .map(|binding| binding.action)
        };
        match (name, words) {
            ("", _) => None,
            ("q" | "quit", "") => self.update(Action::Quit, now_unix_ns),
            ("filter", words) => {
                self.set_filter(words);
                None
            }
            ("sort", heading) if !heading.is_empty() => {
                self.told(Self::sort_by(heading), now_unix_ns)
            }
            ("service", wanted) if !wanted.is_empty() => {
                self.told(Self::show_service(wanted), now_unix_ns)
            }
            ("theme", name) if !name.is_empty() => self.told(Self::take_theme(name), now_unix_ns),
            ("go", row) if !row.is_empty() => self.told(Self::go_to(row), now_unix_ns),
            ("seek", when) if !when.is_empty() => self.seek_to(when, now_unix_ns),
            ("speed", speed) if !speed.is_empty() => self.set_speed(speed, now_unix_ns),
            ("resize", limit) if !limit.is_empty() => self.resize(limit, now_unix_ns),
            ("export", words) if !words.is_empty() => self.export_as(words, now_unix_ns),
            (name, "") if WITH_WORDS.iter().any(|(known, _)| *known == name) => {
                let known = WITH_WORDS.iter().find(|(known, _)| *known == name);
                let what = known.map_or("", |(_, what)| what);
                self.say(&format!("{name} needs {what}"), Tone::Warning, now_unix_ns);
                None
            }
            (_, "") if let Some(action) = by_name(self) => self.update(action, now_unix_ns),
            _ => {
                let text = format!("no command `{text}`; tab lists them, ? is help");
                self.say(&text, Tone::Warning, now_unix_ns);
                None
            }
        }
    }

    /// Does something that may go wrong, and says how it went wrong.
    fn told(
        &mut self,
        wish: impl FnOnce(&mut Self) -> Result<(), String>,
        now_unix_ns: u64,
    ) -> Option<Request> {
        if let Err(why) = wish(self) {
            self.say(&why, Tone::Warning, now_unix_ns);
        }
        None
    }

    fn sort_by(heading: &str) -> impl FnOnce(&mut Self) -> Result<(), String> {
        move |app| {
            let headings = app.headings();
            let place = headings.iter().position(|known| known == heading);
            let place = place.ok_or_else(|| {
                format!("no column `{heading}`; there are: {}", headings.join(", "))
            })?;
            app.sort(SortBy::Column(place));
            Ok(())
        }
    }

    fn show_service(wanted: &str) -> impl FnOnce(&mut Self) -> Result<(), String> {
        move |app| {
            let mut services = app.world.services.iter();
            let found = services
                .find(|service| service.service == wanted || service.pid.to_string() == wanted);
            let instance = found.map(|service| service.instance);
            let instance = instance.ok_or_else(|| format!("no service `{wanted}` is connected"))?;
            app.pick(instance);
            Ok(())
        }
    }

    fn take_theme(name: &str) -> impl FnOnce(&mut Self) -> Result<(), String> {
        move |app| {
            let palette = Palette::named(name);
            let names = Palette::ALL.map(Palette::name).join(", ");
            app.palette =
                Some(palette.ok_or_else(|| format!("no theme `{name}`; there are: {names}"))?);
            Ok(())
        }
    }

    fn go_to(row: &str) -> impl FnOnce(&mut Self) -> Result<(), String> {
        move |app| {
            let number: usize = row
                .parse()
                .map_err(|_| format!("`{row}` is no number of a row"))?;
            app.step(Step::Top);
            app.step(Step::By(number.saturating_sub(1).cast_signed()));
            Ok(())
        }
    }

    fn export_as(&mut self, words: &str, now_unix_ns: u64) -> Option<Request> {
        let (format, file) = words.split_once(' ').unwrap_or((words, ""));
        let format = match format {
            "csv" => Format::Csv,
            "json" => Format::Json,
            _ => {
                let text = format!("no format `{format}`; there are csv and json");
                self.say(&text, Tone::Warning, now_unix_ns);
                return None;
            }
        };
        self.export(
            format,
            Some(file.trim()).filter(|file| !file.is_empty()),
            now_unix_ns,
        )
    }

    /// The headings of the list that the keys act on, in small letters.
    fn headings(&self) -> Vec<String> {
        match self.focused().map(|panel| panel.row().content) {
            Some(Content::List(list)) => list.headings(),
            _ => Vec::new(),
        }
    }

    /// Whole commands that begin with what was typed.
    pub(super) fn complete(&self, typed: &str) -> Vec<String> {
        let typed = typed.trim_start();
        let candidates: Vec<String> = match typed.split_once(' ') {
            None => {
                let names = self
                    .keymap
                    .bindings()
                    .iter()
                    .map(|binding| binding.name.clone());
                let more = WITH_WORDS.iter().map(|(name, _)| format!("{name} "));
                names.chain(more).collect()
            }
            Some((name, _)) => {
                let words = match name {
                    "theme" => Palette::ALL
                        .map(|palette| palette.name().to_owned())
                        .to_vec(),
                    "sort" => self.headings(),
                    "service" => {
                        let services = self.world.services.iter();
                        services.map(|service| service.service.clone()).collect()
                    }
                    "export" => vec!["csv".to_owned(), "json".to_owned()],
                    _ => Vec::new(),
                };
                words.iter().map(|word| format!("{name} {word}")).collect()
            }
        };
        let mut fitting: Vec<String> = candidates
            .into_iter()
            .filter(|candidate| candidate.starts_with(typed))
            .collect();
        fitting.sort();
        fitting.dedup();
        fitting
    }

    /// The first few words that could stand in the line, for the footer.
    pub fn hints(&self, typed: &str) -> Vec<String> {
        self.complete(typed)
    }
}
