//! Every rule: what it finds, what it leaves alone, what it cannot tell, and the one that it is confused with.

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
        if load > 0.8 && second % 3 != 0 {
            let pending = 3 + second % 5;
            lane.full(pending, 20);
        }
    }
    let sqlite = picture.downstream();
    sqlite.calls = (1_000.0 * load) as u64;
    if load > 0.8 && second % 2 == 0 {
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

mod stalls {
    use super::*;

    #[test]
    fn a_poll_that_computes() {
        let mut scene = Scene::healthy();
        assert_eq!(scene.answer(V::CpuBoundPoll), Answer::Fine);
        scene.stall(412, computes);
        let finding = found(scene.answer(V::CpuBoundPoll));
        assert_eq!(
            finding.sentence,
            "A poll of `render_pdf` computed for 412 ms on worker 0 without letting go."
        );
        let culprit = finding.culprit.expect("is named");
        assert_eq!(culprit.place.as_deref(), Some("src/pdf.rs:88"));
        assert_eq!(scene.answer(V::BlockingCall), Answer::Fine);
        assert_eq!(scene.answer(V::LockContention), Answer::Fine);
    }

    #[test]
    fn a_poll_that_sleeps_in_the_kernel() {
        let mut scene = Scene::healthy();
        assert_eq!(scene.answer(V::BlockingCall), Answer::Fine);
        scene.stall(412, |stall| {
            stall.thread.as_mut().expect("is told").waits_in = Some(KernelWait::Child);
        });
        let finding = found(scene.answer(V::BlockingCall));
        assert_eq!(
            finding.sentence,
            "A poll of `render_pdf` slept 412 ms in the kernel for another process to end (wait4) on worker 0."
        );
        assert!(finding.next_steps[0].contains("tokio::process"));
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(scene.answer(V::CpuBoundPoll), Answer::Fine);
        assert_eq!(scene.answer(V::LockContention), Answer::Fine);
    }

    #[test]
    fn a_poll_that_waits_for_a_lock() {
        let mut scene = Scene::healthy();
        scene.stall(412, waits_for_lock);
        let finding = found(scene.answer(V::LockContention));
        assert!(
            finding.sentence.contains("waited 412 ms for a lock"),
            "{finding:?}"
        );
        assert_eq!(scene.answer(V::BlockingCall), Answer::Fine);
        assert_eq!(
            scene.answer(V::RuntimeDeadlock),
            Answer::Fine,
            "the other worker moves"
        );
    }

    #[test]
    fn one_short_stall_is_no_cause_and_three_are() {
        let mut scene = Scene::healthy();
        scene.stall(60, computes);
        scene.stall(60, computes);
        assert_eq!(scene.answer(V::CpuBoundPoll), Answer::Fine);
        scene.stall(60, computes);
        let finding = found(scene.answer(V::CpuBoundPoll));
        assert_eq!(finding.severity, Severity::Warning);
    }

    #[test]
    fn a_stall_without_a_cpu_blames_no_poll() {
        let mut scene = Scene::healthy();
        scene.stall(412, |stall| {
            stall.run_queue_ns = Some(390 * MS);
            stall.on_cpu_ns = Some(20 * MS);
        });
        for id in [V::CpuBoundPoll, V::BlockingCall, V::LockContention] {
            assert_eq!(scene.answer(id), Answer::Fine, "{id}");
        }
    }

    /// It may be 61 short polls that tokio has not yet published.
    #[test]
    fn a_long_busy_window_counts_only_where_the_loop_is_late() {
        let window = |stall: &mut ax_wire::event::Stall| {
            computes(stall);
            stall.kind = StallKind::LongBusyWindow;
            stall.task = None;
        };
        let mut scene = Scene::healthy();
        scene.stall(412, window);
        assert_eq!(scene.answer(V::CpuBoundPoll), Answer::Fine);
        scene.goes_on(3, |picture| picture.lag_ms = 200);
        scene.stall(412, window);
        let finding = found(scene.answer(V::CpuBoundPoll));
        assert!(finding.confidence < 0.8 && finding.culprit.is_none());
    }

    /// F75: lag without one long poll is overload of the loop.
    #[test]
    fn workers_that_never_rest_are_overloaded() {
        let mut scene = Scene::healthy();
        scene.goes_on(3, |picture| {
            (picture.busy, picture.on_cpu, picture.lag_ms) = (1.0, 0.95, 180);
            picture.lane("db").ending = 4_000;
        });
        let finding = found(scene.answer(V::CpuBoundPoll));
        assert!(
            finding.sentence.contains("100 % busy"),
            "{}",
            finding.sentence
        );
        assert!(finding.sentence.contains("most of it in polls of `db`"));
        assert!(finding.next_steps[0].contains("take on less"));
        // Busy and in time is healthy.
        let mut scene = Scene::healthy();
        scene.goes_on(3, |picture| (picture.busy, picture.on_cpu) = (1.0, 0.95));
        assert_eq!(scene.answer(V::CpuBoundPoll), Answer::Fine);
    }

    #[test]
    fn workers_that_all_wait_for_a_lock_are_a_deadlock_unless_somebody_works() {
        let stuck = |scene: &mut Scene, outside: f64| {
            for _ in 0..3 {
                scene.goes_on(1, |picture| {
                    (picture.stalled, picture.on_cpu, picture.outside) = (true, 0.0, outside);
                    picture.blocking_running = 0;
                    picture.lag_ms = 2_000;
                });
            }
            for worker in [0, 1] {
                scene.stall_goes_on(2_500, |stall| {
                    waits_for_lock(stall);
                    stall.worker = Some(worker);
                });
            }
        };
        let mut scene = Scene::healthy();
        stuck(&mut scene, 0.0);
        let finding = found(scene.answer(V::RuntimeDeadlock));
        assert!(finding.sentence.starts_with("Both workers wait for a lock"));
        assert_eq!(finding.severity, Severity::Page);
        assert_eq!(scene.answer(V::LockContention), Answer::Fine);
        // A thread outside the workers that computes may hold the lock, and will let it go.
        let mut scene = Scene::healthy();
        stuck(&mut scene, 0.9);
        assert_eq!(scene.answer(V::RuntimeDeadlock), Answer::Fine);
        found(scene.answer(V::LockContention));
    }
}

mod cpu {
    use super::*;

    #[test]
    fn a_quota_that_is_spent() {
        let mut scene = Scene::healthy();
        assert_eq!(scene.answer(V::CpuThrottled), Answer::Fine, "no quota");
        scene.goes_on(3, |picture| picture.quota = Some((0.5, 0)));
        assert_eq!(scene.answer(V::CpuThrottled), Answer::Fine, "not spent");
        scene.goes_on(3, |picture| {
            (picture.quota, picture.run_queue) = (Some((0.5, 8)), 0.6);
        });
        let finding = found(scene.answer(V::CpuThrottled));
        assert!(
            finding.sentence.contains("allows 0.50 CPUs"),
            "{}",
            finding.sentence
        );
        assert!(finding.sentence.contains("80 %"), "{}", finding.sentence);
        assert_eq!(
            scene.answer(V::CpuStarvation),
            Answer::Fine,
            "the quota took it, not a neighbour"
        );
    }

    #[test]
    fn one_sample_says_nothing_of_a_quota() {
        let mut scene = Scene::new();
        scene.goes_on(1, |picture| picture.quota = Some((0.5, 8)));
        assert!(needs(scene.answer(V::CpuThrottled)).contains("two samples"));
    }

    #[test]
    fn workers_without_a_cpu() {
        let starved = |picture: &mut Picture| {
            (picture.on_cpu, picture.run_queue, picture.pressure) = (0.3, 0.5, 0.8);
            picture.lag_ms = 60;
        };
        let mut scene = Scene::healthy();
        scene.goes_on(2, starved);
        assert_eq!(
            scene.answer(V::CpuStarvation),
            Answer::Fine,
            "not for long enough"
        );
        scene.goes_on(1, starved);
        let finding = found(scene.answer(V::CpuStarvation));
        assert!(finding.sentence.contains("62 %"), "{}", finding.sentence);
        assert_eq!(scene.answer(V::CpuThrottled), Answer::Fine);
        assert_eq!(scene.answer(V::CpuBoundPoll), Answer::Fine);
        // A full machine on which everything still is in time.
        let mut scene = Scene::healthy();
        scene.goes_on(3, |picture| {
            starved(picture);
            picture.lag_ms = 2;
        });
        assert_eq!(scene.answer(V::CpuStarvation), Answer::Fine);
    }

    /// F81: CPU high with lag normal.
    #[test]
    fn threads_that_are_no_workers() {
        let mut scene = Scene::healthy();
        for second in 1..=3_u64 {
            scene.goes_on(1, |picture| {
                picture.outside = 1.6;
                picture.threads = vec![
                    ThreadGroupSample {
                        name: "rayon".to_owned(),
                        kind: ThreadGroupKind::Other,
                        threads: 2,
                        cpu_ns_total: second * 1_600 * MS,
                    },
                    ThreadGroupSample {
                        name: "tokio-rt-worker".to_owned(),
                        kind: ThreadGroupKind::Worker,
                        threads: 2,
                        cpu_ns_total: 100 * S,
                    },
                ];
            });
        }
        let finding = found(scene.answer(V::CpuOutsideRuntime));
        assert_eq!(
            finding.sentence,
            "1.6 of 2.0 CPUs are used by threads named `rayon`, outside the event loop."
        );
        assert_eq!(scene.answer(V::BusyPoll), Answer::Fine);
        // The same CPU in the workers is no such thing.
        let mut scene = Scene::healthy();
        scene.goes_on(3, |picture| picture.on_cpu = 0.9);
        assert_eq!(scene.answer(V::CpuOutsideRuntime), Answer::Fine);
    }

    #[test]
    fn a_task_that_wakes_itself() {
        let spins = |polls: u64, ending: u64| {
            move |picture: &mut Picture| {
                picture.on_cpu = 0.6;
                picture.types[1].polls = polls;
                picture.types[1].ending = ending;
            }
        };
        let mut scene = Scene::healthy();
        scene.goes_on(3, spins(200_000, 0));
        let finding = found(scene.answer(V::BusyPoll));
        assert_eq!(finding.subject.as_deref(), Some("ticker"));
        assert!(
            finding.sentence.contains("is polled"),
            "{}",
            finding.sentence
        );
        // As many polls that end as many tasks are work.
        let mut scene = Scene::healthy();
        scene.goes_on(3, spins(200_000, 50_000));
        assert_eq!(scene.answer(V::BusyPoll), Answer::Fine);
    }
}

mod pools {
    use super::*;

    /// F81: the pool is busy.
    #[test]
    fn a_blocking_pool_without_a_free_thread() {
        let mut scene = Scene::healthy();
        assert_eq!(scene.answer(V::BlockingPoolExhausted), Answer::Fine);
        scene.goes_on(3, |picture| {
            (picture.blocking_running, picture.blocking_lag_ms) = (64, 900);
            picture.types.push(TypePicture {
                running: 60,
                ..TypePicture::of("resize", TaskKind::Blocking, 5, 1_000)
            });
        });
        let finding = found(scene.answer(V::BlockingPoolExhausted));
        assert!(
            finding.sentence.contains("waits 900 ms"),
            "{}",
            finding.sentence
        );
        assert!(finding.sentence.contains("most by `resize`"));
        assert_eq!(
            scene.ids()[0],
            V::BlockingPoolExhausted,
            "that many run is what follows"
        );
        // One slow answer is a hiccup.
        let mut scene = Scene::healthy();
        scene.goes_on(1, |picture| picture.blocking_lag_ms = 900);
        assert_eq!(scene.answer(V::BlockingPoolExhausted), Answer::Fine);
    }

    #[test]
    fn many_closures_that_all_have_a_thread() {
        let mut scene = Scene::healthy();
        scene.goes_on(3, |picture| picture.blocking_running = 40);
        let finding = found(scene.answer(V::BlockingPoolBusy));
        assert!(finding.sentence.starts_with("40 closures run"));
        assert_eq!(scene.answer(V::BlockingPoolExhausted), Answer::Fine);
        // A service that always does so is no news.
        let mut scene = Scene::new();
        scene.goes_on(40, |picture| picture.blocking_running = 40);
        assert_eq!(scene.answer(V::BlockingPoolBusy), Answer::Fine);
    }

    #[test]
    fn callers_that_queue_for_a_client() {
        let queue = |picture: &mut Picture| {
            let sqlite = picture.downstream();
            (sqlite.in_flight, sqlite.waiting, sqlite.wait_ms) = (4, 30, 80);
        };
        let mut scene = Scene::healthy();
        assert_eq!(scene.answer(V::PoolTooSmall), Answer::Fine);
        scene.goes_on(3, queue);
        let finding = found(scene.answer(V::PoolTooSmall));
        assert_eq!(
            finding.sentence,
            "30 callers wait for 80 ms for a client of `sqlite` (all 4 clients are in use), while a call itself takes 3.0 ms."
        );
        assert_eq!(scene.answer(V::DownstreamSlow), Answer::Fine);
        // The same queue because each call is slow is another cause.
        let mut scene = Scene::healthy();
        scene.goes_on(3, |picture| {
            queue(picture);
            picture.downstream().latency_ms = 60;
        });
        assert_eq!(scene.answer(V::PoolTooSmall), Answer::Fine);
        found(scene.answer(V::DownstreamSlow));
    }
}

mod downstreams {
    use super::*;

    /// F75: low lag with much that waits is a slow downstream, with the opposite advice.
    #[test]
    fn calls_that_take_longer_than_they_used_to() {
        let mut scene = Scene::healthy();
        assert_eq!(scene.answer(V::DownstreamSlow), Answer::Fine);
        scene.goes_on(3, |picture| {
            picture.downstream().latency_ms = 120;
            picture.lane("db").run_ms = 121;
            picture.lane("db").full(200, 900);
        });
        let finding = found(scene.answer(V::DownstreamSlow));
        assert_eq!(
            finding.sentence,
            "Calls to `sqlite` take 120 ms where 3.0 ms is usual."
        );
        assert!(finding.next_steps[0].contains("only waits for it"));
        assert_eq!(scene.ids()[0], V::DownstreamSlow);
        let verdict = &scene.diagnosis().verdicts[0];
        let explained = verdict.explains.iter().find(|of| of.id == V::LaneSaturated);
        assert_eq!(
            explained.expect("explains the lane").because,
            "lane db looks saturated because its jobs wait for `sqlite`"
        );
    }

    #[test]
    fn calls_that_do_not_come_back() {
        let mut scene = Scene::healthy();
        scene.goes_on(3, |picture| {
            let sqlite = picture.downstream();
            (sqlite.calls, sqlite.in_flight) = (0, 4);
            sqlite.oldest_ms = vec![3_000, 2_900, 2_800, 2_500];
        });
        let finding = found(scene.answer(V::DownstreamSlow));
        assert!(
            finding.sentence.contains("do not come back"),
            "{}",
            finding.sentence
        );
        // One of many that hangs is a lost packet.
        let mut scene = Scene::healthy();
        scene.goes_on(3, |picture| {
            picture.downstream().in_flight = 4;
            picture.downstream().oldest_ms = vec![3_000, 2, 2, 1];
        });
        assert_eq!(scene.answer(V::DownstreamSlow), Answer::Fine);
    }

    #[test]
    fn what_is_usual_has_to_be_known_first() {
        let mut scene = Scene::new();
        scene.goes_on(6, |picture| picture.downstream().latency_ms = 120);
        let needs = needs(scene.answer(V::DownstreamSlow));
        assert!(needs.starts_with("8 s with calls of sqlite"), "{needs}");
    }

    /// After a quarter of an hour the history holds nothing else, and yet it is not the new usual.
    #[test]
    fn a_downstream_that_stays_slow_is_not_forgiven() {
        let mut scene = Scene::healthy();
        scene.goes_on(1_100, |picture| picture.downstream().latency_ms = 120);
        assert_eq!(scene.ids(), [V::DownstreamSlow]);
        let since = scene.diagnosis().verdicts[0].since_unix_ns;
        assert!(scene.now().unix_ns - since > 1_000 * S, "since when stays");
        scene.goes_on(12, |_| ());
        assert_eq!(scene.ids(), [V::Healthy]);
    }
}

mod lanes {
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

    #[test]
    fn a_short_queue_in_front_of_a_full_lane_is_what_lanes_are_for() {
        let mut scene = Scene::healthy();
        scene.goes_on(5, |picture| picture.lane("api").full(8, 60));
        assert_eq!(scene.answer(V::LaneSaturated), Answer::Fine);
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
        // Where all wait alike, the lane is too small for all of them.
        let mut scene = Scene::healthy();
        scene.goes_on(3, full(vec![band(81, 8), band(1, 9)], 8_000));
        assert_eq!(scene.answer(V::PriorityStarvation), Answer::Fine);
    }
}

mod dependencies {
    use super::*;

    fn with(jobs: Vec<ax_wire::sample::WaitingJob>) -> Scene {
        let mut scene = Scene::healthy();
        scene.goes_on(1, |picture| picture.waiting_jobs.clone_from(&jobs));
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
        let finding = found(with(ring).answer(V::StuckDependencies));
        assert!(
            finding
                .sentence
                .contains("in a circle: `a` -> `b` -> `c` -> `a`"),
            "{}",
            finding.sentence
        );
        let missing = vec![waiting(1, "report", &[(None, Some("ledger"))])];
        let finding = found(with(missing).answer(V::StuckDependencies));
        assert!(
            finding
                .sentence
                .contains("wait for `ledger`, which nobody has submitted")
        );
        let mut failed = waiting(2, "import", &[]);
        failed.reason = WaitingReason::Person;
        let behind = vec![waiting(1, "report", &[(Some(2), None)]), failed];
        let finding = found(with(behind).answer(V::StuckDependencies));
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
            with(vec![job.clone()]).answer(V::StuckDependencies),
            Answer::Fine
        );
        job.age_ns = 301 * S;
        let finding = found(with(vec![job]).answer(V::StuckDependencies));
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
        assert_eq!(with(vec![job]).answer(V::StuckDependencies), Answer::Fine);
    }
}

