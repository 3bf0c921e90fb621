//! Jobs that wait for other jobs.

use super::*;

fn with(jobs: &[ax_wire::sample::WaitingJob]) -> Scene {
    let mut scene = Scene::healthy();
    scene.goes_on(1, |picture| picture.waiting_jobs = jobs.to_vec());
    scene
}

/// F63: a cycle, what nobody submitted, and what a person has to look after.
#[test]
fn jobs_that_wait_for_what_cannot_finish() {
    let ring = vec![
        waiting(1, "a", &[(Some(2), None)]),
        waiting(2, "b", &[(Some(3), None)]),
        waiting(3, "c", &[(Some(1), None)]),
    ];
    let finding = found(with(&ring).answer(V::StuckDependencies));
    assert!(
        finding
            .sentence
            .contains("in a circle: `a` -> `b` -> `c` -> `a`"),
        "{}",
        finding.sentence
    );
    let missing = vec![waiting(1, "report", &[(None, Some("ledger"))])];
    let finding = found(with(&missing).answer(V::StuckDependencies));
    assert!(
        finding
            .sentence
            .contains("1 job waits for `ledger`, which nobody has submitted")
    );
    let verdicts = with(&missing).diagnosis().verdicts.clone();
    let hurt: Vec<_> = verdicts[0].who_is_hurt.iter().collect();
    assert_eq!(verdicts[0].id, V::StuckDependencies);
    assert_eq!(hurt.len(), 1, "{hurt:?}");
    assert_eq!((hurt[0].name.as_str(), hurt[0].affected), ("step", Some(1)));
    let mut failed = waiting(2, "import", &[]);
    failed.reason = WaitingReason::Person;
    let behind = vec![waiting(1, "report", &[(Some(2), None)]), failed];
    let finding = found(with(&behind).answer(V::StuckDependencies));
    assert!(
        finding.sentence.contains("waits for a person"),
        "{}",
        finding.sentence
    );
}

#[test]
fn a_job_that_waits_for_one_that_runs_is_fine_for_five_minutes() {
    let mut job = waiting(1, "report", &[(Some(9), None)]);
    assert_eq!(
        with(&[job.clone()]).answer(V::StuckDependencies),
        Answer::Fine
    );
    job.age_ns = 301 * S;
    let finding = found(with(&[job]).answer(V::StuckDependencies));
    assert!(
        finding.sentence.contains("more than 5 minutes"),
        "{}",
        finding.sentence
    );
}

#[test]
fn a_name_may_come_a_little_later_than_who_waits_for_it() {
    let mut job = waiting(1, "report", &[(None, Some("ledger"))]);
    job.age_ns = S;
    assert_eq!(with(&[job]).answer(V::StuckDependencies), Answer::Fine);
}

/// A sample lists 32 of them: what is said is the true count, or that it is a lower bound.
#[test]
fn jobs_that_are_not_listed_are_not_forgotten() {
    let jobs: Vec<_> = (1..=32)
        .map(|job| waiting(job, "report", &[(None, Some("ledger"))]))
        .collect();
    let with = |listed: usize, told: Option<u64>| {
        let mut scene = Scene::healthy();
        scene.goes_on(1, |picture| {
            picture.waiting_jobs = jobs[..listed].to_vec();
            // Of two lanes.
            picture.lane("db").dependents = told.map(|told| told - 2);
            picture.lane("api").dependents = told.map(|_| 2);
        });
        found(scene.answer(V::StuckDependencies))
    };
    let all = with(32, Some(128));
    assert_eq!(
        all.sentence,
        "At least 32 of 128 jobs that wait for others wait for `ledger`, which nobody has submitted; the oldest, `report`, \
         for 10 s."
    );
    let total = all.evidence.iter();
    let mut total = total.filter(|of| of.what == "jobs that wait for other jobs");
    assert_eq!(total.next().map(|of| of.value), Some(128.0));
    let unknown = with(32, None).sentence;
    assert!(
        unknown.starts_with("At least 32 jobs wait for"),
        "{unknown}"
    );
    let few = with(3, Some(3)).sentence;
    assert!(few.starts_with("3 jobs wait for"), "{few}");
    let one = with(1, None).sentence;
    assert!(one.starts_with("1 job waits for"), "{one}");
}
