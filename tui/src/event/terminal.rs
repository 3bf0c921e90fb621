//! The terminal: taken over, drawn on, and given back in every case.

use std::{
    fmt,
    io::{self, Write as _},
    panic,
};

use crossterm::{
    clipboard::CopyToClipboard,
    event::{DisableMouseCapture, EnableMouseCapture},
    execute, queue,
    terminal::{BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate},
};
use ratatui::DefaultTerminal;
use rustix::process::{Pid, Signal, getpid, kill_process};

use crate::{drawn::Drawn, exit, view::Screen};

/// A terminal in raw mode, on its other screen. Dropped, it is given back.
pub struct Terminal {
    /// `None` once it has been given back.
    inner: Option<DefaultTerminal>,
    mouse: bool,
}

impl Terminal {
    /// Takes the terminal over.
    ///
    /// # Errors
    ///
    /// There is none, or it cannot be set up.
    pub fn take(mouse: bool) -> io::Result<Self> {
        let inner = ratatui::try_init()?;
        end_with_any_panic();
        let mut terminal = Self {
            inner: Some(inner),
            mouse,
        };
        terminal.listen_to_mouse()?;
        Ok(terminal)
    }

    fn listen_to_mouse(&mut self) -> io::Result<()> {
        if self.mouse {
            execute!(io::stdout(), EnableMouseCapture)?;
        }
        Ok(())
    }

    fn inner(&mut self) -> io::Result<&mut DefaultTerminal> {
        let gone = || io::Error::other("the terminal has been given back");
        self.inner.as_mut().ok_or_else(gone)
    }

    /// Draws a frame, whole: a terminal that knows synchronized output shows no half of it. Returns where things stand.
    ///
    /// # Errors
    ///
    /// The terminal cannot be written.
    pub fn draw(&mut self, screen: Screen<'_>) -> io::Result<Drawn> {
        queue!(io::stdout(), BeginSynchronizedUpdate)?;
        let drawn = self
            .inner()?
            .draw(|frame| frame.render_widget(&screen, frame.area()))
            .map(|_| ());
        execute!(io::stdout(), EndSynchronizedUpdate)?;
        drawn?;
        Ok(screen.into_drawn())
    }

    /// Forgets what stands on the screen: the next frame draws every cell.
    ///
    /// # Errors
    ///
    /// The terminal cannot be written.
    pub fn forget(&mut self) -> io::Result<()> {
        // `Terminal::clear` asks the terminal where its cursor is, and the answer would be taken for keys.
        execute!(io::stdout(), Clear(ClearType::All))?;
        self.inner()?.swap_buffers();
        Ok(())
    }

    /// Rings the bell, which draws nothing, so it may go between two frames.
    ///
    /// # Errors
    ///
    /// The terminal cannot be written.
    pub fn ring() -> io::Result<()> {
        let mut stdout = io::stdout();
        stdout.write_all(b"\x07")?;
        stdout.flush()
    }

    /// Puts a text into the clipboard, where the terminal allows it.
    ///
    /// # Errors
    ///
    /// The terminal cannot be written.
    pub fn copy(text: &str) -> io::Result<()> {
        execute!(io::stdout(), CopyToClipboard::to_clipboard_from(text))
    }

    /// Gives the terminal back, stops this process until somebody lets it go on, and takes the terminal again.
    ///
    /// # Errors
    ///
    /// The terminal cannot be set up again.
    pub fn suspend(&mut self) -> io::Result<()> {
        self.give_back();
        kill_process(own_pid(), Signal::STOP)?;
        // From here on somebody has let it go on.
        self.inner = Some(ratatui::try_init()?);
        self.listen_to_mouse()?;
        self.forget()
    }

    fn give_back(&mut self) {
        let Some(inner) = self.inner.take() else {
            return;
        };
        if self.mouse {
            // Where the terminal is gone, there is nobody left to tell.
            let _ = execute!(io::stdout(), DisableMouseCapture);
        }
        if ratatui::try_restore().is_err() {
            // The terminal is gone. Dropped, it would complain on a standard error that is gone too, which panics, and
            // what the caller has still to clean up would stay.
            std::mem::forget(inner);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl fmt::Debug for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terminal")
            .field("mouse", &self.mouse)
            .finish_non_exhaustive()
    }
}

fn own_pid() -> Pid {
    getpid()
}

/// A panic restores the terminal (ratatui's hook), so nothing may be drawn after it: one on another thread, such as the
/// embedded agent's, ends the program.
fn end_with_any_panic() {
    let main_thread = std::thread::current().id();
    let restore_and_print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let mut stdout = io::stdout();
        // A panic is being told: what cannot be written now is not worth another.
        let _ = queue!(stdout, DisableMouseCapture, EndSynchronizedUpdate);
        let _ = stdout.flush();
        restore_and_print(info);
        if std::thread::current().id() != main_thread {
            std::process::exit(i32::from(exit::INTERNAL));
        }
    }));
}
