//! The lane's state under a model checker: each test runs under every interleaving of its threads that `loom` finds.
//!
//! What is checked, of [`Slots`], [`Room`] and [`StateCell`](crate::state::StateCell)'s table under one lock, as in
//! [`Shared`](crate::shared::Shared):
//!
//! 1. No lost wake: every queued job is begun, however submits, ends, parking and changes of the limit interleave.
//! 2. The limit is not exceeded by a start.
//! 3. A promise of room is used once or handed on: whoever stays in line gets room, also where others leave it in the
//!    very moment in which they are promised theirs.
//! 4. A job that is cancelled while it completes, or while it is taken, ends once.

use std::task::Waker;

use loom::{
    sync::{Arc, Condvar, Mutex},
    thread,
};

use crate::{
    room::{Load, Room, Ticket},
    slots::{Call, Slots},
};

/// A lane without jobs' contents: its lock, its counts, and a flag for each runner in the place of a waker.
struct Lane {
    core: Mutex<Core>,
    woken: Condvar,
}

struct Core {
    slots: Slots,
    queued: usize,
    begun: usize,
    ended: usize,
    expected: usize,
    /// Runners that have to be polled.
    runnable: Vec<u32>,
}

impl Lane {
    fn new(limit: usize, expected: usize) -> Arc<Self> {
        Arc::new(Self {
            core: Mutex::new(Core {
                slots: Slots::new(limit),
                queued: 0,
                begun: 0,
                ended: 0,
                expected,
                runnable: Vec::new(),
            }),
            woken: Condvar::new(),
        })
    }

    fn call(&self, core: &mut Core, beginning: usize) {
        if let Some(Call::Wake(runner) | Call::Make(runner)) = core.slots.call(beginning) {
            core.runnable.push(runner);
            self.woken.notify_all();
        }
    }

    fn submit(&self) {
        let mut core = self.core.lock().expect("no panic");
        core.queued += 1;
        self.call(&mut core, 0);
    }

    fn resize(&self, limit: usize) {
        let mut core = self.core.lock().expect("no panic");
        core.slots.set_limit(limit);
        if core.queued > 0 {
            self.call(&mut core, 0);
        }
    }

    /// A worker of the runtime: polls runners until all jobs have ended.
    fn work(&self, parallel: bool) {
        loop {
            let runner = {
                let mut core = self.core.lock().expect("no panic");
                loop {
                    if core.ended == core.expected {
                        self.woken.notify_all();
                        return;
                    }
                    match core.runnable.pop() {
                        Some(runner) => break runner,
                        // A lost wake would leave every worker here: loom reports the deadlock.
                        None => core = self.woken.wait(core).expect("no panic"),
                    }
                }
            };
            self.poll(runner, parallel);
        }
    }

    /// As `Shared::take` does it, job after job.
    fn poll(&self, runner: u32, parallel: bool) {
        let mut running = false;
        loop {
            let mut core = self.core.lock().expect("no panic");
            if std::mem::take(&mut running) {
                core.slots.end();
                core.ended += 1;
            }
            if !core.slots.arrive(runner) {
                return;
            }
            if core.queued > 1 {
                let before = core.runnable.len();
                self.call(&mut core, 1);
                if parallel && core.runnable.len() > before {
                    core.slots.hand_on(runner);
                    core.runnable.push(runner);
                    self.woken.notify_all();
                    return;
                }
            }
            if core.queued == 0 || !core.slots.has_room() {
                core.slots.park(runner);
                return;
            }
            core.queued -= 1;
            core.begun += 1;
            core.slots.begin();
            assert!(
                core.slots.running() <= core.slots.limit(),
                "a start beyond the limit"
            );
            running = true;
        }
    }
}

fn explore(check: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    // Two preemptions find what two threads can do wrong; more only take longer.
    model.preemption_bound = Some(2);
    model.check(check);
}

/// 1, 2: submits race parking, on one worker and on two, with both ways of passing the call on.
#[test]
fn every_queued_job_is_begun() {
    for parallel in [false, true] {
        explore(move || {
            let lane = Lane::new(2, 3);
            let worker = Arc::clone(&lane);
            let worker = thread::spawn(move || worker.work(parallel));
            let submitter = Arc::clone(&lane);
            let submitter = thread::spawn(move || {
                submitter.submit();
                submitter.submit();
            });
            lane.submit();
            lane.work(parallel);
            submitter.join().expect("no panic");
            worker.join().expect("no panic");
            assert_eq!(lane.core.lock().expect("no panic").begun, 3);
        });
    }
}

