//! The loop is fine, jobs take what they always took, and more of them arrive than the lane can run.

use ax_wire::{alert::Severity, verdict::VerdictId};

use super::{
    Rule,
    answer::{Against as _, Answer, Finding, Reach, amount, count, rate, time},
    case::{Case, HELD, LaneCase},
    words::{duration, percent},
};
use crate::history::LaneSecond;

/// A new job would wait for so long.
const LONG_WAIT_S: f64 = 1.0;

/// And for so many times as long as it runs.
const TIMES_RUN: f64 = 3.0;

/// Of jobs this short, a full lane ends some in each second.
const SHORT_S: f64 = 0.3;

/// Of the run time, so much in one downstream is most of it.
const MOSTLY: f64 = 0.6;

/// What was watched for so long has shown what is usual.
const LONG_WATCHED_NS: u64 = 300_000_000_000;

pub(super) struct LaneSaturated;

impl Rule for LaneSaturated {
    fn id(&self) -> VerdictId {
        VerdictId::LaneSaturated
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        if let Some(needs) = case.lacks_seconds(HELD) {
            return Answer::needs(needs);
        }
        let found = case.lanes().filter_map(|lane| check_one(case, lane));
        found.collect::<Vec<_>>().into()
    }
}

/// Whether short jobs have just ceased to end: what holds the slots now is not what took its usual time, and in a moment
/// another rule says what it is.
fn stops(lane: &LaneCase<'_, '_>, mean_run_s: Option<f64>) -> bool {
    let ended = |second: &LaneSecond| second.counts.finished + second.retried;
    let newest = lane.newest().next();
    newest.is_some_and(|newest| ended(&newest) == 0)
        && mean_run_s.is_some_and(|run_s| run_s < SHORT_S)
}

/// The downstream in which the jobs of a lane spend most of their time, and how long a call takes.
fn mostly_in<'a>(case: &Case<'a>, lane: &str, run_s: f64) -> Option<(&'a str, u64)> {
    case.downstreams()
        .filter(|downstream| downstream.lanes().iter().any(|of| of == lane))
        .filter_map(|downstream| Some((downstream.name(), downstream.latency_ns()?)))
        .filter(|(_, ns)| *ns as f64 / 1e9 >= MOSTLY * run_s)
        .max_by_key(|(_, ns)| *ns)
}

fn check_one(case: &Case<'_>, lane: LaneCase<'_, '_>) -> Option<Finding> {
    let latest = &lane.entry.value.latest;
    let rejected = lane.per_second(|second| second.counts.rejected);
    let arriving = lane.per_second(|second| second.counts.submitted) + rejected;
    let ending = lane.per_second(|second| second.counts.finished);
    // At a sample's instant a slot may be between two jobs.
    let nearly_full = |running: u32| u64::from(running) * 10 >= latest.limit * 9;
    let full = lane.held(|second| nearly_full(second.running) && second.pending > 0);
    let paused = latest.paused;
    let queued = lane.held(|second| second.pending > 0);
    if !(full || paused && queued) || latest.limit == 0 {
        return None;
    }
    let mean_run_s = lane.mean_run_s();
    if !paused && stops(&lane, mean_run_s) {
        return None;
    }
    let capacity = mean_run_s.map(|run_s| latest.limit as f64 / run_s.max(1e-6));
    let wait_s = latest.pending as f64 / ending.max(1e-3);
    let is_long =
        wait_s >= LONG_WAIT_S && mean_run_s.is_none_or(|run_s| wait_s >= TIMES_RUN * run_s);
    let refuses = rejected > 0.0;
    if !is_long && !refuses {
        return None;
    }
    let usual_run = lane.usual(|second| {
        let ended = second.counts.finished + second.retried;
        (ended > 0).then(|| f64::from(second.run_s) / f64::from(ended))
    });
    let longer = usual_run
        .zip(mean_run_s)
        .is_some_and(|(usual, now)| usual.is_exceeded_by(now, 0.005));
    let name = lane.name();
    let what = if paused {
        format!("Lane `{name}` is paused and {} jobs wait", latest.pending)
    } else if ending == 0.0 {
        format!(
            "Lane `{name}` is full, {} jobs wait and none has ended for 3 s",
            latest.pending
        )
    } else {
        format!(
            "Lane `{name}` gets {arriving:.0} jobs a second and ends {ending:.0}: all {} slots are taken and {} wait",
            latest.limit, latest.pending
        )
    };
    let then = if refuses {
        format!("; it refuses {}", percent(rejected / arriving.max(1e-9)))
    } else if paused || ending == 0.0 {
        String::new()
    } else {
        format!(", a new one for {}", duration((wait_s * 1e9) as u64))
    };
    let severity = if refuses {
        Severity::Critical
    } else {
        Severity::Warning
    };
    let callee = mean_run_s.and_then(|run_s| mostly_in(case, name, run_s));
    // A downstream that was slow before anybody looked has no other usual.
    let watched_ns = case.seconds().count() as u64 * 1_000_000_000;
    let doubt = callee.filter(|_| !longer && watched_ns < LONG_WATCHED_NS);
    let began = lane.full_since_mono_ns();
    let finding = Finding::new(VerdictId::LaneSaturated, severity, format!("{what}{then}."))
        .of(name)
        .sure(if longer || doubt.is_some() || !case.loop_is_fine() {
            0.6
        } else {
            0.85
        })
        .since(began)
        .hurts(Reach::Lanes(vec![name.to_owned()]))
        .evidence(rate("jobs that arrive", arriving).against(capacity.unwrap_or(ending)))
        .evidence(rate("jobs that end", ending))
        .evidence(count("jobs that wait", latest.pending).against(latest.capacity as f64))
        .evidence(count("slots taken", latest.running).against(latest.limit as f64))
        .evidence_if(mean_run_s.map(|run_s| {
            let evidence = time("mean run time over 3 s", (run_s * 1e9) as u64);
            match usual_run {
                Some(usual) => evidence.against(usual.median * 1e9),
                None => evidence,
            }
        }))
        .evidence_if(callee.map(|(called, ns)| time(&format!("of that, a call to {called}"), ns)))
        .evidence_if(refuses.then(|| rate("jobs that are refused", rejected)))
        .evidence_if(paused.then(|| amount("paused", 1.0)))
        .next_if(doubt.map(|(called, ns)| {
            format!(
                "ask whether {} is usual for a call to `{called}`: this agent knows only the last {} of it, and a slow \
                 `{called}` looks the same",
                duration(ns),
                duration(watched_ns)
            )
        }))
        .next(if paused {
            "resume the lane, or find out who paused it and why"
        } else if longer {
            "find out why its jobs run longer than usual: their types, and what they call"
        } else {
            "raise the lane's limit, as far as what it calls and the CPUs allow"
        })
        .next("shed or spill low priorities, or slow the callers down (429, `Lane::ready`)");
    Some(finding)
}
