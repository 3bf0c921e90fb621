//! The stacks that a probe takes of real workers: how many, of which stall, and none where they are not wanted. What they
//! show is tested in the workspace's own `tests/stacks.rs`, with names.

mod common;

use std::{thread, time::Duration};

use ax_probe::{MIN_STALL_THRESHOLD, Probe};
use ax_wire::{
    ToAgent,
    event::{Event, Stall},
    stack::{StackEnd, StackProof, ThreadStack},
};
use common::{FakeAgent, turn};
use tokio::runtime::{Builder, Runtime};

const BLOCK: Duration = Duration::from_millis(450);

fn events(agent: &FakeAgent) -> Vec<Event> {
    let frames = agent.frames().into_iter();
    let batches = frames.filter_map(|frame| match frame {
        ToAgent::Events(events) => Some(events.events),
        _ => None,
    });
    batches.flatten().collect()
}

/// Blocks a worker, waits for the end of its stall, and returns it with the stacks.
fn block(agent: &FakeAgent, stacks: bool) -> (Stall, Vec<ThreadStack>) {
    let runtime = runtime();
    let probe = Probe::builder("test")
        .socket(agent.socket())
        .stall_threshold(MIN_STALL_THRESHOLD)
        .stacks(stacks)
        .install_on(runtime.handle())
        .expect("installs");
    let task = runtime.spawn(async {
        // Until the agent has greeted the probe.
        tokio::time::sleep(Duration::from_millis(200)).await;
        ax_probe::spawn("blocker", async { thread::sleep(BLOCK) }).await
    });
    let ended = agent.wait_for(|frame| match frame {
        ToAgent::Events(events) => events.events.iter().find_map(|event| match event {
            Event::StallEnded(stall) if stall.task.is_some() => Some(stall.clone()),
            _ => None,
        }),
        _ => None,
    });
    runtime.block_on(task).expect("runs").expect("no panic");
    probe.shutdown();
    let taken = events(agent).into_iter().filter_map(|event| match event {
        Event::Stack(stack) => Some(*stack),
        _ => None,
    });
    (ended, taken.collect())
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all();
    ax_probe::configure(&mut builder)
        .build()
        .expect("a runtime")
}

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#[test]
fn a_long_stall_has_two_stacks_which_are_of_its_poll() {
    let _turn = turn();
    let (stall, stacks) = block(&FakeAgent::start(), true);
    let of_it: Vec<_> = stacks.iter().filter(|of| of.stall == stall.id).collect();
    assert_eq!(of_it.len(), 2, "{stacks:#?}");
    let threshold_ns = MIN_STALL_THRESHOLD.as_nanos() as u64;
    let ages = [of_it[0].stall_age_ns, of_it[1].stall_age_ns];
    assert!(
        ages[0] >= threshold_ns && ages[0] < 10 * threshold_ns,
        "{ages:?}"
    );
    assert!(ages[1] >= 10 * threshold_ns, "{ages:?}");
    for stack in of_it {
        assert_eq!((stack.worker, Some(stack.tid)), (stall.worker, stall.tid));
        assert_eq!(stack.proof, StackProof::SamePoll);
        assert_eq!(stack.end, StackEnd::Root);
        assert!(stack.frames.len() > 10, "{} frames", stack.frames.len());
        assert!(!stack.is_named(), "names are the agent's part");
        let module = stack.module_of(&stack.frames[stack.frames.len() / 2]);
        assert!(module.expect("in a file").path.starts_with('/'));
    }
    // It stands still: only where the second was taken differs, at most.
    assert_eq!(stacks[0].frames.last(), stacks[1].frames.last());
}

#[test]
fn none_is_taken_where_the_service_does_not_want_it() {
    let _turn = turn();
    let (_, stacks) = block(&FakeAgent::start(), false);
    assert_eq!(stacks, []);
}
