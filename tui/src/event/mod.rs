//! The loop of the dashboard: keys, the mouse, what the source of the figures tells, and signals come in; at most ten
//! frames a second go out, and only when something has changed.

mod signals;
mod source;
mod terminal;

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ax_wire::{ToAgent, snapshot_file::SnapshotFileError};
use crossterm::event::{Event, EventStream, KeyEventKind};
use futures_util::StreamExt as _;
use jiff::tz::TimeZone;
use tokio::{
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

pub use self::signals::Signals;
use self::{
    signals::Suspension,
    source::{News, Source},
    terminal::Terminal,
};
use crate::{
    app::{App, DemoNote, Pace, Request},
    client::{self, Sockets},
    config::Settings,
    demo::Service,
    load::shown::{self, Shown},
    opened::Opened,
    record::Player,
    screens::Mode,
    theme::Tone,
    view::Screen,
    world::{Update, World},
};

/// Shortest time between two frames.
const FRAME: Duration = Duration::from_millis(100);

/// The clock in the header.
const SECOND: Duration = Duration::from_secs(1);

/// Runs the dashboard until the user or a signal ends it. The terminal is given back in every case, a panic included.
///
/// # Errors
///
/// The terminal cannot be set up, read or written.
pub async fn run(
    sockets: Sockets,
    service: Option<&mut Service>,
    settings: &Settings,
) -> io::Result<()> {
    let note = service.as_ref().map(|service| DemoNote {
        url: service.url().to_owned(),
        ended: None,
    });
    let app = App::new(note, TimeZone::system());
    let source = |()| Source::Agent {
        client: client::start(sockets),
        service,
    };
    show(app, source, settings).await
}

/// Shows a snapshot file until the user or a signal ends it; gives the terminal back like [`run`].
///
/// # Errors
///
/// The terminal cannot be set up, read or written.
pub async fn browse(opened: Opened, settings: &Settings) -> io::Result<()> {
    let app = App::of_file(opened, TimeZone::system());
    show(app, |()| Source::File, settings).await
}

/// Shows a load session until the user or a signal ends it; gives the terminal back like [`run`].
///
/// # Errors
///
/// The terminal cannot be set up, read or written.
pub async fn browse_session(shown: Shown, settings: &Settings) -> io::Result<()> {
    let app = App::of_session(shown, TimeZone::system());
    show(app, |()| Source::File, settings).await
}

/// Plays a recording until the user or a signal ends it; gives the terminal back like [`run`].
///
/// # Errors
///
/// The terminal cannot be set up, read or written, or the recording cannot be read on.
pub async fn play(player: Player, speed: f64, settings: &Settings) -> io::Result<()> {
    let mut app = App::new(None, TimeZone::system());
    app.playback = Some(player.playback(speed));
    show(app, |()| Source::recording(player), settings).await
}

/// Shows an app; its source of figures begins once the terminal is ours.
async fn show<'a>(
    mut app: App,
    source: impl FnOnce(()) -> Source<'a>,
    settings: &Settings,
) -> io::Result<()> {
    let mut signals = Signals::new()?;
    let mut suspension = Suspension::new()?;
    let terminal = Terminal::take(settings.mouse)?;
    app.keymap = settings.keymap.clone();
    app.readonly = settings.readonly;
    let mut dashboard = Dashboard {
        app,
        live_app: None,
        opening: None,
        looking: None,
        live: World::new(),
        settings,
        terminal,
        changed: false,
        next_question: None,
    };
    dashboard.tick();
    dashboard.draw()?;
    let mut source = source(());
    dashboard
        .run(&mut source, &mut signals, &mut suspension)
        .await
}

struct Dashboard<'a> {
    app: App,
    /// The live screens, while a snapshot file that was opened from them is shown.
    live_app: Option<Box<App>>,
    /// A snapshot file that is being read.
    opening: Option<JoinHandle<Result<Opened, SnapshotFileError>>>,
    /// The newest load session, while it is being looked for.
    looking: Option<JoinHandle<Option<Arc<Shown>>>>,
    /// What the agent told, also while the screen is frozen.
    live: World,
    settings: &'a Settings,
    terminal: Terminal,
    /// Whether the screen would look different from the last frame.
    changed: bool,
    /// When a question that had to wait for the one before it may be asked.
    next_question: Option<Instant>,
}

