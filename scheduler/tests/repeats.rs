//! F38: schedulers and lanes that are made again and again are noticed, and said once. In a process of its own: what is
//! watched is the process's.

use std::{
    io,
    sync::{Arc, Mutex},
};

use ax_scheduler::Scheduler;
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// The lines since the last call that hold `text`.
    fn take(&self, text: &str) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().expect("no panic"));
        let written = String::from_utf8(bytes).expect("text");
        let lines = written.lines().filter(|line| line.contains(text));
        lines.map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_made_again_and_again_is_said_once_with_its_place() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(log.clone());
    let _guard = tracing::subscriber::set_default(subscriber.finish());

    // A handler that makes its own scheduler; line numbers stand beside the call.
    let line = line!() + 2;
    for _ in 0..50 {
        let ax = Scheduler::new();
        drop(ax.lane("of a handler").open().expect("new"));
    }
    let said = log.take("schedulers are made again and again");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains(&format!("repeats.rs:{line}:")), "{said:?}");

    let ax = Scheduler::new();
    let line = line!() + 2;
    for _ in 0..500 {
        drop(ax.lane("looked up").open().expect("the same"));
    }
    let said = log.take("a lane is opened again and again");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains(&format!("repeats.rs:{line}:")), "{said:?}");

    let first = ax.lane("twice").open().expect("new");
    let other = Scheduler::new();
    for ax in [&other, &Scheduler::new()] {
        drop(ax.lane("twice").open().expect("new"));
    }
    let said = log.take("a lane of one name");
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0].matches("repeats.rs:").count(), 2, "{said:?}");
    drop(first);
}
