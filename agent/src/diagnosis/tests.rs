//! Every rule: what it finds, what it leaves alone, what it cannot tell, and the one that it is confused with.

mod cpu;
mod day;
mod dependencies;
mod downstreams;
mod lanes;
mod pools;
mod process;
mod snapshots;
mod stalls;
mod together;

use ax_wire::{
    alert::Severity,
    event::StallKind,
    sample::{KernelWait, QueueBand, TaskKind, ThreadGroupKind, ThreadGroupSample, WaitingReason},
    verdict::{HurtKind, VerdictId as V},
};

use super::{
    RULES,
    answer::{Answer, Finding},
    scene::{MIB, MS, Picture, S, Scene, TypePicture, unmoved, waiting},
};
use crate::history::Outside;

/// The only finding of a rule.
fn found(answer: Answer) -> Finding {
    match answer {
        Answer::Found(mut findings) if findings.len() == 1 => findings.remove(0),
        other => panic!("{other:?}"),
    }
}

fn needs(answer: Answer) -> String {
    match answer {
        Answer::NotEnough { needs } => needs,
        other => panic!("{other:?}"),
    }
}

/// A stall whose thread was on a CPU all the while.
fn computes(stall: &mut ax_wire::event::Stall) {
    stall.on_cpu_ns = Some(stall.length_ns);
    stall.thread = None;
}

fn waits_for_lock(stall: &mut ax_wire::event::Stall) {
    let thread = stall.thread.as_mut().expect("is told");
    thread.waits_in = Some(KernelWait::Futex);
}

#[test]
fn every_cause_but_health_has_one_rule() {
    let mut ids: Vec<_> = RULES.iter().map(|rule| rule.id()).collect();
    ids.sort();
    let mut all: Vec<_> = V::ALL
        .iter()
        .copied()
        .filter(|id| *id != V::Healthy)
        .collect();
    all.sort();
    assert_eq!(ids, all);
}

/// Healthy must be quiet: at a tenth, a half and nine tenths of what it can do.
#[test]
fn a_healthy_service_has_one_verdict_whatever_its_load() {
    for load in [0.1, 0.5, 0.9] {
        let mut scene = Scene::new();
        for second in 0..120_u64 {
            let wave = 0.05 * ((second % 7) as f64 - 3.0) / 3.0;
            scene.goes_on(1, |picture| busy(picture, load + wave, second));
            let ids = scene.ids();
            assert!(
                ids.iter().all(|id| *id == V::Healthy),
                "{load} {second}: {ids:?}"
            );
        }
        assert_eq!(scene.ids(), [V::Healthy]);
        let verdict = &scene.diagnosis().verdicts[0];
        assert!(
            verdict.sentence.starts_with("lag p99 "),
            "{}",
            verdict.sentence
        );
        assert!(verdict.since_unix_ns < scene.now().unix_ns - 100 * S);
    }
}

/// A service at this share of its capacity: queues are short and come and go, memory goes up and down.
fn busy(picture: &mut Picture, load: f64, second: u64) {
    picture.on_cpu = 0.95 * load;
    picture.busy = load;
    picture.outside = 0.2 * load;
    picture.run_queue = 0.15 * load;
    picture.lag_ms = 1 + (8.0 * load * load) as u64;
    picture.rss = (100 + second % 9) * MIB;
    for lane in &mut picture.lanes {
        let rate = (lane.limit * 1_000 / lane.run_ms) as f64 * load;
        (lane.arriving, lane.ending) = (rate as u64, rate as u64);
        lane.running = ((lane.limit as f64 * load).ceil() as u64).min(lane.limit);
        if load > 0.8 && !second.is_multiple_of(3) {
            let pending = 3 + second % 5;
            lane.full(pending, 20);
        }
    }
    let sqlite = picture.downstream();
    sqlite.calls = (1_000.0 * load) as u64;
    if load > 0.8 && second.is_multiple_of(2) {
        (sqlite.in_flight, sqlite.waiting, sqlite.wait_ms) = (4, 2, 2);
    }
}

#[test]
fn a_service_that_has_just_started_says_what_it_needs() {
    let mut scene = Scene::new();
    scene.goes_on(1, |_| ());
    assert_eq!(scene.ids(), []);
    let unsure = &scene.diagnosis().unsure;
    let lane = unsure.iter().find(|unsure| unsure.id == V::LaneSaturated);
    assert_eq!(lane.expect("is unsure").needs, "3 s of figures, and has 0");
    scene.goes_on(3, |_| ());
    assert_eq!(scene.ids(), [V::Healthy]);
}
