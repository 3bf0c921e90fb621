//! The first line: who is looked at, how current it is, and the tabs.

use ax_wire::{
    InstanceId,
    view::{ServiceState, ServiceView},
};
use jiff::tz::TimeZone;
use ratatui::{buffer::Buffer, layout::Rect};

use super::{
    Screen,
    services::{state_word, up_ns},
};
use crate::{
    app::{Pace, time::Playback},
    format::{age, middle_cut, service_name, time_of_day, uptime, width},
    theme::Tone,
    widget::fitting,
    world::{Link, lost_total},
};

/// Longest service name in the header.
const NAME_WIDTH: usize = 30;

const NO_AGENT: &str = "no agent";

/// A piece of a line; those of the lowest `keep` go first when it gets narrow.
pub(super) struct Part {
    pub text: String,
    pub tone: Tone,
    pub keep: u8,
}

pub(super) fn part(text: impl Into<String>, tone: Tone, keep: u8) -> Part {
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
            // Where a service is shown, that stands in the place of its state.
            Link::Connecting { .. } if app.shown.is_some() => None,
            Link::Connecting { .. } => Some(part(NO_AGENT, Tone::Quiet, 4)),
            Link::Attached { .. } => Some(part("attached", Tone::Quiet, 4)),
            Link::Embedded { .. } => Some(part("embedded", Tone::Quiet, 4)),
            Link::Recording { name } => Some(part(
                format!("recording {}", middle_cut(name, NAME_WIDTH)),
                Tone::Quiet,
                4,
            )),
            Link::File { name } => {
                let name = middle_cut(name, NAME_WIDTH);
                let what = if app.opened.is_some() {
                    "snapshot"
                } else {
                    "load session"
                };
                Some(part(format!("{what} {name}"), Tone::Warning, 9))
            }
        };
        parts.extend(link);
        let room = self.tabs(&parts, area, buf);
        self.parts(&parts, room, buf);
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
        // Of a recording, the playback is what tells; without an agent nobody knows.
        let (state, tone) = match world.link {
            Link::Connecting { .. } => (NO_AGENT, Tone::Warning),
            _ => (state, tone),
        };
        if self.app.pace == Pace::Live && self.app.playback.is_none() {
            parts.push(part(format!("{state}{since}"), tone, 9));
        }
    }

    fn pace_part(&self, width: u16) -> Part {
        if let Some(playback) = &self.app.playback {
            return playback_part(playback, &self.app.zone);
        }
        let timeline = &self.app.timeline;
        let looked_at = timeline
            .cursor_unix_ns
            .map(|at| format!("CURSOR at {}", time_of_day(at, &self.app.zone)))
            .or_else(|| (!timeline.follows()).then(|| "LOOKING BACK".to_owned()));
        match self.app.pace {
            Pace::Live if let Some(looked_at) = looked_at => part(looked_at, Tone::Warning, 9),
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

    /// The parts that fit, two spaces apart.
    pub(super) fn parts(&self, parts: &[Part], area: Rect, buf: &mut Buffer) {
        let length = |part: &Part| width(&part.text) as u16;
        let widths = parts.iter().map(|part| (length(part) + 1, part.keep));
        let shown = fitting(widths, area.width);
        if area.is_empty() {
            return;
        }
        let mut x = area.x + 1;
        for (part, _) in parts.iter().zip(shown).filter(|(_, shown)| *shown) {
            let room = usize::from(area.right().saturating_sub(x));
            buf.set_stringn(x, area.y, &part.text, room, self.theme.style(part.tone));
            x += length(part) + 2;
        }
    }
}

/// `REPLAY 10x at 14:03:27, 12 s of 15 min`.
fn playback_part(playback: &Playback, zone: &TimeZone) -> Part {
    let word = if playback.at_unix_ns >= playback.end_unix_ns {
        "END OF REPLAY"
    } else if playback.paused {
        "PAUSED"
    } else {
        "REPLAY"
    };
    let speed = (playback.speed * 100.0).round() / 100.0;
    let gone = playback.at_unix_ns.saturating_sub(playback.begin_unix_ns);
    let all = playback.end_unix_ns.saturating_sub(playback.begin_unix_ns);
    let text = format!(
        "{word} {speed}x at {}, {} of {}",
        time_of_day(playback.at_unix_ns, zone),
        age(gone),
        age(all)
    );
    part(text, Tone::Warning, 9)
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
