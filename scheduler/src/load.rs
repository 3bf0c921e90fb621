//! Steps the arrival rate of a job type, to see in a test or bench where a lane stops keeping up.
//!
//! The load is open loop: jobs come on schedule, whatever became of those before them, as the world sends them. So a lane
//! that falls behind shows it as waiting and as jobs refused, and not as a load that politely slows down. A job's wait
//! counts from the instant at which it was to come; one that the driver could not submit in time is not thereby fast.
//!
//! Works under paused time, where every figure is exact. Tokio's timer has a grain of a millisecond: at more than 1,000
//! jobs a second several come at once, and a wait is up to a millisecond long even in an idle lane.
//!
//! ```
//! use std::time::Duration;
//! use ax_scheduler::{Scheduler, load::Load};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ax = Scheduler::new();
//! // Four at once of 20 ms each: 200 a second at most.
//! let lane = ax.lane("api").limit(4).open()?;
//! let load = Load::between(50.0, 400.0, 8).step_for(Duration::from_secs(5));
//! let report = load.drive(&ax, &lane, "lookup", |_| async {
//!     tokio::time::sleep(Duration::from_millis(20)).await;
//!     Ok::<_, std::io::Error>(())
//! });
//! let report = report.await;
//! for step in &report.steps {
//!     println!("{step}");
//! }
//! let knee = report.knee().expect("the first step keeps up");
//! assert_eq!(knee.offered_per_s, 200.0);
//! # Ok(())
//! # }
//! ```

use std::{
    error::Error,
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use ax_probe::clock::duration_ns;
use ax_wire::LatencyHistogram;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

use crate::{JobContext, Lane, Scheduler, time};

/// How long a step lasts, unless set.
pub const DEFAULT_STEP: Duration = Duration::from_secs(10);

/// The share of the offered load that a step must achieve to be good.
pub const GOOD_SHARE: f64 = 0.95;

/// The growth of the queue that a good step may have, as a share of the offered load: below it a queue that merely
/// swings could not be told from one that grows.
pub const GOOD_GROWTH: f64 = 0.02;

/// Looks at the lane's queue in a step.
const LOOKS: u32 = 20;

/// From one look at what still runs to the next, between two steps.
const SETTLE: Duration = Duration::from_millis(10);

/// What load to drive: see the [module](self).
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    rates: Vec<f64>,
    step: Duration,
    warm_up: Duration,
}

impl Load {
    /// One step for each of these rates, in jobs per second. A rate that is not above 0 makes a step without jobs.
    #[must_use]
    pub fn steps(per_second: impl IntoIterator<Item = f64>) -> Self {
        Self {
            rates: per_second.into_iter().collect(),
            step: DEFAULT_STEP,
            warm_up: Duration::ZERO,
        }
    }

    /// So many steps from one rate to another, at equal distances.
    #[must_use]
    pub fn between(from: f64, to: f64, steps: u32) -> Self {
        let gaps = f64::from(steps.saturating_sub(1).max(1));
        Self::steps((0..steps).map(|step| from + (to - from) * f64::from(step) / gaps))
    }

    /// How long each step lasts: [`DEFAULT_STEP`] unless set.
    #[must_use]
    pub fn step_for(mut self, step: Duration) -> Self {
        self.step = step;
        self
    }

    /// How long the first rate is driven, unmeasured, before the first step: not at all unless set.
    #[must_use]
    pub fn warm_up(mut self, warm_up: Duration) -> Self {
        self.warm_up = warm_up;
        self
    }

    /// Drives it: jobs of this type, whose code is `body`, in this lane. A job's own settings are those of the lane.
    ///
    /// Between two steps it waits until the jobs of the step have ended, for as long as the step took at most; what is
    /// left then is a burden of the next step, and is told ([`LoadStep::unfinished`]).
    ///
    /// Cancel safe: dropped, it submits no more; what is queued stays so.
    pub async fn drive<F, Fut, T, E>(
        &self,
        ax: &Scheduler,
        lane: &Lane,
        job_type: &str,
        body: F,
    ) -> LoadReport
    where
        F: Fn(JobContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        let body = Arc::new(body);
        let submit = |tally: &Arc<Tally>, intended_ns: u64| {
            let (body, tally) = (Arc::clone(&body), Arc::clone(tally));
            let mut measured = Measured::new(tally, intended_ns);
            let job = ax.job(job_type, move |context| {
                measured.began();
                let body = body(context);
                async move {
                    let outcome = body.await;
                    measured.ended_well = outcome.is_ok();
                    drop(measured);
                    outcome
                }
            });
            job.lane(lane).submit().is_ok()
        };
        if let Some(rate) = self.rates.first() {
            self.step(*rate, self.warm_up, lane, &submit).await;
        }
        let mut steps = Vec::with_capacity(self.rates.len());
        for rate in &self.rates {
            steps.push(self.step(*rate, self.step, lane, &submit).await);
        }
        LoadReport { steps }
    }

