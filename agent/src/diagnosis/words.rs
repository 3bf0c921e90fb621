//! Words that several rules use.

use ax_wire::{
    event::Stall,
    incident::RunningJob,
    sample::{TaskKind, TaskRef},
    verdict::Culprit,
};

pub(crate) use crate::text::duration;

/// The name of a task in a sentence.
pub(crate) fn named(task: Option<&TaskRef>) -> String {
    task.map_or_else(
        || "a task without a name".to_owned(),
        |task| format!("`{}`", task.name),
    )
}

/// Whose poll it is, in a sentence: "A poll of `x`", "A request of `GET /x`".
pub(crate) fn poll_of(task: Option<&TaskRef>) -> String {
    match task {
        Some(task) if task.kind == TaskKind::Request => {
            format!("A poll of request `{}`", task.name)
        }
        _ => format!("A poll of {}", named(task)),
    }
}

/// How to find a task that has no name.
pub(crate) fn find_unnamed(task: Option<&TaskRef>) -> Option<&'static str> {
    task.is_none().then_some(
        "find it: the snapshot of the stall has its stack where the probe takes stacks (`.stacks(true)`); \
         `ax_probe::spawn(name, ..)` gives it a name",
    )
}

/// Where a stall was.
pub(crate) fn worker_of(stall: &Stall) -> String {
    stall.worker.map_or_else(
        || "a thread outside the workers".to_owned(),
        |worker| format!("worker {worker}"),
    )
}

pub(crate) fn culprit_of(task: &TaskRef) -> Culprit {
    Culprit {
        task_type: Some(task.name.clone()),
        place: task.place.clone(),
        job: task.job,
        trace: task.trace,
        frame: None,
    }
}

pub(crate) fn culprit_job(job: &RunningJob) -> Culprit {
    culprit_of(&job.task)
}

/// `3 jobs`, `1 job`.
pub(crate) fn jobs(count: usize) -> String {
    match count {
        1 => "1 job".to_owned(),
        many => format!("{many} jobs"),
    }
}

/// `37 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// `a`, `a and b`, `a, b and 3 more`: at most `most` by name.
pub(crate) fn list(names: &[String], most: usize) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [one, other] => format!("{one} and {other}"),
        many if many.len() <= most => {
            let (last, rest) = many
                .split_last()
                .map_or(("", many), |(l, r)| (l.as_str(), r));
            format!("{} and {last}", rest.join(", "))
        }
        many => format!("{} and {} more", many[..most].join(", "), many.len() - most),
    }
}
