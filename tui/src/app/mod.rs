//! The state of the dashboard and how actions change it. No pixels here: what is drawn is in `view`.

use std::sync::Arc;

use ax_wire::{
    InstanceId,
    alert::AlertState,
    frame::{Capture, Captured},
    view::{ServiceState, ServiceView, WorkerView},
};
use jiff::tz::TimeZone;

use crate::{
    format::printable,
    keys::Action,
    opened::Opened,
    theme::Tone,
    view::{
        alerts::ALERTS,
        downstreams::DOWNSTREAMS,
        evidence::{EVIDENCE, evidence_rows},
        lanes::{LANES, LANES_IN_FULL},
        routes::{ROUTES, route_rows},
        services::SERVICES,
        snapshots::SNAPSHOTS,
        types::TYPES,
    },
    widget::table::{RowKey, SortBy, Step, TableState},
    world::{Link, ServiceFeed, World, last_words},
};

mod rows;

/// How long the footer tells what became of a wish.
const NOTE_NS: u64 = 15_000_000_000;

/// Which page is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Overview,
    Lanes,
    /// One lane alone, over the screen of lanes.
    Lane,
    Alerts,
    Snapshots,
    /// Running jobs and queue, of a snapshot file that was opened.
    Evidence,
    Help,
    Services,
}

impl Mode {
    /// The screen that it belongs to.
    pub fn screen(self) -> Self {
        match self {
            Self::Lane => Self::Lanes,
            other => other,
        }
    }
}

/// The screens, in the order in which tab goes through them, each with its key and its name. Help and the list of
/// services are no screens but pages over them.
pub const SCREENS: &[(Mode, char, &str)] = &[
    (Mode::Overview, '1', "Overview"),
    (Mode::Lanes, '2', "Lanes"),
    (Mode::Alerts, '7', "Alerts"),
    (Mode::Snapshots, '8', "Snapshots"),
    (Mode::Evidence, '9', "Evidence"),
];

/// Which panel the keys act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panel {
    Workers,
    Lanes,
    Types,
    Routes,
    Downstreams,
}

/// The panels of the overview, in the order of the keys.
const OVERVIEW: [Panel; 3] = [Panel::Workers, Panel::Lanes, Panel::Types];

/// Those of the screen of lanes.
const FLOW: [Panel; 3] = [Panel::Lanes, Panel::Routes, Panel::Downstreams];

impl Panel {
    /// The panel that stands `by` places further among these.
    fn turned(self, panels: [Self; 3], by: usize) -> Self {
        let at = panels.iter().position(|panel| *panel == self);
        panels[(at.unwrap_or(0) + by) % panels.len()]
    }
}

/// Whether the screen follows the services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    Live,
    /// The world is not replaced by newer ones.
    Frozen {
        since_unix_ns: u64,
    },
    /// There is nothing to follow: a snapshot file is shown.
    Still,
}

/// The demo service of `ax-top demo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemoNote {
    pub url: String,
    /// How it ended, where it did so by itself.
    pub ended: Option<String>,
}

/// What became of a wish, in the footer for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub text: String,
    pub tone: Tone,
    until_unix_ns: u64,
}

/// Everything that a frame is drawn from.
#[derive(Clone, Debug)]
pub struct App {
    pub world: World,
    pub shown: Option<InstanceId>,
    /// Its newest view; where it is not heard any more, without what holds for now only.
    view: Option<Arc<ServiceView>>,
    pub mode: Mode,
    /// The panel of the overview, and that of the screen of lanes.
    pub focus: Panel,
    pub flow_focus: Panel,
    pub pace: Pace,
    pub lanes: TableState,
    pub types: TableState,
    pub flow_lanes: TableState,
    pub routes: TableState,
    pub downstreams: TableState,
    /// The lane that is looked at alone.
    pub lane: Option<RowKey>,
    pub services: TableState,
    pub alerts: TableState,
    pub snapshots: TableState,
    /// The first line of the help page that is drawn.
    pub first_help_line: usize,
    /// The first worker that is drawn, where not all find room.
    pub first_worker: usize,
    pub evidence: TableState,
    /// The snapshot file that is shown.
    pub opened: Option<Arc<Opened>>,
    pub demo: Option<DemoNote>,
    pub note: Option<Note>,
    pub quit: bool,
    /// Columns of the terminal: what is not shown is not sorted by.
    pub width: u16,
    /// For the times of day.
    pub zone: TimeZone,
}

