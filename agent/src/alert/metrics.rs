//! The figures that a rule can look at: pure functions of a window and the time.

mod figures;

use ax_wire::alert::Unit;

pub(super) use self::figures::p99s;
use self::figures::{
    backlog_growth, blocking_pools, cpu_share, culprit, failure_shares, lag_p99_ns, lag_spike_ns,
    memory_growth, of_downstreams, of_lanes, open_files_share, rejections, retry_share, rss_bytes,
    stuck_slots_ns, tasks, telemetry_dropped, throughput,
};
use super::words;
use crate::{
    clock::Now,
    text::duration,
    window::{Tallies, Window},
};

/// The share of a lag spike that a stall must account for to be its cause.
const SPIKE_SHARE: f64 = 0.8;

/// A figure of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// 99th percentile of event-loop lag over the last 5 s.
    LagP99,
    /// The newest event-loop lag.
    LagNow,
    /// The largest lag or stall of the last 2 s.
    LagSpike,
    /// By how much each lane's queue has grown over the last 30 s, where ten jobs or more wait.
    BacklogGrowth,
    /// Jobs that wait in each lane.
    Pending,
    /// 99th percentile of the wait in each lane's queue, over the last minute.
    QueueWaitP99,
    /// Jobs that each lane ended, over the last 10 s.
    Throughput,
    /// Jobs that each lane refused, over the last 10 s.
    Rejections,
    /// For how long all slots of a lane have been taken, jobs have waited, and none has ended.
    StuckSlots,
    /// The share of attempts of each lane, over the last 30 s, that did not end their job.
    RetryShare,
    /// 99th percentile of the run time of each job type, task and route, over the last minute.
    RunP99,
    /// The share of each type's ends, over the last 30 s, that were no success.
    FailureShare,
    /// 99th percentile of the latency of each downstream, over the last minute.
    DownstreamP99,
    /// Callers that wait for a client or a connection of each downstream.
    DownstreamWaiting,
    /// How long each runtime's blocking pool lets a closure wait.
    BlockingPoolLag,
    /// Tasks alive, in all runtimes.
    Tasks,
    /// CPU used in the last second, as a share of what the process may use.
    CpuShare,
    /// Resident memory.
    Rss,
    /// What resident memory has gained in 10 minutes, where it has risen in each two of them.
    MemoryGrowth,
    /// Open files, as a share of the process's limit.
    OpenFilesShare,
    /// For how long a connected service has sent no sample.
    Silence,
    /// For how long a service has been gone without a goodbye.
    Lost,
    /// Frames, events and lag points that the probe lost in the last second.
    TelemetryDropped,
}

/// A figure at one instant, and what of the service it is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// A lane, a type, a downstream or a runtime; `None` for the service as a whole.
    pub subject: Option<String>,
    /// The figure, in [`Metric::unit`].
    pub value: f64,
}

/// What is to be known of a metric by those who write rules.
struct About {
    metric: Metric,
    /// In a rule file.
    name: &'static str,
    unit: Unit,
    /// What it says.
    says: &'static str,
    /// What it needs to have a figure.
    needs: &'static str,
}

const fn about(
    metric: Metric,
    name: &'static str,
    unit: Unit,
    says: &'static str,
    needs: &'static str,
) -> About {
    About {
        metric,
        name,
        unit,
        says,
        needs,
    }
}

const SAMPLE: &str = "no sample has come yet";
const TWO_SAMPLES: &str = "it needs two samples, one after the other";
const LANE: &str = "the service has no lane, or two samples have not come yet";

