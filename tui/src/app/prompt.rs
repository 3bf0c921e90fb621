//! The line that is typed into at the bottom: a filter or a command.

use crate::keys::Key;

/// What the line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Filter,
    Command,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    pub purpose: Purpose,
    pub text: String,
    /// Where the next character goes, in bytes.
    pub at: usize,
    /// What the tab key has offered so far: the candidates, and which of them stands in the line.
    offered: Option<(Vec<String>, usize)>,
}

/// What a key did to the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// It may read differently now.
    Changed,
    Accepted,
    Cancelled,
    Complete,
}

/// Longest line: no command is longer, and a held key must not fill the memory.
const MAX_CHARS: usize = 200;

impl Prompt {
    pub fn new(purpose: Purpose, text: &str) -> Self {
        Self {
            purpose,
            text: text.to_owned(),
            at: text.len(),
            offered: None,
        }
    }

    /// Takes a key in.
    pub fn press(&mut self, key: Key) -> Edit {
        let name = key.to_string();
        if !matches!(name.as_str(), "tab" | "shift-tab") {
            self.offered = None;
        }
        match name.as_str() {
            "enter" => return Edit::Accepted,
            "esc" | "ctrl-c" => return Edit::Cancelled,
            "backspace" if self.text.is_empty() => return Edit::Cancelled,
            "tab" | "shift-tab" => return Edit::Complete,
            "backspace" | "ctrl-h" => self.remove(self.before()),
            "delete" | "ctrl-d" => self.remove(self.after()),
            "ctrl-w" => self.remove(self.word_before()),
            "ctrl-u" => self.remove(0),
            "ctrl-k" => self.text.truncate(self.at),
            "left" | "ctrl-b" => self.at = self.before(),
            "right" | "ctrl-f" => self.at = self.after(),
            "home" | "ctrl-a" => self.at = 0,
            "end" | "ctrl-e" => self.at = self.text.len(),
            _ => {
                let room = self.text.chars().count() < MAX_CHARS;
                if let Some(c) = key.typed().filter(|c| room && !c.is_control()) {
                    self.text.insert(self.at, c);
                    self.at += c.len_utf8();
                }
            }
        }
        Edit::Changed
    }

    /// Puts the first of these in place of the text, and the next ones as the tab key is pressed again.
    pub fn offer(&mut self, candidates: Vec<String>) {
        let (candidates, next) = match self.offered.take() {
            Some((earlier, at)) if !earlier.is_empty() => {
                let next = (at + 1) % earlier.len();
                (earlier, next)
            }
            _ => (candidates, 0),
        };
        if let Some(text) = candidates.get(next) {
            self.text.clone_from(text);
            self.at = self.text.len();
        }
        self.offered = Some((candidates, next));
    }

    fn before(&self) -> usize {
        let last = self.text[..self.at].chars().next_back();
        self.at - last.map_or(0, char::len_utf8)
    }

    fn after(&self) -> usize {
        let next = self.text[self.at..].chars().next();
        self.at + next.map_or(0, char::len_utf8)
    }

    fn word_before(&self) -> usize {
        let before = self.text[..self.at].trim_end();
        before.rfind(' ').map_or(0, |blank| blank + 1)
    }

    /// Removes what lies between the cursor and this place, which is where the cursor then stands.
    fn remove(&mut self, to: usize) {
        let (from, to) = (self.at.min(to), self.at.max(to));
        self.text.replace_range(from..to, "");
        self.at = from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &str) -> Prompt {
        let mut prompt = Prompt::new(Purpose::Command, "");
        for key in keys.split(' ') {
            prompt.press(key.parse().expect(key));
        }
        prompt
    }

    #[test]
    fn a_line_is_edited_as_in_a_shell() {
        assert_eq!(typed("a b c backspace").text, "ab");
        assert_eq!(typed("a b left delete").text, "a");
        assert_eq!(typed("a ä left backspace").text, "ä");
        assert_eq!(typed("a space b c ctrl-w").text, "a ");
        assert_eq!(typed("a b left left x end y").text, "xaby");
        assert_eq!(typed("a b c ctrl-u").text, "");
        assert_eq!(typed("a b c home right ctrl-k").text, "a");
    }

    #[test]
    fn no_line_grows_without_end() {
        let mut prompt = Prompt::new(Purpose::Filter, "");
        for _ in 0..1_000 {
            prompt.press("x".parse().expect("a key"));
        }
        assert_eq!(prompt.text.len(), MAX_CHARS);
    }

    #[test]
    fn what_is_offered_goes_round() {
        let mut prompt = Prompt::new(Purpose::Command, "z");
        let candidates = || vec!["zoom-in".to_owned(), "zoom-out".to_owned()];
        for expected in ["zoom-in", "zoom-out", "zoom-in"] {
            prompt.offer(candidates());
            assert_eq!(prompt.text, expected);
        }
        prompt.offer(Vec::new());
        prompt.press("x".parse().expect("a key"));
        prompt.offer(Vec::new());
        assert_eq!(prompt.text, "zoom-outx", "nothing to offer");
    }
}