/// 1, 2: the limit falls and rises while jobs begin and end.
#[test]
fn a_limit_that_moves_loses_no_job() {
    explore(|| {
        let lane = Lane::new(2, 3);
        for _ in 0..3 {
            lane.submit();
        }
        let worker = Arc::clone(&lane);
        let worker = thread::spawn(move || worker.work(true));
        let steerer = Arc::clone(&lane);
        let steerer = thread::spawn(move || {
            steerer.resize(1);
            steerer.resize(3);
        });
        lane.work(true);
        steerer.join().expect("no panic");
        worker.join().expect("no panic");
    });
}

const ONE: Load = Load { jobs: 1, bytes: 0 };

/// Room with a flag for each ticket in the place of a waker.
struct Line {
    room: Mutex<Room<u32>>,
    woken: Condvar,
}

impl Line {
    fn with(&self, change: impl FnOnce(&mut Room<u32>)) {
        let mut room = self.room.lock().expect("no panic");
        change(&mut room);
        while room.promise_next().is_some() {
            self.woken.notify_all();
        }
    }

    /// Waits for room, uses it, and leaves it again.
    fn pass(&self, number: u32) {
        let mut room = self.room.lock().expect("no panic");
        let mut ticket = room.wait(ONE, number).err();
        while let Some(standing) = ticket {
            match room.check(standing, number) {
                Ok(_) => ticket = None,
                Err(_) => room = self.woken.wait(room).expect("no panic"),
            }
        }
        room.return_promise(ONE);
        assert!(room.take_first(ONE), "a promise was not kept");
        assert!(room.taken().jobs <= 1);
        drop(room);
        self.with(|room| room.leave(ONE));
    }

    /// Stands in line, and goes away whatever has been promised by then.
    fn give_up(&self, number: u32) {
        let ticket: Option<Ticket> = {
            let mut room = self.room.lock().expect("no panic");
            room.wait(ONE, number).err()
        };
        thread::yield_now();
        self.with(|room| match ticket {
            Some(ticket) => {
                room.give_up(ticket, ONE);
            }
            None => room.return_promise(ONE),
        });
    }
}

/// 3: one place, a queued job that leaves it, one who waits for it and one who goes away.
#[test]
fn promised_room_is_used_once_or_handed_on() {
    explore(|| {
        let mut room = Room::new(Load {
            jobs: 1,
            bytes: usize::MAX,
        });
        assert!(room.take(ONE));
        let line = Arc::new(Line {
            room: Mutex::new(room),
            woken: Condvar::new(),
        });
        let leaver = Arc::clone(&line);
        let leaver = thread::spawn(move || leaver.give_up(1));
        let stayer = Arc::clone(&line);
        let stayer = thread::spawn(move || stayer.pass(2));
        line.with(|room| room.leave(ONE));
        leaver.join().expect("no panic");
        stayer.join().expect("no panic");
        let room = line.room.lock().expect("no panic");
        assert_eq!((room.taken().jobs, room.waiting()), (0, 0));
    });
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Queued,
    Running,
    Ended,
}

/// 4: a cancel meets the job anywhere between the queue and its end; one of the two ends it, and room and slot are
/// given back once.
#[test]
fn a_cancelled_job_ends_once() {
    explore(|| {
        let mut room = Room::<Waker>::new(Load {
            jobs: 1,
            bytes: usize::MAX,
        });
        assert!(room.take(ONE));
        let job = Arc::new(Mutex::new((Stage::Queued, room, Slots::new(1), 0)));
        let runner = Arc::clone(&job);
        let runner = thread::spawn(move || {
            let begun = {
                let mut job = runner.lock().expect("no panic");
                let begun = job.0 == Stage::Queued;
                if begun {
                    job.0 = Stage::Running;
                    job.1.leave(ONE);
                    job.2.begin();
                }
                begun
            };
            if begun {
                let mut job = runner.lock().expect("no panic");
                job.0 = Stage::Ended;
                job.2.end();
                job.3 += 1;
            }
        });
        {
            let mut job = job.lock().expect("no panic");
            if job.0 == Stage::Queued {
                job.0 = Stage::Ended;
                job.1.leave(ONE);
                job.3 += 1;
            }
        }
        runner.join().expect("no panic");
        let job = job.lock().expect("no panic");
        assert!(job.0 == Stage::Ended && job.3 == 1);
        assert_eq!((job.1.taken().jobs, job.2.running()), (0, 0));
    });
}
