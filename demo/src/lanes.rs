//! The four lanes of the demo, and the jobs that go through them.

use std::{io::Write as _, net::SocketAddr, time::Duration};

use anyhow::Context as _;
use ax_scheduler::{JobContext, JobHandle, Lane, Scheduler, SubmitError};
use tokio::time::sleep;

use crate::{database::Database, partner};

/// Bytes that a report is made of: some tens of milliseconds of compressing-like work and a real file.
const REPORT_BYTES: usize = 4 * 1024 * 1024;

/// From one weekly report to the next: weeks are short here.
const WEEK: Duration = Duration::from_secs(6);

/// How long running jobs get to end once the service does: those of a fault may never.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);

/// The scheduler of the demo with its lanes open. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Lanes {
    scheduler: Scheduler,
    push: Lane,
    db: Lane,
    files: Lane,
    api: Lane,
    partner: partner::Client,
    database: Database,
}

impl Lanes {
    /// Opens the lanes. `partner` is where the external API listens.
    pub(crate) fn open(partner: SocketAddr) -> anyhow::Result<Self> {
        let scheduler = Scheduler::builder().shutdown_grace(SHUTDOWN_GRACE).build();
        let lane = |name: &str, limit: usize, capacity: usize, priority: u8, timeout_s: u64| {
            scheduler
                .lane(name)
                .limit(limit)
                .capacity(capacity)
                .priority(priority)
                .timeout(Duration::from_secs(timeout_s))
                .open()
                .with_context(|| format!("cannot open lane {name}"))
        };
        Ok(Self {
            push: lane("push", 20, 1_000, 80, 3)?,
            db: lane("db", 40, 2_000, 60, 10)?,
            files: lane("files", 5, 50, 30, 60)?,
            api: lane("api", 10, 200, 70, 8)?,
            partner: partner::Client::new(partner),
            database: Database::open()?,
            scheduler,
        })
    }

    /// The scheduler, for lanes and jobs beside these.
    pub(crate) fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Sends a push message to one device.
    pub(crate) fn send_push(&self) -> Result<JobHandle<()>, SubmitError> {
        self.scheduler
            .job("send_push", |_: JobContext| async {
                sleep(jittered_ms(4, 12)).await;
                anyhow::Ok(())
            })
            .lane(&self.push)
            .submit()
    }

    /// Writes an order down, and tells the customer from inside the job.
    pub(crate) fn save_order(&self) -> Result<JobHandle<()>, SubmitError> {
        let lanes = self.clone();
        self.scheduler
            .job("save_order", |_: JobContext| async move {
                lanes
                    .database
                    .insert_order(fastrand::u32(500..20_000))
                    .await?;
                // Inherits this job's trace; nobody waits for it.
                lanes.send_push()?;
                anyhow::Ok(())
            })
            .lane(&self.db)
            .submit()
    }

    /// Adds up the newest orders, in cents.
    pub(crate) fn read_orders(&self) -> Result<JobHandle<i64>, SubmitError> {
        let database = self.database.clone();
        self.scheduler
            .job("read_orders", |_: JobContext| async move {
                database.newest_orders_cents().await
            })
            .lane(&self.db)
            .submit()
    }

    /// Asks the partner for a rate.
    pub(crate) fn fetch_rate(&self) -> Result<JobHandle<String>, SubmitError> {
        let partner = self.partner.clone();
        self.scheduler
            .job(
                "fetch_rate",
                |_: JobContext| async move { partner.rate().await },
            )
            .lane(&self.api)
            .submit()
    }

    /// Renders a report into a file, off the workers.
    pub(crate) fn render_report(&self) -> Result<JobHandle<usize>, SubmitError> {
        self.scheduler
            .job("render_report", |_: JobContext| async {
                ax_probe::spawn_blocking("write_report", write_report).await?
            })
            .lane(&self.files)
            .submit()
    }

    /// Submits a report again and again, whose steps wait for each other: the figures are loaded, then summed up and
    /// drawn, then mailed.
    pub(crate) async fn report_weekly(self) {
        for week in 1.. {
            let lanes = self.clone();
            // Each in a trace of its own.
            let submitted =
                ax_probe::spawn(
                    "weekly_report",
                    async move { lanes.submit_weekly_report(week) },
                );
            // A lane that is full refuses it: the next one may have more luck.
            if let Ok(Err(SubmitError::Closed { .. })) = submitted.await {
                return;
            }
            sleep(WEEK).await;
        }
    }

    fn submit_weekly_report(&self, week: u32) -> Result<(), SubmitError> {
        let steps: [(&str, u64, &[&str]); 4] = [
            ("load_sales", 2_500, &[]),
            ("sum_sales", 400, &["load_sales"]),
            ("draw_sales", 900, &["load_sales"]),
            ("mail_sales", 300, &["sum_sales", "draw_sales"]),
        ];
        for (step, takes_ms, after) in steps {
            let job = self.scheduler.job(step, move |_: JobContext| async move {
                sleep(jittered_ms(takes_ms, takes_ms + takes_ms / 4)).await;
                anyhow::Ok(())
            });
            let of_week = |step: &str| format!("{step}-{week}");
            let after: Vec<_> = after.iter().map(|step| of_week(step)).collect();
            // Nobody waits for it here: the last step is what the others are for.
            drop(
                job.lane(&self.files)
                    .named(&of_week(step))
                    .after(&after)
                    .submit()?,
            );
        }
        Ok(())
    }

    /// Lets what runs end, within the scheduler's grace.
    pub(crate) async fn shutdown(&self) {
        self.scheduler.shutdown().await;
    }
}

fn jittered_ms(from: u64, to: u64) -> Duration {
    Duration::from_micros(fastrand::u64(from * 1_000..to * 1_000))
}

/// Fills a temporary file and returns how many bytes it took.
fn write_report() -> anyhow::Result<usize> {
    let mut file = tempfile::tempfile().context("cannot make a temporary file")?;
    let mut written = 0;
    let mut state = fastrand::u64(..);
    let mut chunk = vec![0_u8; 64 * 1024];
    while written < REPORT_BYTES {
        for byte in &mut chunk {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
        file.write_all(&chunk).context("cannot write the report")?;
        written += chunk.len();
    }
    Ok(written)
}