impl Dashboard<'_> {
    async fn run(
        &mut self,
        source: &mut Source<'_>,
        signals: &mut Signals,
        suspension: &mut Suspension,
    ) -> io::Result<()> {
        let mut next_frame = Instant::now();
        let mut input = EventStream::new();
        let mut clock = interval(SECOND);
        clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut last_tick = Instant::now();
        while !self.app.quit {
            tokio::select! {
                event = input.next() => match event {
                    Some(event) => self.input(&event?, source)?,
                    None => return Err(io::ErrorKind::UnexpectedEof.into()),
                },
                news = source.news() => match news? {
                    News::Update(update) => self.updated(update, source)?,
                    News::Ended(how) => {
                        if let Some(demo) = &mut self.app.demo {
                            demo.ended = Some(how);
                        }
                        self.changed = true;
                    }
                    News::Tick => {
                        let now = Instant::now();
                        self.play_on(now - last_tick, source)?;
                        last_tick = now;
                    }
                },
                () = signals.any() => return Ok(()),
                () = suspension.wanted() => self.suspend()?,
                read = read(&mut self.opening) => self.opened(read),
                newest = found(&mut self.looking) => {
                    self.app.load = newest;
                    self.changed = true;
                }
                // What is asked is asked below.
                () = sleep_until(self.next_question.unwrap_or(last_tick)), if self.next_question.is_some() => {}
                _ = clock.tick() => {
                    self.changed |= self.tick();
                    self.look_for_session(source);
                }
                () = sleep_until(next_frame), if self.changed => {
                    self.tick();
                    self.draw()?;
                    next_frame = Instant::now() + FRAME;
                    self.changed = false;
                }
            }
            self.ask(source);
        }
        Ok(())
    }

    /// Asks the agent what the open screen wants to know.
    fn ask(&mut self, source: &Source<'_>) {
        self.next_question = None;
        let Source::Agent { client, .. } = source else {
            return;
        };
        if let Some(instance) = self.app.shown {
            let (wanted, now) = (self.app.wanted(), now_unix_ns());
            let ask = self.live.answers.ask(instance, &wanted, now);
            if ask.is_some_and(|ask| !client.ask(ToAgent::Ask(ask))) {
                self.live.answers.forget_open();
            }
            let wait = self.live.answers.next_turn_in(now);
            self.next_question = wait.map(|wait| Instant::now() + wait);
        }
    }

    /// Asks the agent to do something. Nothing happens where there is none: then it has been said before.
    fn wish(&mut self, wish: ToAgent, source: &Source<'_>) {
        let Source::Agent { client, .. } = source else {
            return;
        };
        if !client.ask(wish) {
            let text = "not sent: the agent does not read what it was asked before; try again";
            self.app.say(text, Tone::Warning, now_unix_ns());
        }
    }

    /// While its screen is open: a session that runs grows step by step.
    fn look_for_session(&mut self, source: &Source<'_>) {
        let live = matches!(source, Source::Agent { .. });
        if live && self.app.mode == Mode::Load && self.looking.is_none() {
            let known = self.app.load.clone();
            self.looking = Some(tokio::task::spawn_blocking(move || shown::newest(known)));
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let screen = Screen::new(&self.app, self.settings.theme, self.settings.glyphs);
        self.app.drawn = self.terminal.draw(screen)?;
        Ok(())
    }

    fn input(&mut self, event: &Event, source: &mut Source<'_>) -> io::Result<()> {
        let now = now_unix_ns();
        let request = match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.app.press(key, now),
            Event::Mouse(mouse) => self.app.point(*mouse, now),
            Event::Resize(..) => None,
            _ => return Ok(()),
        };
        self.changed = true;
        self.look_for_session(source);
        match request {
            None => {}
            Some(Request::Capture(capture)) => self.wish(ToAgent::Capture(capture), source),
            Some(Request::Control(control)) => self.wish(ToAgent::Control(control), source),
            Some(Request::Copy(text)) => Terminal::copy(&text)?,
            Some(Request::Write { file, text }) => self.write(&file, &text),
            Some(Request::Suspend) => self.suspend()?,
            Some(Request::Redraw) => self.terminal.forget()?,
            Some(Request::Open(path)) => {
                let text = format!("reading {}", path.display());
                self.app.say(&text, Tone::Plain, now);
                self.opening = Some(tokio::task::spawn_blocking(move || Opened::read(&path)));
            }
            Some(Request::Close) => {
                if let Some(live) = self.live_app.take() {
                    self.app = *live;
                }
            }
        }
        self.play_on(Duration::ZERO, source)
    }

    /// Shows a file that was read, in place of the live screens, to which the way back leads from its overview.
    fn opened(&mut self, read: Result<Opened, String>) {
        self.changed = true;
        let opened = match read {
            Ok(opened) => opened,
            Err(why) => return self.app.say(&why, Tone::Warning, now_unix_ns()),
        };
        let mut file = App::of_file(opened, self.app.zone.clone());
        file.keymap = self.app.keymap.clone();
        file.readonly = self.app.readonly;
        file.palette = self.app.palette;
        let before = std::mem::replace(&mut self.app, file);
        if before.opened.is_none() {
            self.live_app = Some(Box::new(before));
        }
        if self.live_app.is_some() {
            let text = "a snapshot file; esc on its overview leads back to the live screens";
            self.app.say(text, Tone::Plain, now_unix_ns());
        }
    }

    fn suspend(&mut self) -> io::Result<()> {
        self.changed = true;
        self.terminal.suspend()
    }

    /// Writes a list to a file that is not there yet, and says where.
    fn write(&mut self, file: &str, text: &str) {
        let now = now_unix_ns();
        match write_new(Path::new(file), text) {
            Ok(path) => self
                .app
                .say(&format!("written: {}", path.display()), Tone::Good, now),
            Err(error) => {
                self.app
                    .say(&format!("not written: {file}: {error}"), Tone::Warning, now);
            }
        }
    }

    /// Takes in an update and all that wait behind it.
    fn updated(&mut self, first: Update, source: &mut Source<'_>) -> io::Result<()> {
        let mut next = Some(first);
        while let Some(update) = next {
            self.changed |= self.app.pace == Pace::Live && self.concerns(&update);
            self.live.apply(update);
            next = source.waiting();
        }
        if std::mem::take(&mut self.live.rings) {
            Terminal::ring()?;
        }
        if let Some(controlled) = self.live.controlled.take() {
            self.app.controlled(&controlled, now_unix_ns());
            self.changed = true;
        }
        if let Some(captured) = self.live.captured.take() {
            self.app.captured(captured, now_unix_ns());
            self.changed = true;
        }
        Ok(())
    }

    /// Whether an update may change what is on the screen: figures of other services do not.
    fn concerns(&self, update: &Update) -> bool {
        match update {
            Update::Frame(ax_wire::ToViewer::View(view)) => {
                let shown = self.app.shown;
                shown.is_none_or(|shown| shown == view.summary.instance)
                    || self.app.mode == Mode::Services
            }
            _ => true,
        }
    }

    /// Goes on in a recording, where there is one.
    fn play_on(&mut self, by: Duration, source: &mut Source<'_>) -> io::Result<()> {
        let (Source::Recording { player, .. }, Some(playback)) = (source, &mut self.app.playback)
        else {
            return Ok(());
        };
        playback.go_on(by.as_nanos() as u64);
        if let Some(world) = player
            .go_to(playback.at_unix_ns)
            .map_err(io::Error::other)?
        {
            self.live = world;
            self.changed = true;
        }
        Ok(())
    }

    /// Sets the clock and shows the newest world, unless the screen is frozen.
    fn tick(&mut self) -> bool {
        let now = now_unix_ns();
        // A recording has a clock of its own.
        if self.app.playback.is_none() {
            self.live.now_unix_ns = now;
        }
        let expired = self.app.expire_note(now);
        self.app.take(self.live.clone()) || expired
    }
}

