//! The last line: what is typed, what became of a wish, and the keys that are needed most.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    style::Modifier,
};

use super::{
    Screen, Size,
    header::{Part, part},
};
use crate::{
    app::{
        DemoNote,
        prompt::{Prompt, Purpose},
    },
    format::{middle_cut, width, wrapped},
    keys::{Action, Binding},
    screens::Mode,
    theme::Tone,
};

/// How to answer what is about to happen.
const ANSWER: &str = "y yes, any other key no";

/// What the way to help takes of the footer.
const HELP_WIDTH: usize = 8;

/// Lines that something is told in, above the footer.
const MOST_LINES: usize = 4;

impl Screen<'_> {
    pub(super) fn footer(&self, area: Rect, buf: &mut Buffer) {
        if let Some(prompt) = &self.app.prompt {
            self.prompt(prompt, area, buf);
            return;
        }
        let [above, area] =
            Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(area);
        if let Some((lines, tone)) = self.told_above(area.width) {
            for (row, line) in (0..above.height).zip(lines) {
                self.text(inset(above), row, &line, tone, buf);
            }
        }
        if let Some(confirm) = &self.app.confirm {
            self.confirm(&confirm.words, above.is_empty(), area, buf);
            return;
        }
        let bindings = self.app.keymap.bindings();
        let help = self.app.keymap.binding(Action::Toggle(Mode::Help));
        let help = help.and_then(footer_word);
        // Whatever else is told, the way to help stands.
        let taken = help.as_ref().map_or(0, |help| width(help) + 2);
        let room = usize::from(area.width).saturating_sub(taken + 2);
        let mut parts = Vec::new();
        match (&self.app.note, &self.app.demo) {
            (Some(_), _) if !above.is_empty() => {}
            (Some(note), _) => parts.push(part(middle_cut(&note.text, room), note.tone, 9)),
            (None, Some(demo)) => demo_parts(demo, room, &mut parts),
            (None, None) => {}
        }
        if Size::of(buf.area) < Size::Standard {
            parts.push(part("from 80x24 on more is shown", Tone::Quiet, 7));
        }
        if self.app.mode != Mode::Overview {
            parts.push(part("esc back", Tone::Plain, 8));
        }
        let live = self.app.opened.is_none();
        let control = !self.app.readonly;
        let offered = bindings.iter().filter(|binding| {
            let action = binding.action;
            (live || !action.is_live()) && (control || !action.is_control())
        });
        for binding in offered {
            let keep = match binding.action {
                Action::Toggle(Mode::Help) => 10,
                Action::Quit => 8,
                _ => 5,
            };
            parts.extend(footer_word(binding).map(|word| part(word, Tone::Quiet, keep)));
        }
        self.parts(&parts, area, buf);
    }

    /// How many lines the footer has: what is about to happen is told in full, and so is what became of a wish.
    pub(super) fn footer_rows(&self, width: u16) -> u16 {
        let lines = self.told_above(width).map_or(0, |(lines, _)| lines.len());
        1 + lines.min(MOST_LINES) as u16
    }

    /// What finds no room in one line beside what must stand there.
    fn told_above(&self, columns: u16) -> Option<(Vec<String>, Tone)> {
        let columns = usize::from(columns);
        let told = |text: &str, beside: usize, tone| {
            let too_long = width(text) + beside + 4 > columns;
            too_long.then(|| (wrapped(text, columns.saturating_sub(2)), tone))
        };
        match (&self.app.prompt, &self.app.confirm, &self.app.note) {
            (Some(_), ..) | (None, None, None) => None,
            (None, Some(confirm), _) => told(&confirm.words, width(ANSWER), Tone::Warning),
            (None, None, Some(note)) => told(&note.text, HELP_WIDTH, note.tone),
        }
    }

    /// How to say yes, behind what is about to happen where that has room here.
    fn confirm(&self, words: &str, with_words: bool, area: Rect, buf: &mut Buffer) {
        let mut parts = vec![part(ANSWER, Tone::Strong, 10)];
        if with_words {
            parts.insert(0, part(words, Tone::Warning, 9));
        }
        self.parts(&parts, area, buf);
    }

    /// The line that is typed into, with what could stand in it.
    fn prompt(&self, prompt: &Prompt, area: Rect, buf: &mut Buffer) {
        let sign = match prompt.purpose {
            Purpose::Filter => '/',
            Purpose::Command => ':',
        };
        let typed = format!("{sign}{}", prompt.text);
        // Of a line that is too long, the part around the cursor is seen.
        let before = width(&typed[..=prompt.at]);
        let room = usize::from(area.width).saturating_sub(2);
        let skip = before.saturating_sub(room);
        let seen: String = typed.chars().skip(skip).collect();
        self.text(inset(area), 0, &seen, Tone::Strong, buf);
        let cursor = area.x + 1 + (before - skip) as u16;
        if let Some(cell) = buf
            .cell_mut((cursor, area.y))
            .filter(|_| cursor < area.right())
        {
            cell.modifier.insert(Modifier::REVERSED);
        }
        let hints = match prompt.purpose {
            Purpose::Command => self.app.hints(&prompt.text).join("  "),
            Purpose::Filter if prompt.text.is_empty() => {
                "pdf  !pdf  lane=db  wait>100ms   enter keeps it, esc takes it away".to_owned()
            }
            Purpose::Filter => String::new(),
        };
        let hints_at = Rect {
            x: cursor.saturating_add(3).min(area.right()),
            width: area.right().saturating_sub(cursor.saturating_add(3)),
            ..area
        };
        self.text(hints_at, 0, &hints, Tone::Quiet, buf);
    }
}

fn inset(area: Rect) -> Rect {
    Rect {
        x: area.x + 1,
        width: area.width.saturating_sub(1),
        ..area
    }
}

/// `? help`, for a key that stands in the footer.
fn footer_word(binding: &Binding) -> Option<String> {
    let key = binding.chords.first()?;
    binding.footer.map(|word| format!("{key} {word}"))
}

/// Where the demo service is and how to stall it, or how it ended.
fn demo_parts(demo: &DemoNote, room: usize, parts: &mut Vec<Part>) {
    let (words, tone) = match &demo.ended {
        None => (format!("demo {}", demo.url), Tone::Plain),
        Some(ended) => (format!("demo service ended: {ended}"), Tone::Critical),
    };
    parts.push(part(middle_cut(&words, room), tone, 9));
    if demo.ended.is_none() {
        let stall = format!(
            "to stall it: curl -X POST '{}/fault/block?ms=300'",
            demo.url
        );
        parts.push(part(stall, Tone::Quiet, 1));
    }
}
