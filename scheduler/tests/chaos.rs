//! Random histories of whole schedulers against an obvious model (F69): dependencies, retries, delays, timeouts, panics,
//! cancels, priorities and preemption at once, thousands of jobs a case, under paused time. On failure proptest prints the seed and
//! the smallest history that fails.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use ax_scheduler::{
    Backoff, Dependency, JobContext, JobError, JobEventKind, JobId, JobState, Lane, Scheduler,
};
use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::time::sleep;

const LIMITS: [usize; 3] = [1, 5, 40];

/// How an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Succeed,
    Fail,
    Panic,
    /// Runs until its timeout.
    Hang,
}

#[derive(Clone, Debug)]
struct Plan {
    lane: usize,
    priority: u8,
    run_ms: u64,
    delay_ms: u64,
    /// The last one is for all attempts that follow.
    ends: Vec<End>,
    retries: u32,
    preemptible: bool,
    any: bool,
    /// Each by how many jobs before this one; as many as there are.
    after: Vec<usize>,
    /// How long after its submit it is cancelled.
    cancel_ms: Option<u64>,
}

impl Plan {
    fn dependencies(&self, own: usize) -> Vec<usize> {
        let before = self.after.iter().filter(|back| **back < own);
        before.map(|back| own - 1 - back).collect()
    }

    fn end_of(&self, attempt: u32) -> End {
        let last = self.ends.len() - 1;
        self.ends[last.min(attempt as usize - 1)]
    }

    /// The attempts it takes, and whether the last one succeeds.
    fn expected(&self) -> (u32, bool) {
        let attempts = 1..=self.retries + 1;
        let success = attempts
            .clone()
            .find(|attempt| self.end_of(*attempt) == End::Succeed);
        success.map_or((self.retries + 1, false), |attempt| (attempt, true))
    }
}

/// The moves of each job, as they were told.
type Moves = HashMap<JobId, Vec<(JobState, JobState)>>;

/// What the jobs say of themselves.
#[derive(Default)]
struct Seen {
    running: [AtomicUsize; 3],
    /// Attempts of each job, by its number.
    attempts: Mutex<HashMap<usize, Vec<u32>>>,
}

struct Slot(Arc<Seen>, usize);

impl Slot {
    fn take(seen: &Arc<Seen>, lane: usize) -> Self {
        let before = seen.running[lane].fetch_add(1, SeqCst);
        assert!(before < LIMITS[lane], "{before} run already in lane {lane}");
        Self(Arc::clone(seen), lane)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.running[self.1].fetch_sub(1, SeqCst);
    }
}

async fn run(
    cx: JobContext,
    number: usize,
    plan: Plan,
    seen: Arc<Seen>,
) -> Result<(), &'static str> {
    let _slot = Slot::take(&seen, plan.lane);
    {
        let mut attempts = seen.attempts.lock();
        let attempts = attempts.entry(number).or_default();
        // One that was preempted begins the same attempt again.
        if attempts.last() != Some(&cx.attempt()) {
            attempts.push(cx.attempt());
        }
    }
    sleep(Duration::from_millis(plan.run_ms)).await;
    match plan.end_of(cx.attempt()) {
        End::Succeed => Ok(()),
        End::Fail => Err("told to"),
        End::Panic => panic!("told to"),
        End::Hang => std::future::pending().await,
    }
}

