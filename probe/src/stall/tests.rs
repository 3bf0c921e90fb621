//! The rules of `Watch`, as scripts of ticks.

use super::*;

const MS: u64 = 1_000_000;
const T: u64 = 50 * MS;

/// A worker as the kernel and tokio would show it, moved on tick by tick.
struct Scene {
    watch: Watch,
    reading: Reading,
    began: Vec<Found>,
    ended: Vec<Found>,
}

impl Scene {
    /// A worker that has just unparked.
    fn new() -> Self {
        let mut scene = Self {
            watch: Watch::new(T, 1_000 * MS),
            reading: Reading {
                now_ns: 1_000 * MS,
                counters: Some(Counters {
                    park_unpark: 4,
                    busy_ns: 0,
                }),
                poll_start_ns: None,
                long_poll_ns: None,
                cpu: Some(CpuTimes {
                    on_cpu_ns: 0,
                    run_queue_ns: 0,
                    runs: 1,
                }),
                runnable: Some(true),
            },
            began: Vec::new(),
            ended: Vec::new(),
        };
        scene.tick();
        scene
    }

    fn tick(&mut self) {
        let changes = self.watch.tick(&self.reading);
        self.ended.extend(changes.ended);
        self.began.extend(changes.began);
    }

    /// Ticks of 10 ms; `change` makes what happened in each.
    fn run(&mut self, ticks: u32, mut change: impl FnMut(&mut Reading)) -> &mut Self {
        for _ in 0..ticks {
            self.reading.now_ns += 10 * MS;
            change(&mut self.reading);
            self.tick();
        }
        self
    }

    fn enter_poll(&mut self) -> &mut Self {
        self.reading.poll_start_ns = Some(self.reading.now_ns + MS);
        self
    }

    /// The poll has returned, 4 ms before the next tick, and the worker parks.
    fn return_and_park(&mut self) -> &mut Self {
        self.run(1, |reading| {
            let counters = reading.counters.as_mut().expect("a worker");
            counters.park_unpark += 1;
            if let Some(start) = reading.poll_start_ns.take() {
                reading.long_poll_ns = Some(reading.now_ns - 4 * MS - start);
            }
        })
    }

    fn kinds(&self) -> Vec<StallKind> {
        self.began.iter().map(|found| found.kind).collect()
    }
}

fn computes(reading: &mut Reading) {
    reading.runnable = Some(true);
    reading.cpu.as_mut().expect("known").on_cpu_ns += 10 * MS;
}

fn sleeps(reading: &mut Reading) {
    reading.runnable = Some(false);
}

/// Another process has the CPU; the kernel counts the wait when it is over.
fn waits_for_cpu(reading: &mut Reading) {
    reading.runnable = Some(true);
}

/// Many polls of some milliseconds: the thread computes, is switched out at times, the counters stand still.
fn short_polls(reading: &mut Reading) {
    computes(reading);
    reading.cpu.as_mut().expect("known").runs += 1;
}

#[test]
fn a_wrapped_poll_that_sleeps_or_computes_is_a_named_stall_with_its_own_length() {
    for happens in [sleeps, computes] {
        let mut scene = Scene::new();
        let start = scene.reading.now_ns + MS;
        scene.enter_poll().run(30, happens).return_and_park();
        assert_eq!(scene.kinds(), [StallKind::Stall]);
        let began = scene.began[0];
        assert_eq!((began.poll_start_ns, began.began_ns), (Some(start), start));
        assert!((T..=T + 10 * MS).contains(&began.length_ns), "{began:?}");
        assert_eq!(scene.ended.len(), 1);
        assert_eq!(scene.ended[0].length_ns, 305 * MS);
    }
}

#[test]
fn without_a_trace_of_its_end_a_named_stall_ends_between_two_ticks() {
    let mut scene = Scene::new();
    scene.enter_poll().run(20, sleeps);
    scene.run(1, |reading| reading.poll_start_ns = None);
    assert_eq!(scene.ended[0].length_ns, 204 * MS);
}

#[test]
fn a_plain_task_that_sleeps_is_a_stall_without_a_name_with_tokios_length() {
    let mut scene = Scene::new();
    scene.run(29, sleeps);
    scene.run(1, |reading| {
        reading.counters = Some(Counters {
            park_unpark: 5,
            busy_ns: 296 * MS,
        });
    });
    assert_eq!(scene.kinds(), [StallKind::Stall]);
    assert_eq!(scene.began[0].poll_start_ns, None);
    assert_eq!(scene.ended[0].length_ns, 296 * MS);
}

#[test]
fn counted_busy_time_beyond_what_the_ticks_allow_is_not_believed() {
    let mut scene = Scene::new();
    scene.run(29, sleeps);
    scene.run(1, |reading| {
        let counters = reading.counters.as_mut().expect("a worker");
        counters.busy_ns = 900 * MS;
    });
    assert_eq!(scene.ended[0].length_ns, 300 * MS);
}

#[test]
fn back_to_back_short_polls_are_never_a_stall() {
    let mut scene = Scene::new();
    scene.run(52, short_polls);
    assert_eq!(scene.kinds(), [StallKind::LongBusyWindow]);
    scene.return_and_park();
    assert_eq!(scene.ended[0].kind, StallKind::LongBusyWindow);
}

#[test]
fn back_to_back_short_wrapped_polls_are_nothing_at_all() {
    let mut scene = Scene::new();
    scene.run(52, |reading| {
        short_polls(reading);
        reading.poll_start_ns = Some(reading.now_ns - MS);
    });
    // A tick between two of them changes nothing.
    scene.run(1, |reading| reading.poll_start_ns = None);
    assert_eq!(scene.kinds(), []);
}

