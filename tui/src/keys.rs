//! One table: which key does what. The help page and the footer are drawn from it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::{
    app::Mode,
    widget::table::{SortBy, Step},
};

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Quit,
    /// Opens a screen.
    Open(Mode),
    /// Opens a page that lies over the screens, or closes it.
    Toggle(Mode),
    NextScreen,
    PreviousScreen,
    /// Back to the overview.
    Back,
    /// Opens the selected lane, or shows the selected service.
    Enter,
    FocusNext,
    FocusPrevious,
    Step(Step),
    Sort(SortBy),
    /// Takes a snapshot of the service that is shown.
    Capture,
    /// Freezes the screen, or lets it go on.
    Freeze,
    Resume,
    NextService,
    PreviousService,
}

impl Action {
    /// Whether it needs a service that runs.
    pub fn is_live(self) -> bool {
        matches!(
            self,
            Self::Capture | Self::Freeze | Self::Resume | Self::Toggle(Mode::Services)
        )
    }
}

/// One line of the table.
pub struct Binding {
    pub keys: &'static [(KeyCode, KeyModifiers)],
    /// The keys, as a person calls them.
    pub label: &'static str,
    pub action: Action,
    /// What it does.
    pub help: &'static str,
    /// Its word in the footer, for the keys that are needed most.
    pub footer: Option<&'static str>,
}

const PLAIN: KeyModifiers = KeyModifiers::NONE;

const fn key(c: char) -> (KeyCode, KeyModifiers) {
    (KeyCode::Char(c), PLAIN)
}

const fn code(code: KeyCode) -> (KeyCode, KeyModifiers) {
    (code, PLAIN)
}

