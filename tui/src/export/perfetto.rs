//! Chrome trace events, which Perfetto reads: workers are threads, polls and stalls slices on them, jobs asynchronous
//! slices, lag and queues counters.
//!
//! Times are microseconds since the first event; `otherData.zero_unix_ns` ties them to the wall clock.

use std::cmp::Reverse;

use ax_wire::{
    incident::{Incident, QueuedJob},
    sample::TaskRef,
};
use serde_json::{Value, json};

use crate::{
    format::printable,
    headline::task_words,
    lives::{End, Life, lives},
    opened::Opened,
    words,
};

/// Track of what is about the whole process. No thread of it has this number.
const PROCESS_TRACK: u64 = 0;

/// Tracks of workers whose thread is not known begin here, above the largest thread id of Linux (2^22).
const UNKNOWN_THREADS: u64 = 1 << 23;

/// Tracks of one runtime's workers whose threads are not known.
const PER_RUNTIME: u64 = 10_000;

/// One slice of a thread.
#[derive(Clone, Debug)]
struct Slice {
    track: u64,
    begin_unix_ns: u64,
    end_unix_ns: u64,
    category: &'static str,
    name: String,
    arguments: Value,
}

/// The whole trace.
pub fn trace(opened: &Opened) -> Value {
    let mut trace = Trace {
        zero_unix_ns: zero(opened),
        pid: opened.snapshot.hello.pid,
        events: Vec::new(),
    };
    trace.names(opened);
    trace.slices(opened);
    trace.jobs(opened);
    trace.counters(opened);
    trace.event(
        "i",
        PROCESS_TRACK,
        opened.at_unix_ns(),
        json!({"name": format!("snapshot: {}", words::reason(&opened.snapshot.reason)), "cat": "snapshot", "s": "p"}),
    );
    json!({
        "traceEvents": trace.events,
        "displayTimeUnit": "ms",
        "otherData": {
            "made_by": concat!("ax-top ", env!("CARGO_PKG_VERSION")),
            "service": printable(&opened.snapshot.hello.service),
            "zero_unix_ns": trace.zero_unix_ns.to_string(),
        },
    })
}

/// The first instant of which the snapshot tells.
fn zero(opened: &Opened) -> u64 {
    let history = opened.snapshot.history.iter().map(|point| point.at_unix_ns);
    let stalls = opened.view.stalls.iter().map(|stall| stall.began_unix_ns);
    let incident = opened.snapshot.incident.as_ref();
    let lag = incident.into_iter().flat_map(|incident| &incident.lag);
    let queued = incident.into_iter().flat_map(queued);
    let at = opened.at_unix_ns();
    history
        .chain(stalls)
        .chain(lag.map(|point| opened.unix_ns(point.at_mono_ns)))
        .chain(lives(opened).iter().filter_map(Life::begin_unix_ns))
        .chain(queued.map(|(_, job)| at.saturating_sub(job.age_ns)))
        .chain(slices(opened).iter().map(|slice| slice.begin_unix_ns))
        .min()
        .unwrap_or(at)
        .min(at)
}

/// Each queued job that the snapshot lists, once, with its lane.
fn queued(incident: &Incident) -> impl Iterator<Item = (&str, &QueuedJob)> {
    incident.queues.iter().flat_map(|queue| {
        let next = queue.next.iter().filter(|job| !queue.oldest.contains(job));
        let jobs = queue.oldest.iter().chain(next);
        jobs.map(|job| (queue.lane.as_str(), job))
    })
}

fn track(runtime: u32, worker: Option<u32>, tid: Option<u32>) -> u64 {
    let unknown = || {
        let worker = worker.map_or(0, |worker| u64::from(worker) + 1);
        UNKNOWN_THREADS + u64::from(runtime) * PER_RUNTIME + worker
    };
    tid.map_or_else(unknown, u64::from)
}

/// Polls and stalls, in an order in which each lies within the one before it or after it.
fn slices(opened: &Opened) -> Vec<Slice> {
    let at = opened.at_unix_ns();
    let incident = opened.snapshot.incident.as_ref();
    let runtimes = incident.into_iter().flat_map(|incident| &incident.runtimes);
    let polls = runtimes.flat_map(|runtime| {
        runtime.workers.iter().filter_map(move |worker| {
            let poll = worker.poll.as_ref()?;
            Some(Slice {
                track: track(runtime.info.id.0, Some(worker.index), worker.tid),
                begin_unix_ns: at.saturating_sub(poll.age_ns),
                end_unix_ns: at,
                category: "poll",
                name: printable(&poll.task.name),
                arguments: about(&poll.task),
            })
        })
    });
    let stalls = opened.view.stalls.iter().map(|known| {
        let stall = &known.stall;
        let task = stall.task.as_ref();
        let name = task.map_or_else(String::new, |task| format!(" {}", printable(&task.name)));
        Slice {
            track: track(stall.runtime.0, stall.worker, stall.tid),
            begin_unix_ns: known.began_unix_ns,
            end_unix_ns: known.began_unix_ns.saturating_add(stall.length_ns),
            category: "stall",
            name: format!("{}{name}", stall.kind.label()),
            arguments: json!({
                "on_cpu_ns": stall.on_cpu_ns,
                "run_queue_ns": stall.run_queue_ns,
                "goes_on": known.ongoing,
                "task": task.map(about),
            }),
        }
    });
    nested(polls.chain(stalls).collect())
}

