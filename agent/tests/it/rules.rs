//! Rules of a file, judged under handed-in time: F82.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use ax_agent::{
    alert::{Quiet, RuleSet},
    config::file,
    history::ServiceHistory,
};
use ax_wire::{
    alert::{Alert, AlertState, Severity},
    rules::{SilenceInfo, Standing},
};

use crate::{
    common::{EPOCH_UNIX_NS, SECOND, hello},
    judged::{Judged, healthy, late, named, now, with_lane},
};

/// A file in a folder of its own.
pub fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("agent.toml");
    fs::write(&path, text).expect("is written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("is ours");
    (folder, path)
}

fn read(text: &str) -> RuleSet {
    let (_folder, path) = written(text);
    file::read(&path)
        .unwrap_or_else(|error| panic!("{error}"))
        .rules
}

fn judged(text: &str) -> Judged {
    Judged {
        rules: read(text),
        ..Judged::new()
    }
}

const BELL: &str = "[actions]\npage = ['bell']\ncritical = ['bell']\nwarning = ['bell']\n";

fn acted(alerts: &[Alert], rule: &str) -> Vec<AlertState> {
    named(alerts, rule)
        .iter()
        .map(|alert| alert.state)
        .collect()
}

/// F82: lag over 1 s for 30 s is critical, over 5 s pages; both begin, flap within hysteresis, and end.
#[test]
fn the_two_alarms_of_lag_begin_flap_and_end() {
    let mut judged = judged(BELL);
    judged.seconds(20, healthy);
    let mut changed = judged.seconds(29, late(1_500));
    assert_eq!(acted(&changed, "lag-critical"), [], "not for 30 s yet");
    changed.extend(judged.seconds(3, late(1_500)));
    assert_eq!(acted(&changed, "lag-critical"), [AlertState::Firing]);
    assert_eq!(acted(&changed, "lag-page"), []);
    changed.extend(judged.second(late(5_100)));
    assert_eq!(acted(&changed, "lag-page"), [AlertState::Firing], "at once");
    // Around the thresholds, above 80 % of them.
    for round in 0..60 {
        changed.extend(judged.seconds(2, late(if round % 2 == 0 { 4_200 } else { 5_200 })));
    }
    for round in 0..60 {
        changed.extend(judged.seconds(2, late(if round % 2 == 0 { 900 } else { 1_100 })));
    }
    changed.extend(judged.seconds(30, healthy));
    let life = [AlertState::Firing, AlertState::Resolved];
    for (rule, severity) in [
        ("lag-critical", Severity::Critical),
        ("lag-page", Severity::Page),
    ] {
        assert_eq!(
            acted(&changed, rule),
            life,
            "{rule}: one alert, whatever it swings"
        );
        assert_eq!(
            acted(&judged.due, rule),
            life,
            "{rule}: acted once for each"
        );
        assert!(
            named(&changed, rule)
                .iter()
                .all(|alert| alert.severity == severity)
        );
        assert!(named(&judged.due, rule)[0].bell);
    }
}

/// F82: identity and limits survive reconnects, the one of the process and that of the connection.
#[test]
fn a_hundred_reconnects_ring_no_more_often_than_the_cooldown_lets_them() {
    let text = format!("{BELL}[[rule]]\nname = 'lag-page'\ncooldown = '10m'\n");
    let mut judged = judged(&text);
    judged.seconds(20, healthy);
    for restart in 0..100 {
        // Each instance is bad, becomes well, and goes.
        judged.seconds(3, late(6_000));
        judged.seconds(12, healthy);
        if restart % 2 == 0 {
            let hello = judged.history.window().hello().clone();
            judged.history.disconnected();
            judged.history.hello_again(hello, now(judged.second));
        } else {
            judged.history.disconnected();
            judged.silence();
            judged.book = judged.book.hand_over(&judged.rules);
            judged.history = ServiceHistory::new(hello("checkout"), 1_000, now(judged.second));
        }
    }
    let fired = named(&judged.due, "lag-page");
    let fired = fired
        .iter()
        .filter(|alert| alert.state == AlertState::Firing);
    // 100 times 15.5 s are 26 minutes.
    assert_eq!(fired.count(), 3);
}