mod process {
    use super::*;

    /// F81: memory up.
    #[test]
    fn memory_that_grows_without_a_pause() {
        let mut scene = Scene::healthy();
        assert_eq!(scene.answer(V::MemoryGrowth), Answer::Fine);
        for second in 1..=10_u64 {
            scene.goes_on(1, |picture| picture.rss = (100 + 5 * second) * MIB);
        }
        let finding = found(scene.answer(V::MemoryGrowth));
        assert!(
            finding.sentence.contains("35 MiB in 7 s"),
            "{}",
            finding.sentence
        );
        assert!(
            finding.sentence.contains("neither queues nor tasks"),
            "{}",
            finding.sentence
        );
    }

    #[test]
    fn memory_that_grows_with_a_queue_or_with_tasks_says_so() {
        let grown = |more: fn(&mut Picture, u64)| {
            let mut scene = Scene::healthy();
            for second in 1..=10_u64 {
                scene.goes_on(1, |picture| {
                    picture.rss = (100 + 5 * second) * MIB;
                    more(picture, second);
                });
            }
            found(scene.answer(V::MemoryGrowth)).sentence
        };
        let queue = grown(|picture, second| picture.lane("db").pending = 100 * second);
        assert!(queue.contains("700 more jobs are queued"), "{queue}");
        let tasks = grown(|picture, second| picture.alive_tasks = 100 * second);
        assert!(tasks.contains("700 more tasks are alive"), "{tasks}");
        let named = grown(|picture, second| picture.types[1].running = 100 * second);
        assert!(named.contains("700 more tasks `ticker`"), "{named}");
    }

