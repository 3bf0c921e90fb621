//! The state of the dashboard and how actions change it. No pixels here: what is drawn is in `view`.

use ax_wire::{
    InstanceId,
    view::{ServiceView, WorkerView},
};

use crate::{
    keys::Action,
    view::{
        lanes::LANES,
        services::{SERVICES, ServiceRow},
        types::TYPES,
    },
    widget::table::{SortBy, Step, TableState},
    world::{ServiceFeed, World},
};

/// Which page is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Overview,
    Help,
    Services,
}

/// Which panel of the overview the keys act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panel {
    Workers,
    Lanes,
    Types,
}

impl Panel {
    fn next(self) -> Self {
        match self {
            Self::Workers => Self::Lanes,
            Self::Lanes => Self::Types,
            Self::Types => Self::Workers,
        }
    }

    fn previous(self) -> Self {
        self.next().next()
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
}

/// The demo service of `ax-top demo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemoNote {
    pub url: String,
    /// How it ended, where it did so by itself.
    pub ended: Option<String>,
}

/// Everything that a frame is drawn from.
#[derive(Clone, Debug)]
pub struct App {
    pub world: World,
    pub shown: Option<InstanceId>,
    pub mode: Mode,
    pub focus: Panel,
    pub pace: Pace,
    pub lanes: TableState,
    pub types: TableState,
    pub services: TableState,
    /// The first worker that is drawn, where not all find room.
    pub first_worker: usize,
    pub demo: Option<DemoNote>,
    pub quit: bool,
}

