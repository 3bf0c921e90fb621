//! What every chart has in common: the line below it that says which time it shows and what happened then, and the columns
//! that are pointed at.

use ax_wire::view::ServiceView;
use ratatui::{buffer::Buffer, layout::Rect};

use super::Screen;
use crate::{
    app::time::happened,
    drawn::Target,
    format::{time_of_day, uptime},
    theme::Tone,
    timeline::Span,
    widget::chart::AXIS_WIDTH,
};

/// What stands below the newest second.
const NOW: &str = "now";

impl Screen<'_> {
    /// The last line of `area`, which is that of a chart and its axis: how far back the chart reaches, up to when, and a
    /// sign below each column in which something happened. The chart can be pointed at from now on.
    pub(super) fn axis(&self, view: &ServiceView, span: Span, area: Rect, buf: &mut Buffer) {
        if area.height == 0 || area.width <= AXIS_WIDTH {
            return;
        }
        let left = area.x + AXIS_WIDTH;
        self.note(area, Target::Chart(span, left));
        let line = Rect {
            y: area.bottom() - 1,
            height: 1,
            ..area
        };
        let signs: Vec<(u16, &str)> = happened(view)
            .into_iter()
            .filter_map(|happened| {
                // Since the newest point: in the second that goes on.
                let follows = self.app.timeline.follows();
                let at = happened.at_unix_ns;
                let at = if follows {
                    at.min(span.end_unix_ns)
                } else {
                    at
                };
                Some((span.column_of(at)?, happened.sign))
            })
            .collect();
        let (mut from, to) = self.ends(span);
        let axis = usize::from(AXIS_WIDTH);
        let in_label = |(column, _): &(u16, &str)| usize::from(*column) + axis < from.len() + 1;
        if from.len() > axis && signs.iter().any(in_label) {
            // `14:03` instead of `14:03:21`, which would have a sign in its middle.
            from.truncate(axis);
        }
        let last = span.columns.saturating_sub(1);
        // Where something has just happened, the sign says more than the word.
        let quiet = signs
            .iter()
            .all(|(column, _)| usize::from(last - column) > to.len());
        let to = if quiet { to } else { String::new() };
        let room = usize::from(line.width).saturating_sub(from.len());
        self.text(line, 0, &format!("{from}{to:>room$}"), Tone::Quiet, buf);
        for (column, sign) in signs {
            let at = Rect {
                x: left + column,
                width: 1,
                ..line
            };
            self.text(at.intersection(line), 0, sign, Tone::Strong, buf);
        }
    }

    /// `-60s` and `now`, or where it looks back the times of day.
    fn ends(&self, span: Span) -> (String, String) {
        if self.app.timeline.follows() {
            return (format!("-{}", uptime(span.length_ns())), NOW.to_owned());
        }
        let begin = span.end_unix_ns.saturating_sub(span.length_ns());
        (
            time_of_day(begin, &self.app.zone),
            time_of_day(span.end_unix_ns, &self.app.zone),
        )
    }

    /// The columns of a chart that are pointed at: those of a drag, or that of the cursor.
    pub(super) fn pointed(&self, span: Span) -> Option<(u16, u16)> {
        if let Some(drag) = self.app.drag {
            return Some((drag.from, drag.to));
        }
        let column = span.column_of(self.app.timeline.cursor_unix_ns?)?;
        Some((column, column))
    }
}
