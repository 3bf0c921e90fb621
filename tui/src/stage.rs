//! The dashboard without a terminal and without an agent, for benches and for pictures of the screens: it is shown what an
//! agent would tell, pressed keys, and draws into a buffer.

use std::{fmt, path::Path};

use ax_wire::{ToViewer, frame, view::ServiceView};
use crossterm::event::{KeyEvent, MouseEvent};
use jiff::tz::TimeZone;
use ratatui::{Frame, buffer::Buffer, layout::Rect, widgets::Widget as _};

pub use crate::theme::{Depth, Palette};
use crate::{
    app::App,
    fixture,
    glyphs::Glyphs,
    keys::Key,
    opened::Opened,
    record::{Limits, Player, Writer},
    theme::Theme,
    view::Screen,
    world::{Update, World},
};

/// See the module.
#[derive(Debug)]
pub struct Stage {
    app: App,
    world: World,
    theme: Theme,
}

impl Stage {
    /// Shows these services, as an agent would tell them.
    #[must_use]
    pub fn new(views: Vec<ServiceView>) -> Self {
        let world = fixture::world(views);
        let mut app = App::new(None, TimeZone::UTC);
        app.take(world.clone());
        Self {
            app,
            world,
            theme: Theme::new(Palette::Dark, Depth::True),
        }
    }

    /// Shows a snapshot.
    #[must_use]
    pub fn of_file(snapshot: ax_wire::incident::Snapshot, name: &str) -> Self {
        let opened = Opened::new(snapshot, name.to_owned());
        Self {
            app: App::of_file(opened, TimeZone::UTC),
            world: World::new(),
            theme: Theme::new(Palette::Dark, Depth::True),
        }
    }

    /// Draws with these colours.
    pub fn set_palette(&mut self, palette: Palette) {
        self.theme = Theme::new(palette, Depth::True);
    }

    /// Presses keys, as the configuration writes them: `2`, `down`, `g g`.
    ///
    /// # Panics
    ///
    /// Where one is no key.
    pub fn press(&mut self, keys: &str) {
        for key in keys.split_whitespace() {
            let key: Key = key.parse().unwrap_or_else(|error| panic!("{error}"));
            self.event(&key.event());
        }
    }

    /// Presses a key.
    pub fn event(&mut self, event: &KeyEvent) {
        let _ = self.app.press(event, self.world.now_unix_ns);
    }

    /// Moves the mouse.
    pub fn mouse(&mut self, event: MouseEvent) {
        let _ = self.app.point(event, self.world.now_unix_ns);
    }

    /// Takes in a frame as it comes from the socket, and shows the newest world. Returns whether it could be read.
    pub fn tell(&mut self, line: &[u8]) -> bool {
        let Ok(frame) = frame::decode::<ToViewer>(line) else {
            return false;
        };
        self.world.apply(Update::Frame(frame));
        self.app.take(self.world.clone());
        true
    }

    /// Draws a frame.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        self.render(area, frame.buffer_mut());
    }

    /// Draws into a buffer of its own.
    #[must_use]
    pub fn buffer(&mut self, width: u16, height: u16) -> Buffer {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        self.render(area, &mut buffer);
        buffer
    }

    fn render(&mut self, area: Rect, buffer: &mut Buffer) {
        let screen = Screen::new(&self.app, self.theme, Glyphs::Unicode);
        (&screen).render(area, buffer);
        self.app.drawn = screen.into_drawn();
    }
}

/// A service with a stuck worker, with a full lane, alerts and snapshots.
#[must_use]
pub fn troubled() -> ServiceView {
    fixture::firing()
}

/// One that nothing is wrong with, of this number.
#[must_use]
pub fn healthy(number: u128) -> ServiceView {
    let mut view = fixture::healthy();
    view.summary.instance = fixture::instance(number);
    view.summary.service = format!("service-{number}");
    view.hello.instance = view.summary.instance;
    view.hello.service.clone_from(&view.summary.service);
    view
}

/// A view of so many lanes and job types, with so many jobs live in all.
#[must_use]
pub fn large(lanes: u64, types: u64, jobs: u64) -> ServiceView {
    let mut view = fixture::firing();
    let name = |kind: &str, number: u64| format!("{kind}_with_a_long_name_{number:03}");
    let each = jobs / lanes.max(1);
    view.lanes = (0..lanes)
        .map(|number| fixture::lane(&name("lane", number), 40, 40, each.saturating_sub(40)))
        .collect();
    view.types = (0..types)
        .map(|number| {
            let lane = name("lane", number % lanes.max(1));
            fixture::job_type(&name("type", number), &lane)
        })
        .collect();
    view
}

/// The time at which all of these are.
#[must_use]
pub fn now_unix_ns() -> u64 {
    fixture::NOW_UNIX_NS
}

/// A recording that is played.
pub struct Tape {
    player: Player,
}

impl Tape {
    /// Opens one.
    ///
    /// # Panics
    ///
    /// Where it is none.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        let player = Player::open(path, false);
        Self {
            player: player.unwrap_or_else(|error| panic!("{error}")),
        }
    }

    /// Goes to an instant.
    ///
    /// # Panics
    ///
    /// Where the file is damaged.
    pub fn go_to(&mut self, unix_ns: u64) {
        let world = self.player.go_to(unix_ns);
        let world = world.unwrap_or_else(|error| panic!("{error}"));
        drop(world);
    }
}

impl fmt::Debug for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.player.contents().fmt(f)
    }
}

/// Records these frames, each with the time at which it came. Returns the size of the file.
///
/// # Panics
///
/// Where the file cannot be written.
pub fn record(path: &Path, frames: impl Iterator<Item = (u64, ToViewer)>) -> u64 {
    let endless = Limits {
        bytes: u64::MAX,
        length_ns: u64::MAX,
    };
    let written = Writer::create(path, endless).and_then(|mut writer| {
        for (at_unix_ns, frame) in frames {
            writer.add(at_unix_ns, &frame)?;
        }
        writer.finish()
    });
    written.unwrap_or_else(|error| panic!("{error}")).bytes
}