/// Every key there is.
pub const BINDINGS: &[Binding] = &[
    Binding {
        keys: &[key('q'), (KeyCode::Char('c'), KeyModifiers::CONTROL)],
        label: "q  Ctrl-C",
        action: Action::Quit,
        help: "quit; an embedded agent ends with it",
        footer: Some("quit"),
    },
    Binding {
        keys: &[key('?'), code(KeyCode::F(1))],
        label: "?  F1",
        action: Action::Toggle(Mode::Help),
        help: "this page",
        footer: Some("help"),
    },
    Binding {
        keys: &[key('1')],
        label: "1",
        action: Action::Open(Mode::Overview),
        help: "overview: what is wrong, how bad over time, who",
        footer: None,
    },
    Binding {
        keys: &[key('2')],
        label: "2",
        action: Action::Open(Mode::Lanes),
        help: "lanes: what comes in, where it queues, what it calls",
        footer: None,
    },
    Binding {
        keys: &[key('7')],
        label: "7",
        action: Action::Open(Mode::Alerts),
        help: "alerts: what fires, and what did",
        footer: None,
    },
    Binding {
        keys: &[key('8')],
        label: "8",
        action: Action::Open(Mode::Snapshots),
        help: "snapshots: evidence on disk",
        footer: None,
    },
    Binding {
        keys: &[key('9')],
        label: "9",
        action: Action::Open(Mode::Evidence),
        help: "evidence: running jobs and queue (ax-top open FILE)",
        footer: None,
    },
    Binding {
        keys: &[code(KeyCode::Tab)],
        label: "tab",
        action: Action::NextScreen,
        help: "next screen",
        footer: Some("screen"),
    },
    Binding {
        keys: &[code(KeyCode::BackTab)],
        label: "shift-tab",
        action: Action::PreviousScreen,
        help: "previous screen",
        footer: None,
    },
    Binding {
        keys: &[key('c')],
        label: "c",
        action: Action::Capture,
        help: "capture: take a snapshot of this service now",
        footer: Some("capture"),
    },
    Binding {
        keys: &[key('l'), code(KeyCode::Right)],
        label: "l  right",
        action: Action::FocusNext,
        help: "next panel (on a small screen: the next table)",
        footer: Some("panel"),
    },
    Binding {
        keys: &[key('h'), code(KeyCode::Left)],
        label: "h  left",
        action: Action::FocusPrevious,
        help: "previous panel",
        footer: None,
    },
    Binding {
        keys: &[key('j'), code(KeyCode::Down)],
        label: "j  down",
        action: Action::Step(Step::Down),
        help: "one row down",
        footer: None,
    },
    Binding {
        keys: &[key('k'), code(KeyCode::Up)],
        label: "k  up",
        action: Action::Step(Step::Up),
        help: "one row up",
        footer: None,
    },
    Binding {
        keys: &[key('g'), code(KeyCode::Home)],
        label: "g  home",
        action: Action::Step(Step::Top),
        help: "first row",
        footer: None,
    },
    Binding {
        keys: &[key('G'), code(KeyCode::End)],
        label: "G  end",
        action: Action::Step(Step::Bottom),
        help: "last row",
        footer: None,
    },
    Binding {
        keys: &[key('>')],
        label: ">",
        action: Action::Sort(SortBy::NextColumn),
        help: "sort by the next column; rows then keep their place",
        footer: Some("sort"),
    },
    Binding {
        keys: &[key('<')],
        label: "<",
        action: Action::Sort(SortBy::PreviousColumn),
        help: "sort by the previous column",
        footer: None,
    },
    Binding {
        keys: &[key('i')],
        label: "i",
        action: Action::Sort(SortBy::Reverse),
        help: "sort the other way round",
        footer: None,
    },
    Binding {
        keys: &[key('=')],
        label: "=",
        action: Action::Sort(SortBy::Again),
        help: "sort again, by the figures of now",
        footer: None,
    },
    Binding {
        keys: &[key(' ')],
        label: "space",
        action: Action::Freeze,
        help: "freeze the screen, or let it go on",
        footer: Some("freeze"),
    },
    Binding {
        keys: &[key('r')],
        label: "r",
        action: Action::Resume,
        help: "let a frozen screen go on",
        footer: None,
    },
    Binding {
        keys: &[key('p')],
        label: "p",
        action: Action::Toggle(Mode::Services),
        help: "pick a service from the list",
        footer: Some("services"),
    },
    Binding {
        keys: &[key(']')],
        label: "]",
        action: Action::NextService,
        help: "next service",
        footer: None,
    },
    Binding {
        keys: &[key('[')],
        label: "[",
        action: Action::PreviousService,
        help: "previous service",
        footer: None,
    },
    Binding {
        keys: &[code(KeyCode::Enter)],
        label: "enter",
        action: Action::Enter,
        help: "open the selected lane, or show the selected service",
        footer: Some("open"),
    },
    Binding {
        keys: &[code(KeyCode::Esc)],
        label: "esc",
        action: Action::Back,
        help: "back: from a lane to the lanes, else to the overview",
        footer: None,
    },
];

/// What a key press asks for. Shift is not looked at where it is part of the character.
pub fn action(event: &KeyEvent) -> Option<Action> {
    let modifiers = event.modifiers - KeyModifiers::SHIFT;
    BINDINGS
        .iter()
        .find(|binding| binding.keys.contains(&(event.code, modifiers)))
        .map(|binding| binding.action)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_key_has_two_meanings() {
        let mut seen = HashSet::new();
        for key in BINDINGS.iter().flat_map(|binding| binding.keys) {
            assert!(seen.insert(key), "{key:?}");
        }
    }

    #[test]
    fn control_c_quits_and_a_bare_c_captures() {
        let event = |modifiers| KeyEvent::new(KeyCode::Char('c'), modifiers);
        assert_eq!(action(&event(KeyModifiers::CONTROL)), Some(Action::Quit));
        assert_eq!(action(&event(KeyModifiers::NONE)), Some(Action::Capture));
    }

    #[test]
    fn shift_is_part_of_the_character() {
        let bottom = KeyEvent::new(KeyCode::Char('G'), KeyModifiers::SHIFT);
        assert_eq!(action(&bottom), Some(Action::Step(Step::Bottom)));
        let back = KeyEvent::new(KeyCode::BackTab, KeyModifiers::SHIFT);
        assert_eq!(action(&back), Some(Action::PreviousScreen));
    }
}
