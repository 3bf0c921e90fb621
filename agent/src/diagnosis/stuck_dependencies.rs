//! Jobs wait for what cannot finish: for each other, for a job that nobody submitted, for one that a person has to look
//! after.

use std::collections::{BTreeMap, BTreeSet};

use ax_wire::{
    JobId,
    alert::Severity,
    sample::{MAX_WAITING_JOBS, WaitingJob, WaitingReason},
    verdict::{Hurt, HurtKind, VerdictId},
};

use super::{
    Rule,
    answer::{Against as _, Answer, Finding, Reach, count, time},
    case::Case,
    words::{culprit_of, duration, jobs, list},
};

/// A job may be submitted a little before the one that it waits for.
const LEAST_NS: u64 = 3_000_000_000;

/// Waiting for so long is worth a look, whatever for.
pub(crate) const TOO_LONG_NS: u64 = 300_000_000_000;

pub(super) struct StuckDependencies;

impl Rule for StuckDependencies {
    fn id(&self) -> VerdictId {
        VerdictId::StuckDependencies
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        let all = Waiters::of(case);
        check_jobs(&case.latest.waiting_jobs, all, case.latest.at_mono_ns).into()
    }
}

/// How many jobs wait for other jobs: a sample lists the oldest of them only.
#[derive(Clone, Copy)]
struct Waiters {
    listed: u64,
    /// `None` where the service does not tell.
    all: Option<u64>,
}

impl Waiters {
    fn of(case: &Case<'_>) -> Self {
        let listed = case.latest.waiting_jobs.iter();
        let listed = listed.filter(|job| job.reason == WaitingReason::Dependencies);
        let told = case.lanes().map(|lane| {
            let waiting_for = lane.entry.value.latest.waiting_for?;
            Some(waiting_for.dependencies)
        });
        Self {
            listed: listed.count() as u64,
            all: told
                .flatten()
                .reduce(u64::saturating_add)
                .filter(|all| *all > 0),
        }
    }

    /// There are more than are listed, or may be.
    fn are_more(self) -> bool {
        match self.all {
            Some(all) => all > self.listed,
            None => self.listed >= MAX_WAITING_JOBS as u64,
        }
    }

    /// `3 jobs`, of all that are listed and do so; `At least 32 of 128 waiting jobs` where there are others.
    fn told(self, stuck: usize) -> String {
        match self.all {
            _ if !self.are_more() => jobs(stuck),
            Some(all) => format!("At least {stuck} of {all} jobs that wait for others"),
            None => format!("At least {}", jobs(stuck)),
        }
    }
}

fn check_jobs(waiting: &[WaitingJob], all: Waiters, at_mono_ns: u64) -> Option<Finding> {
    let by_id: BTreeMap<JobId, &WaitingJob> = waiting
        .iter()
        .filter_map(|job| Some((job.task.job?, job)))
        .collect();
    let (what, stuck, severity, confidence) = if let Some(cycle) = cycle(&by_id) {
        let path: Vec<String> = cycle.iter().map(|job| name(job)).collect();
        let first = path.first().cloned().unwrap_or_default();
        let path = format!("{} -> {first}", path.join(" -> "));
        (
            format!("wait for each other in a circle: {path}"),
            cycle,
            Severity::Critical,
            0.99,
        )
    } else if let Some((names, stuck)) = missing(waiting) {
        (
            format!(
                "{} for {}, which nobody has submitted",
                wait(&stuck),
                list(&names, 3)
            ),
            stuck,
            Severity::Warning,
            0.8,
        )
    } else if let Some((names, stuck)) = behind_a_person(waiting, &by_id) {
        (
            format!(
                "{} for {}, which has failed for good and waits for a person",
                wait(&stuck),
                list(&names, 3)
            ),
            stuck,
            Severity::Warning,
            0.95,
        )
    } else {
        let long: Vec<&WaitingJob> = waiting
            .iter()
            .filter(|job| job.reason == WaitingReason::Dependencies && job.age_ns >= TOO_LONG_NS)
            .collect();
        if long.is_empty() {
            return None;
        }
        let have = if long.len() == 1 { "has" } else { "have" };
        (
            format!("{have} waited for other jobs for more than 5 minutes"),
            long,
            Severity::Warning,
            0.6,
        )
    };
    let oldest = stuck.iter().max_by_key(|job| job.age_ns)?;
    let too_long = waiting
        .iter()
        .filter(|job| job.age_ns >= TOO_LONG_NS)
        .count();
    let sentence = format!(
        "{} {what}; the oldest, {}, for {}.",
        all.told(stuck.len()),
        name(oldest),
        duration(oldest.age_ns)
    );
    let too_long_of = if all.are_more() {
        "jobs among those listed that have waited for more than 5 min"
    } else {
        "jobs that have waited for more than 5 min"
    };
    let finding = Finding::new(VerdictId::StuckDependencies, severity, sentence)
        .sure(confidence)
        .since(at_mono_ns.saturating_sub(oldest.age_ns))
        .by(Some(culprit_of(&oldest.task)))
        .hurts(Reach::These(hurt(&stuck)))
        .evidence(count("jobs that wait so", stuck.len() as u64))
        .evidence(time("the oldest waits", oldest.age_ns).against(LEAST_NS as f64))
        .evidence(count(too_long_of, too_long as u64))
        .evidence_if(all.all.map(|all| count("jobs that wait for other jobs", all)))
        .next("submit what is missing, retry or drop what failed, or cancel those that wait")
        .next("submit all jobs of a graph before any of them can wait in vain (`after` takes handles, too)");
    Some(finding)
}

