//! Lanes, their slots and their queues.

use super::*;

#[test]
fn more_arrives_than_can_run() {
    let mut scene = Scene::healthy();
    assert_eq!(scene.answer(V::LaneSaturated), Answer::Fine);
    scene.goes_on(4, |picture| {
        let api = picture.lane("api");
        (api.arriving, api.ending) = (160, 100);
        api.full(180, 1_500);
    });
    let finding = found(scene.answer(V::LaneSaturated));
    assert_eq!(
        finding.sentence,
        "Lane `api` gets 160 jobs a second and ends 100: all 10 slots are taken and 180 wait, a new one for 1.8 s."
    );
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.next_steps[0].starts_with("raise the lane's limit"));
    assert_eq!(scene.answer(V::DownstreamSlow), Answer::Fine);
    assert_eq!(scene.answer(V::SlotLeak), Answer::Fine);
    scene.goes_on(3, |picture| {
        let api = picture.lane("api");
        (api.arriving, api.ending, api.rejected) = (100, 100, 60);
        api.full(1_000, 9_000);
    });
    let finding = found(scene.answer(V::LaneSaturated));
    assert!(
        finding.sentence.ends_with("it refuses 38 %."),
        "{}",
        finding.sentence
    );
    assert_eq!(finding.severity, Severity::Critical);
}

/// Of an agent that came after the fault, a slow downstream has never been faster: the lane is full all the same, and
/// what is not known is said first.
#[test]
fn a_lane_whose_jobs_wait_for_what_was_always_slow_is_doubted() {
    let mut scene = Scene::new();
    scene.goes_on(30, |picture| {
        let sqlite = picture.downstream();
        (sqlite.calls, sqlite.latency_ms) = (8, 1_250);
        let db = picture.lane("db");
        (db.arriving, db.ending, db.run_ms) = (20, 8, 1_300);
        db.full(180, 20_000);
    });
    assert_eq!(scene.answer(V::DownstreamSlow), Answer::Fine);
    let finding = found(scene.answer(V::LaneSaturated));
    assert!(finding.confidence < 0.7, "{}", finding.confidence);
    let first = &finding.next_steps[0];
    assert!(
        first.starts_with("ask whether 1.3 s is usual for a call to `sqlite`"),
        "{first}"
    );
    let evidence = |what| finding.evidence.iter().any(|of| of.what == what);
    assert!(
        evidence("of that, a call to sqlite"),
        "{:#?}",
        finding.evidence
    );
}

#[test]
fn a_short_queue_in_front_of_a_full_lane_is_what_lanes_are_for() {
    let mut scene = Scene::healthy();
    scene.goes_on(5, |picture| picture.lane("api").full(8, 60));
    assert_eq!(scene.answer(V::LaneSaturated), Answer::Fine);
}

/// Its short jobs have just ceased to end: more of them do not arrive than it can run, something else holds its slots.
#[test]
fn a_lane_that_has_just_come_to_a_stop_is_not_saturated() {
    let mut scene = Scene::healthy();
    let stands = |picture: &mut Picture| {
        picture.lane("api").ending = 0;
        picture.lane("api").full(100, 900);
    };
    scene.goes_on(1, |picture| picture.lane("api").full(5, 900));
    scene.goes_on(2, stands);
    assert_eq!(scene.answer(V::LaneSaturated), Answer::Fine);
    scene.goes_on(1, stands);
    let finding = found(scene.answer(V::LaneSaturated));
    assert!(
        finding.sentence.ends_with("none has ended for 3 s."),
        "{}",
        finding.sentence
    );
}

#[test]
fn a_paused_lane_says_so() {
    let mut scene = Scene::healthy();
    scene.goes_on(4, |picture| {
        let api = picture.lane("api");
        (api.paused, api.running, api.pending, api.ending) = (true, 0, 100, 0);
    });
    let finding = found(scene.answer(V::LaneSaturated));
    assert!(finding.sentence.starts_with("Lane `api` is paused"));
    assert!(finding.next_steps[0].starts_with("resume"));
}

/// F56, F57: who holds the slots, since when, and where the last poll was.
#[test]
fn jobs_that_do_not_move_keep_their_slots() {
    let leak = |label: Option<&'static str>| {
        move |picture: &mut Picture| {
            let db = picture.lane("db");
            (db.limit, db.ending) = (8, 0);
            db.full(57, 4_000);
            picture.oldest_jobs = vec![unmoved("export", label, 40); 8];
        }
    };
    let mut scene = Scene::healthy();
    assert_eq!(scene.answer(V::SlotLeak), Answer::Fine);
    scene.goes_on(3, leak(None));
    let finding = found(scene.answer(V::SlotLeak));
    assert_eq!(
        finding.sentence,
        "8 jobs of lane `db` do not move and keep their slots: the oldest, `export`, has run for 40 s and was last \
         polled 40 s ago, started src/pdf.rs:88."
    );
    assert_eq!(finding.severity, Severity::Critical);
    assert_eq!(scene.ids()[0], V::SlotLeak);
    // The same jobs behind a label wait for each other.
    let mut scene = Scene::healthy();
    scene.goes_on(3, leak(Some("exchange rates")));
    let finding = found(scene.answer(V::AsyncDeadlock));
    assert!(
        finding
            .sentence
            .starts_with("8 jobs wait for `exchange rates` for ever"),
        "{}",
        finding.sentence
    );
    assert_eq!(scene.ids()[0], V::AsyncDeadlock);
    // And behind a call they wait for what is called.
    let mut scene = Scene::healthy();
    scene.goes_on(3, |picture| {
        leak(Some("downstream sqlite"))(picture);
        let sqlite = picture.downstream();
        (sqlite.calls, sqlite.in_flight) = (0, 8);
        sqlite.oldest_ms = vec![40_000; 8];
    });
    assert_eq!(scene.answer(V::SlotLeak), Answer::Fine);
    assert_eq!(scene.answer(V::AsyncDeadlock), Answer::Fine);
    assert_eq!(scene.ids()[0], V::DownstreamSlow);
}