/// What must hold of one job, given how those before it ended.
fn check(
    number: usize,
    plan: &Plan,
    states: &[JobState],
    attempts: &[u32],
    error: Option<&JobError>,
) {
    let state = states[number];
    let parents: Vec<_> = plan
        .dependencies(number)
        .into_iter()
        .map(|parent| states[parent])
        .collect();
    let ok = |state: &JobState| *state == JobState::Success;
    let met = parents.is_empty()
        || if plan.any {
            parents.iter().any(ok)
        } else {
            parents.iter().all(ok)
        };
    let ran = !attempts.is_empty();
    assert!(
        met || !ran,
        "job {number} ran although what it depends on failed"
    );
    assert!(
        attempts.iter().copied().eq(1..=attempts.len() as u32),
        "attempts {attempts:?}"
    );
    let (expected, succeeds) = plan.expected();
    match state {
        JobState::Success => assert!(met && succeeds && attempts.len() == expected as usize),
        JobState::Failed => assert!(met && !succeeds && attempts.len() == expected as usize),
        JobState::Cancelled => {
            let by_dependency = matches!(error, Some(JobError::Dependency(_)));
            assert!(
                plan.cancel_ms.is_some() || (by_dependency && !met),
                "{error:?}"
            );
            assert!(attempts.len() <= expected as usize);
        }
        other => panic!("job {number} has not ended: {other}"),
    }
    if !met {
        assert_eq!(state, JobState::Cancelled);
    }
}

/// What must hold of each job, and of its moves.
fn check_all(
    plans: &[Plan],
    states: &[JobState],
    results: &[Option<JobError>],
    seen: &Seen,
    events: &Moves,
    ids: &[JobId],
) {
    let attempts = seen.attempts.lock();
    for (number, plan) in plans.iter().enumerate() {
        let attempts = attempts.get(&number).map_or(&[][..], Vec::as_slice);
        check(number, plan, states, attempts, results[number].as_ref());
    }
    // Each move begins where the one before it ended.
    for (number, id) in ids.iter().enumerate() {
        let mut at = JobState::Pending;
        for (from, to) in &events[id] {
            assert_eq!(*from, at, "job {number}: {:?}", events[id]);
            at = *to;
        }
        assert_eq!(at, states[number]);
    }
}

/// Nothing is left, and every count adds up.
fn check_counts(
    plans: &[Plan],
    states: &[JobState],
    seen: &Seen,
    events: &Moves,
    (lanes, ids): (&[Lane; 3], &[JobId]),
) {
    let attempts = seen.attempts.lock();
    for (index, lane) in lanes.iter().enumerate() {
        let counts = lane.counts();
        assert_eq!((counts.running, counts.pending, counts.waiting), (0, 0, 0));
        let of_lane = plans
            .iter()
            .enumerate()
            .filter(|(_, plan)| plan.lane == index);
        let numbers: Vec<_> = of_lane.map(|(number, _)| number).collect();
        let ended = |state| {
            numbers
                .iter()
                .filter(|number| states[**number] == state)
                .count() as u64
        };
        let counters = counts.counters;
        assert_eq!(counters.submitted_total, numbers.len() as u64);
        assert_eq!(counters.succeeded_total, ended(JobState::Success));
        assert_eq!(counters.cancelled_total, ended(JobState::Cancelled));
        let failed = counters.failed_total + counters.panicked_total + counters.timed_out_total;
        assert_eq!(failed, ended(JobState::Failed));
        let begun = numbers
            .iter()
            .map(|number| attempts.get(number).map_or(0, Vec::len));
        // A job that is cancelled between its start and its first poll has begun, and did not say so.
        assert!(counters.started_total >= begun.sum::<usize>() as u64);
        assert_eq!(
            counters.started_total - counts.retried_total - counts.preempted_total,
            counters.finished_total() - not_begun(events, ids, &numbers)
        );
    }
}

