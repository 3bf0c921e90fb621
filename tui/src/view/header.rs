//! The first and the last line: who is looked at and how current it is; the keys.

use ax_wire::{
    InstanceId,
    view::{ServiceState, ServiceView},
};
use ratatui::{buffer::Buffer, layout::Rect};

use super::{
    Screen,
    services::{state_word, up_ns},
};
use crate::{
    app::{DemoNote, Pace},
    format::{middle_cut, service_name, time_of_day, uptime, width},
    keys::{Action, BINDINGS, Binding},
    screens::Mode,
    theme::Tone,
    widget::fitting,
    world::{Link, lost_total},
};

/// Longest service name in the header.
const NAME_WIDTH: usize = 30;

/// A piece of the header; those of the lowest `keep` go first when the line gets narrow.
struct Part {
    text: String,
    tone: Tone,
    keep: u8,
}

fn part(text: impl Into<String>, tone: Tone, keep: u8) -> Part {
    Part {
        text: text.into(),
        tone,
        keep,
    }
}

impl Screen<'_> {
    pub(super) fn header(&self, area: Rect, buf: &mut Buffer) {
        let app = self.app;
        let mut parts = vec![part("ax-top", Tone::Quiet, 1)];
        if let Some(instance) = app.shown {
            self.service_parts(instance, &mut parts);
        }
        parts.push(self.pace_part(area.width));
        if let Some(view) = app.view() {
            let up = up_ns(&view.summary, app.world.now_unix_ns);
            parts.push(part(format!("up {}", uptime(up)), Tone::Quiet, 3));
            let losing = app.feed().is_some_and(|feed| feed.losing);
            let tone = if losing { Tone::Warning } else { Tone::Quiet };
            parts.push(part(format!("dropped {}", lost_total(view)), tone, 8));
        }
        let refused = app.world.agent_dropped.refused_connections_total;
        if refused > 0 {
            parts.push(part(format!("refused {refused}"), Tone::Warning, 5));
        }
        let link = match &app.world.link {
            Link::Connecting { .. } => part("no agent", Tone::Quiet, 4),
            Link::Attached { .. } => part("attached", Tone::Quiet, 4),
            Link::Embedded { .. } => part("embedded", Tone::Quiet, 4),
            Link::File { name } => {
                let name = middle_cut(name, NAME_WIDTH);
                part(format!("snapshot {name}"), Tone::Warning, 9)
            }
        };
        parts.push(link);
        self.screen_parts(&mut parts);
        self.parts(&parts, area, buf);
    }

    /// The screens by their numbers, the open one in brackets, with how many alerts fire and snapshots there are.
    fn screen_parts(&self, parts: &mut Vec<Part>) {
        let app = self.app;
        let (firing, snapshots) = (app.firing(), app.snapshot_count());
        for (key, page) in app.screens() {
            let open = page.mode == app.mode.screen();
            let (count, tone, keep) = match page.mode {
                Mode::Alerts if firing > 0 => (format!(" {firing}!"), Tone::Critical, 8),
                Mode::Snapshots if snapshots > 0 => (format!(" {snapshots}"), Tone::Quiet, 6),
                _ => (String::new(), Tone::Quiet, 6),
            };
            let text = format!("{key} {}{count}", page.name);
            let (text, keep) = if open {
                (format!("[{text}]"), keep.max(7))
            } else {
                (text, keep)
            };
            let tone = if open && tone == Tone::Quiet {
                Tone::Strong
            } else {
                tone
            };
            parts.push(part(text, tone, keep));
        }
    }

    fn service_parts(&self, instance: InstanceId, parts: &mut Vec<Part>) {
        let world = &self.app.world;
        let view = self.app.view();
        let summary = world.summary(instance).or(view.map(|view| &view.summary));
        let Some(summary) = summary else { return };
        let name = middle_cut(service_name(&summary.service), NAME_WIDTH);
        parts.push(part(name, Tone::Strong, 10));
        let services = &world.services;
        let at = services
            .iter()
            .position(|service| service.instance == instance);
        if let Some(at) = at.filter(|_| services.len() > 1) {
            let of = format!("{} of {}", at + 1, services.len());
            parts.push(part(of, Tone::Quiet, 6));
        }
        parts.push(part(format!("pid {}", summary.pid), Tone::Quiet, 7));
        if let Some(view) = view {
            parts.push(part(workers(view), Tone::Quiet, 2));
            let unstable = view
                .hello
                .features
                .iter()
                .any(|name| name == "tokio_unstable");
            let tokio = if unstable { "unstable" } else { "stable" };
            parts.push(part(format!("{tokio} tokio"), Tone::Quiet, 1));
        }
        let (state, tone) = state_word(summary.state);
        let since = match summary.state {
            ServiceState::Live | ServiceState::Other => String::new(),
            _ => {
                let heard = time_of_day(summary.last_seen_unix_ns, &self.app.zone);
                format!(" since {heard}")
            }
        };
        if self.app.pace == Pace::Live {
            parts.push(part(format!("{state}{since}"), tone, 9));
        }
    }

    fn pace_part(&self, width: u16) -> Part {
        match self.app.pace {
            Pace::Live => part(
                time_of_day(self.app.world.now_unix_ns, &self.app.zone),
                Tone::Plain,
                5,
            ),
            Pace::Still => part(
                format!(
                    "at {}",
                    time_of_day(self.app.world.now_unix_ns, &self.app.zone)
                ),
                Tone::Plain,
                5,
            ),
            Pace::Frozen { .. } if width < 40 => part("FROZEN", Tone::Warning, 9),
            Pace::Frozen { since_unix_ns } => part(
                format!(
                    "FROZEN since {}",
                    time_of_day(since_unix_ns, &self.app.zone)
                ),
                Tone::Warning,
                9,
            ),
        }
    }

    pub(super) fn footer(&self, area: Rect, buf: &mut Buffer) {
        let help = BINDINGS
            .iter()
            .find(|binding| binding.action == Action::Toggle(Mode::Help))
            .and_then(footer_word);
        // Whatever else is told, the way to help stands.
        let taken = help.as_ref().map_or(0, |help| width(help) + 2);
        let room = usize::from(area.width).saturating_sub(taken + 2);
        let mut parts = Vec::new();
        if let Some(note) = &self.app.note {
            parts.push(part(middle_cut(&note.text, room), note.tone, 9));
        } else if let Some(demo) = &self.app.demo {
            demo_parts(demo, room, &mut parts);
        }
        if self.app.mode != Mode::Overview {
            parts.push(part("esc back", Tone::Plain, 8));
        }
        let live = self.app.opened.is_none();
        for binding in BINDINGS
            .iter()
            .filter(|binding| live || !binding.action.is_live())
        {
            let keep = match binding.action {
                Action::Toggle(Mode::Help) => 10,
                Action::Quit => 8,
                _ => 5,
            };
            parts.extend(footer_word(binding).map(|word| part(word, Tone::Quiet, keep)));
        }
        self.parts(&parts, area, buf);
    }

    /// The parts that fit, two spaces apart.
    fn parts(&self, parts: &[Part], area: Rect, buf: &mut Buffer) {
        let length = |part: &Part| width(&part.text) as u16;
        let widths = parts.iter().map(|part| (length(part) + 1, part.keep));
        let shown = fitting(widths, area.width);
        let mut x = area.x + 1;
        for (part, _) in parts.iter().zip(shown).filter(|(_, shown)| *shown) {
            let room = usize::from(area.right().saturating_sub(x));
            buf.set_stringn(x, area.y, &part.text, room, self.theme.style(part.tone));
            x += length(part) + 2;
        }
    }
}

/// `? help`, for a key that stands in the footer.
fn footer_word(binding: &Binding) -> Option<String> {
    let key = binding.label.split(' ').next()?;
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

fn workers(view: &ServiceView) -> String {
    let workers: u32 = view
        .runtimes
        .iter()
        .map(|runtime| runtime.info.workers)
        .sum();
    let plural = if workers == 1 { "" } else { "s" };
    match view.runtimes.len() {
        0 => "no runtime".to_owned(),
        1 => format!("{workers} worker{plural}"),
        runtimes => format!("{runtimes} runtimes, {workers} workers"),
    }
}
