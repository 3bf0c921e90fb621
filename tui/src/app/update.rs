//! What each action does to the state.

use std::path::PathBuf;

use ax_wire::frame::Capture;

use super::{App, Request};
use crate::{
    keys::{Action, TimeStep},
    screens::{Content, Mode, Panel, Place},
    theme::Tone,
    widget::table::{SortBy, Step},
    world::Link,
};

impl App {
    /// Does what the user asked for. What comes back is to be done by whoever runs the app.
    pub fn update(&mut self, action: Action, now_unix_ns: u64) -> Option<Request> {
        // Who presses a key has read it.
        self.note = None;
        let of_file = self.opened.is_some();
        match self.meant(action) {
            live if of_file && live.is_live() => {
                self.say("a snapshot file stands still", Tone::Plain, now_unix_ns);
            }
            Action::Open(mode) if !of_file && matches!(mode.page().place, Place::OfFile(_)) => {
                let text = "of a snapshot alone: ax-top open FILE";
                self.say(text, Tone::Plain, now_unix_ns);
            }
            control if self.readonly && control.is_control() => {
                let text = "nothing is asked of the service: ax-top was started with --readonly";
                self.say(text, Tone::Warning, now_unix_ns);
            }
            Action::Back | Action::NextScreen | Action::PreviousScreen
                if self.is_session_alone() =>
            {
                self.mode = Mode::Load;
            }
            Action::Quit => self.quit = true,
            Action::Open(screen) => self.mode = screen,
            Action::Toggle(page) => self.toggle(page),
            Action::NextScreen => self.turn_screen(1),
            Action::PreviousScreen => self.turn_screen(self.screens().count() - 1),
            Action::Capture => return self.capture(now_unix_ns),
            Action::Back => return self.back(),
            Action::Enter => {
                let enter = self.focused().and_then(|panel| panel.row().enter);
                return enter.and_then(|enter| enter(self));
            }
            Action::FocusNext => self.turn_focus(1),
            Action::FocusPrevious => {
                self.turn_focus(self.mode.page().panels.len().saturating_sub(1));
            }
            Action::Step(step) => self.step(step),
            Action::Page(halves) => self.page(halves),
            Action::Sideways(columns) => self.sideways(columns),
            Action::Sort(by) => self.sort(by),
            // Jobs are too many to be narrowed here: the agent is asked for those that are looked for.
            Action::Filter if matches!(self.mode, Mode::Jobs | Mode::JobList) => self.begin_query(),
            Action::Filter => self.open_filter(),
            Action::Command => self.open_command_with(""),
            Action::Control(key) => return self.control(key, now_unix_ns),
            Action::Freeze => self.freeze(),
            Action::Resume => self.resume(),
            Action::Time(TimeStep::Slower | TimeStep::Faster) if self.playback.is_none() => {
                self.say("only a replay has a speed", Tone::Warning, now_unix_ns);
            }
            Action::Time(step) => self.time(step),
            Action::Copy => return self.copy(now_unix_ns),
            Action::Export(format) => return self.export(format, None, now_unix_ns),
            Action::Suspend => return Some(Request::Suspend),
            Action::Redraw => return Some(Request::Redraw),
            Action::NextService => self.turn_service(1),
            Action::PreviousService => {
                self.turn_service(self.world.services.len().saturating_sub(1));
            }
        }
        None
    }

    /// Takes away what narrows the list, then the cursor; then goes back to where the page was opened from.
    fn back(&mut self) -> Option<Request> {
        let filtered = self
            .focused()
            .is_some_and(|panel| !self.table(panel).filter().is_empty());
        if filtered {
            self.set_filter("");
        } else if self.timeline.cursor_unix_ns.is_some() {
            self.timeline.cursor_unix_ns = None;
        } else if self.mode == Mode::Overview && self.opened.is_some() {
            return Some(Request::Close);
        } else {
            self.mode = match (self.back_from_trace(), self.mode.page().place) {
                (Some(screen), _) | (None, Place::Under(screen)) => screen,
                (None, Place::Screen(_) | Place::OfFile(_) | Place::NotOfFile(_) | Place::Over) => {
                    Mode::Overview
                }
            }
        }
        None
    }

    /// A key may open one screen where a snapshot file is shown and another where none is.
    pub fn meant(&self, action: Action) -> Action {
        let Action::Open(mode) = action else {
            return action;
        };
        if self.is_session_alone() {
            return Action::Open(Mode::Load);
        }
        let (Place::OfFile(key) | Place::NotOfFile(key)) = mode.page().place else {
            return action;
        };
        let mut screens = self.screens();
        let there = screens.find(|(own, _)| *own == key);
        there.map_or(action, |(_, page)| Action::Open(page.mode))
    }