/// Every metric, in the order of [`Metric`].
const METRICS: [About; 23] = {
    use Unit::{Bytes, Count, Nanoseconds, PerSecond, Share};
    [
        about(
            Metric::LagP99,
            "lag-p99",
            Nanoseconds,
            "99th percentile of event-loop lag over the last 5 s",
            "no lag has been measured in the last 5 s",
        ),
        about(
            Metric::LagNow,
            "lag-now",
            Nanoseconds,
            "the newest event-loop lag",
            "no lag has been measured yet",
        ),
        about(
            Metric::LagSpike,
            "lag-spike",
            Nanoseconds,
            "the largest lag or stall of the last 2 s",
            "no lag has been measured in the last 2 s",
        ),
        about(
            Metric::BacklogGrowth,
            "backlog-growth",
            PerSecond,
            "by how much each lane's queue grows, over the last 30 s",
            "no lane has ten jobs waiting and 30 s of history",
        ),
        about(
            Metric::Pending,
            "pending",
            Count,
            "jobs that wait in each lane",
            "the service has no lane",
        ),
        about(
            Metric::QueueWaitP99,
            "queue-wait-p99",
            Nanoseconds,
            "99th percentile of each lane's queue wait, over the last minute",
            "no job has begun in the last minute",
        ),
        about(
            Metric::Throughput,
            "throughput",
            PerSecond,
            "jobs that each lane ends, over the last 10 s",
            LANE,
        ),
        about(
            Metric::Rejections,
            "rejections",
            PerSecond,
            "jobs that each lane refuses, over the last 10 s",
            LANE,
        ),
        about(
            Metric::StuckSlots,
            "stuck-slots",
            Nanoseconds,
            "for how long all slots of a lane are taken, jobs wait, and none ends",
            "no lane has all slots taken while jobs wait",
        ),
        about(
            Metric::RetryShare,
            "retry-share",
            Share,
            "attempts of each lane that do not end their job, over the last 30 s",
            "no lane has begun 30 attempts in the last 30 s",
        ),
        about(
            Metric::RunP99,
            "run-p99",
            Nanoseconds,
            "99th percentile of the run time of each job type, task and route, over the last minute",
            "nothing has ended in the last minute",
        ),
        about(
            Metric::FailureShare,
            "failure-share",
            Share,
            "ends of each job type, task and route that are no success, over the last 30 s",
            "nothing has ended ten times in the last 30 s",
        ),
        about(
            Metric::DownstreamP99,
            "downstream-p99",
            Nanoseconds,
            "99th percentile of the latency of each downstream, over the last minute",
            "no call to a downstream has ended in the last minute",
        ),
        about(
            Metric::DownstreamWaiting,
            "downstream-waiting",
            Count,
            "callers that wait for a client or a connection of each downstream",
            "the service names no downstream",
        ),
        about(
            Metric::BlockingPoolLag,
            "blocking-pool-lag",
            Nanoseconds,
            "how long each runtime's blocking pool lets a closure wait",
            "the pool has not been timed yet",
        ),
        about(
            Metric::Tasks,
            "tasks",
            Count,
            "tasks alive, in all runtimes",
            SAMPLE,
        ),
        about(
            Metric::CpuShare,
            "cpu-share",
            Share,
            "CPU used in the last second, of all that the process may use",
            TWO_SAMPLES,
        ),
        about(Metric::Rss, "rss", Bytes, "resident memory", SAMPLE),
        about(
            Metric::MemoryGrowth,
            "memory-growth",
            Bytes,
            "what resident memory gains in 10 minutes, where it rises in each two of them",
            "it needs 10 minutes of history",
        ),
        about(
            Metric::OpenFilesShare,
            "open-files-share",
            Share,
            "open files, of the process's limit",
            "the service does not tell its open files",
        ),
        about(
            Metric::Silence,
            "silence",
            Nanoseconds,
            "for how long a connected service sends no sample",
            "the service is not connected",
        ),
        about(
            Metric::Lost,
            "lost",
            Nanoseconds,
            "for how long a service has been gone without a goodbye",
            "it is connected, or ended with a goodbye",
        ),
        about(
            Metric::TelemetryDropped,
            "telemetry-dropped",
            PerSecond,
            "frames, events and lag points that the probe loses",
            TWO_SAMPLES,
        ),
    ]
};

impl Metric {
    /// How many there are.
    pub(super) const COUNT: usize = METRICS.len();

    /// Every metric.
    pub fn all() -> impl Iterator<Item = Self> {
        METRICS.iter().map(|about| about.metric)
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut metrics = METRICS.iter();
        Some(metrics.find(|about| about.name == name)?.metric)
    }

