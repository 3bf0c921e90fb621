//! `ax-top` on a real terminal: a pseudo terminal whose output is read as a terminal would read it. What belongs here
//! is what a test in memory cannot show: that figures come, keys arrive, and the terminal is given back as it was.

mod support;

use std::{
    ffi::OsStr,
    io::{Read as _, Write},
    path::Path,
    sync::{Arc, Mutex},
    thread,
};

use portable_pty::{
    Child, CommandBuilder, ExitStatus, MasterPty, PtySize, SlavePty, native_pty_system,
};
use rustix::process::{Pid, Signal, kill_process};
use support::{eventually, http};

/// A terminal with `ax-top` in it; ended, by its id, with the test.
struct Terminal {
    screen: Arc<Mutex<vt100::Parser>>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    /// Kept open, so that the terminal is still there to be looked at when the program has ended.
    _slave: Box<dyn SlavePty + Send>,
    modes_before: Modes,
    /// Its temporary files and its snapshots.
    folder: tempfile::TempDir,
}

/// The modes that a raw terminal has not.
#[derive(Debug, PartialEq)]
struct Modes(String);

impl Terminal {
    /// With `ax-top demo` in it.
    fn demo(width: u16, height: u16) -> Self {
        Self::start(&["demo".as_ref()], width, height)
    }

    fn start(arguments: &[&OsStr], width: u16, height: u16) -> Self {
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
        let child = pair.slave.spawn_command(command).expect("it starts");
        let screen = Arc::new(Mutex::new(vt100::Parser::new(height, width, 0)));
        let mut output = pair.master.try_clone_reader().expect("can be read");
        let shown = Arc::clone(&screen);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read) = output.read(&mut bytes) {
                if read == 0 {
                    return;
                }
                shown.lock().expect("no panic").process(&bytes[..read]);
            }
        });
        Self {
            screen,
            keys: pair.master.take_writer().expect("can be written"),
            child,
            master: pair.master,
            _slave: pair.slave,
            modes_before,
            folder,
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it is open");
    }

    fn text(&self) -> String {
        self.screen.lock().expect("no panic").screen().contents()
    }

    /// Waits until the screen shows all of these.
    fn shows(&self, wanted: &[&str]) -> String {
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

    /// The address of the demo service, as the footer says it.
    fn service(&self) -> String {
        let text = self.shows(&["demo http://"]);
        let after = text.split("demo http://").nth(1).expect("shown");
        after.split_whitespace().next().expect("shown").to_owned()
    }

    fn pid(&self) -> Pid {
        let pid = self.child.process_id().expect("it has been started");
        Pid::from_raw(pid.try_into().expect("a pid")).expect("a pid")
    }

    /// Waits for its end, and checks that the terminal is as it was and that nothing is left behind.
    fn ends_in_order(mut self) -> ExitStatus {
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

fn modes(terminal: &dyn MasterPty) -> Modes {
    let modes = terminal.get_termios().expect("a real terminal");
    Modes(format!(
        "{:?} {:?} {:?}",
        modes.local_flags, modes.input_flags, modes.output_flags
    ))
}

#[test]
fn keys_arrive_a_stall_is_named_and_q_gives_the_terminal_back() {
    let mut terminal = Terminal::demo(120, 40);
    terminal.shows(&["demo", "live", "send_push", "save_order", "run/limit"]);
    assert_ne!(
        modes(&*terminal.master),
        terminal.modes_before,
        "raw mode is on"
    );
    terminal.press("?");
    terminal.shows(&["Help", "pick a service from the list"]);
    terminal.press("2");
    terminal.shows(&["[2 Lanes", "GET /rate", "Downstreams", "fetch_rate"]);
    terminal.press("\r");
    terminal.shows(&["Lane ", "Its limit, newest move first"]);
    terminal.press("7");
    terminal.shows(&["[7 Alerts"]);
    terminal.press("\t");
    terminal.shows(&["[8 Snapshots"]);
    terminal.press("c");
    terminal.shows(&["snapshot written: /", "asked for"]);
    terminal.press("1>");
    terminal.shows(&["[1 Overview", "done/s over 2 s  by lane"]);
    terminal.press(" ");
    terminal.shows(&["FROZEN since"]);
    terminal.press(" ");
    eventually("the screen to go on", || {
        (!terminal.text().contains("FROZEN")).then_some(())
    });

    let service = terminal.service();
    let answer = http(&service, "POST", "/fault/block?ms=2000");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    terminal.shows(&[
        "CRITICAL  stall",
        "task fault_block started demo/src/fault.rs",
    ]);
    terminal.press("8");
    terminal.shows(&["stall 2", "fault_block"]);

    terminal.press("q");
    assert!(terminal.ends_in_order().success());
}

#[test]
fn a_signal_ends_it_in_the_same_order() {
    let terminal = Terminal::demo(80, 24);
    terminal.shows(&["live", "push", "run/limit"]);
    kill_process(terminal.pid(), Signal::TERM).expect("it runs");
    assert!(terminal.ends_in_order().success());
}

/// A file is browsed on the same screens, without an agent.
#[test]
fn a_snapshot_is_browsed() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/snapshot-v1-stacks.json");
    let mut terminal = Terminal::start(&["open".as_ref(), file.as_ref()], 120, 40);
    terminal.shows(&[
        "snapshot-v1-stacks.json",
        "CRITICAL  stall",
        "task fault_block started demo/src/fault.rs",
    ]);
    terminal.press("2");
    terminal.shows(&["[2 Lanes", "GET /rate", "partner"]);
    terminal.press("q");
    assert!(terminal.ends_in_order().success());
}
