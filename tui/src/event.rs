//! The loop of the dashboard: keys, frames of the agent and signals come in; at most ten frames a second go out, and
//! only when something has changed.

use std::{
    io::{self, Write as _},
    panic,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ax_wire::snapshot_file::SnapshotFileError;
use crossterm::event::{Event, EventStream, KeyEventKind};
use futures_util::StreamExt as _;
use jiff::tz::TimeZone;
use ratatui::DefaultTerminal;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

use crate::{
    app::{App, DemoNote, Request},
    client::{self, Client, Sockets},
    demo::Service,
    exit,
    glyphs::Glyphs,
    keys::{self, Action},
    opened::Opened,
    screens::Mode,
    theme::{Theme, Tone},
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
    mut service: Option<&mut Service>,
    glyphs: Glyphs,
) -> io::Result<()> {
    let note = service.as_ref().map(|service| DemoNote {
        url: service.url().to_owned(),
        ended: None,
    });
    let mut signals = Signals::new()?;
    let mut terminal = ratatui::try_init()?;
    end_with_any_panic();
    let mut dashboard = Dashboard {
        app: App::new(note, TimeZone::system()),
        live: World::new(),
        theme: Theme::from_env(),
        glyphs,
        live_app: None,
        opening: None,
    };
    let result = dashboard
        .follow(sockets, &mut terminal, &mut signals, &mut service)
        .await;
    give_back(terminal);
    result
}

/// Shows a snapshot file until the user or a signal ends it; gives the terminal back like [`run`].
///
/// # Errors
///
/// The terminal cannot be set up, read or written.
pub async fn browse(opened: Opened, glyphs: Glyphs) -> io::Result<()> {
    let mut signals = Signals::new()?;
    let mut terminal = ratatui::try_init()?;
    end_with_any_panic();
    let mut dashboard = Dashboard {
        app: App::of_file(opened, TimeZone::system()),
        live: World::new(),
        theme: Theme::from_env(),
        glyphs,
        live_app: None,
        opening: None,
    };
    let result = dashboard.stand_still(&mut terminal, &mut signals).await;
    give_back(terminal);
    result
}

fn give_back(terminal: DefaultTerminal) {
    if ratatui::try_restore().is_err() {
        // The terminal is gone. Dropped, it would complain on a standard error that is gone too, which panics, and what
        // the caller has still to clean up would stay.
        std::mem::forget(terminal);
    }
}

struct Dashboard {
    app: App,
    /// What the agent told, also while the screen is frozen.
    live: World,
    theme: Theme,
    glyphs: Glyphs,
    /// The live screens, while a snapshot file that was opened from them is shown.
    live_app: Option<Box<App>>,
    /// A snapshot file that is being read.
    opening: Option<JoinHandle<Result<Opened, SnapshotFileError>>>,
}

impl Dashboard {
    async fn follow(
        &mut self,
        sockets: Sockets,
        terminal: &mut DefaultTerminal,
        signals: &mut Signals,
        service: &mut Option<&mut Service>,
    ) -> io::Result<()> {
        self.tick();
        self.draw(terminal)?;
        let mut next_frame = Instant::now() + FRAME;
        let mut client = client::start(sockets);
        let mut input = EventStream::new();
        let mut clock = interval(SECOND);
        clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut changed = false;
        while !self.app.quit {
            tokio::select! {
                event = input.next() => match event {
                    Some(event) => changed |= self.input(&event?, &client),
                    None => return Err(io::ErrorKind::UnexpectedEof.into()),
                },
                update = client.updates.recv() => {
                    changed |= self.frame(update, &mut client.updates)?;
                }
                () = signals.any() => return Ok(()),
                read = read(&mut self.opening) => {
                    self.show(read);
                    changed = true;
                }
                _ = clock.tick() => changed |= self.tick(),
                ended = ended(service) => {
                    if let Some(demo) = &mut self.app.demo {
                        demo.ended = Some(ended);
                    }
                    changed = true;
                }
                () = sleep_until(next_frame), if changed => {
                    self.draw(terminal)?;
                    next_frame = Instant::now() + FRAME;
                    changed = false;
                }
            }
        }
        Ok(())
    }

    async fn stand_still(
        &mut self,
        terminal: &mut DefaultTerminal,
        signals: &mut Signals,
    ) -> io::Result<()> {
        let mut input = EventStream::new();
        while !self.app.quit {
            self.draw(terminal)?;
            tokio::select! {
                event = input.next() => match event.transpose()? {
                    Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                        if let Some(action) = keys::action(&key) {
                            self.act(action, None);
                        }
                    }
                    Some(_) => {}
                    None => return Err(io::ErrorKind::UnexpectedEof.into()),
                },
                read = read(&mut self.opening) => self.show(read),
                () = signals.any() => return Ok(()),
            }
        }
        Ok(())
    }

    fn draw(&mut self, terminal: &mut DefaultTerminal) -> io::Result<()> {
        self.app.width = terminal.size()?.width;
        let screen = Screen {
            app: &self.app,
            theme: self.theme,
            glyphs: self.glyphs,
        };
        terminal.draw(|frame| frame.render_widget(&screen, frame.area()))?;
        Ok(())
    }

    /// Returns whether anything is to be drawn anew.
    fn input(&mut self, event: &Event, client: &Client) -> bool {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                let action = keys::action(key);
                if let Some(action) = action {
                    self.act(action, Some(client));
                    self.app.take(self.live.clone());
                }
                action.is_some()
            }
            Event::Resize(..) => true,
            _ => false,
        }
    }

    /// Does what the user asked for; without a client, where nothing is live.
    fn act(&mut self, action: Action, client: Option<&Client>) {
        if action == Action::Back
            && self.app.mode == Mode::Overview
            && let Some(live) = self.live_app.take()
        {
            self.app = *live;
            return;
        }
        match self.app.update(action, now_unix_ns()) {
            Some(Request::Capture(capture)) => {
                if let Some(client) = client {
                    client.capture(capture);
                }
            }
            Some(Request::Open(path)) => {
                let text = format!("reading {}", path.display());
                self.app.say(&text, Tone::Plain, now_unix_ns());
                self.opening = Some(tokio::task::spawn_blocking(move || Opened::read(&path)));
            }
            None => {}
        }
    }

    /// Shows a file that was opened, before the live screens, to which `Esc` leads back.
    fn show(&mut self, read: Result<Opened, String>) {
        match read {
            Ok(opened) => {
                let file = App::of_file(opened, self.app.zone.clone());
                let before = std::mem::replace(&mut self.app, file);
                if before.opened.is_none() {
                    self.live_app = Some(Box::new(before));
                }
                if self.live_app.is_some() {
                    let text =
                        "a snapshot file; Esc on its overview leads back to the live screens";
                    self.app.say(text, Tone::Plain, now_unix_ns());
                }
            }
            Err(why) => self.app.say(&why, Tone::Warning, now_unix_ns()),
        }
    }

    /// Takes in an update and all that wait behind it, so that a burst costs one clone.
    fn frame(
        &mut self,
        first: Option<Update>,
        updates: &mut mpsc::Receiver<Update>,
    ) -> io::Result<bool> {
        let first = first.ok_or_else(|| io::Error::other("the client of the agent has died"))?;
        self.live.apply(first);
        while let Ok(update) = updates.try_recv() {
            self.live.apply(update);
        }
        if std::mem::take(&mut self.live.rings) {
            // The bell draws nothing, so it may go between two frames.
            let mut terminal = io::stdout();
            terminal.write_all(b"\x07")?;
            terminal.flush()?;
        }
        if let Some(captured) = self.live.captured.take() {
            self.app.captured(captured, now_unix_ns());
            self.tick();
            return Ok(true);
        }
        Ok(self.tick())
    }

    /// Sets the clock and shows the newest world, unless the screen is frozen.
    fn tick(&mut self) -> bool {
        self.live.now_unix_ns = now_unix_ns();
        let expired = self.app.expire_note(self.live.now_unix_ns);
        self.app.take(self.live.clone()) || expired
    }
}

/// The snapshot file that is being read, once it is; never where there is none.
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

/// The demo service, when it ends by itself; never where there is none or its end has been told.
async fn ended(service: &mut Option<&mut Service>) -> String {
    match service {
        Some(running) => {
            let ended = running.ended().await;
            *service = None;
            ended
        }
        None => std::future::pending().await,
    }
}

/// The wall clock.
pub fn now_unix_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}

/// The signals that end a command as `q` would, so that everything is put back in order.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Takes over the signals of this process.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for any of them. Cancel safe.
    pub async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

/// A panic restores the terminal (ratatui's hook), so nothing may be drawn after it: one on another thread, such as the
/// embedded agent's, ends the program.
fn end_with_any_panic() {
    let main_thread = std::thread::current().id();
    let restore_and_print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        restore_and_print(info);
        if std::thread::current().id() != main_thread {
            std::process::exit(i32::from(exit::INTERNAL));
        }
    }));
}
