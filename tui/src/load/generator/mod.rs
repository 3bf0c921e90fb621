//! The own generator: requests over HTTP/1.1 on a schedule that answers do not move (an *open loop*).
//!
//! Each request has an intended send time, from which its latency is counted. A tool that waits for an answer before it
//! sends again sends nothing while the service stands still, and so never measures the wait of those who would have come
//! meanwhile.
//!
//! ```text
//!  thread ax-load-N (a runtime of its own)
//!    timer --due--> in flight < bound? --yes--> task: idle connection or a new one -> send -> read -> tally
//!                                      --no---> counted as dropped, never made up for
//! ```
//!
//! It has threads of its own, so that nothing else of `ax-top` makes it late.

mod connection;
mod pace;
mod run_in;
mod tally;
pub mod target;

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use ax_wire::{
    LatencyHistogram,
    session::{Arrivals, Client},
};
use tokio::{
    runtime::Builder,
    sync::{mpsc, oneshot},
};

use self::{
    connection::Pool,
    pace::{Schedule, Timer},
    run_in::RunIn,
    tally::Tally,
    target::Target,
};

pub use self::connection::{SendError, probe};

/// How many task polls go by before the timer and the sockets are looked at: with tokio's 61, a burst of answers would
/// make the next request late.
const EVENT_INTERVAL: u32 = 8;

/// Slices of a step: enough to see a trend and to draw again from.
const SLICES: u32 = 20;
const SHORTEST_SLICE: Duration = Duration::from_millis(100);
const LONGEST_SLICE: Duration = Duration::from_secs(1);

/// How often a thread looks whether a run-in that lasts longer than planned is over.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How the load is made.
#[derive(Clone, Debug)]
pub struct Settings {
    pub arrivals: Arrivals,
    /// Most requests under way at once, all threads together.
    pub max_in_flight: u64,
    pub threads: u32,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// Load of one rate for a time.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    pub rate_per_s: f64,
    /// At its beginning, not counted: connections are made, queues fill to their level. It lasts longer where the first
    /// answers take longer.
    pub run_in: Duration,
    /// What follows and is counted.
    pub length: Duration,
}

/// What goes on right now, for whoever watches.
#[derive(Debug, Default)]
pub struct Live {
    pub in_flight: AtomicU64,
    /// Since the generator started.
    pub answers: AtomicU64,
    pub errors: AtomicU64,
    pub connect_errors: AtomicU64,
    pub dropped: AtomicU64,
    /// Latency of what ended since somebody last took it.
    latency: Mutex<LatencyHistogram>,
    /// Nobody wants the rest of the phase.
    stop: AtomicBool,
}

impl Live {
    fn latency(&self) -> MutexGuard<'_, LatencyHistogram> {
        self.latency.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the latency of what ended since the last time.
    pub fn take_latency(&self) -> LatencyHistogram {
        std::mem::take(&mut self.latency())
    }
}

/// A running generator; its threads end with it.
pub struct Generator {
    workers: Vec<mpsc::UnboundedSender<Order>>,
    live: Arc<Live>,
}

/// A phase for one thread.
struct Order {
    phase: Phase,
    /// When the first request of all threads is to be sent.
    begin: Instant,
    run_in: Arc<RunIn>,
    done: oneshot::Sender<Tally>,
}

/// What a phase came to.
#[derive(Debug)]
pub struct Outcome {
    pub client: Client,
    /// The counted part.
    pub began_unix_ns: u64,
    pub ended_unix_ns: u64,
}

impl Generator {
    /// Starts its threads.
    ///
    /// # Errors
    ///
    /// The system refuses a thread, a runtime or a timer.
    pub fn start(target: &Arc<Target>, settings: &Settings) -> io::Result<Self> {
        let live = Arc::new(Live::default());
        let workers = (0..settings.threads)
            .map(|index| start_worker(index, target, settings, &live))
            .collect::<io::Result<_>>()?;
        Ok(Self { workers, live })
    }

    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// Makes load, then waits for the answers that are still out, as long as each may take.
    ///
    /// # Errors
    ///
    /// A thread of the generator has died.
    pub async fn run(&self, phase: Phase) -> io::Result<Outcome> {
        self.live.stop.store(false, Relaxed);
        // A moment for every thread to take its order.
        let begin = Instant::now() + Duration::from_millis(5);
        let first_unix_ns = crate::event::now_unix_ns() + 5_000_000;
        let run_in = RunIn::new(begin, phase.run_in);
        let mut parts = Vec::new();
        for worker in &self.workers {
            let (done, part) = oneshot::channel();
            let order = Order {
                phase,
                begin,
                run_in: Arc::clone(&run_in),
                done,
            };
            worker.send(order).map_err(|_| dead())?;
            parts.push(part);
        }
        let mut whole: Option<Tally> = None;
        for part in parts {
            let part = part.await.map_err(|_| dead())?;
            match &mut whole {
                None => whole = Some(part),
                Some(whole) => whole.merge(&part),
            }
        }
        let whole = whole.ok_or_else(dead)?;
        let length_ns = ns(whole.measured());
        let lasted = run_in
            .over()
            .unwrap_or(begin)
            .saturating_duration_since(begin);
        let began_unix_ns = first_unix_ns + ns(lasted);
        Ok(Outcome {
            client: whole.into_client(began_unix_ns),
            began_unix_ns,
            ended_unix_ns: began_unix_ns + length_ns,
        })
    }