/// Slices of one thread lie within each other or apart: where two clocks differ by a little, the inner one is cut.
fn nested(mut slices: Vec<Slice>) -> Vec<Slice> {
    slices.sort_by_key(|slice| (slice.track, slice.begin_unix_ns, Reverse(slice.end_unix_ns)));
    let mut around: Vec<(u64, u64)> = Vec::new();
    for slice in &mut slices {
        around.retain(|(track, end)| *track == slice.track && *end > slice.begin_unix_ns);
        if let Some((_, end)) = around.last() {
            slice.end_unix_ns = slice.end_unix_ns.min(*end);
        }
        around.push((slice.track, slice.end_unix_ns));
    }
    slices
}

fn about(task: &TaskRef) -> Value {
    json!({
        "what": task_words(task),
        "job": task.job,
        "lane": task.lane.as_deref().map(printable),
        "started": task.place.as_deref().map(printable),
        "trace": task.trace,
    })
}

struct Trace {
    zero_unix_ns: u64,
    pid: u32,
    events: Vec<Value>,
}

impl Trace {
    /// Adds an event; `more` holds what its phase needs beyond time and track.
    fn event(&mut self, phase: &str, track: u64, at_unix_ns: u64, mut more: Value) {
        let since_ns = at_unix_ns.saturating_sub(self.zero_unix_ns);
        more["ph"] = phase.into();
        more["pid"] = self.pid.into();
        more["tid"] = track.into();
        more["ts"] = (since_ns as f64 / 1e3).into();
        self.events.push(more);
    }

    fn name(&mut self, what: &str, track: u64, name: &str) {
        let zero = self.zero_unix_ns;
        let arguments = json!({"name": what, "args": {"name": printable(name)}});
        self.event("M", track, zero, arguments);
    }

    fn names(&mut self, opened: &Opened) {
        self.name(
            "process_name",
            PROCESS_TRACK,
            &opened.snapshot.hello.service,
        );
        let many = opened.view.runtimes.len() > 1;
        for runtime in &opened.view.runtimes {
            let of = if many {
                format!(" of runtime {}", runtime.info.id)
            } else {
                String::new()
            };
            for worker in &runtime.workers {
                let track = track(runtime.info.id.0, Some(worker.index), worker.tid);
                self.name(
                    "thread_name",
                    track,
                    &format!("worker {}{of}", worker.index),
                );
            }
        }
    }

    fn slices(&mut self, opened: &Opened) {
        for slice in slices(opened) {
            let length_ns = slice.end_unix_ns.saturating_sub(slice.begin_unix_ns);
            let more = json!({
                "name": slice.name,
                "cat": slice.category,
                "dur": length_ns as f64 / 1e3,
                "args": slice.arguments,
            });
            self.event("X", slice.track, slice.begin_unix_ns, more);
        }
    }

    fn jobs(&mut self, opened: &Opened) {
        let Some(incident) = &opened.snapshot.incident else {
            return;
        };
        let at = opened.at_unix_ns();
        for (row, life) in lives(opened).iter().enumerate() {
            self.life(at, row, life);
        }
        for (lane, job) in queued(incident) {
            let (id, name) = (format!("job {}", job.job), printable(&job.name));
            let arguments = json!({"lane": printable(lane), "priority": job.priority});
            let begun = at.saturating_sub(job.age_ns);
            self.span(&id, &format!("{name} (queued)"), begun, at, &arguments);
        }
    }

    /// The wait and the run of each attempt, one after the other on a track of its own.
    fn life(&mut self, at: u64, row: usize, life: &Life) {
        // What is no job has no number; its place in the list tells it from the others.
        let id = life
            .job
            .map_or_else(|| format!("task {row}"), |id| format!("job {id}"));
        let name = printable(&life.name);
        for attempt in &life.attempts {
            let (end, fate) = match attempt.ended {
                None => (at, "goes on"),
                Some((end, End::Succeeded)) => (end, "succeeded"),
                Some((end, End::Unsuccessful(how))) => (end, how),
            };
            let arguments = json!({
                "lane": life.lane.as_deref().map(printable),
                "trace": life.trace,
                "fate": fate,
            });
            let (ready, started) = (attempt.ready_unix_ns, attempt.started_unix_ns);
            self.span(&id, &format!("{name} (queued)"), ready, started, &arguments);
            self.span(&id, &name, started, end, &arguments);
        }
    }

    fn span(&mut self, id: &str, name: &str, begin: u64, end: u64, arguments: &Value) {
        let common = |more: Value| {
            let mut common = json!({"name": name, "cat": "job", "id": id});
            if !more.is_null() {
                common["args"] = more;
            }
            common
        };
        self.event("b", PROCESS_TRACK, begin, common(arguments.clone()));
        self.event("e", PROCESS_TRACK, end, common(Value::Null));
    }