impl App {
    pub fn new(demo: Option<DemoNote>, zone: TimeZone) -> Self {
        Self {
            world: World::new(),
            shown: None,
            view: None,
            mode: Mode::Overview,
            focus: Panel::Lanes,
            flow_focus: Panel::Lanes,
            pace: Pace::Live,
            lanes: TableState::default(),
            types: TableState::default(),
            flow_lanes: TableState::default(),
            routes: TableState::default(),
            downstreams: TableState::default(),
            lane: None,
            services: TableState::default(),
            alerts: TableState::default(),
            snapshots: TableState::default(),
            evidence: TableState::default(),
            opened: None,
            first_help_line: 0,
            first_worker: 0,
            demo,
            note: None,
            quit: false,
            width: u16::MAX,
            zone,
        }
    }

    /// Shows a snapshot file.
    pub fn of_file(opened: Opened, zone: TimeZone) -> Self {
        let mut app = Self::new(None, zone);
        app.take(opened.world());
        app.pace = Pace::Still;
        app.evidence.sync(&EVIDENCE, &evidence_rows(&opened));
        app.opened = Some(Arc::new(opened));
        app
    }

    /// The screens that there are for what is shown.
    pub fn screens(
        &self,
    ) -> impl Iterator<Item = &'static (Mode, char, &'static str)> + Clone + use<> {
        let of_file = self.opened.is_some();
        SCREENS
            .iter()
            .filter(move |(mode, ..)| of_file || *mode != Mode::Evidence)
    }

    /// Shows a newer world, unless the screen is frozen. Returns whether it did.
    pub fn take(&mut self, world: World) -> bool {
        if self.pace != Pace::Live {
            return false;
        }
        self.world = world;
        self.show(self.world.choose(self.shown));
        true
    }

    /// Does what the user asked for. What comes back is to be asked of the agent.
    pub fn update(&mut self, action: Action, now_unix_ns: u64) -> Option<Capture> {
        // Who presses a key has read it.
        self.note = None;
        let of_file = self.opened.is_some();
        match action {
            live if of_file && live.is_live() => {
                self.say("a snapshot file stands still", Tone::Plain, now_unix_ns);
            }
            Action::Open(Mode::Evidence) if !of_file => {
                let text = "of a snapshot alone: ax-top open FILE";
                self.say(text, Tone::Plain, now_unix_ns);
            }
            Action::Quit => self.quit = true,
            Action::Open(screen) => self.mode = screen,
            Action::Toggle(page) => self.toggle(page),
            Action::NextScreen => self.turn_screen(1),
            Action::PreviousScreen => self.turn_screen(self.screens().count() - 1),
            Action::Capture => return self.capture(now_unix_ns),
            Action::Back if self.mode == Mode::Lane => self.mode = Mode::Lanes,
            Action::Back => self.mode = Mode::Overview,
            Action::Enter => self.enter(),
            Action::FocusNext => self.turn_focus(1),
            Action::FocusPrevious => self.turn_focus(2),
            Action::Step(step) => self.step(step),
            Action::Sort(by) => self.sort(by),
            Action::Freeze if self.pace == Pace::Live => {
                self.pace = Pace::Frozen {
                    since_unix_ns: self.world.now_unix_ns,
                };
            }
            Action::Freeze | Action::Resume => self.pace = Pace::Live,
            Action::NextService => self.turn(1),
            Action::PreviousService => self.turn(self.world.services.len().saturating_sub(1)),
        }
        None
    }

    /// Tells what became of a capture.
    pub fn captured(&mut self, captured: Captured, now_unix_ns: u64) {
        match captured.outcome {
            Ok(snapshot) => self.say(
                &format!("snapshot written: {}", snapshot.path),
                Tone::Good,
                now_unix_ns,
            ),
            Err(why) => self.say(&format!("no snapshot: {why}"), Tone::Warning, now_unix_ns),
        }
    }

    /// Takes a note away when its time is over. Returns whether it did.
    pub fn expire_note(&mut self, now_unix_ns: u64) -> bool {
        self.note
            .take_if(|note| note.until_unix_ns <= now_unix_ns)
            .is_some()
    }

    /// The panel that the keys act on.
    pub fn focused(&self) -> Panel {
        if self.mode.screen() == Mode::Lanes {
            self.flow_focus
        } else {
            self.focus
        }
    }

    fn turn_focus(&mut self, by: usize) {
        if self.mode.screen() == Mode::Lanes {
            self.flow_focus = self.flow_focus.turned(FLOW, by);
        } else {
            self.focus = self.focus.turned(OVERVIEW, by);
        }
    }

    /// The figures of the service that is shown.
    pub fn feed(&self) -> Option<&ServiceFeed> {
        self.world.feed(self.shown?)
    }

    /// The newest view of the service that is shown.
    pub fn view(&self) -> Option<&ServiceView> {
        self.view.as_deref()
    }

    /// Whether the figures on the screen are those of now.
    pub fn is_current(&self) -> bool {
        let heard = !matches!(self.world.link, Link::Connecting { .. });
        heard
            && self
                .view()
                .is_none_or(|view| view.summary.state == ServiceState::Live)
    }

    /// How many alerts of the service that is shown fire.
    pub fn firing(&self) -> usize {
        let firing = |view: &ServiceView| {
            let alerts = view.alerts.iter();
            alerts
                .filter(|alert| alert.state == AlertState::Firing)
                .count()
        };
        self.view().map_or(0, firing)
    }

    /// How many snapshots of the service that is shown there are.
    pub fn snapshot_count(&self) -> usize {
        self.view().map_or(0, |view| view.snapshots.len())
    }

    /// All workers of a view, runtime by runtime.
    pub fn workers(view: &ServiceView) -> impl Iterator<Item = &WorkerView> {
        view.runtimes.iter().flat_map(|runtime| &runtime.workers)
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
        let mut screens = self.screens().map(|(mode, ..)| *mode);
        let open = self.mode.screen();
        let at = screens.clone().position(|mode| mode == open);
        let next = at.map_or(0, |at| (at + by) % screens.clone().count());
        self.mode = screens.nth(next).unwrap_or(Mode::Overview);
    }

    fn capture(&mut self, now_unix_ns: u64) -> Option<Capture> {
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
        asked.map(|instance| Capture { instance })
    }

    fn say(&mut self, text: &str, tone: Tone, now_unix_ns: u64) {
        self.note = Some(Note {
            text: printable(text),
            tone,
            until_unix_ns: now_unix_ns.saturating_add(NOTE_NS),
        });
    }

    fn show(&mut self, instance: Option<InstanceId>) {
        if self.shown != instance {
            self.shown = instance;
            self.first_worker = 0;
        }
        let rows = self.service_rows();
        self.services.sync(&SERVICES, &rows);
        self.view = self.feed().and_then(|feed| feed.view.clone());
        if !self.is_current() {
            self.view = self.view().map(|view| Arc::new(last_words(view)));
        }
        if let Some(view) = self.view.clone() {
            self.lanes.sync(&LANES, &view.lanes);
            self.types.sync(&TYPES, &view.types);
            self.flow_lanes.sync(&LANES_IN_FULL, &view.lanes);
            self.routes.sync(&ROUTES, &route_rows(&view));
            self.downstreams.sync(&DOWNSTREAMS, &view.downstreams);
        }
        let (alerts, snapshots) = (self.alert_rows(), self.snapshot_rows());
        self.alerts.sync(&ALERTS, &alerts);
        self.snapshots.sync(&SNAPSHOTS, &snapshots);
    }

    fn enter(&mut self) {
        let lanes = match (self.mode, self.focused()) {
            (Mode::Overview, Panel::Lanes) => Some(&self.lanes),
            (Mode::Lanes, Panel::Lanes) => Some(&self.flow_lanes),
            _ => None,
        };
        if let Some(lane) = lanes.and_then(TableState::selected) {
            self.lane = Some(lane.clone());
            self.mode = Mode::Lane;
        } else if self.mode == Mode::Services {
            let selected = self.services.selected().cloned();
            let instance = self
                .world
                .services
                .iter()
                .map(|service| service.instance)
                .find(|instance| Some(instance.to_string()) == selected);
            self.show(instance.or(self.shown));
            self.mode = Mode::Overview;
        }
    }

    /// Shows the service that stands `by` places further down the list.
    fn turn(&mut self, by: usize) {
        let services = &self.world.services;
        let at = services
            .iter()
            .position(|service| Some(service.instance) == self.shown)
            .unwrap_or_default();
        if let Some(next) = services.get((at + by) % services.len().max(1)) {
            self.show(Some(next.instance));
        }
    }

    fn step(&mut self, step: Step) {
        match (self.mode, self.focused()) {
            (Mode::Help, _) => {
                let last = crate::view::help::last_line();
                self.first_help_line = stepped(self.first_help_line, step, last);
            }
            (Mode::Services, _) => self.services.step(step),
            (Mode::Alerts, _) => self.alerts.step(step),
            (Mode::Snapshots, _) => self.snapshots.step(step),
            (Mode::Evidence, _) => self.evidence.step(step),
            (Mode::Lane, _) => {}
            (Mode::Lanes, Panel::Lanes) => self.flow_lanes.step(step),
            (_, Panel::Routes) => self.routes.step(step),
            (_, Panel::Downstreams) => self.downstreams.step(step),
            (_, Panel::Lanes) => self.lanes.step(step),
            (_, Panel::Types) => self.types.step(step),
            (_, Panel::Workers) => {
                let workers = self.view().map_or(0, |view| Self::workers(view).count());
                self.first_worker = stepped(self.first_worker, step, workers.saturating_sub(1));
            }
        }
    }

    fn sort(&mut self, by: SortBy) {
        // Every table is as wide as the screen, but for the space at the right of its panel.
        let width = self.width.saturating_sub(1);
        match self.mode {
            Mode::Services => {
                let rows = self.service_rows();
                self.services.sort(&SERVICES, &rows, by, width);
            }
            Mode::Alerts => {
                let rows = self.alert_rows();
                self.alerts.sort(&ALERTS, &rows, by, width);
            }
            Mode::Snapshots => {
                let rows = self.snapshot_rows();
                self.snapshots.sort(&SNAPSHOTS, &rows, by, width);
            }
            Mode::Evidence => {
                let rows = self.evidence_rows();
                self.evidence.sort(&EVIDENCE, &rows, by, width);
            }
            Mode::Overview | Mode::Lanes => self.sort_panel(by, width),
            Mode::Help | Mode::Lane => {}
        }
    }

    fn sort_panel(&mut self, by: SortBy, width: u16) {
        let Some(view) = self.view.clone() else {
            return;
        };
        match (self.mode, self.focused()) {
            (Mode::Lanes, Panel::Lanes) => {
                self.flow_lanes.sort(&LANES_IN_FULL, &view.lanes, by, width);
            }
            (_, Panel::Lanes) => self.lanes.sort(&LANES, &view.lanes, by, width),
            (_, Panel::Types) => self.types.sort(&TYPES, &view.types, by, width),
            (_, Panel::Routes) => self.routes.sort(&ROUTES, &route_rows(&view), by, width),
            (_, Panel::Downstreams) => {
                self.downstreams
                    .sort(&DOWNSTREAMS, &view.downstreams, by, width);
            }
            // A worker's place is its number.
            (_, Panel::Workers) => {}
        }
    }
}

/// Where a step leads from `at`, the last place being `last`.
fn stepped(at: usize, step: Step, last: usize) -> usize {
    match step {
        Step::Up => at.saturating_sub(1),
        Step::Down => (at + 1).min(last),
        Step::Top => 0,
        Step::Bottom => last,
    }
}

#[cfg(test)]
mod tests;
