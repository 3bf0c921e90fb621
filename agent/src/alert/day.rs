//! What is kept of alerts, by handed-in time: a day takes no more than its second hour.

use std::time::Duration;

use super::{Action, Book, Judging, Metric, Quiet, Rule, RuleSet, Threshold};
use crate::diagnosis::scene::{LanePicture, Picture, Scene};

/// The rules that are built in, and fifty of somebody's own that look at percentiles.
fn rules() -> RuleSet {
    let mut set = RuleSet::default();
    let model = set.rules[0].clone();
    for at in 0..50 {
        let metric = [Metric::RunP99, Metric::QueueWaitP99, Metric::DownstreamP99][at % 3];
        set.rules.push(Rule {
            name: format!("own-{at}").into(),
            metric,
            // Some fire all the time, most never.
            threshold: Threshold::Fixed(1e6 * at as f64),
            clear: None,
            hold: Duration::from_secs(at as u64),
            ..model.clone()
        });
    }
    for rule in &mut set.rules {
        rule.actions = Some(vec![Action::Bell]);
    }
    set
}

/// Lanes come and go, each with a name that never was before, and something flaps in every minute.
fn picture(picture: &mut Picture, minute: usize, names: &[&'static str]) {
    let model = picture.lanes[0].clone();
    picture.lanes.extend((0..20).map(|at| LanePicture {
        name: names[(minute + at) % names.len()],
        ..model.clone()
    }));
    if minute.is_multiple_of(2) {
        picture.lag_ms = 6_000;
        for lane in &mut picture.lanes {
            lane.rejected = 5;
            lane.full(300, 1_000);
        }
    }
}

/// A sample a minute, and each ten seconds under `AX_FULL=1`.
#[test]
fn a_day_of_alerts_takes_no_more_memory_than_its_second_hour() {
    let full = std::env::var_os("AX_FULL").is_some();
    let step = if full { 10 } else { 60 };
    let names = (0..2_000).map(|at| &*Box::leak(format!("lane-{at}").into_boxed_str()));
    let names: Vec<&'static str> = names.collect();
    let (mut scene, mut book, rules) = (Scene::new(), Book::default(), rules());
    let mut second_hour = None;
    let mut acted = 0;
    for hour in 0..24 {
        let mut most = 0;
        for tick in 0..3_600 / step {
            scene.second += step - 1;
            let minute = (hour * 3_600 + tick * step) / 60;
            scene.goes_on(1, |of| picture(of, minute as usize, &names));
            let judging = Judging {
                rules: &rules,
                asked: &[],
                quiet: Quiet::No,
                now: scene.now(),
            };
            acted += book.judge(judging, scene.history.window()).due.len();
            if tick % 10 == 0 {
                let kept = (book.alerts(), book.firing(), book.acted());
                let kept = serde_json::to_vec(&kept).expect("is written");
                most = most.max(kept.len());
            }
        }
        match second_hour {
            None if hour == 1 => second_hour = Some(most),
            Some(before) => assert!(
                most <= before + before / 10,
                "hour {hour}: {most} bytes after {before}"
            ),
            None => {}
        }
    }
    let alerts = book.alerts().len();
    println!(
        "{alerts} alerts, {second_hour:?} bytes as JSON, {acted} times something was to be done"
    );
    assert!(
        alerts > 100 && acted > 1_000,
        "there is something to be kept"
    );
}
