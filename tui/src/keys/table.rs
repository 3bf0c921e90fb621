//! The lines of the table, as they are unless somebody configures them.

use super::{
    Action::{self, Export, Page, Sideways, Sort, Time},
    Binding, ControlKey, Format, TimeStep,
};
use crate::{
    screens::{Mode, PAGES, Place},
    widget::table::{SortBy, Step},
};

/// A line: name, keys, action, help, word in the footer.
type Line = (
    &'static str,
    &'static [&'static str],
    Action,
    &'static str,
    Option<&'static str>,
);

/// Before the screens.
const FIRST: &[Line] = &[
    (
        "quit",
        &["q", "ctrl-c"],
        Action::Quit,
        "quit; an embedded agent ends with it",
        Some("quit"),
    ),
    (
        "help",
        &["?", "f1"],
        Action::Toggle(Mode::Help),
        "this page",
        Some("help"),
    ),
];

/// Behind them.
const REST: &[Line] = &[
    (
        "next-screen",
        &["tab"],
        Action::NextScreen,
        "next screen",
        Some("screen"),
    ),
    (
        "previous-screen",
        &["shift-tab"],
        Action::PreviousScreen,
        "previous screen",
        None,
    ),
    (
        "capture",
        &["c"],
        Action::Capture,
        "capture: take a snapshot of this service now",
        Some("capture"),
    ),
    (
        "next-panel",
        &["l", "right"],
        Action::FocusNext,
        "next panel (on a small screen: the next table)",
        Some("panel"),
    ),
    (
        "previous-panel",
        &["h", "left"],
        Action::FocusPrevious,
        "previous panel",
        None,
    ),
    (
        "down",
        &["j", "down"],
        Action::Step(Step::Down),
        "one row down",
        None,
    ),
    (
        "up",
        &["k", "up"],
        Action::Step(Step::Up),
        "one row up",
        None,
    ),
    (
        "half-page-down",
        &["ctrl-d"],
        Page(1),
        "half a page down",
        None,
    ),
    (
        "half-page-up",
        &["ctrl-u"],
        Page(-1),
        "half a page up",
        None,
    ),
    (
        "page-down",
        &["pagedown", "ctrl-f"],
        Page(2),
        "a page down",
        None,
    ),
    (
        "page-up",
        &["pageup", "ctrl-b"],
        Page(-2),
        "a page up",
        None,
    ),
    (
        "top",
        &["g g", "home"],
        Action::Step(Step::Top),
        "first row",
        None,
    ),
    (
        "bottom",
        &["G", "end"],
        Action::Step(Step::Bottom),
        "last row",
        None,
    ),
    (
        "columns-right",
        &["L", "shift-right"],
        Sideways(1),
        "a wide table: columns further right",
        None,
    ),
    (
        "columns-left",
        &["H", "shift-left"],
        Sideways(-1),
        "a wide table: columns further left",
        None,
    ),
    (
        "open",
        &["enter"],
        Action::Enter,
        "open the selected row",
        Some("open"),
    ),
    (
        "back",
        &["esc"],
        Action::Back,
        "filter or cursor away; else back, in the end to the overview",
        None,
    ),
    (
        "filter",
        &["/"],
        Action::Filter,
        "filter: pdf, !pdf, lane=db, wait>100ms",
        Some("filter"),
    ),
    (
        "command",
        &[":"],
        Action::Command,
        "a command by its name; tab completes it",
        None,
    ),
    (
        "sort-next",
        &[">"],
        Sort(SortBy::NextColumn),
        "sort by the next column; rows then keep their place",
        Some("sort"),
    ),
    (
        "sort-previous",
        &["<"],
        Sort(SortBy::PreviousColumn),
        "sort by the previous column",
        None,
    ),
    (
        "sort-reverse",
        &["i"],
        Sort(SortBy::Reverse),
        "sort the other way round",
        None,
    ),
    (
        "sort-again",
        &["S"],
        Sort(SortBy::Again),
        "sort again, by the figures of now",
        None,
    ),
    (
        "freeze",
        &["space"],
        Action::Freeze,
        "freeze the screen or let it go on; in a replay: pause",
        Some("freeze"),
    ),
    ("now", &["r"], Action::Resume, "back to now, live", None),
    (
        "zoom-in",
        &["+"],
        Time(TimeStep::ZoomIn),
        "charts: fewer seconds in more detail",
        Some("zoom"),
    ),
    (
        "zoom-out",
        &["-"],
        Time(TimeStep::ZoomOut),
        "charts: more seconds, up to all that is known",
        None,
    ),
    (
        "zoom-reset",
        &["="],
        Time(TimeStep::ZoomReset),
        "charts: a second a column",
        None,
    ),
    (
        "time-back",
        &["b"],
        Time(TimeStep::Back),
        "charts: half a width back in time; in a replay: seek",
        None,
    ),
    (
        "time-forward",
        &["f"],
        Time(TimeStep::Forward),
        "charts: half a width forward",
        None,
    ),
    (
        "cursor-older",
        &[","],
        Time(TimeStep::CursorOlder),
        "cursor: what every chart says of an earlier instant",
        None,
    ),
    (
        "cursor-newer",
        &["."],
        Time(TimeStep::CursorNewer),
        "cursor: of a later one",
        None,
    ),
    (
        "mark-older",
        &["N"],
        Time(TimeStep::MarkOlder),
        "cursor to the mark before",
        None,
    ),
    (
        "mark-newer",
        &["n"],
        Time(TimeStep::MarkNewer),
        "cursor to the mark after",
        None,
    ),
    (
        "slower",
        &["("],
        Time(TimeStep::Slower),
        "replay: half as fast",
        None,
    ),
    (
        "faster",
        &[")"],
        Time(TimeStep::Faster),
        "replay: twice as fast",
        None,
    ),
    (
        "services",
        &["p"],
        Action::Toggle(Mode::Services),
        "pick a service from the list",
        Some("services"),
    ),
    (
        "next-service",
        &["]"],
        Action::NextService,
        "next service",
        None,
    ),
    (
        "previous-service",
        &["["],
        Action::PreviousService,
        "previous service",
        None,
    ),
    (
        "copy",
        &["y"],
        Action::Copy,
        "copy the name of the selected row (OSC 52)",
        None,
    ),
    (
        "export-csv",
        &["e"],
        Export(Format::Csv),
        "write this list to a file, as CSV",
        None,
    ),
    (
        "export-json",
        &["E"],
        Export(Format::Json),
        "write this list to a file, as JSON",
        None,
    ),
    (
        "pause",
        &["P"],
        Action::Control(ControlKey::Pause),
        "pause or resume the selected lane, if the service lets you",
        None,
    ),
    (
        "resize-lane",
        &["R"],
        Action::Control(ControlKey::Resize),
        "another limit for the selected lane",
        None,
    ),
    (
        "cancel",
        &["x"],
        Action::Control(ControlKey::Cancel),
        "cancel the selected job",
        None,
    ),
    (
        "retry",
        &["t"],
        Action::Control(ControlKey::Retry),
        "queue the selected dead job again",
        None,
    ),
    (
        "redraw",
        &["ctrl-l"],
        Action::Redraw,
        "draw everything anew",
        None,
    ),
    (
        "suspend",
        &["ctrl-z"],
        Action::Suspend,
        "suspend; fg in the shell brings it back",
        None,
    ),
];

