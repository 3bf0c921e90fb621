//! A program on a real terminal: a pseudo terminal whose output is read as a terminal would read it.

use std::{
    ffi::OsStr,
    io::{Read as _, Write},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use portable_pty::{
    Child, CommandBuilder, ExitStatus, MasterPty, PtySize, SlavePty, native_pty_system,
};
use rustix::process::Pid;

use super::eventually;

/// A terminal with `ax-top` in it; ended, by its id, with the test.
pub struct Terminal {
    pub screen: Arc<Mutex<vt100::Parser>>,
    /// Bytes that the program has written so far.
    pub written: Arc<AtomicUsize>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    pub master: Box<dyn MasterPty + Send>,
    /// Kept open, so that the terminal is still there to be looked at when the program has ended.
    _slave: Box<dyn SlavePty + Send>,
    pub modes_before: Modes,
    /// Its temporary files and its snapshots.
    folder: tempfile::TempDir,
}

/// The modes that a raw terminal has not.
#[derive(Debug, PartialEq)]
pub struct Modes(String);

impl Terminal {
    /// With `ax-top demo` in it.
    pub fn demo(width: u16, height: u16) -> Self {
        Self::start(&["demo".as_ref()], width, height)
    }

    /// With `ax-top` and these arguments in it.
    pub fn start(arguments: &[&OsStr], width: u16, height: u16) -> Self {
        Self::start_with(arguments, &[], width, height)
    }

    /// The same, with these variables in its environment.
    pub fn start_with(
        arguments: &[&OsStr],
        variables: &[(&str, &OsStr)],
        width: u16,
        height: u16,
    ) -> Self {
        let size = PtySize {
            rows: height,
            cols: width,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pair = native_pty_system().openpty(size).expect("a terminal");
        let modes_before = modes(&*pair.master);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_ax-top"));
        command.args(arguments);
        command.env("TERM", "xterm-256color");
        command.env("LC_ALL", "C.UTF-8");
        command.env("TMPDIR", folder.path());
        command.env("XDG_STATE_HOME", folder.path());
        for variable in ["AX_SOCKET", "AX_DISABLE", "NO_COLOR", "STATE_DIRECTORY"] {
            command.env_remove(variable);
        }
        // Nothing that the user of this machine has configured.
        command.env("XDG_CONFIG_HOME", folder.path().join("config"));
        for (name, value) in variables {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).expect("it starts");
        let screen = Arc::new(Mutex::new(vt100::Parser::new(height, width, 0)));
        let mut output = pair.master.try_clone_reader().expect("can be read");
        let shown = Arc::clone(&screen);
        let written = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&written);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read) = output.read(&mut bytes) {
                if read == 0 {
                    return;
                }
                shown.lock().expect("no panic").process(&bytes[..read]);
                counted.fetch_add(read, Ordering::Relaxed);
            }
        });
        Self {
            screen,
            written,
            keys: pair.master.take_writer().expect("can be written"),
            child,
            master: pair.master,
            _slave: pair.slave,
            modes_before,
            folder,
        }
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it is open");
    }

    /// What stands on the screen.
    pub fn text(&self) -> String {
        self.screen.lock().expect("no panic").screen().contents()
    }

    /// Waits until the screen shows all of these.
    pub fn shows(&self, wanted: &[&str]) -> String {
        let mut last = String::new();
        let what = format!("{wanted:?} on the screen");
        let shown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(&what, || {
                last = self.text();
                wanted
                    .iter()
                    .all(|wanted| last.contains(wanted))
                    .then(|| last.clone())
            })
        }));
        shown.unwrap_or_else(|_| panic!("no {wanted:?} in\n{}", self.text()))
    }

    /// Waits until the screen is as it should be.
    pub fn becomes(&self, what: &str, right: impl Fn(&str) -> bool) -> String {
        let shown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(what, || Some(self.text()).filter(|text| right(text)))
        }));
        shown.unwrap_or_else(|_| panic!("not {what}:\n{}", self.text()))
    }

    /// The row that is drawn in reverse from its second column on: the selected one.
    pub fn selected_row(&self) -> Option<u16> {
        let parser = self.screen.lock().expect("no panic");
        let screen = parser.screen();
        let (rows, _) = screen.size();
        (0..rows).find(|row| {
            let reversed = |column| screen.cell(*row, column).is_some_and(vt100::Cell::inverse);
            reversed(1) && reversed(2)
        })
    }

    /// The address of the demo service, as the footer says it.
    pub fn service(&self) -> String {
        let text = self.shows(&["demo http://"]);
        let after = text.split("demo http://").nth(1).expect("shown");
        after.split_whitespace().next().expect("shown").to_owned()
    }

    /// The process id of the program in it.
    pub fn pid(&self) -> Pid {
        let pid = self.child.process_id().expect("it has been started");
        Pid::from_raw(pid.try_into().expect("a pid")).expect("a pid")
    }

    /// Waits for its end, and checks that the terminal is as it was and that nothing is left behind.
    pub fn ends_in_order(mut self) -> ExitStatus {
        let status = eventually("ax-top to end", || self.child.try_wait().expect("waits"));
        eventually("the terminal to be given back", || {
            let parser = self.screen.lock().expect("no panic");
            let screen = parser.screen();
            (!screen.alternate_screen() && !screen.hide_cursor()).then_some(())
        });
        assert_eq!(modes(&*self.master), self.modes_before, "raw mode is off");
        let left: Vec<_> = std::fs::read_dir(self.folder.path())
            .expect("can be listed")
            .map(|entry| entry.expect("can be listed").file_name())
            .filter(|name| name != "ax")
            .collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        status
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Both fail where it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The modes of a terminal as it is now.
pub fn modes(terminal: &dyn MasterPty) -> Modes {
    let modes = terminal.get_termios().expect("a real terminal");
    Modes(format!(
        "{:?} {:?} {:?}",
        modes.local_flags, modes.input_flags, modes.output_flags
    ))
}