    #[test]
    fn a_cache_that_fills_and_a_start_are_no_leak() {
        let mut scene = Scene::healthy();
        for second in 1..=10_u64 {
            scene.goes_on(1, |picture| picture.rss = (100 + 5 * second.min(4)) * MIB);
        }
        assert_eq!(scene.answer(V::MemoryGrowth), Answer::Fine);
        let mut scene = Scene::new();
        for second in 1..=10_u64 {
            scene.goes_on(1, |picture| picture.rss = (10 + 9 * second) * MIB);
        }
        assert_eq!(
            needs(scene.answer(V::MemoryGrowth)),
            "14 s of figures, and has 9"
        );
    }

    /// A leak of a quarter of a MiB a second is told by the last ten minutes.
    #[test]
    fn a_slow_leak_takes_ten_minutes() {
        let mut scene = Scene::healthy();
        for second in 1..=700_u64 {
            scene.goes_on(1, |picture| picture.rss = 100 * MIB + second * MIB / 4);
        }
        let finding = found(scene.answer(V::MemoryGrowth));
        assert!(
            finding.sentence.contains("MiB in 5"),
            "{}",
            finding.sentence
        );
    }

    #[test]
    fn file_descriptors_that_run_out() {
        let mut scene = Scene::healthy();
        assert_eq!(scene.answer(V::FdExhausted), Answer::Fine);
        scene.goes_on(1, |picture| picture.open_files = 960);
        let finding = found(scene.answer(V::FdExhausted));
        assert_eq!(finding.severity, Severity::Warning);
        scene.goes_on(1, |picture| picture.open_files = 1_023);
        let finding = found(scene.answer(V::FdExhausted));
        assert_eq!(finding.severity, Severity::Critical);
        assert!(
            finding
                .sentence
                .starts_with("1023 of 1024 file descriptors")
        );
    }

