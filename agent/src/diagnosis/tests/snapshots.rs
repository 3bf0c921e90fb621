//! Snapshot files: what was said when they were written, and what the evidence in them says besides.

use ax_wire::{
    RuntimeId,
    incident::{Incident, IncidentId, Reason, Snapshot},
    sample::{Dropped, LagPoint, WaitingJob},
    verdict::Diagnosis,
};

use super::*;
use crate::{
    diagnosis::of_snapshot,
    snapshot::compose,
    view::{Extras, view},
    window::Tallies,
};

/// Three jobs that wait for each other, and one for a name that nobody submitted.
fn circle() -> Vec<WaitingJob> {
    vec![
        waiting(1, "a", &[(Some(2), None)]),
        waiting(2, "b", &[(Some(3), None)]),
        waiting(3, "c", &[(Some(1), None)]),
        waiting(4, "report", &[(None, Some("ledger"))]),
    ]
}

/// What a service takes down by itself in this instant.
fn incident(scene: &Scene, waiting: Vec<WaitingJob>) -> Incident {
    let latest = scene.history.latest.as_ref().expect("has a sample");
    Incident {
        id: IncidentId::new_now(),
        reason: Reason::Capture,
        at_mono_ns: latest.at_mono_ns,
        at_unix_ns: scene.now().unix_ns,
        stalls: Vec::new(),
        stacks: Vec::new(),
        runtimes: latest.runtimes.clone(),
        process: latest.process,
        lanes: Vec::new(),
        running: Vec::new(),
        running_total: 0,
        queues: Vec::new(),
        waiting,
        lag: vec![LagPoint {
            runtime: RuntimeId(1),
            at_mono_ns: latest.at_mono_ns,
            schedule_ns: None,
            timer_ns: Some(MS),
            stall_ns: None,
        }],
        recorder: None,
        suppressed_total: 0,
        dropped: Dropped::default(),
        unknown: Vec::new(),
    }
}

/// A file of the agent, which said `said` at that time.
fn file(scene: &Scene, said: &Diagnosis, waiting: Option<Vec<WaitingJob>>) -> Snapshot {
    let window = scene.history.window();
    let extras = Extras {
        diagnosis: said.clone(),
        ..Extras::default()
    };
    let shown = view(window, scene.now(), extras, &mut Tallies::default());
    let incident = waiting.map(|waiting| incident(scene, waiting));
    compose(
        window,
        incident,
        Reason::Capture,
        shown,
        Vec::new(),
        scene.now(),
    )
}

fn ids(diagnosis: &Diagnosis) -> Vec<V> {
    diagnosis.verdicts.iter().map(|of| of.id).collect()
}

/// F63: of a file that a service wrote by itself, too.
#[test]
fn a_circle_and_a_missing_job_are_found_in_a_file() {
    let scene = Scene::healthy();
    let mut by_service = file(&scene, &Diagnosis::default(), Some(circle()));
    by_service.view = None;
    let found = of_snapshot(&by_service);
    assert_eq!(ids(&found), [V::StuckDependencies]);
    let sentence = &found.verdicts[0].sentence;
    assert!(
        sentence.contains("in a circle: `a` -> `b` -> `c` -> `a`"),
        "{sentence}"
    );
    by_service.incident.as_mut().expect("is there").waiting = circle().split_off(3);
    let found = of_snapshot(&by_service);
    let sentence = &found.verdicts[0].sentence;
    assert!(
        sentence.contains("waits for `ledger`, which nobody has submitted"),
        "{sentence}"
    );
    // An instant is no history: what needs one is not said to be fine.
    assert!(found.unsure.iter().any(|of| of.id == V::MemoryGrowth));
    let compared = found.verdicts[0].evidence.iter();
    assert!(
        !compared
            .into_iter()
            .any(|of| of.what.contains("a day before"))
    );
}

/// What the agent said comes first, and what only the evidence shows stands below it, once.
#[test]
fn what_was_said_and_what_the_evidence_shows_are_merged() {
    let mut scene = Scene::healthy();
    let healthy = scene.diagnosis().clone();
    assert_eq!(ids(&healthy), [V::Healthy]);
    scene.stall(412, |_| ());
    scene.goes_on(1, |_| ());
    let blocked = scene.diagnosis().clone();
    assert_eq!(ids(&blocked), [V::BlockingCall]);
    let merged = |said: &Diagnosis, waiting| ids(&of_snapshot(&file(&scene, said, waiting)));
    let both = [V::BlockingCall, V::StuckDependencies];
    assert_eq!(merged(&blocked, Some(circle())), both);
    // The agent found nothing wrong, and the evidence does.
    assert_eq!(
        merged(&healthy, Some(circle())),
        [V::StuckDependencies],
        "it is not healthy"
    );
    // Nothing in the evidence takes back what was said with more knowledge.
    assert_eq!(merged(&blocked, Some(Vec::new())), [V::BlockingCall]);
    assert_eq!(merged(&healthy, Some(Vec::new())), [V::Healthy]);
    // A service that could not be asked.
    assert_eq!(merged(&blocked, None), [V::BlockingCall]);
    assert_eq!(merged(&Diagnosis::default(), None), []);
    let with_own = of_snapshot(&file(&scene, &blocked, Some(circle())));
    let again = of_snapshot(&file(&scene, &with_own, Some(circle())));
    assert_eq!(ids(&again), both, "what is known is not said twice");
}
