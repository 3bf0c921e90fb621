//! What is said of which state, in which order.

use super::*;
use crate::fixture;

fn worst(view: &ServiceView) -> Headline {
    of_view(view).swap_remove(0)
}

#[test]
fn a_stall_comes_first_among_equals_and_alerts_by_severity() {
    let said: Vec<_> = of_view(&fixture::firing())
        .into_iter()
        .map(|headline| format!("{}  {}", headline.severity.label(), headline.sentence))
        .collect();
    assert_eq!(said.len(), 3, "{said:#?}");
    assert!(
        said[0].starts_with("CRITICAL  stall 412 ms on worker 0"),
        "{said:#?}"
    );
    assert_eq!(
        said[1..],
        [
            "CRITICAL  backlog-grows api for 62 s: lane api has 57 jobs waiting, 20 more than a minute ago",
            "WARNING  lag-high for 12 s: event-loop lag p99 is 180 ms, above 50 ms"
        ]
    );
}

#[test]
fn health_is_one_quiet_line() {
    let headline = worst(&fixture::healthy());
    assert_eq!(headline.severity, Severity::Healthy);
    assert_eq!(headline.sentence, "lag p99 0.3 ms, nothing waits, CPU 12 %");
}

#[test]
fn a_stall_names_length_worker_job_and_place() {
    let headline = worst(&fixture::stalled());
    assert_eq!(headline.severity, Severity::Critical);
    assert_eq!(
        headline.sentence,
        "stall 412 ms on worker 0, still going on: job render_pdf (files) started src/pdf.rs:88"
    );
}

#[test]
fn workers_that_are_stuck_together_are_counted() {
    let mut view = fixture::stalled();
    let mut other = view.stalls[0].clone();
    other.stall.worker = Some(1);
    other.stall.length_ns /= 2;
    view.stalls.push(other);
    assert_eq!(
        worst(&view).sentence,
        "stall 412 ms on all 2 workers, still going on: job render_pdf (files) started src/pdf.rs:88"
    );
    let third = view.runtimes[0].workers[1].clone();
    view.runtimes[0].workers.push(third);
    assert!(worst(&view).sentence.contains("on 2 of 3 workers"));
    view.stalls.truncate(1);
    view.runtimes[0].workers[1].state = WorkerState::Stalled;
    assert!(worst(&view).sentence.contains("on 2 of 3 workers"));
}

#[test]
fn a_stall_that_is_over_is_told_with_its_age_until_it_leaves_the_window() {
    let mut view = fixture::stalled();
    view.stalls[0].ongoing = false;
    view.stalls[0].began_unix_ns = view.at_unix_ns - 12_412_000_000;
    let headline = worst(&view);
    assert_eq!(headline.severity, Severity::Warning);
    assert!(
        headline
            .sentence
            .starts_with("stall 412 ms on worker 0, 12 s ago: job")
    );
    view.stalls[0].began_unix_ns = view.at_unix_ns - view.window_ns - 413_000_000;
    view.lag = fixture::healthy().lag;
    view.lanes.clear();
    assert_eq!(worst(&view).severity, Severity::Healthy);
}

#[test]
fn a_stall_going_on_comes_before_a_longer_one_that_is_over() {
    let mut view = fixture::stalled();
    let mut over = view.stalls[0].clone();
    over.ongoing = false;
    over.stall.length_ns = 9_000_000_000;
    over.began_unix_ns = view.at_unix_ns - 20_000_000_000;
    view.stalls.push(over);
    assert!(worst(&view).sentence.starts_with("stall 412 ms"));
}

#[test]
fn late_loop_and_full_lane_come_after_stalls() {
    let mut view = fixture::stalled();
    view.stalls.clear();
    view.lag.p99_ns = Some(80_000_000);
    assert!(
        worst(&view)
            .sentence
            .starts_with("the event loop is late: lag p99 80 ms")
    );
    view.lag.p99_ns = Some(1_000_000);
    assert_eq!(
        worst(&view).sentence,
        "lane api has been full for 8 s: 10 running, 57 waiting"
    );
}

#[test]
fn a_starved_process_is_said() {
    let mut view = fixture::healthy();
    view.observer_gaps.push(ObserverGap {
        due_mono_ns: view.hello.clock.mono_ns,
        late_ns: 800_000_000,
    });
    view.at_unix_ns = view.hello.clock.unix_ns + 3_800_000_000;
    assert_eq!(
        worst(&view).sentence,
        "the whole process got no CPU for 800 ms, 3 s ago (a busy host; else throttled, stopped or \
         suspended)"
    );
    view.observer_gaps[0].late_ns = 31_000_000;
    assert_eq!(
        worst(&view).severity,
        Severity::Healthy,
        "no stall could be taken for one so short"
    );
}

