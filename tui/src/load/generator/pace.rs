//! When to send: the schedule, and a timer that is fine enough for it.

use std::{
    io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use ax_wire::session::Arrivals;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// A timer of the kernel inside the runtime. Tokio's own has steps of a millisecond, which would send ten requests at a
/// time at 10,000 a second.
pub struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    #[expect(
        deprecated,
        reason = "its successor is unsafe, for descriptors that may be closed meanwhile: this one is owned"
    )]
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self(AsyncFd::new(timer)?))
    }

    /// Cancel safe. A span of nothing ends at once.
    pub async fn sleep(&self, span: Duration) -> io::Result<()> {
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let setting = Itimerspec {
            it_interval: zero,
            it_value: Timespec {
                tv_sec: span.as_secs().cast_signed(),
                // All zero would switch it off.
                tv_nsec: i64::from(span.subsec_nanos()).max(1),
            },
        };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &setting)?;
        loop {
            let mut ready = self.0.readable().await?;
            let mut count = [0; 8];
            match ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut count)?)) {
                Ok(read) => return read.map(|_| ()),
                Err(_would_block) => {}
            }
        }
    }
}

/// The intended send times of one thread, from the beginning of a phase on.
pub struct Schedule {
    arrivals: Arrivals,
    /// Between two requests of all threads together.
    distance_s: f64,
    thread: u32,
    threads: u32,
    count: u64,
    /// Of the last one, where they come at random.
    at_s: f64,
    random: fastrand::Rng,
}

impl Schedule {
    pub fn new(arrivals: Arrivals, rate_per_s: f64, thread: u32, threads: u32) -> Self {
        Self {
            arrivals,
            distance_s: 1.0 / rate_per_s,
            thread,
            threads,
            count: 0,
            at_s: 0.0,
            // The same in each session, so that two sessions of one plan have the same bursts.
            random: fastrand::Rng::with_seed(u64::from(thread) + 1),
        }
    }

    /// The offset of the next one.
    pub fn next_offset(&mut self) -> Duration {
        let number = self.count * u64::from(self.threads) + u64::from(self.thread);
        self.count += 1;
        let at_s = match self.arrivals {
            Arrivals::Poisson => {
                // Each thread has its share of the rate; thinned streams of independent arrivals add up to one.
                let mean = self.distance_s * f64::from(self.threads);
                self.at_s -= mean * (1.0 - self.random.f64()).ln();
                self.at_s
            }
            Arrivals::Uniform | Arrivals::Other => number as f64 * self.distance_s,
        };
        Duration::try_from_secs_f64(at_s).unwrap_or(Duration::MAX / 4)
    }
}

/// How long from `earlier` to `later`; nothing where that is the other way round.
pub fn between_ns(earlier: Instant, later: Instant) -> u64 {
    super::ns(later.saturating_duration_since(earlier))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_one_even_schedule() {
        let mut offsets: Vec<Duration> = (0..3)
            .flat_map(|thread| {
                let mut schedule = Schedule::new(Arrivals::Uniform, 1_000.0, thread, 3);
                (0..100)
                    .map(move |_| schedule.next_offset())
                    .collect::<Vec<_>>()
            })
            .collect();
        offsets.sort();
        for (number, offset) in offsets.iter().enumerate() {
            let expected = number as f64 / 1_000.0;
            assert!((offset.as_secs_f64() - expected).abs() < 1e-6);
        }
    }

    #[test]
    fn random_arrivals_have_the_rate_and_are_the_same_each_time() {
        let mut schedule = Schedule::new(Arrivals::Poisson, 500.0, 0, 2);
        let mut again = Schedule::new(Arrivals::Poisson, 500.0, 0, 2);
        let offsets: Vec<_> = (0..20_000).map(|_| schedule.next_offset()).collect();
        let last = offsets.last().expect("has some").as_secs_f64();
        assert!((20_000.0 / last - 250.0).abs() < 10.0, "half of 500/s each");
        assert!(offsets.is_sorted());
        assert!(offsets.iter().all(|offset| *offset == again.next_offset()));
    }
}
