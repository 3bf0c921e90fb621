//! What a person sees while a session runs: a line a step, and below it what goes on now.

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::Path,
    time::{Duration, Instant},
};

use ax_agent::load::{Judged, Next};
use ax_wire::session::{Load, Session};

use super::text;
use crate::format::duration;

/// Tells it on the standard error.
pub struct Progress {
    /// Whether anybody wants it.
    shown: bool,
    /// Whether a line can be written over.
    live: bool,
    step: String,
    began: Instant,
    heading: bool,
}

impl Progress {
    pub fn new(shown: bool) -> Self {
        Self {
            shown,
            live: shown && io::stderr().is_terminal(),
            step: String::new(),
            began: Instant::now(),
            heading: false,
        }
    }

    pub fn warming_up(&mut self, span: Duration) {
        self.begin(format!(
            "warming up for {}",
            duration(span.as_nanos() as u64)
        ));
    }

    pub fn begins(&mut self, number: u32, load: Load, next: Next) {
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