    async fn step(
        &self,
        rate: f64,
        lasting: Duration,
        lane: &Lane,
        submit: &impl Fn(&Arc<Tally>, u64) -> bool,
    ) -> LoadStep {
        let (began, began_ns) = (Instant::now(), time::now_ns());
        let tally = Arc::new(Tally::new(began_ns.saturating_add(duration_ns(lasting))));
        let due = |number: u64| (rate > 0.0).then(|| Duration::from_secs_f64(number as f64 / rate));
        let mut queue = Slope::default();
        let (mut submitted, mut rejected, mut looks) = (0, 0, 0);
        loop {
            let arrival = due(submitted + rejected).filter(|due| *due < lasting);
            let look = (looks <= LOOKS).then(|| lasting * looks / LOOKS);
            let Some(next) = [arrival, look].into_iter().flatten().min() else {
                break;
            };
            if began.elapsed() < next {
                sleep_until(began + next).await;
            }
            // At one instant the look comes first: what comes at it belongs to the time after.
            if look == Some(next) {
                looks += 1;
                queue.add(next.as_secs_f64(), lane.counts().pending as f64);
            } else if submit(&tally, began_ns.saturating_add(duration_ns(next))) {
                submitted += 1;
            } else {
                rejected += 1;
            }
            // A driver that is behind lets the jobs run all the same.
            tokio::task::consume_budget().await;
        }
        let pending = lane.counts().pending;
        while tally.open() > 0 && began.elapsed() < lasting * 2 {
            sleep(SETTLE).await;
        }
        let figures = tally.figures.lock();
        let seconds = lasting.as_secs_f64();
        let per_s = |count: u64| {
            if seconds > 0.0 {
                count as f64 / seconds
            } else {
                0.0
            }
        };
        LoadStep {
            offered_per_s: rate.max(0.0),
            achieved_per_s: per_s(figures.in_time),
            submitted,
            rejected,
            // One that was refused has ended without having begun.
            failed: figures.failed.saturating_sub(rejected),
            unfinished: tally.open(),
            wait: LoadTimes::of(&figures.wait),
            run: LoadTimes::of(&figures.run),
            pending,
            pending_slope_per_s: queue.of(),
        }
    }
}

/// What came of a [`Load`].
#[derive(Clone, Debug, PartialEq)]
pub struct LoadReport {
    /// One for each rate.
    pub steps: Vec<LoadStep>,
}

impl LoadReport {
    /// The last good step before the first that is not: from there on the lane does not keep up. `None` where the first
    /// is not good.
    #[must_use]
    pub fn knee(&self) -> Option<&LoadStep> {
        self.steps.iter().take_while(|step| step.is_good()).last()
    }
}

/// One step of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadStep {
    /// Jobs that were to come per second.
    pub offered_per_s: f64,
    /// Jobs that ended well per second, within the step.
    pub achieved_per_s: f64,
    /// Jobs that the lane took.
    pub submitted: u64,
    /// Jobs that it refused.
    pub rejected: u64,
    /// Jobs that ended in another way: by an error, a timeout, a cancellation.
    pub failed: u64,
    /// Jobs that had not ended when the next step began.
    pub unfinished: u64,
    /// From when a job was to come to its start.
    pub wait: LoadTimes,
    /// From a job's start to its end.
    pub run: LoadTimes,
    /// Jobs queued in the lane at the end of the step.
    pub pending: u64,
    /// By how many per second they became more during the step: the slope of the line that fits them best.
    pub pending_slope_per_s: f64,
}

impl LoadStep {
    /// Whether the lane kept up: it refused nothing, achieved [`GOOD_SHARE`] of what was offered, and its queue did not
    /// grow by more than [`GOOD_GROWTH`] of it.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.rejected == 0
            && self.achieved_per_s >= self.offered_per_s * GOOD_SHARE
            && self.pending_slope_per_s <= self.offered_per_s * GOOD_GROWTH
    }
}