#[test]
fn an_alert_goes_on_over_a_reconnect() {
    let mut judged = judged(BELL);
    judged.seconds(20, healthy);
    let began = judged.seconds(2, late(6_000));
    assert_eq!(acted(&began, "lag-page"), [AlertState::Firing]);
    judged.history.disconnected();
    judged.silence();
    judged.book = judged.book.hand_over(&judged.rules);
    judged.history = ServiceHistory::new(hello("checkout"), 1_000, now(judged.second));
    let handed_over = judged.book.alerts();
    let page = handed_over.iter().find(|alert| alert.rule == "lag-page");
    let sentence = &page.expect("goes on").sentence;
    assert!(sentence.ends_with("(before the restart)"), "{sentence}");
    let after = judged.seconds(5, late(6_000));
    assert_eq!(acted(&after, "lag-page"), [], "the same alert");
    let judged_anew = judged.book.alerts();
    let of_before = |alert: &Alert| alert.sentence.contains("before the restart");
    assert!(!judged_anew.iter().any(of_before), "{judged_anew:#?}");
    assert_eq!(
        acted(&judged.due, "lag-page"),
        [AlertState::Firing],
        "rings once"
    );
    let ended = judged.seconds(30, healthy);
    assert_eq!(acted(&ended, "lag-page"), [AlertState::Resolved]);
    assert_eq!(
        named(&ended, "lag-page")[0].began_unix_ns,
        named(&began, "lag-page")[0].began_unix_ns
    );
}

fn silence(rule: &str, until_s: u64) -> SilenceInfo {
    SilenceInfo {
        rule: Some(rule.to_owned()),
        service: None,
        subject: None,
        uid: None,
        until_unix_ns: EPOCH_UNIX_NS + until_s * SECOND,
        reason: "nightly import".to_owned(),
        by: "user 1000".to_owned(),
    }
}

#[test]
fn a_silenced_alert_is_kept_and_tells_nobody_until_the_silence_is_over() {
    let mut judged = judged(BELL);
    judged.asked = vec![silence("lag-page", 60)];
    judged.seconds(20, healthy);
    let began = judged.seconds(5, late(6_000));
    let page = named(&began, "lag-page")[0].clone();
    assert_eq!(page.silenced.expect("is said").reason, "nightly import");
    assert!(!page.bell);
    assert_eq!(acted(&judged.due, "lag-page"), []);
    let told = judged.explained("lag-page", Quiet::No);
    assert_eq!(told.standing, Standing::Silenced);
    assert_eq!(told.why, "silenced for 35 s more: nightly import");
    judged.seconds(36, late(6_000));
    assert_eq!(
        acted(&judged.due, "lag-page"),
        [AlertState::Firing],
        "it still fires"
    );
    assert!(named(&judged.due, "lag-page")[0].bell);

    // One that comes and goes within the silence tells nobody at all.
    let mut judged = self::judged(BELL);
    judged.asked = vec![silence("lag-page", 600)];
    judged.seconds(5, late(6_000));
    let ended = judged.seconds(60, healthy);
    assert_eq!(acted(&ended, "lag-page"), [AlertState::Resolved]);
    assert_eq!(acted(&judged.due, "lag-page"), []);
    assert_eq!(acted(&judged.due, "stall").len(), 2, "the others do");
}

#[test]
fn a_silence_of_one_subject_leaves_the_others() {
    let mut judged = judged(BELL);
    let mut of_work = silence("rejections", 600);
    of_work.subject = Some("other".to_owned());
    judged.asked = vec![of_work];
    let reject = || with_lane(|second, lane| lane.counters.rejected_total = second * 3);
    judged.seconds(5, reject());
    assert_eq!(acted(&judged.due, "rejections"), [AlertState::Firing]);
    judged.asked[0].subject = Some("work".to_owned());
    judged.seconds(2, reject());
    let alert = judged
        .book
        .alerts()
        .into_iter()
        .find(|alert| alert.rule == "rejections");
    assert!(alert.expect("fires").silenced.is_some());
}

