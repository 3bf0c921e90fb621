//! Random histories of one lane against an obvious model: which jobs run, which wait, how each ended.

use std::time::Duration;

use ax_scheduler::{JobError, JobHandle, JobState, Lane, Scheduler, SubmitError};
use proptest::prelude::*;
use tokio::sync::oneshot;

/// How a job is told to end.
#[derive(Clone, Copy, Debug)]
enum Order {
    Succeed,
    Fail,
    Panic,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Submit {
        priority: u8,
    },
    /// Of the jobs submitted so far, by share of the list.
    Cancel(prop::sample::Index),
    /// Of the jobs running now.
    End(prop::sample::Index, Order),
}

/// The model: a list, looked through from the start each time.
struct Model {
    limit: usize,
    capacity: usize,
    jobs: Vec<(u8, JobState)>,
}

impl Model {
    fn in_state(&self, wanted: JobState) -> Vec<usize> {
        let states = self.jobs.iter().enumerate();
        let found = states.filter(|(_, (_, state))| *state == wanted);
        found.map(|(job, _)| job).collect()
    }

    fn start_what_fits(&mut self) {
        while self.in_state(JobState::Running).len() < self.limit {
            let ready = self.in_state(JobState::Ready);
            // The highest priority, of these the first.
            let next = ready.into_iter().rev().max_by_key(|job| self.jobs[*job].0);
            let Some(next) = next else { return };
            self.jobs[next].1 = JobState::Running;
        }
    }

    /// False where it has to be refused.
    fn submit(&mut self, priority: u8) -> bool {
        let room = self.in_state(JobState::Ready).len() < self.capacity;
        if room {
            self.jobs.push((priority, JobState::Ready));
        }
        room
    }

    fn cancel(&mut self, job: usize) {
        let state = &mut self.jobs[job].1;
        if !state.is_end() {
            *state = JobState::Cancelled;
        }
    }
}

struct Submitted {
    handle: JobHandle<()>,
    order: Option<oneshot::Sender<Order>>,
}

fn submit(ax: &Scheduler, lane: &Lane, priority: u8) -> Result<Submitted, SubmitError> {
    let (order, orders) = oneshot::channel();
    let job = ax.job("model", move |_| async move {
        match orders.await {
            Ok(Order::Succeed) => Ok(()),
            Ok(Order::Panic) => panic!("told to"),
            Ok(Order::Fail) | Err(_) => Err("told to"),
        }
    });
    let handle = job.lane(lane).priority(priority).submit()?;
    let order = Some(order);
    Ok(Submitted { handle, order })
}

async fn run(limit: usize, capacity: usize, steps: Vec<Step>) {
    let ax = Scheduler::new();
    let lane = ax.lane("model").limit(limit).capacity(capacity).open();
    let lane = lane.expect("new");
    let mut jobs: Vec<Submitted> = Vec::new();
    let mut model = Model {
        limit,
        capacity,
        jobs: Vec::new(),
    };
    let mut rejected = 0;
    for step in steps {
        match step {
            Step::Submit { priority } => match submit(&ax, &lane, priority) {
                Ok(job) => {
                    assert!(model.submit(priority), "accepted beyond the capacity");
                    jobs.push(job);
                }
                Err(refused) => {
                    assert!(matches!(refused, SubmitError::Full { .. }), "{refused}");
                    assert!(!model.submit(priority), "refused below the capacity");
                    rejected += 1;
                }
            },
            Step::Cancel(index) if !jobs.is_empty() => {
                let job = index.index(jobs.len());
                jobs[job].handle.cancel();
                model.cancel(job);
            }
            Step::End(index, order) => {
                let running = model.in_state(JobState::Running);
                if !running.is_empty() {
                    let job = running[index.index(running.len())];
                    let sender = jobs[job].order.take().expect("it runs, so nobody ended it");
                    sender.send(order).expect("it runs, so it listens");
                    model.jobs[job].1 = match order {
                        Order::Succeed => JobState::Success,
                        Order::Fail | Order::Panic => JobState::Failed,
                    };
                }
            }
            Step::Cancel(_) => {}
        }
        // Virtual, and longer than the grace of a cancelled job.
        tokio::time::sleep(Duration::from_secs(2)).await;
        model.start_what_fits();
        let states: Vec<_> = jobs.iter().map(|job| job.handle.status()).collect();
        let expected: Vec<_> = model.jobs.iter().map(|(_, state)| *state).collect();
        assert_eq!(states, expected);
        let counts = lane.counts();
        let number = |state| model.in_state(state).len() as u64;
        assert_eq!(counts.running, number(JobState::Running));
        assert_eq!(counts.pending, number(JobState::Ready));
        let counters = counts.counters;
        assert_eq!(counters.rejected_total, rejected);
        assert_eq!(counters.succeeded_total, number(JobState::Success));
        let failed = counters.failed_total + counters.panicked_total;
        assert_eq!(failed, number(JobState::Failed));
        assert_eq!(counters.cancelled_total, number(JobState::Cancelled));
    }
    ax.shutdown().await;
    for job in jobs {
        let ended_as = job.handle.status();
        match job.handle.await {
            Ok(()) => assert_eq!(ended_as, JobState::Success),
            Err(JobError::Failed(_) | JobError::Panicked(_)) => {
                assert_eq!(ended_as, JobState::Failed);
            }
            Err(JobError::Cancelled) => assert_eq!(ended_as, JobState::Cancelled),
            Err(other) => panic!("{other}"),
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let order = prop_oneof![
        3 => Just(Order::Succeed),
        1 => Just(Order::Fail),
        1 => Just(Order::Panic),
    ];
    prop_oneof![
        // Few priorities, so that equals are common.
        4 => prop::sample::select(vec![1, 50, 51, 100]).prop_map(|priority| Step::Submit { priority }),
        1 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        3 => (any::<prop::sample::Index>(), order).prop_map(|(index, order)| Step::End(index, order)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    /// F2, F4, F17, F24, F25, F29: order, limit, capacity, ends and counts, after every step.
    #[test]
    fn a_lane_does_what_the_model_does(
        limit in 1_usize..4,
        capacity in 1_usize..6,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(run(limit, capacity, steps));
    }
}
