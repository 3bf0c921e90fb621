//! The sentences at the top of the screen: is it healthy, and if not, what is wrong, worst first. Pure functions over
//! what the agent told, so that the dashboard and `ax-top status` say the same.

use std::{collections::BTreeSet, time::Duration};

use ax_wire::{
    InstanceId, alert,
    event::{ObserverGap, StallKind},
    sample::{TaskKind, TaskRef, WorkerState},
    verdict::{Verdict, VerdictId},
    view::{ServiceState, ServiceSummary, ServiceView, StallView},
};

use crate::{
    format::{age, duration, maybe_duration, percent, printable},
    verdict,
    words::alert_sentence,
    world::{Link, World},
};

/// A gap in the watchdog's schedule is worth the headline for so long.
const GAP_IS_NEWS_NS: u64 = 10_000_000_000;

/// A lane that has been full for so long, with jobs waiting, is worth the headline.
const FULL_IS_NEWS_NS: u64 = 1_000_000_000;

/// How bad it is, mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Healthy,
    /// Nothing can be said yet, or any more.
    Unknown,
    Info,
    Warning,
    Critical,
    Page,
}

impl Severity {
    /// The word that opens the banner; colour only repeats it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Unknown => "unknown",
            Self::Info => "INFO",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Page => "PAGE",
        }
    }
}

impl From<alert::Severity> for Severity {
    fn from(severity: alert::Severity) -> Self {
        match severity {
            alert::Severity::Info => Self::Info,
            alert::Severity::Warning => Self::Warning,
            alert::Severity::Critical => Self::Critical,
            alert::Severity::Page => Self::Page,
        }
    }
}

/// How bad it is, and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headline {
    pub severity: Severity,
    pub sentence: String,
}

impl Headline {
    fn new(severity: Severity, sentence: impl Into<String>) -> Self {
        Self {
            severity,
            sentence: sentence.into(),
        }
    }
}

/// What the screen that shows `shown` says, worst first, and at least one.
pub fn of_world(world: &World, shown: Option<InstanceId>) -> Vec<Headline> {
    let view = shown.and_then(|instance| world.newest_view(instance));
    let summary = shown.and_then(|instance| world.summary(instance));
    let headline = match (&world.link, summary, view) {
        (
            Link::Connecting {
                problem,
                own_agent_in,
            },
            _,
            _,
        ) => of_connecting(problem.as_deref(), *own_agent_in, view.is_some()),
        (_, Some(summary), view) if summary.state != ServiceState::Live => {
            let cause = view.and_then(|view| why_silent(summary, view));
            cause.unwrap_or_else(|| of_silence(summary, world.now_unix_ns))
        }
        (_, Some(_), Some(view)) => {
            let mut all = of_view(view);
            all.extend(of_file(world));
            all.sort_by_key(|headline| std::cmp::Reverse(headline.severity));
            return all;
        }
        (_, Some(summary), None) => Headline::new(
            Severity::Unknown,
            format!(
                "waiting for the first sample of {}",
                printable(&summary.service)
            ),
        ),
        (_, None, Some(view)) => Headline::new(
            Severity::Unknown,
            format!(
                "waiting for {} to find the new agent",
                printable(&view.summary.service)
            ),
        ),
        (Link::File { name } | Link::Recording { name }, None, None) => Headline::new(
            Severity::Unknown,
            format!("{} says nothing of a service", printable(name)),
        ),
        (Link::Attached { socket } | Link::Embedded { socket }, None, None) => Headline::new(
            Severity::Unknown,
            format!("no service is connected; listening on {}", socket.display()),
        ),
    };
    std::iter::once(headline).chain(of_file(world)).collect()
}

/// That the rules which somebody wrote are not in force.
pub fn of_file(world: &World) -> Option<Headline> {
    let problem = world.file_problem.as_ref()?;
    let mut lines = problem.lines();
    let first = printable(lines.next().unwrap_or_default());
    let more = match lines.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let sentence = format!(
        "the agent's alert rules are not those of its file: {first}{more} (all of it: ax-top rules)"
    );
    Some(Headline::new(Severity::Warning, sentence))
}