async fn history(plans: Vec<Plan>) {
    let seen = Arc::new(Seen::default());
    let events: Arc<Mutex<Moves>> = Arc::default();
    let told = Arc::clone(&events);
    let builder = Scheduler::builder().on_event(move |event| {
        let warning = matches!(event.kind, JobEventKind::Slow | JobEventKind::Zombie);
        if !warning {
            let mut told = told.lock();
            told.entry(event.job)
                .or_default()
                .push((event.from, event.to));
        }
    });
    let ax = builder.build();
    let lanes = [0, 1, 2].map(|lane| {
        let builder = ax.lane(["a", "b", "c"][lane]).limit(LIMITS[lane]);
        builder
            .timeout(Duration::from_millis(500))
            .cancel_grace(Duration::from_millis(5))
            .preempt(lane == 1)
            .open()
            .expect("new")
    });
    let mut jobs: Vec<ax_scheduler::JobHandle<()>> = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        let after = plan.dependencies(number).into_iter();
        let after = after.map(|parent| Dependency::from(&jobs[parent]));
        let after: Vec<_> = after.collect();
        let (copy, seen) = (plan.clone(), Arc::clone(&seen));
        let job = ax.job("chaos", move |cx| run(cx, number, copy, seen));
        let backoff = Backoff::exponential().first(Duration::from_millis(50));
        let job = job
            .lane(&lanes[plan.lane])
            .priority(plan.priority)
            .retry(backoff.retries(plan.retries));
        let job = if plan.preemptible {
            job.preemptible()
        } else {
            job
        };
        let job = job.delay(Duration::from_millis(plan.delay_ms));
        let job = if plan.any {
            job.after_any(after)
        } else {
            job.after(after)
        };
        let handle = job.submit().expect("room");
        if let Some(cancel_ms) = plan.cancel_ms {
            let job = handle.job_ref();
            tokio::spawn(async move {
                sleep(Duration::from_millis(cancel_ms)).await;
                job.cancel();
            });
        }
        jobs.push(handle);
        if number % 50 == 0 {
            sleep(Duration::from_millis(20)).await;
        }
    }
    let ids: Vec<_> = jobs.iter().map(ax_scheduler::JobHandle::id).collect();
    let mut results = Vec::new();
    for job in &mut jobs {
        results.push(job.await.err());
    }
    let states: Vec<_> = jobs.iter().map(ax_scheduler::JobHandle::status).collect();
    check_all(&plans, &states, &results, &seen, &events.lock(), &ids);
    check_counts(&plans, &states, &seen, &events.lock(), (&lanes, &ids));
    ax.shutdown().await;
}

/// Jobs that ended without having begun their last attempt.
fn not_begun(events: &Moves, ids: &[JobId], numbers: &[usize]) -> u64 {
    let last = numbers
        .iter()
        .filter_map(|number| events[&ids[*number]].last());
    last.filter(|(from, _)| *from != JobState::Running).count() as u64
}

fn plan() -> impl Strategy<Value = Plan> {
    let end = prop_oneof![
        6 => Just(End::Succeed),
        2 => Just(End::Fail),
        1 => Just(End::Panic),
        1 => Just(End::Hang),
    ];
    let times = (0..30_u64, prop_oneof![4 => Just(0), 1 => 1..2_000_u64]);
    let cancel = prop_oneof![9 => Just(None), 1 => (0..3_000_u64).prop_map(Some)];
    let after = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(0..40_usize, 1..4)];
    let ends = prop::collection::vec(end, 1..4);
    (
        0..3_usize,
        1..=100_u8,
        times,
        ends,
        (0..3_u32, any::<bool>()),
        any::<bool>(),
        after,
        cancel,
    )
        .prop_map(
            |(
                lane,
                priority,
                (run_ms, delay_ms),
                ends,
                (retries, preemptible),
                any,
                after,
                cancel_ms,
            )| Plan {
                lane,
                priority,
                run_ms,
                delay_ms,
                ends,
                retries,
                preemptible,
                any,
                after,
                cancel_ms,
            },
        )
}

/// Cases: a moment without `AX_FULL=1`, minutes with it.
fn cases() -> u32 {
    if std::env::var_os("AX_FULL").is_some() {
        200
    } else {
        4
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::with_cases(cases())
    })]

    #[test]
    fn every_job_ends_as_told_whatever_happens(plans in prop::collection::vec(plan(), 1_000..3_000)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(history(plans));
    }
}
