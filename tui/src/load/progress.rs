//! What a person sees while a session runs: a line a step, and below it what goes on now.

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::Path,
    time::{Duration, Instant},
};

use ax_agent::load::{Judged, Next};
use ax_wire::session::{Load, Session};

use super::text;
use crate::format::{duration, printable};

/// Tells it on the standard error.
pub struct Progress {
    /// Whether anybody wants it.
    shown: bool,
    /// Whether a line can be written over.
    live: bool,
    step: String,
    began: Instant,
    /// When a step that still goes on is worth a line by itself, where a line cannot be written over.
    overdue_after: Duration,
    heading: bool,
}

/// A step is overdue after so many times the length that it was to have, and no sooner than this.
const OVERDUE_TIMES: u32 = 3;
const OVERDUE_AFTER: Duration = Duration::from_secs(30);

impl Progress {
    pub fn new(shown: bool) -> Self {
        Self {
            shown,
            live: shown && io::stderr().is_terminal(),
            step: String::new(),
            began: Instant::now(),
            overdue_after: OVERDUE_AFTER,
            heading: false,
        }
    }

    pub fn warming_up(&mut self, span: Duration) {
        self.begin(format!(
            "warming up for {}",
            duration(span.as_nanos() as u64)
        ));
    }

    pub fn at_rest(&mut self, span: Duration) {
        self.begin(format!(
            "watching the service at rest for {}, so that its other traffic is not taken for load",
            duration(span.as_nanos() as u64)
        ));
    }

    /// Says something that must be known, once.
    pub fn notes(&mut self, what: &str) {
        self.line(&format!("note: {}", printable(what)));
    }

    pub fn begins(&mut self, number: u32, load: Load, next: Next, step_ns: u64) {
        self.overdue_after = (Duration::from_nanos(step_ns) * OVERDUE_TIMES).max(OVERDUE_AFTER);
        let why = match next {
            Next::Planned => "",
            Next::Repeat => ", once more: the last one told nothing certain",
            Next::Search => ", to find the knee",
        };
        self.begin(format!("step {number}: {}{why}", text::load(load)));
    }

    fn begin(&mut self, step: String) {
        self.step = step;
        self.began = Instant::now();
        self.tick(0);
    }

    pub fn tick(&mut self, in_flight: u64) {
        if self.live {
            let since = self.began.elapsed().as_secs();
            self.write(&format!(
                "\r\x1b[K  {}  {since} s  {in_flight} under way",
                self.step
            ));
        } else if self.began.elapsed() >= self.overdue_after {
            let since = self.began.elapsed().as_secs();
            self.overdue_after *= 2;
            let step = self.step.clone();
            self.line(&format!(
                "{step} still goes on after {since} s; Ctrl-C ends it, and what was measured is kept"
            ));
        }
    }

    pub fn made(&mut self, step: &Judged) {
        if !self.heading {
            self.heading = true;
            self.line(text::HEADING);
        }
        self.line(&text::row(step));
    }

    pub fn finished(&mut self, session: &Session) {
        self.line(&text::ended(&session.end));
    }

    pub fn saved(&mut self, path: &Path) {
        self.line(&format!("the session is in {}", path.display()));
    }

    fn line(&mut self, text: &str) {
        if self.live {
            self.write(&format!("\r\x1b[K{text}\n"));
        } else if self.shown {
            self.write(&format!("{text}\n"));
        }
    }

    #[expect(
        clippy::unused_self,
        reason = "all that is written goes through the one that knows whether it may be"
    )]
    fn write(&self, text: &str) {
        // Progress that cannot be told is no reason to stop.
        let _ = io::stderr().write_all(text.as_bytes());
    }
}