    fn counters(&mut self, opened: &Opened) {
        let ms = |ns: u64| ns as f64 / 1e6;
        for point in &opened.snapshot.history {
            let figures = [
                ("lag max, ms", point.lag_max_ns.map(ms)),
                ("jobs running", Some(point.running as f64)),
                ("jobs pending", Some(point.pending as f64)),
                ("CPUs used", point.cpus_used),
                (
                    "memory, MB",
                    point.rss_bytes.map(|bytes| bytes as f64 / 1e6),
                ),
            ];
            for (name, value) in figures {
                self.counter(name, point.at_unix_ns, value);
            }
        }
        let incident = opened.snapshot.incident.as_ref();
        for point in incident.into_iter().flat_map(|incident| &incident.lag) {
            let name = format!("lag of runtime {}, ms", point.runtime);
            let at = opened.unix_ns(point.at_mono_ns);
            self.counter(&name, at, point.lag_ns().map(ms));
        }
    }

    fn counter(&mut self, name: &str, at_unix_ns: u64, value: Option<f64>) {
        if let Some(value) = value {
            let more = json!({"name": name, "args": {"value": value}});
            self.event("C", PROCESS_TRACK, at_unix_ns, more);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::opened::tests::{by_probe, fixture};

    /// What the trace-event format asks of each phase, and that slices of a thread are properly nested.
    fn check(trace: &Value) -> HashMap<String, usize> {
        let events = trace["traceEvents"].as_array().expect("an array");
        let mut phases = HashMap::new();
        let mut open: HashMap<(String, String), f64> = HashMap::new();
        let mut slices: Vec<(u64, f64, f64)> = Vec::new();
        for event in events {
            let phase = event["ph"].as_str().expect("a phase");
            let ts = event["ts"].as_f64().expect("a time");
            assert!(ts >= 0.0, "{event}");
            assert!(event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
            assert!(!event["name"].as_str().expect("a name").is_empty());
            let span = || (event["id"].to_string(), event["name"].to_string());
            match phase {
                "X" => {
                    let dur = event["dur"].as_f64().expect("a length");
                    slices.push((event["tid"].as_u64().expect("a thread"), ts, ts + dur));
                }
                "b" => assert!(open.insert(span(), ts).is_none(), "{event}"),
                "e" => assert!(open.remove(&span()).expect("has begun") <= ts, "{event}"),
                "C" => assert!(event["args"]["value"].is_f64(), "{event}"),
                "i" => assert_eq!(event["s"], "p"),
                "M" => assert!(event["args"]["name"].is_string()),
                other => panic!("no phase {other}"),
            }
            *phases.entry(phase.to_owned()).or_default() += 1;
        }
        assert!(open.is_empty(), "{open:?}");
        for (track, begin, end) in &slices {
            let crossing = |other: &&(u64, f64, f64)| {
                other.0 == *track && other.1 < *begin && other.2 > *begin && other.2 + 0.001 < *end
            };
            assert_eq!(slices.iter().find(crossing), None, "{begin} {end}");
        }
        phases
    }

    #[test]
    fn the_fixture_is_a_sound_trace() {
        let opened = fixture();
        let phases = check(&trace(&opened));
        let running = opened
            .snapshot
            .incident
            .as_ref()
            .map_or(0, |incident| incident.running.len());
        assert_eq!(
            phases["b"],
            2 * running + 15,
            "running jobs wait and run, 15 are queued"
        );
        assert!(phases["X"] >= 4, "two polls and two stalls: {phases:?}");
        assert!(phases["C"] > 300, "{phases:?}");
        check(&trace(&by_probe()));
    }

    #[test]
    fn the_culprit_is_a_slice_of_its_worker() {
        let trace = trace(&fixture());
        let events = trace["traceEvents"].as_array().expect("an array");
        let slice = events
            .iter()
            .find(|event| event["name"] == "stall fault_block");
        let slice = slice.expect("is there");
        assert_eq!(slice["args"]["task"]["started"], "demo/src/fault.rs:53");
        let named = events
            .iter()
            .find(|event| event["ph"] == "M" && event["tid"] == slice["tid"]);
        assert_eq!(named.expect("has a name")["args"]["name"], "worker 1");
    }

    #[test]
    fn slices_that_cross_are_cut() {
        let slice = |track, begin_unix_ns, end_unix_ns| Slice {
            track,
            begin_unix_ns,
            end_unix_ns,
            category: "poll",
            name: String::new(),
            arguments: Value::Null,
        };
        let cut: Vec<_> = nested(vec![
            slice(1, 0, 10),
            slice(1, 5, 12),
            slice(1, 10, 12),
            slice(2, 5, 12),
        ])
        .iter()
        .map(|slice| (slice.track, slice.begin_unix_ns, slice.end_unix_ns))
        .collect();
        assert_eq!(cut, [(1, 0, 10), (1, 5, 10), (1, 10, 12), (2, 5, 12)]);
    }
}