/// The snapshot file that is being read, once it is; never where there is none. Cancel safe.
async fn read(
    opening: &mut Option<JoinHandle<Result<Opened, SnapshotFileError>>>,
) -> Result<Opened, String> {
    match opening {
        Some(reading) => {
            let read = reading.await;
            *opening = None;
            let read = read.map_err(|_| "reading the snapshot has panicked".to_owned())?;
            read.map_err(|error| error.to_string())
        }
        None => std::future::pending().await,
    }
}

/// The newest load session, once it was looked for; never where it is not. Cancel safe.
async fn found(looking: &mut Option<JoinHandle<Option<Arc<Shown>>>>) -> Option<Arc<Shown>> {
    match looking {
        Some(handle) => {
            let found = handle.await;
            *looking = None;
            found.ok().flatten()
        }
        None => std::future::pending().await,
    }
}

/// Writes a file that is not there yet; where it has no folder and the working directory takes none, to the temporary
/// folder.
fn write_new(file: &Path, text: &str) -> io::Result<PathBuf> {
    let write = |path: &Path| {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).open(path)?;
        file.write_all(text.as_bytes())
    };
    let here = std::path::absolute(file)?;
    match write(&here) {
        Ok(()) => Ok(here),
        Err(error) => {
            let nameless = file
                .parent()
                .is_none_or(|folder| folder.as_os_str().is_empty());
            let elsewhere = std::env::temp_dir().join(file);
            let refused = matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            );
            if nameless && refused && write(&elsewhere).is_ok() {
                return Ok(elsewhere);
            }
            Err(error)
        }
    }
}

/// The wall clock.
pub fn now_unix_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_there_is_never_written_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("list.csv");
        assert_eq!(write_new(&path, "a").expect("is written"), path);
        let again = write_new(&path, "b").expect_err("is there");
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).expect("reads"), "a");
        assert!(write_new(&folder.path().join("no/list.csv"), "a").is_err());
    }
}
