//! The mouse: what lies under it was noted when the last frame was drawn.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use super::{App, Request};
use crate::{
    drawn::Target,
    keys::{Action, TimeStep},
    screens::Panel,
    timeline::Span,
    widget::table::{SortBy, Step},
};

/// Rows that the wheel goes by.
const WHEEL_ROWS: isize = 3;

/// A drag over a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drag {
    span: Span,
    /// Where the chart's first column stands.
    left: u16,
    /// The columns of the chart at which it began, and where it is.
    pub from: u16,
    pub to: u16,
}

impl Drag {
    fn column(&self, x: u16) -> u16 {
        let last = self.span.columns.saturating_sub(1);
        x.saturating_sub(self.left).min(last)
    }
}

impl App {
    /// Takes a move of the mouse in. What comes back is to be done by whoever runs the app.
    pub fn point(&mut self, event: MouseEvent, now_unix_ns: u64) -> Option<Request> {
        let request = self.pointed(event, now_unix_ns);
        self.ask_file();
        request
    }

    fn pointed(&mut self, event: MouseEvent, now_unix_ns: u64) -> Option<Request> {
        match event.kind {
            MouseEventKind::Down(MouseButton::Left) => {
                self.click(event.column, event.row, now_unix_ns)
            }
            MouseEventKind::Drag(MouseButton::Left) => {
                if let Some(drag) = &mut self.drag {
                    drag.to = drag.column(event.column);
                }
                None
            }
            MouseEventKind::Up(MouseButton::Left) => {
                if let Some(drag) = self.drag.take() {
                    self.dragged(drag);
                }
                None
            }
            MouseEventKind::ScrollDown => self.wheel(event, WHEEL_ROWS, now_unix_ns),
            MouseEventKind::ScrollUp => self.wheel(event, -WHEEL_ROWS, now_unix_ns),
            _ => None,
        }
    }

    fn click(&mut self, x: u16, y: u16, now_unix_ns: u64) -> Option<Request> {
        self.note = None;
        // A click is no yes.
        self.confirm = None;
        let target = self.drawn.at(x, y).next()?;
        match target {
            Target::Tab(mode) => self.update(Action::Open(mode), now_unix_ns),
            Target::Panel(panel) => {
                self.focus_on(panel);
                None
            }
            Target::Heading(panel, column) => {
                if self.focus_on(panel) {
                    self.sort(SortBy::Column(column));
                }
                None
            }
            Target::Row(panel, row) => {
                let had_focus = self.focused() == Some(panel);
                if !self.focus_on(panel) {
                    return None;
                }
                // Once selects it, once more opens it.
                if had_focus && self.table(panel).selected_index() == row {
                    return self.update(Action::Enter, now_unix_ns);
                }
                self.panels[panel as usize].table.select(row);
                None
            }
            Target::Chart(span, left) => {
                let mut drag = Drag {
                    span,
                    left,
                    from: 0,
                    to: 0,
                };
                drag.from = drag.column(x);
                drag.to = drag.from;
                self.drag = Some(drag);
                None
            }
        }
    }

    /// A click puts the cursor there; a drag shows what it went over.
    fn dragged(&mut self, drag: Drag) {
        let (from, to) = (drag.from.min(drag.to), drag.from.max(drag.to));
        if from == to {
            let at = drag.span.end_of(from);
            self.cursor_to(|_| at);
        } else {
            let begin = drag.span.end_of(from).saturating_sub(drag.span.step_ns);
            self.zoom_between(begin, drag.span.end_of(to));
        }
    }

    /// Rows go by under the mouse; over a chart it zooms.
    fn wheel(&mut self, event: MouseEvent, rows: isize, now_unix_ns: u64) -> Option<Request> {
        let targets: Vec<Target> = self.drawn.at(event.column, event.row).collect();
        let over = targets.iter().find_map(|target| match target {
            Target::Panel(panel) | Target::Heading(panel, _) | Target::Row(panel, _) => {
                Some(*panel)
            }
            Target::Tab(_) | Target::Chart(..) => None,
        });
        let chart = targets
            .iter()
            .any(|target| matches!(target, Target::Chart(..)));
        match over {
            Some(panel) if self.focus_on(panel) => {
                self.update(Action::Step(Step::By(rows)), now_unix_ns)
            }
            _ if chart => {
                let zoom = if rows < 0 {
                    TimeStep::ZoomIn
                } else {
                    TimeStep::ZoomOut
                };
                self.update(Action::Time(zoom), now_unix_ns)
            }
            _ => None,
        }
    }

    /// Lets the keys act on a panel, where the open page has it.
    fn focus_on(&mut self, panel: Panel) -> bool {
        let has = self.mode.page().panels.contains(&panel);
        if has {
            self.focus.insert(self.mode, panel);
        }
        has
    }
}