    #[test]
    fn a_process_that_is_stopped_or_silent() {
        let outside = |state, cpus_used| Some(Outside { state, cpus_used });
        let mut scene = Scene::healthy();
        assert_eq!(scene.answer(V::ProcessFrozen), Answer::Fine);
        scene.history.seen_from_outside(outside('T', None));
        scene.silence(2);
        let finding = found(scene.answer(V::ProcessFrozen));
        assert!(
            finding.sentence.contains("stopped (state T)"),
            "{}",
            finding.sentence
        );
        assert_eq!(scene.ids(), [V::ProcessFrozen]);
        // It goes on: nothing else is blamed for the gap, and after a while all is well.
        scene.history.seen_from_outside(None);
        scene.goes_on(10, |_| ());
        assert_eq!(scene.ids(), [V::Healthy]);

        let mut scene = Scene::healthy();
        scene.history.seen_from_outside(outside('S', Some(0.0)));
        scene.silence(2);
        assert_eq!(
            scene.answer(V::ProcessFrozen),
            Answer::Fine,
            "late, and no more"
        );
        scene.silence(2);
        let finding = found(scene.answer(V::ProcessFrozen));
        assert!(
            finding.sentence.contains("uses no CPU"),
            "{}",
            finding.sentence
        );
    }
}

