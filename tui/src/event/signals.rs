//! The signals that end a command as `q` would, and the one that suspends it as Ctrl-Z would.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end a command, so that everything is put back in order.
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

/// The wish of a terminal or a shell that the program stops for now.
pub struct Suspension(Signal);

impl Suspension {
    /// Takes the signal over: from now on it stops nothing by itself.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub fn new() -> io::Result<Self> {
        let stop = rustix::process::Signal::TSTP.as_raw();
        Ok(Self(signal(SignalKind::from_raw(stop))?))
    }

    /// Waits for it. Cancel safe.
    pub async fn wanted(&mut self) {
        self.0.recv().await;
    }
}