/// As one line.
impl fmt::Display for LoadStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "offered {:.1}/s, achieved {:.1}/s, wait p99 {:?}, run p99 {:?}, rejected {}, pending {} ({:+.1}/s)",
            self.offered_per_s,
            self.achieved_per_s,
            self.wait.p99,
            self.run.p99,
            self.rejected,
            self.pending,
            self.pending_slope_per_s
        )
    }
}

/// How long something took. Zeros where there was nothing; quantiles are exact to 1 %, in whole microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadTimes {
    /// How many were measured.
    pub count: u64,
    /// The median.
    pub p50: Duration,
    /// The 95th percentile.
    pub p95: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The longest.
    pub max: Duration,
}

impl LoadTimes {
    fn of(times: &LatencyHistogram) -> Self {
        let quantile = |quantile| {
            let ns = times.quantile_ns(quantile).unwrap_or_default();
            Duration::from_nanos(ns)
        };
        Self {
            count: times.count(),
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: Duration::from_nanos(times.max_ns().unwrap_or_default()),
        }
    }
}

/// What the jobs of a step leave behind.
struct Tally {
    figures: Mutex<Figures>,
    /// Jobs that have been made and have not ended.
    open: AtomicU64,
    ends_ns: u64,
}

#[derive(Default)]
struct Figures {
    wait: LatencyHistogram,
    run: LatencyHistogram,
    /// Ended well within the step.
    in_time: u64,
    failed: u64,
}

impl Tally {
    fn new(ends_ns: u64) -> Self {
        Self {
            figures: Mutex::default(),
            open: AtomicU64::new(0),
            ends_ns,
        }
    }

    fn open(&self) -> u64 {
        self.open.load(Relaxed)
    }
}

/// Goes with a job, and is dropped when it has ended in whichever way, or was refused.
struct Measured {
    tally: Arc<Tally>,
    intended_ns: u64,
    began_ns: Option<u64>,
    ended_well: bool,
}

impl Measured {
    fn new(tally: Arc<Tally>, intended_ns: u64) -> Self {
        tally.open.fetch_add(1, Relaxed);
        Self {
            tally,
            intended_ns,
            began_ns: None,
            ended_well: false,
        }
    }

    fn began(&mut self) {
        let now_ns = time::now_ns();
        self.began_ns = Some(now_ns);
        let waited_ns = now_ns.saturating_sub(self.intended_ns);
        self.tally.figures.lock().wait.record_ns(waited_ns);
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        let now_ns = time::now_ns();
        {
            let mut figures = self.tally.figures.lock();
            if let Some(began_ns) = self.began_ns {
                figures.run.record_ns(now_ns.saturating_sub(began_ns));
            }
            if !self.ended_well {
                figures.failed += 1;
            } else if now_ns <= self.tally.ends_ns {
                figures.in_time += 1;
            }
        }
        self.tally.open.fetch_sub(1, Relaxed);
    }
}

/// The slope of the line that fits points best, by least squares.
#[derive(Default)]
struct Slope {
    points: Vec<(f64, f64)>,
}

impl Slope {
    fn add(&mut self, x: f64, y: f64) {
        self.points.push((x, y));
    }

    fn of(&self) -> f64 {
        let count = self.points.len().max(1) as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| self.points.iter().map(of).sum::<f64>() / count;
        let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
        let both = |(x, y): &(f64, f64)| (x - mean_x) * (y - mean_y);
        let covariance: f64 = self.points.iter().map(both).sum();
        let squared = |(x, _): &(f64, f64)| (x - mean_x).powi(2);
        let variance: f64 = self.points.iter().map(squared).sum();
        if variance > 0.0 {
            covariance / variance
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_is_that_of_the_line_that_fits_best() {
        let mut slope = Slope::default();
        assert!(slope.of().abs() < 1e-9);
        slope.add(1.0, 5.0);
        assert!(slope.of().abs() < 1e-9, "one point has none");
        for (x, y) in [(2.0, 7.0), (3.0, 9.0), (4.0, 11.0)] {
            slope.add(x, y);
        }
        assert!((slope.of() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn rates_are_at_equal_distances() {
        assert_eq!(
            Load::between(100.0, 400.0, 4).rates,
            [100.0, 200.0, 300.0, 400.0]
        );
        assert_eq!(Load::between(100.0, 400.0, 1).rates, [100.0]);
        assert!(Load::between(100.0, 400.0, 0).rates.is_empty());
    }
}
