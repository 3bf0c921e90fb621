//! Live control (F97), end to end: a viewer's order, and that of a hand at the dashboard, goes through a real agent to the
//! demo service in another process, and shows in its figures.

mod support;

use std::{process::Stdio, time::Instant};

use ax_wire::{
    InstanceId, JobId, ToAgent, ToViewer,
    control::{Action, Control, FEATURE, LaneRef},
    mark::MarkKind,
    view::{LaneView, ServiceView},
};
use support::{Guarded, PATIENCE, PrivateAgent, Viewer, ax_top, terminal::Terminal, watched};

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

/// What will happen is said, a `n` does nothing, and a `y` does it: to a lane and to a job.
#[test]
fn a_lane_and_a_job_are_changed_at_the_dashboard_once_somebody_says_yes() {
    let mut terminal = Terminal::demo(120, 40);
    terminal.shows(&["live", "send_push", "run/limit"]);
    terminal.press("2");
    terminal.shows(&["[2 Lanes"]);
    terminal.press("/lane=push\r");
    terminal.shows(&["/lane=push 1 of "]);

    let pause = [
        "pause lane push of demo?",
        "it begins no job until it is resumed",
    ];
    terminal.press("P");
    terminal.shows(&pause);
    terminal.shows(&["y yes, any other key no"]);
    terminal.press("n");
    terminal.shows(&["not done"]);
    // Were it paused, it would be asked whether it is to be resumed.
    terminal.press("P");
    terminal.shows(&pause);
    terminal.press("y");
    terminal.shows(&["lane push is paused"]);
    terminal.shows(&[" PAUSE"]);

    // Its jobs are queued now, so that one can be caught.
    terminal.press("3");
    terminal.shows(&["[3 Jobs"]);
    terminal.press("/");
    terminal.shows(&[" / █"]);
    terminal.press("lane=push state=ready\r");
    let text = terminal.becomes("a job that is queued", |text| {
        text.contains(" that match; ") && queued(text).is_some()
    });
    println!("{text}");
    terminal.press("x");
    let text = terminal.shows(&["cancel job ", "it is queued.", "y yes, any other key no"]);
    let (_, rest) = text.split_once("cancel job ").expect("asks");
    let id: String = rest.chars().take_while(char::is_ascii_digit).collect();
    terminal.press("y");
    terminal.shows(&[
        &format!("job {id} of lane push, which was "),
        "is cancelled",
    ]);
    terminal.press("/");
    terminal.press(&format!("\x15#{id} state=live\r"));
    terminal.shows(&["none of "]);

    terminal.press("2");
    terminal.shows(&["[2 Lanes"]);
    terminal.press("P");
    terminal.shows(&["resume lane push of demo? its ", " at a time"]);
    terminal.press("y");
    terminal.shows(&["lane push goes on"]);
    terminal.becomes("the lane to go on", |text| !text.contains(" PAUSE"));
    terminal.press("R");
    terminal.shows(&[":resize "]);
    terminal.press("\x15resize 0\r");
    terminal.shows(&["a limit is 1 or more"]);
    terminal.press("R");
    terminal.shows(&[":resize "]);
    terminal.press("\x15resize 3\r");
    terminal.shows(&["resize lane push to 3 of demo? from "]);
    terminal.press("y");
    terminal.shows(&["-> 3"]);
    terminal.shows(&["/3 "]);
    terminal.press("q");
    assert!(terminal.ends_in_order().success());
}

/// The number of a job that is queued, on the screen of jobs.
fn queued(text: &str) -> Option<&str> {
    let row = text.lines().find(|line| line.contains(" ready "))?;
    row.split('#').nth(1)?.split_whitespace().next()
}

#[test]
fn a_dashboard_that_only_reads_asks_for_nothing_and_says_so() {
    let mut terminal = Terminal::start(&["--readonly".as_ref(), "demo".as_ref()], 100, 30);
    terminal.shows(&["live", "run/limit"]);
    for key in ["P", "R", "x", "t", "c"] {
        // Another screen between them takes the words away.
        terminal.press("2");
        terminal.becomes("no words of before", |text| !text.contains("--readonly"));
        terminal.press(key);
        let text = terminal.shows(&["nothing is asked of the service", "--readonly"]);
        assert!(!text.contains("y yes"), "{text}");
    }
    terminal.press("q");
    assert!(terminal.ends_in_order().success());
}

#[test]
fn a_service_that_does_not_allow_it_is_not_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("ax/agent.sock");
    let mut terminal = Terminal::start_with(&[], &[("AX_SOCKET", socket.as_os_str())], 100, 30);
    terminal.shows(&["This ax-top listens on"]);
    let (_runtime, probe) = watched::bare("look-only", &socket);
    terminal.shows(&["look-only", "live", "Now"]);
    terminal.press("P");
    let text = terminal.shows(&["look-only does not allow it", "allow_control(true)"]);
    assert!(!text.contains("y yes"), "{text}");
    drop(probe);
    terminal.press("q");
    assert!(terminal.ends_in_order().success());
}
