//! Jobs that wait for jobs: three fetches, a calculation over them, a mail. They are registered in the order in which
//! they come to mind, which is here the wrong way round.
//!
//! ```text
//! cargo run --release --example weekly_report
//! ```

use std::{
    collections::BTreeMap,
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ax_probe::Probe;
use ax_scheduler::{JobContext, Scheduler};
use tokio::time::sleep;

/// What is fetched, and the figure that is there.
pub const SOURCES: [(&str, u64); 3] = [("ads", 20), ("sales", 700), ("stock", 3)];

/// Where the fetches put their figures.
type Figures = Arc<Mutex<BTreeMap<&'static str, u64>>>;

async fn fetch(
    source: &'static str,
    figure: u64,
    into: Figures,
    fails: bool,
) -> Result<(), String> {
    sleep(Duration::from_millis(10 + figure)).await;
    if fails {
        return Err(format!("{source} does not answer"));
    }
    into.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(source, figure);
    Ok(())
}

/// Makes the report and mails it; the source `fails`, if there is one, does not answer. Returns what the mail says.
///
/// # Errors
///
/// When a job is refused, or one on which the mail depends fails: the error has the path of the reason.
pub async fn run(fails: Option<&str>) -> Result<String, Box<dyn Error + Send + Sync>> {
    let ax = Scheduler::new();
    let figures = Figures::default();
    let report = Arc::new(Mutex::new(0));

    let written = Arc::clone(&report);
    let mail = ax
        .job("mail_report", move |_: JobContext| async move {
            let total = *written.lock().unwrap_or_else(PoisonError::into_inner);
            Ok::<_, String>(format!("this week: {total}"))
        })
        .after(["report"])
        .submit()?;

    let fetched = Arc::clone(&figures);
    let calculate = move |_: JobContext| async move {
        let figures = fetched.lock().unwrap_or_else(PoisonError::into_inner);
        *report.lock().unwrap_or_else(PoisonError::into_inner) = figures.values().sum();
        Ok::<_, String>(())
    };
    ax.job("calc_report", calculate)
        .named("report")
        .after(SOURCES.map(|(source, _)| source))
        .priority(70)
        .timeout(Duration::from_secs(5))
        .submit()?;

    for (source, figure) in SOURCES {
        let (into, fails) = (Arc::clone(&figures), fails == Some(source));
        ax.job("fetch", move |_: JobContext| {
            fetch(source, figure, into, fails)
        })
        .named(source)
        .submit()?;
    }
    let sent = mail.await?;
    ax.shutdown().await;
    Ok(sent)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let _probe = Probe::builder("weekly-report").install()?;
    println!("{}", run(None).await?);
    if let Err(error) = run(Some("stock")).await {
        println!("without the stock: {error}");
    }
    Ok(())
}