mod together {
    use super::*;

    /// The pair that people confuse: a pool of database clients that looks exhausted, while the truth is that the process
    /// is stopped by its CPU quota.
    #[test]
    fn a_throttled_process_makes_its_database_pool_look_exhausted() {
        let pool = |picture: &mut Picture| {
            let sqlite = picture.downstream();
            (sqlite.in_flight, sqlite.waiting, sqlite.wait_ms) = (4, 30, 300);
            picture.lane("db").full(200, 900);
        };
        let mut alone = Scene::healthy();
        alone.goes_on(4, pool);
        assert_eq!(alone.ids()[0], V::PoolTooSmall);

        let mut throttled = Scene::healthy();
        throttled.goes_on(4, |picture| {
            pool(picture);
            (picture.quota, picture.lag_ms) = (Some((0.3, 9)), 80);
        });
        let first = &throttled.diagnosis().verdicts[0];
        assert_eq!(first.id, V::CpuThrottled);
        let pool = first.explains.iter().find(|of| of.id == V::PoolTooSmall);
        assert_eq!(
            pool.expect("explains the pool").because,
            "the pool of sqlite looks too small because the process was stopped by its CPU quota"
        );
        assert!(
            throttled.ids().contains(&V::PoolTooSmall),
            "it stands below"
        );
    }

