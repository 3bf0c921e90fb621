//! Keys: they go to the line that is typed into where there is one, else through the table of keys.

use crossterm::event::KeyEvent;

use super::{
    App, Request,
    prompt::{Edit, Prompt, Purpose},
};
use crate::{
    keys::{Key, Pressed},
    screens::Content,
    widget::table::Filter,
};

impl App {
    /// Takes a key in. What comes back is to be done by whoever runs the app.
    pub fn press(&mut self, event: &KeyEvent, now_unix_ns: u64) -> Option<Request> {
        let request = self.pressed(event, now_unix_ns);
        self.ask_file();
        request
    }

    fn pressed(&mut self, event: &KeyEvent, now_unix_ns: u64) -> Option<Request> {
        if self.type_key(event) {
            return None;
        }
        let key = Key::of(event);
        if let Some(confirm) = self.confirm.take() {
            return self.answer(confirm, key, now_unix_ns);
        }
        if let Some(prompt) = self.prompt.take() {
            return self.edit(prompt, key, now_unix_ns);
        }
        self.begun.push(key);
        match self.keymap.press(&self.begun) {
            Pressed::Begun => None,
            Pressed::Action(action) => {
                self.begun.clear();
                self.update(action, now_unix_ns)
            }
            // What was begun is forgotten; the key may begin, or be, something by itself.
            Pressed::Nothing if self.begun.len() > 1 => {
                self.begun.clear();
                self.pressed(event, now_unix_ns)
            }
            Pressed::Nothing => {
                self.begun.clear();
                None
            }
        }
    }

    /// Opens the line for a filter, with the one that there is.
    pub(super) fn open_filter(&mut self) {
        let text = self
            .focused()
            .map(|panel| self.table(panel).filter().text());
        self.prompt = text.map(|text| Prompt::new(Purpose::Filter, text));
    }

    /// Opens the line for a command that begins so.
    pub(super) fn open_command_with(&mut self, text: &str) {
        self.prompt = Some(Prompt::new(Purpose::Command, text));
    }

    fn edit(&mut self, mut prompt: Prompt, key: Key, now_unix_ns: u64) -> Option<Request> {
        match (prompt.press(key), prompt.purpose) {
            (Edit::Cancelled, Purpose::Filter) => self.set_filter(""),
            (Edit::Accepted, Purpose::Filter) => self.set_filter(&prompt.text),
            (Edit::Changed | Edit::Complete, Purpose::Filter) => {
                self.set_filter(&prompt.text);
                self.prompt = Some(prompt);
            }
            (Edit::Cancelled, Purpose::Command) => {}
            (Edit::Accepted, Purpose::Command) => return self.command(&prompt.text, now_unix_ns),
            (Edit::Changed, Purpose::Command) => self.prompt = Some(prompt),
            (Edit::Complete, Purpose::Command) => {
                let candidates = self.complete(&prompt.text);
                prompt.offer(candidates);
                self.prompt = Some(prompt);
            }
        }
        None
    }

    /// Narrows the list that the keys act on.
    pub(super) fn set_filter(&mut self, text: &str) {
        let Some(panel) = self.focused() else { return };
        if let Content::List(list) = panel.row().content {
            self.with_table(panel as usize, |app, table| {
                table.set_filter(Filter::parse(text));
                list.sync(app, table);
            });
        }
    }
}
