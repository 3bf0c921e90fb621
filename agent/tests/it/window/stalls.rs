//! Lag, and the stalls behind it.

use ax_agent::history::ServiceHistory;
use ax_wire::{
    RuntimeId,
    event::{Event, Events, ObserverGap, Stall, StallKind},
    sample::WorkerState,
};

use super::{at, feed, history, seen};
use crate::common::{EPOCH_UNIX_NS, MS, SECOND, lag_point, sample};

#[test]
fn lag_keeps_its_parts_apart_and_takes_the_largest_where_one_is_needed() {
    let mut history = history();
    let mut parts = sample(1);
    parts.lag = (1..=100).map(|n| lag_point(n * 10 * MS, n * MS)).collect();
    parts.lag[49].schedule_ns = Some(300 * MS);
    parts.lag[99].stall_ns = Some(120 * MS);
    feed(&mut history, parts);
    let lag = seen(&history, 1).lag;
    assert_eq!(lag.now_ns, Some(120 * MS));
    assert_eq!(lag.p50_ns, Some(51 * MS));
    assert_eq!(lag.p99_ns, Some(120 * MS));
    assert_eq!(lag.max_ns, Some(300 * MS));
    assert_eq!(lag.schedule_max_ns, Some(300 * MS));
    assert_eq!(lag.timer_max_ns, Some(100 * MS));
    assert_eq!(lag.stall_max_ns, Some(120 * MS));
}

pub fn stall(id: u64, kind: StallKind, began_mono_ns: u64, length_ns: u64) -> Stall {
    Stall {
        id,
        runtime: RuntimeId(1),
        worker: Some(0),
        tid: Some(100),
        kind,
        began_mono_ns,
        length_ns,
        run_queue_ns: None,
        on_cpu_ns: None,
        task: None,
        thread: None,
    }
}

pub fn tell(history: &mut ServiceHistory, event: Event, seconds: u64) {
    history.events(
        Events {
            events: vec![event],
        },
        at(seconds),
    );
}

#[test]
fn a_stall_grows_until_it_ends() {
    let mut history = history();
    feed(&mut history, sample(1));
    let began = stall(7, StallKind::Stall, SECOND, 50 * MS);
    tell(&mut history, Event::StallBegan(began), 1);
    let mut stalled = sample(3);
    stalled.runtimes[0].workers[0].state = WorkerState::Stalled;
    feed(&mut history, stalled);
    let view = seen(&history, 3);
    assert!(view.stalls[0].ongoing);
    assert_eq!(view.stalls[0].stall.length_ns, 2 * SECOND);
    assert_eq!(view.stalls[0].began_unix_ns, EPOCH_UNIX_NS + SECOND);
    assert_eq!(view.lag.stall_max_ns, Some(2 * SECOND));
    assert_eq!(view.lag.max_ns, Some(2 * SECOND));

    let ended = stall(7, StallKind::Stall, SECOND, 2_300 * MS);
    tell(&mut history, Event::StallEnded(ended), 4);
    let view = seen(&history, 4);
    assert_eq!(view.stalls.len(), 1);
    assert!(!view.stalls[0].ongoing);
    assert_eq!(view.lag.stall_max_ns, Some(2_300 * MS));
}

#[test]
fn a_stall_whose_end_was_lost_ends_with_the_next_sample_or_the_connection() {
    let mut history = history();
    feed(&mut history, sample(1));
    tell(
        &mut history,
        Event::StallBegan(stall(1, StallKind::Stall, SECOND, 50 * MS)),
        1,
    );
    feed(&mut history, sample(2));
    assert!(
        seen(&history, 2).stalls[0].ongoing,
        "the word of its end may be on its way"
    );
    feed(&mut history, sample(3));
    assert!(!seen(&history, 3).stalls[0].ongoing, "its worker moves");
    tell(
        &mut history,
        Event::StallBegan(stall(2, StallKind::Stall, 3 * SECOND, 50 * MS)),
        3,
    );
    assert!(seen(&history, 3).stalls[0].ongoing);
    history.disconnected();
    assert!(!seen(&history, 3).stalls[0].ongoing);
}

#[test]
fn look_alikes_are_shown_and_do_not_count_as_stalls() {
    let mut history = history();
    feed(&mut history, sample(1));
    for (id, kind) in [(1, StallKind::LongBusyWindow), (2, StallKind::Starved)] {
        tell(
            &mut history,
            Event::StallEnded(stall(id, kind, SECOND, 400 * MS)),
            1,
        );
    }
    let gap = ObserverGap {
        due_mono_ns: SECOND,
        late_ns: 90 * MS,
    };
    tell(&mut history, Event::ObserverNotScheduled(gap), 1);
    let view = seen(&history, 1);
    assert_eq!(view.stalls.len(), 2);
    assert_eq!(view.stalls[0].stall.id, 2, "newest first");
    assert_eq!(view.lag.stall_max_ns, None);
    assert_eq!(view.observer_gaps, [gap]);
}