/// F82: `ax-top rules` says why a rule does not fire.
#[test]
fn each_reason_not_to_fire_is_said() {
    let text = "[actions]\nwarning = ['bell']\n[[rule]]\nname = 'few-jobs'\nmetric = 'throughput'\nop = '<'\n\
                threshold = '10/s'\n[[rule]]\nname = 'elsewhere'\nmetric = 'rss'\nthreshold = '1GB'\nservices = ['x']\n\
                [[rule]]\nname = 'stall'\ncooldown = '5m'\n";
    let mut judged = judged(text);
    judged.seconds(20, late(12));
    let said = |rule: &str, quiet, standing, why: &str| {
        let told = judged.explained(rule, quiet);
        assert_eq!(
            (told.standing, told.why.as_str()),
            (standing, why),
            "{rule}"
        );
    };
    said(
        "lag-high",
        Quiet::No,
        Standing::Fine,
        "12 ms, 38 ms below 50 ms",
    );
    said(
        "lag-high",
        Quiet::JustStarted,
        Standing::Quiet,
        "the service has just come: nothing is judged for 7.0 s more",
    );
    said(
        "lag-high",
        Quiet::Debugged,
        Standing::Quiet,
        "a debugger holds the service, or did a moment ago",
    );
    said(
        "few-jobs",
        Quiet::No,
        Standing::Unknown,
        "the service has no lane, or two samples have not come yet",
    );
    said(
        "memory-growing",
        Quiet::No,
        Standing::Unknown,
        "it needs 10 minutes of history",
    );
    said(
        "elsewhere",
        Quiet::No,
        Standing::Unknown,
        "it is about x only",
    );
    said(
        "service-lost",
        Quiet::No,
        Standing::Unknown,
        "it is connected, or ended with a goodbye",
    );
    judged.seconds(5, late(80));
    let told = judged.explained("lag-high", Quiet::No);
    assert_eq!((told.standing, told.value), (Standing::Pending, Some(80e6)));
    assert_eq!(told.why, "holds for 4.0 s of the 10 s that it must");
    judged.seconds(7, late(80));
    let told = judged.explained("lag-high", Quiet::No);
    assert_eq!(
        (told.standing, told.why.as_str()),
        (Standing::Firing, "fires, since 11 s")
    );
    // It is not over with the first second that is below the bound.
    let mut recovers = Judged::new();
    recovers.seconds(20, healthy);
    recovers.seconds(15, late(180));
    let mut said = (0..120).map(|_| {
        recovers.seconds(1, healthy);
        let told = recovers.explained("lag-high", Quiet::No);
        (told.standing, told.why)
    });
    let waits = said.find(|(_, why)| why.contains("; clear for "));
    let (standing, why) = waits.expect("is said before it ends");
    assert_eq!(standing, Standing::Firing, "{why}");
    assert!(why.ends_with("after which it ends"), "{why}");
    // Twice within the cooldown.
    for _ in 0..2 {
        judged.seconds(2, late(400));
        judged.seconds(20, healthy);
    }
    judged.second(late(400));
    let told = judged.explained("stall", Quiet::No);
    assert_eq!(told.standing, Standing::Cooldown);
    assert_eq!(
        told.why,
        "it acted less than 5 min ago; acts in 4 min if it still fires"
    );
    for _ in 0..5 {
        judged.silence();
    }
    let told = judged.explained("lag-high", Quiet::No);
    assert_eq!(told.standing, Standing::Unknown);
    assert!(
        told.why.starts_with("the service sends nothing"),
        "{}",
        told.why
    );
}

/// A name that is written wrong would have its rule never fire: the names that there are are said.
#[test]
fn a_rule_about_nothing_says_what_there_is() {
    let mut judged = judged(
        "[[rule]]\nname = 'x'\nmetric = 'pending'\nthreshold = 5\nsubjects = ['worc']\n\
         [[rule]]\nname = 'y'\nmetric = 'downstream-p99'\nthreshold = '1s'\nsubjects = ['db']\n",
    );
    judged.seconds(3, with_lane(|_, _| ()));
    let why = |rule: &str| judged.explained(rule, Quiet::No).why;
    assert_eq!(why("x"), "no figure of worc; did you mean `work`?");
    assert!(why("y").starts_with("no figure of db: "), "{}", why("y"));
}