    fn toggle(&mut self, mode: Mode) {
        self.mode = if self.mode == mode {
            Mode::Overview
        } else {
            mode
        };
    }

    /// Opens the screen that stands `by` places further; from a page over the screens, the first.
    fn turn_screen(&mut self, by: usize) {
        let mut screens = self.screens().map(|(_, page)| page.mode);
        let open = self.mode.screen();
        let at = screens.clone().position(|mode| mode == open);
        let next = at.map_or(0, |at| (at + by) % screens.clone().count());
        self.mode = screens.nth(next).unwrap_or(Mode::Overview);
    }

    /// Goes to the panel that stands `by` places further.
    fn turn_focus(&mut self, by: usize) {
        let panels = self.mode.page().panels;
        let at = panels
            .iter()
            .position(|panel| Some(*panel) == self.focused());
        if let Some(at) = at {
            let next = panels[(at + by) % panels.len()];
            self.focus.insert(self.mode, next);
        }
    }

    fn capture(&mut self, now_unix_ns: u64) -> Option<Request> {
        if self.playback.is_some() {
            let text = "no snapshot: a recording is over; open its snapshots with ax-top open";
            self.say(text, Tone::Warning, now_unix_ns);
            return None;
        }
        let agent = !matches!(self.world.link, Link::Connecting { .. });
        let asked = self.shown.filter(|_| agent);
        let (text, tone) = match (asked, agent) {
            (Some(_), _) => ("taking a snapshot ..", Tone::Plain),
            (None, true) => ("no snapshot: no service is shown", Tone::Warning),
            (None, false) => (
                "no snapshot: no agent is connected to take it",
                Tone::Warning,
            ),
        };
        self.say(text, tone, now_unix_ns);
        asked.map(|instance| Request::Capture(Capture { instance }))
    }

    /// Opens the selected lane alone.
    pub fn open_lane(&mut self) -> Option<Request> {
        let panel = self.focused()?;
        self.lane = Some(self.table(panel).selected()?.clone());
        self.mode = Mode::Lane;
        None
    }

    /// Asks for the selected snapshot to be shown.
    pub fn open_selected_snapshot(&mut self) -> Option<Request> {
        let selected = self.table(Panel::Snapshots).selected()?;
        let view = self.view.as_ref()?;
        let mut snapshots = view.snapshots.iter();
        let snapshot = snapshots.find(|snapshot| snapshot.id.to_string() == *selected)?;
        Some(Request::Open(PathBuf::from(&snapshot.path)))
    }

    /// Shows the selected service, on the overview.
    pub fn show_selected_service(&mut self) -> Option<Request> {
        let selected = self.table(Panel::Services).selected().cloned();
        let mut services = self.world.services.iter().map(|service| service.instance);
        let instance = services.find(|instance| Some(instance.to_string()) == selected);
        if let Some(instance) = instance {
            self.pick(instance);
        }
        self.mode = Mode::Overview;
        None
    }

    /// Shows the service that stands `by` places further down the list.
    fn turn_service(&mut self, by: usize) {
        let services = &self.world.services;
        let at = services
            .iter()
            .position(|service| Some(service.instance) == self.shown)
            .unwrap_or_default();
        if let Some(next) = services.get((at + by) % services.len().max(1)) {
            self.pick(next.instance);
        }
    }

    /// Steps by halves of what finds room.
    fn page(&mut self, halves: isize) {
        let Some(panel) = self.focused() else { return };
        let half = isize::try_from(self.drawn.page(panel) / 2)
            .unwrap_or(1)
            .max(1);
        self.step(Step::By(half * halves));
    }

    fn sideways(&mut self, columns: isize) {
        let Some(panel) = self.focused() else { return };
        if let Content::List(list) = panel.row().content {
            let width = self.drawn.width(panel);
            let table = &mut self.panels[panel as usize].table;
            list.scroll_sideways(table, columns, width);
        }
    }

    pub(super) fn step(&mut self, step: Step) {
        let Some(panel) = self.focused() else { return };
        if panel == Panel::Jobs && self.turn_jobs_page(step) {
            return;
        }
        match panel.row().content {
            Content::List(_) => self.panels[panel as usize].table.step(step),
            Content::Lines(count) => {
                let last = count(self).saturating_sub(1);
                let state = &mut self.panels[panel as usize];
                state.first_line = step.from(state.first_line, last);
            }
        }
    }

    pub(super) fn sort(&mut self, by: SortBy) {
        let Some(panel) = self.focused() else { return };
        // What is not seen is not sorted by.
        let width = self.drawn.width(panel);
        if let Content::List(list) = panel.row().content {
            self.with_table(panel as usize, |app, table| {
                list.sort(app, table, by, width);
            });
        }
    }
}
