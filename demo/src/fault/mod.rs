//! What can be made to go wrong: one small file a fault. Those of [`PLAIN`] are named as the verdict that they must lead
//! to; those of [`MISLEADING`] as what happens, for they look like something else.
//!
//! A fault runs on a thread of its own, so that nothing that it does to the workers keeps it from ending.

pub(crate) mod block;
pub(crate) mod curtain;
pub(crate) mod neighbour;
pub(crate) mod number;
mod scene;

mod async_deadlock;
mod blocked_log_pipe;
mod blocking_call;
mod blocking_pool_busy;
mod blocking_pool_exhausted;
mod busy_neighbour;
mod busy_poll;
mod cpu_bound_poll;
mod cpu_outside_runtime;
mod cpu_starvation;
mod cpu_throttled;
mod downstream_slow;
mod fd_exhausted;
mod futurelock;
mod lane_saturated;
mod lifo_child;
mod lock_contention;
mod memory_growth;
mod mutex_on_blocking_thread;
mod pool_too_small;
mod priority_starvation;
mod process_frozen;
mod retry_storm;
mod runtime_deadlock;
mod sigstop;
mod slot_leak;
mod slow_downstream_cpu_burst;
mod stuck_dependencies;
mod throttled_database;
mod unscheduled_stall;

use std::{
    sync::mpsc::{self, SendError},
    thread,
    time::Duration,
};

use anyhow::Context as _;
use serde::Serialize;

use self::number::Number;
pub(crate) use self::scene::{Scene, Setting};
use crate::SUBCOMMAND;

/// A thing that goes wrong.
#[derive(Serialize)]
pub(crate) struct Fault {
    /// How it is asked for.
    pub(crate) name: &'static str,
    /// The verdict that it must lead to.
    pub(crate) expect: &'static str,
    /// What happens, for a person.
    pub(crate) what: &'static str,
    /// What can be set of it.
    pub(crate) numbers: &'static [Number],
    /// Prepares it, waits for [`Scene::quiet`] to be over, does it, and returns when it is over, with all undone.
    #[serde(skip)]
    run: fn(&Scene) -> anyhow::Result<()>,
}

impl Fault {
    fn lines(&self) -> String {
        let mut lines = vec![format!("{:26} {}", self.name, self.what)];
        if self.name != self.expect {
            lines.push(format!("{:26}   verdict: {}", "", self.expect));
        }
        for number in self.numbers {
            lines.push(format!("{:26}   {number}", ""));
        }
        lines.join("\n") + "\n"
    }
}

/// One for each verdict, and named as it.
const PLAIN: &[Fault] = &[
    cpu_bound_poll::FAULT,
    blocking_call::FAULT,
    lock_contention::FAULT,
    runtime_deadlock::FAULT,
    async_deadlock::FAULT,
    cpu_starvation::FAULT,
    cpu_throttled::FAULT,
    cpu_outside_runtime::FAULT,
    busy_poll::FAULT,
    downstream_slow::FAULT,
    pool_too_small::FAULT,
    lane_saturated::FAULT,
    slot_leak::FAULT,
    blocking_pool_busy::FAULT,
    blocking_pool_exhausted::FAULT,
    retry_storm::FAULT,
    priority_starvation::FAULT,
    stuck_dependencies::FAULT,
    memory_growth::FAULT,
    fd_exhausted::FAULT,
    process_frozen::FAULT,
];

/// Those that look like something else.
const MISLEADING: &[Fault] = &[
    throttled_database::FAULT,
    slow_downstream_cpu_burst::FAULT,
    busy_neighbour::FAULT,
    unscheduled_stall::FAULT,
    mutex_on_blocking_thread::FAULT,
    blocked_log_pipe::FAULT,
    futurelock::FAULT,
    lifo_child::FAULT,
    sigstop::FAULT,
];

/// All of them.
pub(crate) fn gallery() -> impl Iterator<Item = &'static Fault> {
    PLAIN.iter().chain(MISLEADING)
}

/// The fault of this name.
pub(crate) fn find(name: &str) -> Result<&'static Fault, String> {
    gallery().find(|fault| fault.name == name).ok_or_else(|| {
        let names: Vec<_> = gallery().map(|fault| fault.name).collect();
        format!(
            "there is no such fault; there are {} (--list-faults says more)",
            names.join(", ")
        )
    })
}

/// The list of faults, for a person.
pub(crate) fn list() -> String {
    gallery().map(Fault::lines).collect()
}

/// A fault that waits for its time or goes on.
pub(crate) struct Running(thread::JoinHandle<()>);

/// Starts the fault of the scene, and returns once it is prepared.
///
/// # Errors
///
/// It cannot be prepared, such as for want of a right.
pub(crate) fn start(scene: Scene) -> anyhow::Result<Running> {
    let (tell, told) = mpsc::channel();
    let fault = scene.fault();
    let scene = Scene {
        prepared: Some(tell.clone()),
        ..scene
    };
    let thread = thread::Builder::new()
        .name("demo-fault".into())
        .spawn(move || match (fault.run)(&scene) {
            Ok(()) => {}
            Err(error) if error.is::<scene::Over>() => {}
            Err(error) => {
                // Nobody listens any more once it has been prepared.
                if let Err(SendError(Err(error))) = tell.send(Err(error)) {
                    eprintln!("{SUBCOMMAND}: fault {}: {error:#}", fault.name);
                }
            }
        })
        .context("cannot start a thread")?;
    let prepared = told.recv().unwrap_or(Ok(()));
    prepared.with_context(|| format!("fault {} cannot be prepared", fault.name))?;
    Ok(Running(thread))
}

impl Running {
    /// Waits until it has undone what it did, once the curtain has fallen; not longer than `patience`.
    pub(crate) fn undone(&self, patience: Duration) {
        let mut waited = Duration::ZERO;
        let step = Duration::from_millis(5);
        while !self.0.is_finished() && waited < patience {
            thread::sleep(step);
            waited += step;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_fault_has_a_name_of_its_own_and_a_plain_one_is_named_as_its_verdict() {
        let names: HashSet<_> = gallery().map(|fault| fault.name).collect();
        assert_eq!(names.len(), PLAIN.len() + MISLEADING.len());
        for fault in PLAIN {
            assert_eq!(fault.name, fault.expect);
        }
        for fault in MISLEADING {
            assert_ne!(fault.name, fault.expect);
        }
    }

    #[test]
    fn the_numbers_of_each_fault_are_within_their_own_bounds_and_the_list_tells_them() {
        let list = list();
        for fault in gallery() {
            assert!(list.contains(fault.what), "{}", fault.name);
            for number in fault.numbers {
                assert!(
                    (number.least..=number.most).contains(&number.usual),
                    "{} of {}",
                    number.name,
                    fault.name
                );
                assert!(list.contains(number.name), "{}", number.name);
            }
        }
    }

    #[test]
    fn an_unknown_fault_is_refused_with_the_known_ones() {
        let error = find("bad-karma").err().expect("is refused");
        assert!(
            error.contains("cpu-throttled, cpu-outside-runtime"),
            "{error}"
        );
    }
}