/// What is to be said of a service, live or not, worst first, and at least one.
pub fn of_service(view: &ServiceView, now_unix_ns: u64) -> Vec<Headline> {
    if view.summary.state == ServiceState::Live {
        return of_view(view);
    }
    let cause = why_silent(&view.summary, view);
    vec![cause.unwrap_or_else(|| of_silence(&view.summary, now_unix_ns))]
}

/// Why a service that is connected says nothing, where the agent has found out.
fn why_silent(summary: &ServiceSummary, view: &ServiceView) -> Option<Headline> {
    let is_about_silence = |cause: &&Verdict| {
        matches!(
            cause.id,
            VerdictId::ProcessFrozen | VerdictId::CpuStarvation
        )
    };
    let cause = verdict::causes(view).find(is_about_silence);
    let cause = cause.filter(|_| summary.state == ServiceState::Silent)?;
    Some(verdict::headline(cause, view.at_unix_ns))
}

fn of_connecting(
    problem: Option<&str>,
    own_agent_in: Option<Duration>,
    had_figures: bool,
) -> Headline {
    if let Some(left) = own_agent_in {
        let seconds = left.as_secs() + 1;
        let sentence = format!("the agent is gone, waiting for it; own agent in {seconds} s");
        return Headline::new(Severity::Unknown, sentence);
    }
    let what = if had_figures {
        "the agent is gone; looking for the next one"
    } else {
        "looking for an agent"
    };
    let sentence = problem.map_or_else(
        || what.to_owned(),
        |problem| format!("{what} ({})", printable(problem)),
    );
    Headline::new(Severity::Unknown, sentence)
}

/// What is to be said of a service that speaks. A verdict comes before an alert that is as bad: it names the cause.
fn of_view(view: &ServiceView) -> Vec<Headline> {
    let firing = view
        .alerts
        .iter()
        .filter(|alert| alert.state == alert::AlertState::Firing && alert.silenced.is_none())
        .map(|alert| {
            Headline::new(
                alert.severity.into(),
                alert_sentence(alert, view.at_unix_ns),
            )
        });
    let mut all: Vec<_> = verdict::causes(view)
        .map(|cause| verdict::headline(cause, view.at_unix_ns))
        .collect();
    // Without a diagnosis, as of a service that has just come, the symptoms have to do.
    let undiagnosed = view.diagnosis.verdicts.is_empty();
    all.extend(of_stall(view).filter(|_| undiagnosed));
    all.extend(firing);
    all.extend(of_observer_gap(view).filter(|_| undiagnosed));
    if all.is_empty() && undiagnosed {
        all.extend(of_lag(view).or_else(|| of_full_lane(view)));
    }
    if all.is_empty() {
        all.push(of_health(view));
    }
    all.sort_by_key(|headline| std::cmp::Reverse(headline.severity));
    all
}

/// The headline of a demo whose service ended by itself; `ended` may have several lines.
pub fn of_dead_demo(ended: &str) -> Headline {
    let ended: Vec<_> = ended.lines().map(printable).collect();
    let sentence = format!("the demo service ended: {}", ended.join("; "));
    Headline::new(Severity::Critical, sentence)
}

/// The headline of one service that does not speak.
pub fn of_silence(summary: &ServiceSummary, now_unix_ns: u64) -> Headline {
    let ago = age(now_unix_ns.saturating_sub(summary.last_seen_unix_ns));
    let who = format!("{} (pid {})", printable(&summary.service), summary.pid);
    match summary.state {
        ServiceState::Silent => Headline::new(
            Severity::Critical,
            format!("{who} is connected and has said nothing for {ago}"),
        ),
        ServiceState::Lost => Headline::new(
            Severity::Critical,
            format!("{who} was lost {ago} ago: its connection broke without a goodbye"),
        ),
        ServiceState::Ended => Headline::new(Severity::Unknown, format!("{who} ended {ago} ago")),
        ServiceState::Live | ServiceState::Other => Headline::new(
            Severity::Unknown,
            format!("{who} is in a state that this ax-top does not know"),
        ),
    }
}

