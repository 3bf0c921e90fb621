//! Live control (F97), end to end: a viewer's order goes through a real agent to the demo service in another process, and
//! shows in its figures.

mod support;

use std::{process::Stdio, time::Instant};

use ax_wire::{
    InstanceId, JobId, ToAgent, ToViewer,
    control::{Action, Control, FEATURE, LaneRef},
    mark::MarkKind,
    view::{LaneView, ServiceView},
};
use support::{Guarded, PATIENCE, PrivateAgent, Viewer, ax_top};

/// A viewer that gives orders and awaits their outcome.
struct Person {
    viewer: Viewer,
    instance: InstanceId,
    given: u64,
}

impl Person {
    fn order(&mut self, action: Action) -> Result<String, String> {
        self.given += 1;
        let control = Control {
            instance: self.instance,
            id: self.given,
            action,
        };
        self.viewer.send(&ToAgent::Control(control));
        let began = Instant::now();
        loop {
            if let ToViewer::Controlled(told) = self.viewer.next_frame() {
                assert_eq!(told.id, self.given);
                return told.outcome;
            }
            assert!(began.elapsed() < PATIENCE, "no outcome");
        }
    }

    fn lane(&mut self, what: &str, is: impl Fn(&LaneView) -> bool) {
        let lane = |view: &ServiceView| {
            let mut lanes = view.lanes.iter();
            lanes.find(|lane| lane.name == "db").is_some_and(&is)
        };
        self.viewer
            .wait_view("demo", what, |view| lane(view).then_some(()));
    }
}

#[test]
fn a_running_service_is_paused_resized_and_delayed_from_a_viewer() {
    let agent = PrivateAgent::start();
    let demo = ax_top(agent.socket())
        .arg("demo-service")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn();
    let _demo = Guarded(demo.expect("the program starts"));
    let mut viewer = agent.viewer();
    let view = viewer.first_figures("demo");
    assert!(
        view.hello.features.iter().any(|of| of == FEATURE),
        "{:?}",
        view.hello.features
    );
    let mut person = Person {
        viewer,
        instance: view.summary.instance,
        given: 0,
    };
    let db = || LaneRef::named("db");

    person.order(Action::Pause { lane: db() }).expect("paused");
    person.lane("the lane to be paused", |lane| lane.paused);
    person
        .order(Action::Resume { lane: db() })
        .expect("resumed");
    person.lane("the lane to go on", |lane| !lane.paused);
    let resize = Action::Resize {
        lane: db(),
        limit: 7,
    };
    let told = person.order(resize).expect("resized");
    assert!(told.contains("-> 7"), "{told}");
    person.lane("the new limit", |lane| lane.limit == 7);

    let inject = |downstream: &str, ms: u64| Action::Inject {
        downstream: downstream.to_owned(),
        delay_ns: ms * 1_000_000,
        lasting_ns: 60_000_000_000,
    };
    person.order(inject("sqlite", 20)).expect("is allowed");
    let delayed = |view: &ServiceView| {
        let mut downstreams = view.downstreams.iter();
        let of = downstreams.find(|of| of.name == "sqlite")?;
        (of.injected_delay_ns == Some(20_000_000)).then(|| view.marks.clone())
    };
    let what = "the delay to show";
    let marks = person.viewer.wait_view("demo", what, delayed);
    let texts: Vec<_> = marks
        .iter()
        .filter(|mark| matches!(mark.kind, MarkKind::Limit | MarkKind::Control))
        .map(|mark| mark.text.as_str())
        .collect();
    for said in ["pause lane db", "resume lane db", "resize lane db to 7"] {
        assert!(texts.contains(&said), "{texts:?}");
    }
    person.order(inject("sqlite", 0)).expect("ends it");

    for refused in [
        Action::Cancel {
            job: JobId(u64::MAX),
        },
        Action::Pause {
            lane: LaneRef::named("missing"),
        },
        Action::Resize {
            lane: db(),
            limit: 0,
        },
        inject("missing", 5),
    ] {
        let why = person.order(refused.clone()).expect_err("impossible");
        println!("{refused}: {why}");
    }
}