#[test]
fn a_rule_may_fire_below_its_threshold_and_clears_above_it() {
    let text = "[[rule]]\nname = 'few-jobs'\nmetric = 'throughput'\nop = '<'\nthreshold = '10/s'\nfor = '5s'\n";
    let mut judged = judged(text);
    let jobs = |each: u64| {
        let mut done = 1_000_000;
        with_lane_mut(move |lane| {
            done += each;
            lane.counters.submitted_total = done;
            lane.counters.started_total = done;
            lane.counters.succeeded_total = done;
        })
    };
    assert_eq!(judged.seconds(30, jobs(20)), []);
    let mut few = jobs(5);
    let mut changed = judged.seconds(30, &mut few);
    assert_eq!(acted(&changed, "few-jobs"), [AlertState::Firing]);
    assert!(named(&changed, "few-jobs")[0].peak < 10.0);
    changed.extend(judged.seconds(60, jobs(11)));
    assert_eq!(
        changed.len(),
        1,
        "11 a second is not clear yet: {changed:?}"
    );
    changed.extend(judged.seconds(60, jobs(40)));
    assert_eq!(acted(&changed, "few-jobs").len(), 2, "{changed:?}");
}

fn with_lane_mut(
    mut change: impl FnMut(&mut ax_wire::sample::LaneSample),
) -> impl FnMut(u64, &mut ax_wire::sample::Sample) {
    move |_, sample| {
        let mut own = crate::common::lane("work", ax_wire::sample::JobCounters::default());
        change(&mut own);
        sample.lanes = vec![own];
    }
}

#[test]
fn a_file_changes_switches_off_and_adds() {
    let rules = read(
        "[[rule]]\nname = 'lag-high'\nthreshold = '100ms'\n\n[[rule]]\nname = 'stall'\nenabled = false\n\n\
         [[rule]]\nname = 'fat'\nmetric = 'rss'\nthreshold = '2GiB'\nseverity = 'critical'\n",
    );
    let infos = rules.infos(Some("agent.toml"));
    assert_eq!(infos.len(), 14, "13 built in and one");
    let named = |name| {
        infos
            .iter()
            .find(|info| info.name == name)
            .expect("is there")
    };
    assert_eq!(named("lag-high").condition, "lag-p99 > 100ms for 10s");
    assert_eq!(named("lag-high").origin, "agent.toml:1");
    assert!(!named("stall").enabled);
    assert_eq!(named("fat").condition, "rss > 2GiB");
    assert_eq!(named("fat").origin, "agent.toml:9");
    assert_eq!(named("lag-page").origin, "built in");
    let mut judged = Judged {
        rules,
        ..Judged::new()
    };
    let changed = judged.seconds(40, late(80));
    assert_eq!(changed, [], "80 ms is fine now");
}

#[test]
fn a_rule_that_goes_ends_its_alert_and_one_that_changes_goes_on() {
    let mut judged = Judged::new();
    judged.seconds(20, late(80));
    judged.rules = read("[[rule]]\nname = 'lag-high'\nseverity = 'critical'\n");
    assert_eq!(judged.seconds(2, late(80)), []);
    assert_eq!(judged.book.alerts()[0].severity, Severity::Critical);
    judged.rules = read("[[rule]]\nname = 'lag-high'\nenabled = false\n");
    let ended = judged.second(late(80));
    assert_eq!(acted(&ended, "lag-high"), [AlertState::Resolved]);
}

/// F82: a paging rule with nowhere to go is warned about.
#[test]
fn a_page_that_goes_nowhere_is_warned_about() {
    let warnings = RuleSet::default().warnings();
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with("lag-page would page, and has nowhere to go"),
        "{warnings:?}"
    );
    let bell = read("[actions]\npage = ['bell', 'snapshot']\n");
    assert_eq!(bell.warnings().len(), 1, "a bell reaches nobody who sleeps");
    let pager = read("[actions]\npage = [{ exec = ['/usr/bin/pager'] }]\n");
    assert_eq!(pager.warnings(), [""; 0]);
    let off = read("[[rule]]\nname = 'lag-page'\nenabled = false\n");
    assert_eq!(off.warnings(), [""; 0]);
}