/// The stall to speak of: the longest going on, else the longest of the window.
fn of_stall(view: &ServiceView) -> Option<Headline> {
    let window_began = view.at_unix_ns.saturating_sub(view.window_ns);
    let stall = view
        .stalls
        .iter()
        .filter(|stall| stall.ongoing || ended_unix_ns(stall) >= window_began)
        .max_by_key(|stall| (stall.ongoing, stall.stall.length_ns))?;
    let severe = stall.stall.length_ns >= view.hello.snapshot_threshold_ns;
    let severity = if stall.ongoing && severe {
        Severity::Critical
    } else {
        Severity::Warning
    };
    let others = view.stalls.iter().filter(|other| {
        other.stall.kind == stall.stall.kind
            && other.stall.id != stall.stall.id
            && !other.ongoing
            && ended_unix_ns(other) >= window_began
    });
    let sentence = stall_sentence(stall, view);
    let sentence = match others.clone().map(ended_unix_ns).max() {
        // It is the longest that is spoken of: that others have come since must not look as if it were the only one.
        Some(newest) if !stall.ongoing => {
            let ago = age(view.at_unix_ns.saturating_sub(newest));
            format!(
                "{sentence}; {} more in the last minute, the newest {ago} ago",
                others.count()
            )
        }
        _ => sentence,
    };
    Some(Headline::new(severity, sentence))
}

fn ended_unix_ns(stall: &StallView) -> u64 {
    stall.began_unix_ns.saturating_add(stall.stall.length_ns)
}

fn stall_sentence(stall: &StallView, view: &ServiceView) -> String {
    let length = duration(stall.stall.length_ns);
    let place = match stall.stall.worker {
        Some(_) if stall.ongoing && stuck_workers(stall, view).len() > 1 => {
            let stuck = stuck_workers(stall, view).len();
            match workers_of(stall, view) {
                all if stuck >= all => format!("all {stuck} workers"),
                all => format!("{stuck} of {all} workers"),
            }
        }
        Some(worker) if view.runtimes.len() > 1 => {
            format!("worker {worker} of runtime {}", stall.stall.runtime)
        }
        Some(worker) => format!("worker {worker}"),
        None => "a thread outside the workers".to_owned(),
    };
    let when = if stall.ongoing {
        ", still going on".to_owned()
    } else {
        let ago = view.at_unix_ns.saturating_sub(ended_unix_ns(stall));
        format!(", {} ago", age(ago))
    };
    let kind = stall.stall.kind.label();
    let who = match (&stall.stall.task, stall.stall.kind) {
        (Some(task), _) => format!(": {}", task_words(task)),
        (None, StallKind::Stall) => ": a task that has no name (plain tokio::spawn)".to_owned(),
        (None, _) => String::new(),
    };
    format!("{kind} {length} on {place}{when}{who}")
}

/// The workers of the stall's runtime that are stuck now. Of one that has just got stuck the event comes before the sample.
fn stuck_workers(stall: &StallView, view: &ServiceView) -> BTreeSet<u32> {
    let runtime = stall.stall.runtime;
    let told = view
        .stalls
        .iter()
        .filter(|other| other.ongoing && other.stall.kind == stall.stall.kind)
        .filter(|other| other.stall.runtime == runtime)
        .filter_map(|other| other.stall.worker);
    let sampled = view
        .runtimes
        .iter()
        .filter(|other| other.info.id == runtime)
        .flat_map(|runtime| &runtime.workers)
        .filter(|worker| worker.state == WorkerState::Stalled)
        .map(|worker| worker.index);
    told.chain(sampled).collect()
}

fn workers_of(stall: &StallView, view: &ServiceView) -> usize {
    let runtime = view
        .runtimes
        .iter()
        .find(|runtime| runtime.info.id == stall.stall.runtime);
    runtime.map_or(0, |runtime| runtime.workers.len())
}

