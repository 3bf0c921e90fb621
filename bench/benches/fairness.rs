//! F34: what age and turns do for low priorities, and what they cost the high ones. Under paused time, so that every
//! run of it gives the same figures on every machine.
//!
//! A lane of limit 10 with jobs of 2 ms: 5,000 a second. For two minutes both priorities come at random: the high one at
//! 92 % of that on average, in waves of 20 s (far above what the lane can do, then far below), the low one at 8 %; a low
//! job that has not begun after 10 s is given up. So everything could be done in the long run, and strict priority still
//! loses four of ten low jobs.
//!
//! Without waves, at 97 % and 8 %, more is offered than can be done: what the low ones get is what the high ones lose, and
//! their queue grows for as long as the load lasts, in whatever order. That case is told and has no budget.

use std::{
    collections::VecDeque,
    convert::Infallible,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use ax_bench::{Budget, Table};
use ax_scheduler::{Ageing, JobHandle, JobState, Scheduler};
use tokio::{
    runtime::Builder,
    time::{Instant, sleep, sleep_until},
};

const LIMIT: usize = 10;
const JOB: Duration = Duration::from_millis(2);
const CAPACITY_PER_MS: f64 = 5.0;
const LOAD: Duration = Duration::from_mins(2);
const WAVE: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(10);

/// Shares of what the lane can do.
#[derive(Clone, Copy)]
struct Offered {
    high: f64,
    low: f64,
    /// How far the high rate swings around its mean, as a share of it.
    swing: f64,
}

struct Outcome {
    /// Share of the low ones that finished, in percent.
    low_finished: f64,
    /// Mean time from submit to end of a high one, in milliseconds.
    high_ms: f64,
    /// The same of a low one that finished.
    low_ms: f64,
}

#[derive(Default)]
struct Total {
    jobs: AtomicU64,
    micros: AtomicU64,
}

impl Total {
    fn mean_ms(&self) -> f64 {
        self.micros.load(Relaxed) as f64 / self.jobs.load(Relaxed) as f64 / 1_000.0
    }
}

/// How many arrive in a millisecond: exponential gaps on average `per_ms` apart.
struct Arrivals {
    per_ms: f64,
    next_ms: f64,
    random: fastrand::Rng,
}

impl Arrivals {
    fn new(per_ms: f64, seed: u64) -> Self {
        Self {
            per_ms,
            next_ms: 0.0,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    fn until(&mut self, now_ms: f64) -> usize {
        let mut count = 0;
        while self.next_ms < now_ms {
            self.next_ms -= (1.0 - self.random.f64()).ln() / self.per_ms;
            count += 1;
        }
        count
    }
}

async fn run(ageing: Option<Ageing>, turn_every: Option<u32>, offered: Offered) -> Outcome {
    let ax = Scheduler::new();
    let mut lane = ax.lane("fairness").limit(LIMIT).capacity(1_000_000);
    if let Some(ageing) = ageing {
        lane = lane.ageing(ageing);
    }
    if let Some(every) = turn_every {
        lane = lane.turn_every(every);
    }
    let lane = lane.open().expect("opens");
    let totals = [Arc::<Total>::default(), Arc::default()];
    let submit = |class: usize| {
        let total = Arc::clone(&totals[class]);
        let began = Instant::now();
        let job = ax.job("fairness", move |_| async move {
            sleep(JOB).await;
            let micros = began.elapsed().as_micros() as u64;
            total.micros.fetch_add(micros, Relaxed);
            total.jobs.fetch_add(1, Relaxed);
            Ok::<_, Infallible>(())
        });
        let job = job.lane(&lane).priority([80, 30][class]);
        job.submit().expect("room")
    };
    let begin = Instant::now();
    let mut high = Arrivals::new(offered.high * CAPACITY_PER_MS, 7);
    let mut low = Arrivals::new(offered.low * CAPACITY_PER_MS, 11);
    let mut waiting = VecDeque::new();
    let mut offered_low = 0;
    for ms in 1..=LOAD.as_millis() as u64 {
        sleep_until(begin + Duration::from_millis(ms)).await;
        // Waves: above what the lane can do for the first half of each, below it for the second.
        let first_half = ms % WAVE.as_millis() as u64 * 2 < WAVE.as_millis() as u64;
        let swing = if first_half {
            offered.swing
        } else {
            -offered.swing
        };
        high.per_ms = offered.high * (1.0 + swing) * CAPACITY_PER_MS;
        for _ in 0..high.until(ms as f64) {
            drop(submit(0));
        }
        for _ in 0..low.until(ms as f64) {
            offered_low += 1;
            waiting.push_back((Instant::now(), submit(1)));
        }
        give_up(&mut waiting);
    }
    // What is there at the end may finish, or is given up in its time.
    while lane.counts().pending + lane.counts().running > 0 {
        sleep(JOB).await;
        give_up(&mut waiting);
    }
    let finished = totals[1].jobs.load(Relaxed) as f64;
    Outcome {
        low_finished: 100.0 * finished / f64::from(offered_low),
        high_ms: totals[0].mean_ms(),
        low_ms: totals[1].mean_ms(),
    }
}

/// Cancels what has waited for too long.
fn give_up(waiting: &mut VecDeque<(Instant, JobHandle<()>)>) {
    while let Some((since, job)) = waiting.front()
        && since.elapsed() >= PATIENCE
    {
        if job.status() == JobState::Ready {
            job.cancel();
        }
        waiting.pop_front();
    }
}

fn simulate(ageing: Option<Ageing>, turn_every: Option<u32>, offered: Offered) -> Outcome {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime
        .expect("builds")
        .block_on(run(ageing, turn_every, offered))
}

fn main() -> ExitCode {
    let mut table = Table::new("fairness");
    let waves = Offered {
        high: 0.92,
        low: 0.08,
        swing: 0.6,
    };
    let steady = Offered {
        high: 0.97,
        low: 0.08,
        swing: 0.0,
    };
    // A low job overtakes after 6.5 s what has just come, in time for its patience.
    let ageing = Some(Ageing::step(Duration::from_millis(130)));
    let turns = Some(50);
    let variants = [
        ("strict", None, None),
        ("turns", None, turns),
        ("ageing", ageing, None),
        ("ageing and turns", ageing, turns),
    ];
    for (load, offered) in [("waves", waves), ("steady overload", steady)] {
        let mut strict_ms = None;
        for (name, ageing, turn) in variants {
            let outcome = simulate(ageing, turn, offered);
            let strict_ms = *strict_ms.get_or_insert(outcome.high_ms);
            let kept = load == "waves" && ageing.is_some();
            let (finished, grown) = if kept {
                (Budget::AtLeast(99.7), Budget::AtMost(1.5))
            } else {
                (Budget::None, Budget::None)
            };
            let mut row = |what: &str, value, budget| {
                table.row(&format!("{load}, {name}: {what}"), value, budget);
            };
            row("low finished, %", outcome.low_finished, finished);
            row("high mean, ms", outcome.high_ms, Budget::None);
            row("high mean over strict", outcome.high_ms / strict_ms, grown);
            row("low mean, ms", outcome.low_ms, Budget::None);
        }
    }
    table.finish()
}
