//! A key press, a sequence of them, and how both are written: `q`, `ctrl-d`, `shift-left`, `g g`.

use std::{fmt, str::FromStr};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// One key, with what is held down beside it. Shift is no part of it where it is part of the character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    code: KeyCode,
    modifiers: KeyModifiers,
}

/// Keys that are pressed one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Chord(pub Vec<Key>);

/// Names of keys that are no character, as they are written.
const NAMES: [(&str, KeyCode); 16] = [
    ("space", KeyCode::Char(' ')),
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("shift-tab", KeyCode::BackTab),
    ("backspace", KeyCode::Backspace),
    ("delete", KeyCode::Delete),
    ("insert", KeyCode::Insert),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pageup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
];

const MODIFIERS: [(&str, KeyModifiers); 3] = [
    ("ctrl-", KeyModifiers::CONTROL),
    ("alt-", KeyModifiers::ALT),
    ("shift-", KeyModifiers::SHIFT),
];

impl Key {
    /// The key without anything held down.
    #[cfg(test)]
    pub fn plain(code: KeyCode) -> Self {
        Self::of(&KeyEvent::new(code, KeyModifiers::NONE))
    }

    /// The key of an event.
    pub fn of(event: &KeyEvent) -> Self {
        let known = KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT;
        let mut modifiers = event.modifiers & known;
        if matches!(event.code, KeyCode::Char(_) | KeyCode::BackTab) {
            modifiers -= KeyModifiers::SHIFT;
        }
        Self {
            code: event.code,
            modifiers,
        }
    }

    /// The character that it types, where it types one.
    pub fn typed(self) -> Option<char> {
        match self.code {
            KeyCode::Char(c) if self.modifiers.is_empty() => Some(c),
            _ => None,
        }
    }

    /// As an event, for whoever plays keys.
    #[cfg(any(test, feature = "stage"))]
    pub fn event(self) -> KeyEvent {
        KeyEvent::new(self.code, self.modifiers)
    }
}

/// A key that cannot be bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Nobody knows its name.
    #[error(
        "no key is called `{0}`: write a character, or enter, esc, tab, space, up, down, left, right, home, end, pageup, \
         pagedown, delete, insert, backspace, f1 to f12, with ctrl-, alt- or shift- before it"
    )]
    Unknown(String),
    /// What shift makes of it depends on the keyboard.
    #[error("`{0}`: write the character that shift makes of it, such as ! or ?")]
    Shifted(String),
    /// A terminal sends the same for both.
    #[error("a terminal does not tell `{0}` from {1}: write {1}")]
    SameAs(String, &'static str),
}

/// What a terminal sends for a letter with ctrl, where it is that of another key, too.
const SAME: [(char, &str); 3] = [('i', "tab"), ('m', "enter"), ('[', "esc")];

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let unknown = || KeyError::Unknown(text.to_owned());
        let mut rest = text;
        let mut modifiers = KeyModifiers::NONE;
        let code = loop {
            if let Some((_, code)) = NAMES.iter().find(|(name, _)| *name == rest) {
                break *code;
            }
            let held = MODIFIERS.iter().find_map(|(name, modifier)| {
                // A lone `ctrl-` is none.
                let rest = rest.strip_prefix(name)?;
                (!rest.is_empty()).then_some((rest, *modifier))
            });
            if let Some((behind, modifier)) = held {
                rest = behind;
                modifiers |= modifier;
                continue;
            }
            let mut chars = rest.chars();
            break match (chars.next(), chars.next()) {
                (Some(c), None) if !c.is_control() && c != ' ' => KeyCode::Char(c),
                (Some('f'), Some(_)) => match rest[1..].parse() {
                    Ok(number @ 1..=12) => KeyCode::F(number),
                    _ => return Err(unknown()),
                },
                _ => return Err(unknown()),
            };
        };
        Self::told_apart(code, modifiers, text)
    }
}