/// `job render_pdf (files) started src/pdf.rs:88`.
pub fn task_words(task: &TaskRef) -> String {
    let kind = match task.kind {
        TaskKind::Job => "job",
        TaskKind::Task => "task",
        TaskKind::Blocking => "blocking closure",
        TaskKind::Request => "request",
        TaskKind::Other => "something",
    };
    let lane = task
        .lane
        .as_ref()
        .map_or_else(String::new, |lane| format!(" ({lane})"));
    let place = task
        .place
        .as_ref()
        .map_or_else(String::new, |place| format!(" started {place}"));
    printable(&format!("{kind} {}{lane}{place}", task.name))
}

fn of_observer_gap(view: &ServiceView) -> Option<Headline> {
    let worth_saying = |gap: &&ObserverGap| gap.late_ns >= view.hello.stall_threshold_ns;
    let gap = view.observer_gaps.iter().find(worth_saying)?;
    let over = view
        .hello
        .clock
        .to_unix_ns(gap.due_mono_ns.saturating_add(gap.late_ns));
    let ago = view.at_unix_ns.saturating_sub(over);
    (ago < GAP_IS_NEWS_NS).then(|| {
        let late = duration(gap.late_ns);
        let ago = age(ago);
        let sentence = format!(
            "the whole process got no CPU for {late}, {ago} ago (a busy host; else throttled, stopped or suspended)"
        );
        Headline::new(Severity::Warning, sentence)
    })
}

fn of_lag(view: &ServiceView) -> Option<Headline> {
    let p99 = view.lag.p99_ns?;
    (p99 >= view.hello.stall_threshold_ns).then(|| {
        let severity = if p99 >= view.hello.snapshot_threshold_ns {
            Severity::Critical
        } else {
            Severity::Warning
        };
        let max = maybe_duration(view.lag.max_ns);
        // The points of the last minute may be older than the agent, and say of a stall only how long it was.
        let stall = view.lag.stall_max_ns;
        let stall = match stall.filter(|ns| *ns >= view.hello.stall_threshold_ns) {
            Some(ns) => format!(
                "a worker stood still for {} before this agent came, so who held it is unknown",
                duration(ns)
            ),
            None => "no stall seen".to_owned(),
        };
        let sentence = format!(
            "the event loop is late: lag p99 {}, max {max}; {stall}",
            duration(p99)
        );
        Headline::new(severity, sentence)
    })
}

fn of_full_lane(view: &ServiceView) -> Option<Headline> {
    let lane = view
        .lanes
        .iter()
        .filter(|lane| lane.pending > 0)
        .max_by_key(|lane| lane.full_ns)?;
    let full = lane.full_ns.filter(|full| *full >= FULL_IS_NEWS_NS)?;
    let sentence = format!(
        "lane {} has been full for {}: {} running, {} waiting",
        printable(&lane.name),
        age(full),
        lane.running,
        lane.pending
    );
    Some(Headline::new(Severity::Warning, sentence))
}

fn of_health(view: &ServiceView) -> Headline {
    // The diagnosis says the same of the newest seconds; without it, what is known is the minute.
    let mut verdicts = view.diagnosis.verdicts.iter();
    if let Some(healthy) = verdicts.find(|verdict| verdict.id == VerdictId::Healthy) {
        return Headline::new(Severity::Healthy, printable(&healthy.sentence));
    }
    let Some(p99) = view.lag.p99_ns else {
        return Headline::new(Severity::Unknown, "no lag has been measured yet");
    };
    let waiting: u64 = view.lanes.iter().map(|lane| lane.pending).sum();
    let waits = match waiting {
        0 => "nothing waits".to_owned(),
        1 => "1 job waits".to_owned(),
        many => format!("{many} jobs wait"),
    };
    let cpu = cpu_share(view).map_or_else(
        || "CPU unknown".to_owned(),
        |share| format!("CPU {} %", percent(Some(share))),
    );
    let sentence = format!("lag p99 {}, {waits}, {cpu}", duration(p99));
    Headline::new(Severity::Healthy, sentence)
}

/// CPU used as a share of what the process may use.
pub fn cpu_share(view: &ServiceView) -> Option<f64> {
    let cpus = view.hello.cpus.max(1);
    Some(view.process.cpus_used? / f64::from(cpus))
}

#[cfg(test)]
mod tests;
