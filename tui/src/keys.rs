//! One table: which key does what. The help page and the footer are drawn from it.

use std::sync::LazyLock;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::{
    screens::{Mode, PAGES, Place},
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
#[derive(Clone, Debug)]
pub struct Binding {
    pub keys: Vec<(KeyCode, KeyModifiers)>,
    /// The keys, as a person calls them.
    pub label: String,
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

/// Every key there is, but for those of the screens, which [`PAGES`] tells.
const FIXED: &[Row] = &[
    (
        &[key('q'), (KeyCode::Char('c'), KeyModifiers::CONTROL)],
        "q  Ctrl-C",
        Action::Quit,
        "quit; an embedded agent ends with it",
        Some("quit"),
    ),
    (
        &[key('?'), code(KeyCode::F(1))],
        "?  F1",
        Action::Toggle(Mode::Help),
        "this page",
        Some("help"),
    ),
    (
        &[code(KeyCode::Tab)],
        "tab",
        Action::NextScreen,
        "next screen",
        Some("screen"),
    ),
    (
        &[code(KeyCode::BackTab)],
        "shift-tab",
        Action::PreviousScreen,
        "previous screen",
        None,
    ),
    (
        &[key('c')],
        "c",
        Action::Capture,
        "capture: take a snapshot of this service now",
        Some("capture"),
    ),
    (
        &[key('l'), code(KeyCode::Right)],
        "l  right",
        Action::FocusNext,
        "next panel (on a small screen: the next table)",
        Some("panel"),
    ),
    (
        &[key('h'), code(KeyCode::Left)],
        "h  left",
        Action::FocusPrevious,
        "previous panel",
        None,
    ),
    (
        &[key('j'), code(KeyCode::Down)],
        "j  down",
        Action::Step(Step::Down),
        "one row down",
        None,
    ),
    (
        &[key('k'), code(KeyCode::Up)],
        "k  up",
        Action::Step(Step::Up),
        "one row up",
        None,
    ),
    (
        &[key('g'), code(KeyCode::Home)],
        "g  home",
        Action::Step(Step::Top),
        "first row",
        None,
    ),
    (
        &[key('G'), code(KeyCode::End)],
        "G  end",
        Action::Step(Step::Bottom),
        "last row",
        None,
    ),
    (
        &[key('>')],
        ">",
        Action::Sort(SortBy::NextColumn),
        "sort by the next column; rows then keep their place",
        Some("sort"),
    ),
    (
        &[key('<')],
        "<",
        Action::Sort(SortBy::PreviousColumn),
        "sort by the previous column",
        None,
    ),
    (
        &[key('i')],
        "i",
        Action::Sort(SortBy::Reverse),
        "sort the other way round",
        None,
    ),
    (
        &[key('=')],
        "=",
        Action::Sort(SortBy::Again),
        "sort again, by the figures of now",
        None,
    ),
    (
        &[key(' ')],
        "space",
        Action::Freeze,
        "freeze the screen, or let it go on",
        Some("freeze"),
    ),
    (
        &[key('r')],
        "r",
        Action::Resume,
        "let a frozen screen go on",
        None,
    ),
    (
        &[key('p')],
        "p",
        Action::Toggle(Mode::Services),
        "pick a service from the list",
        Some("services"),
    ),
    (&[key(']')], "]", Action::NextService, "next service", None),
    (
        &[key('[')],
        "[",
        Action::PreviousService,
        "previous service",
        None,
    ),
    (
        &[code(KeyCode::Enter)],
        "enter",
        Action::Enter,
        "open the selected lane, or show the selected service",
        Some("open"),
    ),
    (
        &[code(KeyCode::Esc)],
        "esc",
        Action::Back,
        "back: from a lane to the lanes, else to the overview",
        None,
    ),
];

/// A row of the table: keys, label, action, help, footer.
type Row = (
    &'static [(KeyCode, KeyModifiers)],
    &'static str,
    Action,
    &'static str,
    Option<&'static str>,
);

/// Every key there is.
pub static BINDINGS: LazyLock<Vec<Binding>> = LazyLock::new(|| {
    let screens = PAGES.iter().filter_map(|page| match page.place {
        Place::Screen(number) | Place::OfFile(number) => Some(Binding {
            keys: vec![key(number)],
            label: number.to_string(),
            action: Action::Open(page.mode),
            help: page.help,
            footer: None,
        }),
        Place::Under(_) | Place::Over => None,
    });
    let fixed = FIXED
        .iter()
        .map(|(keys, label, action, help, footer)| Binding {
            keys: keys.to_vec(),
            label: (*label).to_owned(),
            action: *action,
            help,
            footer: *footer,
        });
    fixed.chain(screens).collect()
});

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
        for key in BINDINGS.iter().flat_map(|binding| &binding.keys) {
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
