//! The state of the dashboard and how actions change it. No pixels here: what is drawn is in `view`.
//!
//! ```text
//!  mod       the state; what it takes in
//!  press     keys, and the line that is typed into (prompt)
//!  pointer   the mouse
//!  update    what each action does to the state
//!  command   what is typed behind a colon
//!  control   changes of a running service, once somebody has said yes
//!  time      what the charts show; the playback of a recording
//!  export    a list as a file
//!  rows      what the lists are made of
//!  questions what it wants to know beyond the figures, and what it makes of the answers
//! ```

mod command;
pub mod control;
pub mod export;
pub mod pointer;
mod press;
pub mod prompt;
mod questions;
mod rows;
pub mod time;
mod update;

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use ax_wire::{
    InstanceId,
    alert::AlertState,
    control::Control,
    frame::{Capture, Captured},
    view::{ServiceState, ServiceSummary, ServiceView, WorkerView},
};
use jiff::tz::TimeZone;

use self::{control::Confirm, pointer::Drag, prompt::Prompt, questions::Looks, time::Playback};
use crate::{
    drawn::Drawn,
    format::printable,
    keys::{Key, Keymap},
    load::shown::Shown,
    opened::Opened,
    screens::{Content, Mode, PAGES, PANELS, Page, Panel, Place},
    theme::{Palette, Tone},
    timeline::Timeline,
    widget::table::{RowKey, TableState},
    world::{Link, ServiceFeed, World, last_words},
};

/// How long the footer tells what became of a wish.
const NOTE_NS: u64 = 15_000_000_000;

/// What only whoever runs the app can do for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Ask the agent for a snapshot.
    Capture(Capture),
    /// Ask the agent for a change of a service.
    Control(Control),
    /// Put this into the clipboard of the terminal.
    Copy(String),
    /// Write this to a file, which is not there yet.
    Write { file: String, text: String },
    /// Give the terminal back and stop, until the shell brings the program back.
    Suspend,
    /// Draw all cells, also those that seem unchanged.
    Redraw,
    /// Show a snapshot file.
    Open(PathBuf),
    /// Leave the snapshot file for what was shown before it.
    Close,
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

/// How a panel is looked at.
#[derive(Clone, Debug, Default)]
struct PanelState {
    /// Of a list.
    table: TableState,
    /// Of lines: the first one that is drawn, where not all find room.
    first_line: usize,
}

/// Everything that a frame is drawn from.
#[derive(Clone, Debug)]
pub struct App {
    pub world: World,
    pub shown: Option<InstanceId>,
    /// One that somebody has picked although it is gone: no other takes its place.
    picked: Option<InstanceId>,
    /// Its newest view; where it is not heard any more, without what holds for now only.
    view: Option<Arc<ServiceView>>,
    pub mode: Mode,
    pub pace: Pace,
    /// In the order of [`PANELS`].
    panels: Vec<PanelState>,
    /// Of each page that has several panels and was on another than its first.
    focus: HashMap<Mode, Panel>,
    /// The lane that is looked at alone.
    pub lane: Option<RowKey>,
    /// What is looked at on the screens that ask.
    pub looks: Looks,
    /// The snapshot file that is shown.
    pub opened: Option<Arc<Opened>>,
    /// The load session that is shown.
    pub load: Option<Arc<Shown>>,
    pub demo: Option<DemoNote>,
    pub note: Option<Note>,
    pub quit: bool,
    pub keymap: Arc<Keymap>,
    /// Keys that have begun a sequence.
    begun: Vec<Key>,
    /// The line that is typed into.
    pub prompt: Option<Prompt>,
    /// A change that waits for a yes.
    pub confirm: Option<Confirm>,
    /// How many changes were asked for.
    controls: u64,
    /// What the charts show.
    pub timeline: Timeline,
    /// A drag over a chart that goes on.
    pub drag: Option<Drag>,
    /// A recording that is played.
    pub playback: Option<Playback>,
    /// Whether nothing may be asked of the service.
    pub readonly: bool,
    /// The colours that were chosen last, if any.
    pub palette: Option<Palette>,
    /// Where things stood on the last frame.
    pub drawn: Drawn,
    /// For the times of day.
    pub zone: TimeZone,
}

impl App {
    pub fn new(demo: Option<DemoNote>, zone: TimeZone) -> Self {
        Self {
            world: World::new(),
            shown: None,
            picked: None,
            view: None,
            mode: Mode::Overview,
            pace: Pace::Live,
            panels: vec![PanelState::default(); PANELS.len()],
            focus: HashMap::new(),
            lane: None,
            looks: Looks::default(),
            opened: None,
            load: None,
            demo,
            note: None,
            quit: false,
            keymap: Arc::new(Keymap::default()),
            begun: Vec::new(),
            prompt: None,
            confirm: None,
            controls: 0,
            timeline: Timeline::default(),
            drag: None,
            playback: None,
            readonly: false,
            palette: None,
            drawn: Drawn::default(),
            zone,
        }
    }