    #[test]
    fn a_lane_looks_saturated_because_the_loop_was_stalled() {
        let mut scene = Scene::healthy();
        for _ in 0..4 {
            scene.stall(400, |_| ());
            scene.goes_on(1, |picture| {
                picture.lag_ms = 300;
                picture.lane("db").full(300, 1_000);
            });
        }
        let first = &scene.diagnosis().verdicts[0];
        assert_eq!(first.id, V::BlockingCall);
        let lane = first.explains.iter().find(|of| of.id == V::LaneSaturated);
        assert_eq!(
            lane.expect("explains the lane").because,
            "lane db looks saturated because the loop was stalled"
        );
    }

    /// What one cause explains by way of another stands with the first.
    #[test]
    fn explanations_lead_to_the_root() {
        let mut scene = Scene::healthy();
        scene.goes_on(4, |picture| {
            picture.outside = 1.9;
            (picture.run_queue, picture.lag_ms) = (0.5, 80);
            picture.lane("db").full(300, 1_000);
        });
        let first = &scene.diagnosis().verdicts[0];
        assert_eq!(first.id, V::CpuOutsideRuntime, "{:?}", scene.ids());
        let explained: Vec<_> = first.explains.iter().map(|of| of.id).collect();
        assert!(explained.contains(&V::CpuStarvation), "{explained:?}");
        assert!(explained.contains(&V::LaneSaturated), "{explained:?}");
    }

