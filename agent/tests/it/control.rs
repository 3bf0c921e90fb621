//! Live control (F97) through a real agent: who may change what, and what comes back of it.

use std::time::Duration;

use ax_wire::{
    JobId, ToAgent, ToService, ToViewer,
    control::{Action, Control, Controlled, FEATURE, LaneRef, Order},
    hello::Hello,
    mark::MarkKind,
};

use crate::common::{Peer, TestAgent, hello, sample};

fn allowing(service: &str) -> Hello {
    let mut hello = hello(service);
    hello.features.push(FEATURE.to_owned());
    hello
}

fn pause() -> Action {
    Action::Pause {
        lane: LaneRef::named("api"),
    }
}

fn control(of: &Hello, id: u64, action: Action) -> ToAgent {
    ToAgent::Control(Control {
        instance: of.instance,
        id,
        action,
    })
}

async fn order(service: &mut Peer) -> Order {
    loop {
        if let ToService::Control(order) = service.next().await {
            return order;
        }
    }
}

async fn outcome(viewer: &mut Peer) -> Controlled {
    let told = |frame| match frame {
        ToViewer::Controlled(told) => Some(told),
        _ => None,
    };
    viewer.wait_for(told).await
}

async fn tell(service: &mut Peer, id: u64, outcome: Result<&str, &str>) {
    let outcome = outcome.map(str::to_owned).map_err(str::to_owned);
    let told = Controlled { id, outcome };
    service.send(&ToAgent::Controlled(told)).await;
}

/// All the way to the service and back, under the viewer's own number, with a mark for the charts where it was done.
#[tokio::test]
async fn an_order_goes_to_the_service_and_its_outcome_back() {
    let agent = TestAgent::start();
    let of = allowing("checkout");
    let mut service = agent.service(&of).await;
    let mut viewer = agent.viewer().await;
    viewer.send(&control(&of, 70, pause())).await;
    let action = Action::Cancel { job: JobId(5) };
    viewer.send(&control(&of, 71, action.clone())).await;
    let (first, second) = (order(&mut service).await, order(&mut service).await);
    assert_eq!((&first.action, &second.action), (&pause(), &action));

    tell(&mut service, second.id, Err("there is no job 5")).await;
    let told = outcome(&mut viewer).await;
    assert_eq!(told.id, 71);
    assert_eq!(told.outcome, Err("there is no job 5".to_owned()));
    tell(&mut service, first.id, Ok("paused\u{1b}[2J")).await;
    let told = outcome(&mut viewer).await;
    let done = told.outcome.expect("done");
    assert!(
        told.id == 70 && done.starts_with("paused") && !done.contains('\u{1b}'),
        "{done:?}"
    );

    // Once, and to nobody else.
    tell(&mut service, first.id, Ok("again")).await;
    service.send_sample(sample(1)).await;
    let marks = viewer.wait_for(|frame| match frame {
        ToViewer::Controlled(told) => panic!("{told:?}"),
        ToViewer::View(view) => Some(view.marks),
        _ => None,
    });
    let marks = marks.await;
    let marks: Vec<_> = marks
        .iter()
        .filter(|mark| mark.kind == MarkKind::Limit)
        .collect();
    assert_eq!(marks.len(), 1, "{marks:?}");
    assert_eq!(marks[0].text, "pause lane api");
    agent.stop().await;
}

/// Refused where the service has not allowed it, where there is none, and what this agent does not know.
#[tokio::test]
async fn what_is_not_allowed_or_not_there_is_refused_at_once() {
    let agent = TestAgent::start();
    let (closed, open) = (hello("closed"), allowing("open"));
    let _service = agent.service(&closed).await;
    let mut other = agent.service(&open).await;
    let mut viewer = agent.viewer().await;
    let unknown = Action::Unknown;
    for (id, of, action, says) in [
        (1, &closed, pause(), "allow_control(true)"),
        (2, &allowing("missing"), pause(), "no such service"),
        (3, &open, unknown, "update it"),
    ] {
        viewer.send(&control(of, id, action)).await;
        let told = outcome(&mut viewer).await;
        let why = told.outcome.expect_err("refused");
        assert!(told.id == id && why.contains(says), "{why}");
    }
    // Nothing of it has reached a service: the next order is the first that comes.
    viewer.send(&control(&open, 4, pause())).await;
    let order = order(&mut other).await;
    assert_eq!((order.id, order.action), (1, pause()));
    agent.stop().await;
}

/// A service that goes, or says nothing, leaves nobody waiting; what it says of orders that it was not given is not taken.
#[tokio::test]
async fn a_service_that_goes_or_lies_leaves_nobody_waiting() {
    let agent = TestAgent::start();
    let (of, liar) = (allowing("goes"), allowing("lies"));
    let mut service = agent.service(&of).await;
    let mut other = agent.service(&liar).await;
    let mut viewer = agent.viewer().await;
    viewer.send(&control(&of, 1, pause())).await;
    let given = order(&mut service).await;
    for id in [0, given.id, u64::MAX] {
        tell(&mut other, id, Ok("a lie")).await;
    }
    other.send_sample(sample(1)).await;
    drop(service);
    let told = outcome(&mut viewer).await;
    let why = told.outcome.expect_err("not known");
    assert!(
        why.contains("gone") || why.contains("has not said"),
        "{why}"
    );
    agent.stop().await;
}

/// A flood of orders reaches the service a few at a time, with an outcome for each; the rest are told to try again.
#[tokio::test]
async fn a_flood_of_orders_is_held_back() {
    let agent = TestAgent::with(|config| config.viewer_queue_frames = 1_000);
    let of = allowing("flooded");
    let mut service = agent.service(&of).await;
    let mut viewer = agent.viewer().await;
    for id in 0..100 {
        let lane = LaneRef::named(&"x".repeat(10_000));
        viewer.send(&control(&of, id, Action::Pause { lane })).await;
    }
    let mut refused = 0;
    while refused < 50 {
        let told = outcome(&mut viewer).await;
        let why = told.outcome.expect_err("not yet carried out");
        assert!(
            why.contains("orders") || why.contains("does not read"),
            "{why}"
        );
        refused += 1;
    }
    let first = order(&mut service).await;
    let Action::Pause { lane } = &first.action else {
        panic!("{first:?}");
    };
    assert!(lane.name.chars().count() < 2_000, "cut");
    // A viewer that speaks as a service is no longer listened to.
    let told = Controlled {
        id: first.id,
        outcome: Ok("by the viewer itself".to_owned()),
    };
    viewer.send(&ToAgent::Controlled(told)).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    tell(&mut service, first.id, Ok("by the service")).await;
    let done = viewer.wait_for(|frame| match frame {
        ToViewer::Controlled(Controlled {
            outcome: Ok(done), ..
        }) => Some(done),
        _ => None,
    });
    assert_eq!(done.await, "by the service");
    agent.stop().await;
}

/// A service cannot order.
#[tokio::test]
async fn a_service_that_orders_is_closed() {
    let agent = TestAgent::start();
    let of = allowing("orders");
    let mut service = agent.service(&of).await;
    service.send(&control(&of, 1, pause())).await;
    let why = service.refusal().await;
    assert!(why.contains("viewer"), "{why}");
    agent.stop().await;
}