impl Key {
    /// The key, where a terminal has one that is this and no other.
    fn told_apart(code: KeyCode, modifiers: KeyModifiers, text: &str) -> Result<Self, KeyError> {
        let code = match code {
            KeyCode::Char(c) if modifiers.contains(KeyModifiers::SHIFT) => {
                let mut upper = c.to_uppercase();
                match (upper.next(), upper.next()) {
                    (Some(upper), None) if c.is_alphabetic() => KeyCode::Char(upper),
                    _ => return Err(KeyError::Shifted(text.to_owned())),
                }
            }
            KeyCode::Char(c) if modifiers.contains(KeyModifiers::CONTROL) => {
                if let Some((_, same)) = SAME.iter().find(|(same, _)| c.eq_ignore_ascii_case(same))
                {
                    return Err(KeyError::SameAs(text.to_owned(), same));
                }
                code
            }
            code => code,
        };
        Ok(Self::of(&KeyEvent::new(code, modifiers)))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, modifier) in MODIFIERS {
            if self.modifiers.contains(modifier) {
                f.write_str(name)?;
            }
        }
        if let Some((name, _)) = NAMES.iter().find(|(_, code)| *code == self.code) {
            return f.write_str(name);
        }
        match self.code {
            KeyCode::Char(c) => write!(f, "{c}"),
            KeyCode::F(number) => write!(f, "f{number}"),
            other => write!(f, "{other}"),
        }
    }
}

impl FromStr for Chord {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let keys: Result<Vec<Key>, KeyError> = text.split_whitespace().map(str::parse).collect();
        match keys?.as_slice() {
            [] => Err(KeyError::Unknown(text.to_owned())),
            keys => Ok(Self(keys.to_vec())),
        }
    }
}

/// `gg` where each is a character, else with blanks between them.
impl fmt::Display for Chord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let typed = self
            .0
            .iter()
            .all(|key| key.typed().is_some_and(|c| c != ' '));
        for (at, key) in self.0.iter().enumerate() {
            if at > 0 && !typed {
                f.write_str(" ")?;
            }
            write!(f, "{key}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_comes_back() {
        for text in [
            "q",
            "?",
            "-",
            "ctrl-d",
            "ctrl--",
            "alt-x",
            "shift-left",
            "shift-tab",
            "space",
            "pagedown",
            "f1",
            "f12",
            "G",
        ] {
            let key: Key = text.parse().expect(text);
            assert_eq!(key.to_string(), text);
            assert_eq!(Key::of(&key.event()), key);
        }
        let gg: Chord = "g g".parse().expect("two keys");
        assert_eq!(gg.0.len(), 2);
        assert_eq!(gg.to_string(), "gg");
        let mixed: Chord = "ctrl-x g".parse().expect("two keys");
        assert_eq!(mixed.to_string(), "ctrl-x g");
    }

    #[test]
    fn what_is_no_key_is_refused_by_its_name() {
        for text in [
            "", " ", "qq", "ctrl-", "f0", "f13", "fx", "hyper-x", "\u{7}",
        ] {
            assert!(text.parse::<Chord>().is_err(), "{text:?}");
        }
        let error = "ctrl-enterr".parse::<Chord>().expect_err("no key");
        assert!(error.to_string().contains("`ctrl-enterr`"), "{error}");
    }

    #[test]
    fn a_key_that_no_terminal_sends_is_refused_and_a_shifted_letter_is_its_capital() {
        let read = |text: &str| text.parse::<Key>();
        assert_eq!(read("shift-z"), read("Z"));
        assert_ne!(read("shift-z"), read("z"));
        for (text, what) in [
            ("shift-1", "such as !"),
            ("ctrl-i", "write tab"),
            ("ctrl-M", "write enter"),
            ("ctrl-[", "write esc"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(what), "{error}");
        }
        assert!(read("ctrl-shift-left").is_ok() && read("alt-i").is_ok());
    }

    #[test]
    fn shift_is_part_of_the_character() {
        let shifted = |code| Key::of(&KeyEvent::new(code, KeyModifiers::SHIFT));
        assert_eq!(shifted(KeyCode::Char('G')), Key::plain(KeyCode::Char('G')));
        assert_eq!(shifted(KeyCode::BackTab), Key::plain(KeyCode::BackTab));
        assert_ne!(shifted(KeyCode::Left), Key::plain(KeyCode::Left));
    }
}