    /// F98: hurts GET /orders: so many requests, p99 6 -> 430 ms.
    #[test]
    fn who_is_hurt_is_told_beside_the_verdict() {
        let mut scene = Scene::healthy();
        for _ in 0..3 {
            scene.stall(412, |_| ());
            scene.goes_on(1, |picture| {
                let orders = &mut picture.types[0];
                (orders.ending, orders.run_ms, orders.failing) = (12, 430, 2);
            });
        }
        let verdict = &scene.diagnosis().verdicts[0];
        assert_eq!(verdict.id, V::BlockingCall);
        let hurt = &verdict.who_is_hurt[0];
        assert_eq!(
            (hurt.kind, hurt.name.as_str()),
            (HurtKind::Route, "GET /orders")
        );
        assert_eq!(
            hurt.affected,
            Some(37),
            "three times twelve, and one under way"
        );
        assert_eq!(hurt.errors, Some(6));
        let ms = |ns: Option<u64>| ns.expect("known") as f64 / 1e6;
        assert!((5.9..6.3).contains(&ms(hurt.usual_p99_ns)), "{hurt:?}");
        assert!((430.0..435.0).contains(&ms(hurt.p99_ns)), "{hurt:?}");
        assert!(verdict.who_is_hurt.iter().all(|hurt| hurt.name != "ticker"));
    }

    #[test]
    fn a_verdict_is_held_against_flicker_and_its_beginning_stays() {
        let mut scene = Scene::healthy();
        scene.stall(412, |_| ());
        scene.goes_on(1, |_| ());
        let since = scene.diagnosis().verdicts[0].since_unix_ns;
        for second in 0..7 {
            scene.goes_on(1, |_| ());
            assert_eq!(scene.ids(), [V::BlockingCall], "{second}");
            assert_eq!(scene.diagnosis().verdicts[0].since_unix_ns, since);
        }
        scene.goes_on(4, |_| ());
        assert_eq!(scene.ids(), [V::Healthy]);
    }

    #[test]
    fn of_a_service_that_is_gone_the_last_word_stays() {
        let mut scene = Scene::healthy();
        scene.stall(412, |_| ());
        scene.goes_on(1, |_| ());
        scene.history.disconnected();
        scene.silence(60);
        assert_eq!(scene.ids(), [V::BlockingCall]);
    }
}