/// The types of those that wait, most of them first.
fn hurt(stuck: &[&WaitingJob]) -> Vec<Hurt> {
    let mut by_type: BTreeMap<&str, u64> = BTreeMap::new();
    for job in stuck {
        *by_type.entry(&job.task.name).or_default() += 1;
    }
    let mut types: Vec<_> = by_type.into_iter().collect();
    types.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let types = types.into_iter().map(|(name, count)| Hurt {
        kind: HurtKind::JobType,
        name: name.to_owned(),
        affected: Some(count),
        errors: None,
        usual_p99_ns: None,
        p99_ns: None,
    });
    types.collect()
}

fn wait(stuck: &[&WaitingJob]) -> &'static str {
    if stuck.len() == 1 { "waits" } else { "wait" }
}

/// The name that it was given, or that of its type.
fn name(job: &WaitingJob) -> String {
    match &job.name {
        Some(name) => format!("`{name}`"),
        None => format!("`{}`", job.task.name),
    }
}

/// A job that is reached from itself, and those on the way.
fn cycle<'a>(by_id: &BTreeMap<JobId, &'a WaitingJob>) -> Option<Vec<&'a WaitingJob>> {
    let mut done = BTreeSet::new();
    for start in by_id.keys() {
        // Depth first, with the way here; each job is left once.
        let mut way: Vec<(JobId, usize)> = vec![(*start, 0)];
        while let Some((id, next)) = way.last_mut() {
            let job = by_id.get(id);
            let on = job.and_then(|job| job.on.get(*next));
            *next += 1;
            let Some(on) = on else {
                done.insert(*id);
                way.pop();
                continue;
            };
            let Some(on) = on
                .job
                .filter(|on| by_id.contains_key(on) && !done.contains(on))
            else {
                continue;
            };
            if let Some(at) = way.iter().position(|(known, _)| *known == on) {
                let cycle = way[at..]
                    .iter()
                    .filter_map(|(id, _)| by_id.get(id).copied());
                return Some(cycle.collect());
            }
            way.push((on, 0));
        }
    }
    None
}

/// Names that nobody has submitted, and who waits for them.
fn missing(waiting: &[WaitingJob]) -> Option<(Vec<String>, Vec<&WaitingJob>)> {
    let of = |job: &WaitingJob| {
        let names = job.on.iter().filter(|on| on.job.is_none());
        names
            .filter_map(|on| Some(format!("`{}`", on.name.as_ref()?)))
            .collect::<Vec<_>>()
    };
    told(waiting, of)
}

/// Jobs that wait for a person, and who waits for them.
fn behind_a_person<'a>(
    waiting: &'a [WaitingJob],
    by_id: &BTreeMap<JobId, &WaitingJob>,
) -> Option<(Vec<String>, Vec<&'a WaitingJob>)> {
    let of = |job: &WaitingJob| {
        let on = job.on.iter().filter_map(|on| by_id.get(&on.job?).copied());
        on.filter(|on| on.reason == WaitingReason::Person)
            .map(name)
            .collect::<Vec<_>>()
    };
    told(waiting, of)
}

fn told(
    waiting: &[WaitingJob],
    of: impl Fn(&WaitingJob) -> Vec<String>,
) -> Option<(Vec<String>, Vec<&WaitingJob>)> {
    let mut names = BTreeSet::new();
    let mut stuck = Vec::new();
    for job in waiting.iter().filter(|job| job.age_ns >= LEAST_NS) {
        let own = of(job);
        if !own.is_empty() {
            names.extend(own);
            stuck.push(job);
        }
    }
    (!stuck.is_empty()).then(|| (names.into_iter().collect(), stuck))
}