#[test]
fn jobs_that_usually_take_long_are_not_stuck() {
    let slow = |picture: &mut Picture| {
        picture.lane("db").run_ms = 30_000;
        picture.oldest_jobs = vec![unmoved("db", None, 40); 8];
    };
    let mut scene = Scene::new();
    scene.goes_on(40, slow);
    assert_eq!(scene.answer(V::SlotLeak), Answer::Fine);
}

#[test]
fn of_a_lane_in_which_nothing_has_ended_nothing_is_known() {
    let mut scene = Scene::new();
    scene.goes_on(20, |picture| {
        picture.lane("db").ending = 0;
        picture.oldest_jobs = vec![unmoved("export", None, 20); 8];
    });
    let slots = needs(scene.answer(V::SlotLeak));
    assert!(slots.contains("8 jobs that do not move to end"), "{slots}");
    assert!(needs(scene.answer(V::AsyncDeadlock)).contains("60 s"));
}

#[test]
fn one_job_behind_a_label_may_wait_for_something_slow() {
    let mut scene = Scene::healthy();
    scene.goes_on(3, |picture| {
        picture.oldest_jobs = vec![unmoved("export", Some("mail"), 40)];
    });
    assert_eq!(scene.answer(V::AsyncDeadlock), Answer::Fine);
}

/// Jobs that await jobs of their own full lane.
#[test]
fn a_lane_that_waits_for_itself_is_a_deadlock() {
    let mut scene = Scene::healthy();
    scene.goes_on(3, |picture| {
        let db = picture.lane("db");
        (db.limit, db.ending) = (2, 0);
        db.full(2, 4_000);
        picture.oldest_jobs = vec![unmoved("parent", Some("lane db"), 12); 2];
    });
    let finding = found(scene.answer(V::AsyncDeadlock));
    assert!(
        finding.sentence.contains("`lane db`"),
        "{}",
        finding.sentence
    );
}

#[test]
fn retries_that_are_most_of_the_load() {
    let retries = |retried: u64| {
        move |picture: &mut Picture| {
            (picture.lane("api").retried, picture.lane("api").ending) = (retried, 20);
        }
    };
    let mut scene = Scene::healthy();
    scene.goes_on(3, retries(60));
    let finding = found(scene.answer(V::RetryStorm));
    assert!(
        finding
            .sentence
            .starts_with("75 % of the attempts in lane `api`")
    );
    let culprit = finding.culprit.expect("is named");
    assert_eq!(culprit.task_type.as_deref(), Some("api"));
    let mut scene = Scene::healthy();
    scene.goes_on(3, retries(2));
    assert_eq!(
        scene.answer(V::RetryStorm),
        Answer::Fine,
        "a few are what they are for"
    );
}

#[test]
fn low_priorities_that_are_never_begun() {
    let band = |lowest: u8, oldest_s: u64| QueueBand {
        lowest,
        highest: lowest + 9,
        pending: 12,
        oldest_ns: Some(oldest_s * S),
    };
    let full = |bands: Vec<QueueBand>, wait_ms: u64| {
        move |picture: &mut Picture| {
            let api = picture.lane("api");
            api.full(12, wait_ms);
            api.bands.clone_from(&bands);
        }
    };
    let mut scene = Scene::healthy();
    scene.goes_on(3, full(vec![band(81, 0), band(1, 9)], 5));
    let finding = found(scene.answer(V::PriorityStarvation));
    assert!(
        finding.sentence.contains("of priority 1 to 10"),
        "{}",
        finding.sentence
    );
    // Where the oldest came after the seconds that are looked at began, what began then has not overtaken it.
    let mut scene = Scene::healthy();
    scene.goes_on(3, full(vec![band(61, 2)], 5));
    assert_eq!(scene.answer(V::PriorityStarvation), Answer::Fine);
    // Where all wait alike, the lane is too small for all of them.
    let mut scene = Scene::healthy();
    scene.goes_on(3, full(vec![band(81, 8), band(1, 9)], 8_000));
    assert_eq!(scene.answer(V::PriorityStarvation), Answer::Fine);
}