    fn about(self) -> &'static About {
        &METRICS[self as usize]
    }

    /// Its name in a rule file.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.about().name
    }

    /// What its figures are.
    #[must_use]
    pub fn unit(self) -> Unit {
        self.about().unit
    }

    /// What it says, for a person.
    #[must_use]
    pub fn says(self) -> &'static str {
        self.about().says
    }

    /// What is missing where it has no figure, for a person.
    #[must_use]
    pub fn needs(self) -> &'static str {
        self.about().needs
    }

    /// Whether it has a figure for each lane, type, downstream or runtime, and not one for the service.
    #[must_use]
    pub fn has_subjects(self) -> bool {
        matches!(
            self,
            Self::BacklogGrowth
                | Self::Pending
                | Self::QueueWaitP99
                | Self::Throughput
                | Self::Rejections
                | Self::StuckSlots
                | Self::RetryShare
                | Self::RunP99
                | Self::FailureShare
                | Self::DownstreamP99
                | Self::DownstreamWaiting
                | Self::BlockingPoolLag
        )
    }

    /// Whether it is about the connection, and so known while no samples come.
    pub(super) fn is_of_connection(self) -> bool {
        matches!(self, Self::Silence | Self::Lost)
    }

    /// Its figures now. What cannot be told is left out.
    #[must_use]
    pub fn readings(self, window: Window<'_>, now: Now) -> Vec<Reading> {
        let history = window.history();
        let of_service = |value: Option<f64>| {
            let reading = value.map(|value| Reading {
                subject: None,
                value,
            });
            reading.into_iter().collect()
        };
        let whole = |value: Option<u64>| of_service(value.map(|value| value as f64));
        match self {
            Self::LagP99 => whole(lag_p99_ns(window)),
            Self::LagNow => whole(window.lag_now_ns()),
            Self::LagSpike => whole(lag_spike_ns(window)),
            Self::BacklogGrowth => of_lanes(window, backlog_growth),
            Self::Pending => of_lanes(window, |_, _, lane| Some(lane.value.latest.pending as f64)),
            Self::QueueWaitP99 => p99s(window).1,
            Self::Throughput => of_lanes(window, throughput),
            Self::Rejections => of_lanes(window, |window, place, _| rejections(window, place)),
            Self::StuckSlots => of_lanes(window, stuck_slots_ns),
            Self::RetryShare => of_lanes(window, retry_share),
            Self::RunP99 => p99s(window).0,
            Self::FailureShare => failure_shares(window),
            Self::DownstreamP99 => {
                let mut tallies = Tallies::default();
                of_downstreams(window, |downstream| {
                    let (latency, _) = window.downstream_quantiles(&downstream.name, &mut tallies);
                    Some(latency.p99_ns? as f64)
                })
            }
            Self::DownstreamWaiting => {
                of_downstreams(window, |downstream| Some(downstream.waiting as f64))
            }
            Self::BlockingPoolLag => blocking_pools(window),
            Self::Tasks => whole(tasks(window)),
            Self::CpuShare => of_service(cpu_share(window)),
            Self::Rss => whole(rss_bytes(window)),
            Self::MemoryGrowth => of_service(memory_growth(window)),
            Self::OpenFilesShare => of_service(open_files_share(window)),
            Self::Silence => whole(history.silent_ns(now)),
            Self::Lost => whole(history.lost_ns(now)),
            Self::TelemetryDropped => of_service(telemetry_dropped(window)),
        }
    }

    /// What a reading of it says, for a person.
    #[must_use]
    pub fn sentence(self, window: Window<'_>, subject: Option<&str>, value: f64) -> String {
        let subject = subject.unwrap_or("?");
        let time = || duration(value as u64);
        match self {
            Self::LagP99 => format!("1 of 100 looks at the event loop finds it {} late", time()),
            Self::LagNow => format!("the event loop is {} late", time()),
            Self::LagSpike => match culprit(window) {
                // With the length that the stall has everywhere else: the lag beside it is a little longer or shorter.
                Some((name, length_ns)) if length_ns as f64 >= value * SPIKE_SHARE => {
                    format!("{name} held a worker for {}", duration(length_ns))
                }
                _ => format!("the event loop was {} late", time()),
            },
            Self::BacklogGrowth => {
                format!("the queue of lane {subject} grows by {value:.1} jobs a second")
            }
            Self::Pending => format!("{value:.0} jobs wait in lane {subject}"),
            Self::QueueWaitP99 => {
                format!("1 of 100 jobs waits {} in lane {subject}", time())
            }
            Self::Throughput => format!("lane {subject} ends {value:.1} jobs a second"),
            Self::Rejections => {
                format!("lane {subject} refuses {value:.1} jobs a second: its queue is full")
            }
            Self::StuckSlots => format!(
                "all slots of lane {subject} are taken, jobs wait, and none has ended for {}",
                time()
            ),
            Self::RetryShare => format!(
                "{:.0} % of the attempts in lane {subject} did not end their job",
                value * 100.0
            ),
            Self::RunP99 => format!("1 of 100 runs of {subject} takes {}", time()),
            Self::FailureShare => {
                format!("{:.0} % of {subject} end without success", value * 100.0)
            }
            Self::DownstreamP99 => format!("1 of 100 calls to {subject} takes {}", time()),
            Self::DownstreamWaiting => format!("{value:.0} callers wait for {subject}"),
            Self::BlockingPoolLag => {
                format!("blocking work of {subject} waits {} for a thread", time())
            }
            Self::Tasks => format!("{value:.0} tasks are alive"),
            Self::CpuShare => format!("the service uses {:.0} % of its CPUs", value * 100.0),
            Self::Rss => format!(
                "the service takes {} of memory",
                words::figure(value, Unit::Bytes)
            ),
            Self::MemoryGrowth => format!(
                "resident memory has grown by {:.0} MiB in 10 minutes without a pause",
                value / 1024.0 / 1024.0
            ),
            Self::OpenFilesShare => {
                format!("{:.0} % of the files that may be open are", value * 100.0)
            }
            Self::Silence => format!(
                "the service has sent nothing for {}: frozen, or starved of CPU",
                time()
            ),
            Self::Lost => {
                "the service is gone without a goodbye: killed, crashed, or its connection broke"
                    .to_owned()
            }
            Self::TelemetryDropped => {
                format!("the probe loses {value:.1} records a second: figures have gaps")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_metrics_is_in_the_order_of_its_names_in_code() {
        for (at, about) in METRICS.iter().enumerate() {
            assert_eq!(about.metric as usize, at, "{}", about.name);
            assert_eq!(Metric::named(about.name), Some(about.metric));
        }
        let last = Metric::TelemetryDropped;
        assert_eq!(last as usize + 1, METRICS.len());
    }
}