    /// Shows a snapshot file.
    pub fn of_file(opened: Opened, zone: TimeZone) -> Self {
        let mut app = Self::new(None, zone);
        let world = opened.world();
        app.opened = Some(Arc::new(opened));
        app.take(world);
        app.pace = Pace::Still;
        app
    }

    /// Shows a load session alone.
    pub fn of_session(shown: Shown, zone: TimeZone) -> Self {
        let mut app = Self::new(None, zone);
        app.world.link = Link::File { name: shown.name() };
        app.world.now_unix_ns = shown.session.written_unix_ns;
        app.load = Some(Arc::new(shown));
        app.mode = Mode::Load;
        app.pace = Pace::Still;
        app
    }

    /// Whether a load session is shown and nothing else.
    pub fn is_session_alone(&self) -> bool {
        self.opened.is_none() && matches!(self.world.link, Link::File { .. })
    }

    /// The screens that there are for what is shown, each with its key.
    pub fn screens(&self) -> impl Iterator<Item = (char, &'static Page)> + Clone + use<> {
        let (of_file, of_session) = (self.opened.is_some(), self.is_session_alone());
        PAGES.iter().filter_map(move |page| match page.place {
            Place::Screen(key) => (!of_session).then_some((key, page)),
            Place::OfFile(key) => of_file.then_some((key, page)),
            Place::NotOfFile(key) => (!of_file).then_some((key, page)),
            Place::Under(_) | Place::Over => None,
        })
    }

    /// Shows a newer world, unless the screen is frozen. Returns whether it did.
    pub fn take(&mut self, world: World) -> bool {
        if self.pace != Pace::Live {
            return false;
        }
        self.world = world;
        let listed = |instance: &InstanceId| self.world.summary(*instance).is_some();
        self.picked = self.picked.filter(listed);
        self.show(self.picked.or_else(|| self.world.choose(self.shown)));
        true
    }

    /// Shows a service that somebody has picked.
    fn pick(&mut self, instance: InstanceId) {
        let live = |service: &ServiceSummary| service.state == ServiceState::Live;
        let is_gone = !self.world.summary(instance).is_some_and(live);
        self.picked = is_gone.then_some(instance);
        self.show(Some(instance));
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

    /// Says something in the footer, for a while.
    pub fn say(&mut self, text: &str, tone: Tone, now_unix_ns: u64) {
        self.note = Some(Note {
            text: printable(text),
            tone,
            until_unix_ns: now_unix_ns.saturating_add(NOTE_NS),
        });
    }

    /// Takes a note away when its time is over. Returns whether it did.
    pub fn expire_note(&mut self, now_unix_ns: u64) -> bool {
        self.note
            .take_if(|note| note.until_unix_ns <= now_unix_ns)
            .is_some()
    }

    /// The panel that the keys act on; a page may have none.
    pub fn focused(&self) -> Option<Panel> {
        let first = self.mode.page().panels.first();
        self.focus.get(&self.mode).or(first).copied()
    }

    /// How the table of a panel is looked at.
    pub fn table(&self, panel: Panel) -> &TableState {
        &self.panels[panel as usize].table
    }

    /// The first line of a panel that is drawn where so many find room: no further than that the last one stands at the
    /// bottom.
    pub fn first_line(&self, panel: Panel, room: usize) -> usize {
        let lines = match panel.row().content {
            Content::Lines(count) => count(self),
            Content::List(_) => 0,
        };
        let state = &self.panels[panel as usize];
        state.first_line.min(lines.saturating_sub(room))
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

    fn show(&mut self, instance: Option<InstanceId>) {
        if self.shown != instance {
            self.shown = instance;
            self.timeline.now();
            self.panels[Panel::Workers as usize].first_line = 0;
        }
        self.view = self.feed().and_then(|feed| feed.view.clone());
        if !self.is_current() {
            self.view = self.view().map(|view| Arc::new(last_words(view)));
        }
        for (at, row) in PANELS.iter().enumerate() {
            if let Content::List(list) = row.content {
                self.with_table(at, |app, table| list.sync(app, table));
            }
        }
    }

    /// Changes the state of a table that looks at the rest of the app meanwhile.
    fn with_table(&mut self, panel: usize, change: impl FnOnce(&Self, &mut TableState)) {
        let mut table = std::mem::take(&mut self.panels[panel].table);
        change(self, &mut table);
        self.panels[panel].table = table;
    }
}

#[cfg(test)]
mod tests;