    /// Makes a phase that runs end now, without waiting for answers.
    pub fn stop(&self) {
        self.live.stop.store(true, Relaxed);
    }
}

pub fn ns(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

fn dead() -> io::Error {
    io::Error::other("a thread of the load generator has died")
}

fn start_worker(
    index: u32,
    target: &Arc<Target>,
    settings: &Settings,
    live: &Arc<Live>,
) -> io::Result<mpsc::UnboundedSender<Order>> {
    let (orders, mut ordered) = mpsc::unbounded_channel::<Order>();
    let runtime = Builder::new_current_thread()
        .enable_all()
        .event_interval(EVENT_INTERVAL)
        .build()?;
    let (settings, live) = (settings.clone(), Arc::clone(live));
    let target = Arc::clone(target);
    thread::Builder::new()
        .name(format!("ax-load-{index}"))
        .spawn(move || {
            runtime.block_on(async {
                let Ok(timer) = Timer::new() else { return };
                let worker = Worker {
                    pool: Pool::new(target, settings.timeout),
                    index,
                    timer,
                    settings,
                    live,
                };
                while let Some(order) = ordered.recv().await {
                    let tally = worker.run(&order).await;
                    // Nobody waits for it when the session has ended.
                    let _ = order.done.send(tally);
                }
            });
        })?;
    Ok(orders)
}

/// One thread.
struct Worker {
    index: u32,
    pool: Arc<Pool>,
    timer: Timer,
    settings: Settings,
    live: Arc<Live>,
}

impl Worker {
    async fn run(&self, order: &Order) -> Tally {
        let Order {
            phase,
            begin,
            run_in,
            ..
        } = order;
        let slice = (phase.length / SLICES).clamp(SHORTEST_SLICE, LONGEST_SLICE);
        let slice = slice.min(phase.length);
        let tally = tally::shared(run_in, phase.length, slice);
        let most = (self.settings.max_in_flight / u64::from(self.settings.threads)).max(1);
        let starved_before = starved_ns();
        let mut schedule = Schedule::new(
            self.settings.arrivals,
            phase.rate_per_s,
            self.index,
            self.settings.threads,
        );
        let mut next = *begin + schedule.next_offset();
        loop {
            let now = Instant::now();
            run_in.look(now);
            let end = run_in.over().map(|over| over + phase.length);
            while next <= now && end.is_none_or(|end| next < end) {
                self.send(next, most, run_in, &tally);
                next = *begin + schedule.next_offset();
            }
            let slice_ends = tally::lock(&tally).tick(now);
            if self.live.stop.load(Relaxed) {
                run_in.end(now);
                tally::lock(&tally).cut(now);
                break;
            }
            if end.is_some_and(|end| now >= end) {
                break;
            }
            let look = end.unwrap_or_else(|| run_in.earliest().max(now + LOOK_EVERY));
            let wake = next.min(slice_ends.unwrap_or(look)).min(look);
            if wake > now && self.timer.sleep(wake - now).await.is_err() {
                break;
            }
        }
        let starved = starved_ns().zip(starved_before);
        let busy = Instant::now().saturating_duration_since(*begin);
        tally::lock(&tally).starved(starved.map(|(after, before)| after - before), busy);
        self.drain(&tally).await;
        // What is still under way after a stop goes on with a tally that nobody reads.
        let unread = Tally::new(Arc::clone(run_in), phase.length, slice);
        std::mem::replace(&mut *tally::lock(&tally), unread)
    }

    /// Sends one request, unless too many are under way.
    fn send(&self, intended: Instant, most: u64, run_in: &Arc<RunIn>, tally: &Arc<Mutex<Tally>>) {
        if !tally::lock(tally).begin(intended, most) {
            self.live.dropped.fetch_add(1, Relaxed);
            return;
        }
        self.live.in_flight.fetch_add(1, Relaxed);
        let waited_for = run_in.sends(intended).then(|| Arc::clone(run_in));
        let (pool, live) = (Arc::clone(&self.pool), Arc::clone(&self.live));
        let tally = Arc::clone(tally);
        tokio::spawn(async move {
            let answer = pool.exchange().await;
            let ended_at = Instant::now();
            live.in_flight.fetch_sub(1, Relaxed);
            live.latency()
                .record_ns(pace::between_ns(intended, ended_at));
            match &answer.outcome {
                Ok(()) => live.answers.fetch_add(1, Relaxed),
                Err(SendError::Connect(_)) => {
                    live.connect_errors.fetch_add(1, Relaxed);
                    live.errors.fetch_add(1, Relaxed)
                }
                Err(_) => live.errors.fetch_add(1, Relaxed),
            };
            tally::lock(&tally).end(intended, ended_at, answer);
            if let Some(run_in) = waited_for {
                run_in.ended();
            }
        });
    }

    /// Waits for what is under way: each has its own timeout.
    async fn drain(&self, tally: &Mutex<Tally>) {
        while tally::lock(tally).in_flight() > 0 && !self.live.stop.load(Relaxed) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// How long this thread could run and got no CPU, since it started. `None` where the kernel does not say.
fn starved_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests;