#[test]
fn short_polls_that_each_wait_a_little_are_never_a_stall() {
    let mut scene = Scene::new();
    scene.run(52, |reading| {
        sleeps(reading);
        let cpu = reading.cpu.as_mut().expect("known");
        cpu.runs += 1;
        cpu.on_cpu_ns += MS;
    });
    assert_eq!(scene.kinds(), [StallKind::LongBusyWindow]);
}

#[test]
fn a_plain_task_that_computes_and_then_sleeps_becomes_a_stall() {
    let mut scene = Scene::new();
    scene.run(10, computes).run(10, sleeps).return_and_park();
    assert_eq!(scene.kinds(), [StallKind::LongBusyWindow, StallKind::Stall]);
    assert_eq!(scene.ended.len(), 2);
}

#[test]
fn an_unknown_thread_is_never_said_to_sleep() {
    let mut scene = Scene::new();
    scene.reading.cpu = None;
    scene.run(30, |reading| reading.runnable = None);
    assert_eq!(scene.kinds(), [StallKind::LongBusyWindow]);
    assert_eq!(scene.began[0].on_cpu_ns, None);
}

#[test]
fn a_thread_without_a_cpu_is_starved_and_not_stalled() {
    for named in [true, false] {
        let mut scene = Scene::new();
        if named {
            scene.enter_poll();
        }
        scene.run(20, waits_for_cpu);
        assert_eq!(scene.kinds(), [StallKind::Starved], "named: {named}");
    }
}

#[test]
fn the_wait_for_a_cpu_is_taken_off_a_named_poll() {
    let mut scene = Scene::new();
    scene.enter_poll().run(4, waits_for_cpu);
    scene.run(1, |reading| {
        let cpu = reading.cpu.as_mut().expect("known");
        cpu.run_queue_ns += 40 * MS;
        cpu.runs += 1;
    });
    scene.run(3, computes);
    assert_eq!(scene.kinds(), [StallKind::Starved]);
    // Its own 50 ms are full only now, 90 ms after it began.
    scene.run(2, computes);
    assert_eq!(scene.kinds(), [StallKind::Starved, StallKind::Stall]);
    assert_eq!(scene.began[1].run_queue_ns, Some(40 * MS));
}

#[test]
fn block_in_place_is_no_stall_whichever_way_the_worker_shows_it() {
    // Nobody else has work: the new thread parks the worker.
    let mut scene = Scene::new();
    scene.enter_poll();
    scene.run(1, |reading| {
        sleeps(reading);
        reading.counters.as_mut().expect("a worker").park_unpark += 1;
    });
    scene.run(20, sleeps);
    assert_eq!(scene.kinds(), []);
    // The new thread works, and is not known yet.
    let mut scene = Scene::new();
    scene.enter_poll().run(2, sleeps);
    scene.run(1, |reading| {
        reading.counters.as_mut().expect("a worker").park_unpark += 2;
    });
    scene.run(20, sleeps);
    assert_eq!(scene.kinds(), []);
}

#[test]
fn a_stall_that_goes_into_block_in_place_ends() {
    let mut scene = Scene::new();
    scene.enter_poll().run(10, sleeps);
    assert_eq!(scene.kinds(), [StallKind::Stall]);
    scene.run(20, |reading| {
        reading.counters.as_mut().expect("a worker").park_unpark = 5;
    });
    assert_eq!(scene.ended.len(), 1);
    assert_eq!(scene.began.len(), 1);
}

#[test]
fn after_a_gap_of_the_watchdog_everything_is_counted_anew() {
    for named in [true, false] {
        let mut scene = Scene::new();
        if named {
            scene.enter_poll();
        }
        scene.run(3, sleeps);
        scene.reading.now_ns += 2_000 * MS;
        scene.watch.restart(scene.reading.now_ns);
        scene.tick();
        scene.run(4, sleeps);
        assert_eq!(scene.kinds(), [], "named: {named}");
        scene.run(1, sleeps);
        assert_eq!(scene.kinds(), [StallKind::Stall], "named: {named}");
    }
}

#[test]
fn a_poll_from_before_a_gap_that_no_tick_had_seen_is_counted_anew() {
    let mut scene = Scene::new();
    scene.enter_poll();
    scene.reading.now_ns += 400 * MS;
    scene.watch.restart(scene.reading.now_ns);
    scene.tick();
    scene.run(1, sleeps).return_and_park();
    assert_eq!(scene.kinds(), []);
}

#[test]
fn a_stall_goes_on_through_a_gap_of_the_watchdog() {
    let mut scene = Scene::new();
    scene.run(10, sleeps);
    scene.reading.now_ns += 2_000 * MS;
    scene.watch.restart(scene.reading.now_ns);
    scene.tick();
    scene.run(10, sleeps).return_and_park();
    assert_eq!((scene.began.len(), scene.ended.len()), (1, 1));
}

#[test]
fn a_parked_worker_is_at_rest_however_long() {
    let mut scene = Scene::new();
    scene.return_and_park().run(100, sleeps);
    assert_eq!(scene.kinds(), []);
    assert_eq!(scene.watch.unmoved_ns(scene.reading.now_ns), 0);
}

#[test]
fn a_watched_future_outside_the_workers_stalls_by_its_slot_alone() {
    let mut scene = Scene::new();
    scene.reading.counters = None;
    scene.watch = Watch::new(T, scene.reading.now_ns);
    scene.tick();
    scene.run(100, sleeps);
    assert_eq!(scene.kinds(), []);
    scene.enter_poll().run(10, sleeps);
    scene.run(1, |reading| reading.poll_start_ns = None);
    assert_eq!(scene.kinds(), [StallKind::Stall]);
    assert_eq!(scene.ended.len(), 1);
}