/// All lines, in the order of the help page.
pub fn bindings() -> Vec<Binding> {
    // A key that opens one screen where a snapshot file is shown and another where none is stands once: the app knows which
    // of the two is meant.
    let shared = |key: char| PAGES.iter().any(|page| page.place == Place::NotOfFile(key));
    let screens = PAGES.iter().filter_map(|page| match page.place {
        Place::OfFile(key) if shared(key) => None,
        Place::Screen(key) | Place::OfFile(key) | Place::NotOfFile(key) => Some(Binding {
            name: page.name.to_lowercase(),
            chords: chords(&[&key.to_string()]),
            action: Action::Open(page.mode),
            help: page.help,
            footer: None,
        }),
        Place::Under(_) | Place::Over => None,
    });
    let fixed = |lines: &'static [Line]| {
        let lines = lines.iter();
        lines.map(|(name, keys, action, help, footer)| Binding {
            name: (*name).to_owned(),
            chords: chords(keys),
            action: *action,
            help,
            footer: *footer,
        })
    };
    fixed(FIRST).chain(screens).chain(fixed(REST)).collect()
}

/// Keys that are written in this file, which a test reads.
fn chords(keys: &[&str]) -> Vec<super::Chord> {
    keys.iter().filter_map(|text| text.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_is_written_here_is_one() {
        for (name, keys, ..) in FIRST.iter().chain(REST) {
            assert_eq!(chords(keys).len(), keys.len(), "{name}");
        }
    }
}
