//! What stands in place of figures while there are none: what to do.

use ratatui::{buffer::Buffer, layout::Rect};

use super::Screen;
use crate::{theme::Tone, world::Link};

impl Screen<'_> {
    pub(super) fn empty(&self, area: Rect, buf: &mut Buffer) {
        let world = &self.app.world;
        let lines = match (&world.link, self.app.shown) {
            (Link::Connecting { problem, .. }, _) => {
                let problem = problem.as_deref().unwrap_or("no agent has answered yet");
                vec![
                    format!("Looking for an agent: {problem}."),
                    "If there is none, ax-top becomes one.".to_owned(),
                ]
            }
            (Link::Recording { .. }, _) => {
                vec!["Nothing had been recorded yet at this instant; f goes on in time.".to_owned()]
            }
            (Link::File { .. }, _) => vec!["The snapshot holds no figures.".to_owned()],
            (_, Some(_)) => vec!["The first figures come within a second.".to_owned()],
            (Link::Attached { socket } | Link::Embedded { socket }, None) => {
                let who = match world.link {
                    Link::Embedded { .. } => "This ax-top listens on",
                    _ => "The agent listens on",
                };
                vec![
                    format!("{who} {}", socket.display()),
                    String::new(),
                    "A service with the probe in it connects within a second:".to_owned(),
                    "    let _probe = ax_probe::Probe::builder(\"my-service\").install()"
                        .to_owned(),
                    String::new(),
                    "To look at a demo service instead: ax-top demo".to_owned(),
                ]
            }
        };
        let inner = Rect {
            x: area.x + 1,
            y: area.y + 1,
            width: area.width.saturating_sub(1),
            height: area.height.saturating_sub(1),
        };
        for (row, line) in (0..).zip(&lines) {
            self.text(inner, row, line, Tone::Plain, buf);
        }
    }
}
