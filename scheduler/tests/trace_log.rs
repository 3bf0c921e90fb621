//! The spans of jobs in `tracing`: alone in its process. `tracing` asks a call site that is met for the first time whether
//! it is wanted by the subscriber of the thread that met it; a test beside this one, with none, would answer no for all.

use std::{
    io,
    sync::{Arc, Mutex},
};

use ax_scheduler::{JobContext, Scheduler};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("whole").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn what_a_job_logs_names_the_job_and_its_trace() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .finish();
    let _subscribed = tracing::subscriber::set_default(subscriber);
    let ax = Scheduler::new();
    let job = ax.job("logs", |_: JobContext| async {
        tokio::task::yield_now().await;
        tracing::info!("inside");
        Ok::<_, io::Error>(())
    });
    let handle = job.submit().expect("is taken");
    let (id, trace) = (handle.id(), handle.trace());
    handle.await.expect("succeeds");
    tracing::info!("outside");
    ax.shutdown().await;
    let text = String::from_utf8(log.0.lock().expect("whole").clone()).expect("text");
    let line = |word: &str| {
        text.lines()
            .find(|line| line.contains(word))
            .map(str::to_owned)
    };
    let inside = line("inside").expect("was logged");
    for part in ["job_type", "logs", &id.to_string(), &trace.to_string()] {
        assert!(inside.contains(part), "{inside}");
    }
    assert!(!line("outside").expect("was logged").contains("logs"));
}