#[test]
fn an_agent_that_went_away_is_waited_for_by_the_second() {
    let headline = of_connecting(Some("gone"), Some(Duration::from_millis(7_400)), true);
    assert_eq!(
        headline.sentence,
        "the agent is gone, waiting for it; own agent in 8 s"
    );
}

#[test]
fn silence_and_loss_are_said_with_their_age() {
    let mut summary = fixture::healthy().summary;
    summary.state = ServiceState::Lost;
    let now = summary.last_seen_unix_ns + 5_000_000_000;
    let headline = of_silence(&summary, now);
    assert_eq!(headline.severity, Severity::Critical);
    assert_eq!(
        headline.sentence,
        "checkout (pid 4121) was lost 5 s ago: its connection broke without a goodbye"
    );
}

#[test]
fn of_several_stalls_the_longest_is_told_with_how_many_others_there_were_since_when() {
    let mut view = fixture::stalled();
    view.stalls[0].ongoing = false;
    view.runtimes[0].workers[0].state = WorkerState::Busy;
    let longest = view.stalls[0].clone();
    let ended = ended_unix_ns(&longest);
    view.at_unix_ns = ended + 9_000_000_000;
    for seconds in [5, 2] {
        let mut other = longest.clone();
        other.stall.id += seconds;
        other.stall.length_ns = 60_000_000;
        other.began_unix_ns = view.at_unix_ns - seconds * 1_000_000_000 - 60_000_000;
        view.stalls.push(other);
    }
    assert_eq!(
        worst(&view).sentence,
        "stall 412 ms on worker 0, 9 s ago: job render_pdf (files) started src/pdf.rs:88; 2 more in the last \
         minute, the newest 2 s ago"
    );
}

/// An agent that comes after a block has its lag points and not its stall.
#[test]
fn a_stall_from_before_the_agent_is_not_denied() {
    let mut view = fixture::healthy();
    view.lag.p99_ns = Some(900_000_000);
    view.lag.max_ns = Some(900_000_000);
    assert!(worst(&view).sentence.ends_with("max 900 ms; no stall seen"));
    view.lag.stall_max_ns = Some(880_000_000);
    assert!(
        worst(&view).sentence.ends_with(
            "a worker stood still for 880 ms before this agent came, so who held it is unknown"
        ),
        "{}",
        worst(&view).sentence
    );
}

/// F82: a silenced alert tells nobody.
#[test]
fn a_silenced_alert_is_in_no_headline() {
    let mut view = fixture::firing();
    for alert in &mut view.alerts {
        alert.silenced = Some(alert::Silenced {
            until_unix_ns: fixture::NOW_UNIX_NS + 1,
            reason: "nightly import".to_owned(),
        });
    }
    let said = of_view(&view);
    assert_eq!(said.len(), 1, "the stall alone: {said:#?}");
}

/// Rules that somebody wrote and that are not in force are said on every screen, before that all is well.
#[test]
fn a_file_that_is_not_in_force_is_said() {
    let view = fixture::healthy();
    let shown = Some(view.summary.instance);
    let mut world = fixture::world(vec![view]);
    let before = of_world(&world, shown);
    assert!(before.iter().all(|said| said.severity < Severity::Warning));
    world.file_problem =
        Some("agent.toml:3:1: unknown key `treshold`\nagent.toml:9:1: no unit".to_owned());
    let said = of_world(&world, shown);
    assert_eq!(said.len(), before.len() + 1);
    assert_eq!(
        (said[0].severity, said[0].sentence.as_str()),
        (
            Severity::Warning,
            "the agent's alert rules are not those of its file: agent.toml:3:1: unknown key `treshold` and 1 more (all \
             of it: ax-top rules)"
        )
    );
    // Where no service is there, too.
    world.services.clear();
    assert_eq!(of_world(&world, None).len(), 2);
}

/// A service that is connected and silent has a reason, where the agent has found one.
#[test]
fn of_a_silent_service_the_cause_is_told() {
    let mut view = crate::fixture::diagnosed();
    view.summary.state = ServiceState::Silent;
    let said = |view: &ServiceView| of_service(view, view.at_unix_ns)[0].sentence.clone();
    assert!(said(&view).contains("has said nothing"), "{}", said(&view));
    let cause = &mut view.diagnosis.verdicts[0];
    cause.id = VerdictId::ProcessFrozen;
    cause.sentence = "The process has been stopped.".to_owned();
    assert!(said(&view).contains("process-frozen"), "{}", said(&view));
    view.summary.state = ServiceState::Lost;
    assert!(said(&view).contains("was lost"), "{}", said(&view));
}