impl App {
    pub fn new(demo: Option<DemoNote>) -> Self {
        Self {
            world: World::new(),
            shown: None,
            mode: Mode::Overview,
            focus: Panel::Lanes,
            pace: Pace::Live,
            lanes: TableState::default(),
            types: TableState::default(),
            services: TableState::default(),
            first_worker: 0,
            demo,
            quit: false,
        }
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

    /// Does what the user asked for.
    pub fn update(&mut self, action: Action) {
        match action {
            Action::Quit => self.quit = true,
            Action::Help => self.toggle(Mode::Help),
            Action::Services => self.toggle(Mode::Services),
            Action::Back => self.mode = Mode::Overview,
            Action::Enter => self.enter(),
            Action::FocusNext => self.focus = self.focus.next(),
            Action::FocusPrevious => self.focus = self.focus.previous(),
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
    }

    /// The figures of the service that is shown.
    pub fn feed(&self) -> Option<&ServiceFeed> {
        self.world.feed(self.shown?)
    }

    /// The newest view of the service that is shown.
    pub fn view(&self) -> Option<&ServiceView> {
        self.feed()?.view.as_deref()
    }

    /// The rows of the list of services.
    pub fn service_rows(&self) -> Vec<ServiceRow> {
        self.world
            .services
            .iter()
            .map(|summary| ServiceRow {
                summary: summary.clone(),
                now_unix_ns: self.world.now_unix_ns,
                shown: Some(summary.instance) == self.shown,
            })
            .collect()
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

    fn show(&mut self, instance: Option<InstanceId>) {
        if self.shown != instance {
            self.shown = instance;
            self.first_worker = 0;
        }
        let rows = self.service_rows();
        self.services.sync(&SERVICES, &rows);
        let view = self.feed().and_then(|feed| feed.view.clone());
        if let Some(view) = view {
            self.lanes.sync(&LANES, &view.lanes);
            self.types.sync(&TYPES, &view.types);
        }
    }

    fn enter(&mut self) {
        if self.mode == Mode::Services {
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
        match (self.mode, self.focus) {
            (Mode::Help, _) => {}
            (Mode::Services, _) => self.services.step(step),
            (Mode::Overview, Panel::Lanes) => self.lanes.step(step),
            (Mode::Overview, Panel::Types) => self.types.step(step),
            (Mode::Overview, Panel::Workers) => {
                let workers = self.view().map_or(0, |view| Self::workers(view).count());
                let last = workers.saturating_sub(1);
                self.first_worker = match step {
                    Step::Up => self.first_worker.saturating_sub(1),
                    Step::Down => (self.first_worker + 1).min(last),
                    Step::Top => 0,
                    Step::Bottom => last,
                };
            }
        }
    }

    fn sort(&mut self, by: SortBy) {
        if self.mode == Mode::Services {
            let rows = self.service_rows();
            self.services.sort(&SERVICES, &rows, by);
            return;
        }
        let Some(view) = self.feed().and_then(|feed| feed.view.clone()) else {
            return;
        };
        match self.focus {
            Panel::Lanes => self.lanes.sort(&LANES, &view.lanes, by),
            Panel::Types => self.types.sort(&TYPES, &view.types, by),
            // A worker's place is its number.
            Panel::Workers => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use ax_wire::view::ServiceState;

    use super::*;
    use crate::fixture;

    fn app() -> App {
        let mut app = App::new(None);
        app.take(fixture::world(vec![fixture::stalled(), fixture::other()]));
        app
    }

    #[test]
    fn a_frozen_screen_takes_no_newer_world_until_resumed() {
        let mut app = app();
        app.update(Action::Freeze);
        assert_eq!(
            app.pace,
            Pace::Frozen {
                since_unix_ns: fixture::NOW_UNIX_NS
            }
        );
        let mut newer = fixture::world(vec![fixture::healthy()]);
        newer.now_unix_ns += 1_000_000_000;
        assert!(!app.take(newer.clone()));
        assert_eq!(app.view().map(|view| view.stalls.len()), Some(1));
        app.update(Action::Resume);
        assert!(app.take(newer));
        assert_eq!(app.view().map(|view| view.stalls.len()), Some(0));
        app.update(Action::Freeze);
        app.update(Action::Freeze);
        assert_eq!(app.pace, Pace::Live, "space lets it go on as well");
    }

    #[test]
    fn pages_open_and_close() {
        let mut app = app();
        app.update(Action::Help);
        assert_eq!(app.mode, Mode::Help);
        app.update(Action::Services);
        assert_eq!(app.mode, Mode::Services);
        app.update(Action::Services);
        assert_eq!(app.mode, Mode::Overview);
        app.update(Action::Help);
        app.update(Action::Back);
        assert_eq!(app.mode, Mode::Overview);
        app.update(Action::Quit);
        assert!(app.quit);
    }

    #[test]
    fn focus_goes_round_both_ways() {
        let mut app = app();
        for panel in [Panel::Types, Panel::Workers, Panel::Lanes] {
            app.update(Action::FocusNext);
            assert_eq!(app.focus, panel);
        }
        app.update(Action::FocusPrevious);
        assert_eq!(app.focus, Panel::Workers);
    }

    #[test]
    fn services_are_turned_over_and_picked() {
        let mut app = app();
        assert_eq!(app.shown, Some(fixture::instance(1)));
        app.update(Action::NextService);
        assert_eq!(app.shown, Some(fixture::instance(2)));
        app.update(Action::NextService);
        assert_eq!(app.shown, Some(fixture::instance(1)), "round the end");
        app.update(Action::PreviousService);
        assert_eq!(app.shown, Some(fixture::instance(2)));
        app.update(Action::Services);
        app.update(Action::Step(Step::Top));
        app.update(Action::Enter);
        assert_eq!(app.shown, Some(fixture::instance(1)));
        assert_eq!(app.mode, Mode::Overview);
    }

    #[test]
    fn no_service_is_no_trouble() {
        let mut app = App::new(None);
        for binding in crate::keys::BINDINGS {
            app.update(binding.action);
        }
        app.take(World::new());
        assert_eq!(app.shown, None);
    }

    #[test]
    fn a_restarted_service_is_followed() {
        let mut app = app();
        let mut old = fixture::stalled();
        old.summary.state = ServiceState::Ended;
        let mut new = fixture::healthy();
        new.summary.instance = fixture::instance(3);
        app.take(fixture::world(vec![fixture::other(), old.clone()]));
        assert_eq!(
            app.shown,
            Some(fixture::instance(1)),
            "stays with what was shown"
        );
        app.take(fixture::world(vec![fixture::other(), new, old]));
        assert_eq!(app.shown, Some(fixture::instance(3)));
    }

    #[test]
    fn the_workers_panel_scrolls_no_further_than_its_last() {
        let mut app = app();
        app.focus = Panel::Workers;
        for _ in 0..5 {
            app.update(Action::Step(Step::Down));
        }
        assert_eq!(app.first_worker, 1);
    }
}
