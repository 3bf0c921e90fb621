//! The agent on a real socket: handshakes, refusals, several services, viewers, shutdown. Figures belong in
//! `window.rs`.

use std::{os::unix::net::UnixStream as StdStream, time::Duration};

use ax_agent::{Agent, BindError, Config};
use ax_wire::{
    ToAgent, ToService, ToViewer,
    frame::MAX_FRAME_BYTES,
    hello::{Hello, ProtocolVersion},
    view::{Backfill, ServiceState, ServiceView, Services},
};

use crate::common::{Peer, TestAgent, done, hello, job_type, lane, sample, subscribe};

/// The services of the first list that satisfies.
async fn services(viewer: &mut Peer, satisfies: impl Fn(&Services) -> bool) -> Services {
    viewer
        .wait_for(|frame| match frame {
            ToViewer::Services(services) if satisfies(&services) => Some(services),
            _ => None,
        })
        .await
}

/// The first view of a service that satisfies.
async fn view_of(
    viewer: &mut Peer,
    hello: &Hello,
    satisfies: impl Fn(&ServiceView) -> bool,
) -> ServiceView {
    viewer
        .wait_for(|frame| match frame {
            ToViewer::View(view) if view.hello.instance == hello.instance && satisfies(&view) => {
                Some(*view)
            }
            _ => None,
        })
        .await
}

async fn backfill_of(viewer: &mut Peer, hello: &Hello) -> Backfill {
    viewer
        .wait_for(|frame| match frame {
            ToViewer::Backfill(backfill) if backfill.instance == hello.instance => Some(backfill),
            ToViewer::View(view) if view.hello.instance == hello.instance => {
                panic!("a view came before the backfill")
            }
            _ => None,
        })
        .await
}

fn has_point(view: &ServiceView) -> bool {
    view.point.is_some()
}

#[tokio::test]
async fn a_sample_of_a_service_reaches_a_viewer_as_a_view() {
    let agent = TestAgent::start();
    let mut viewer = agent.viewer().await;
    let first = services(&mut viewer, |_| true).await;
    assert!(first.services.is_empty());

    let checkout = hello("checkout");
    let mut service = agent.service(&checkout).await;
    assert!(backfill_of(&mut viewer, &checkout).await.points.is_empty());
    let mut with_jobs = sample(1);
    with_jobs.lanes = vec![lane("api", done(10))];
    with_jobs.types = vec![job_type("render", "api", done(10), &[5_000_000; 10])];
    service.send_sample(with_jobs).await;
    let view = view_of(&mut viewer, &checkout, has_point).await;
    assert_eq!(view.summary.service, "checkout");
    assert_eq!(view.summary.state, ServiceState::Live);
    assert_eq!(view.summary.uid, rustix::process::getuid().as_raw());
    assert_eq!(view.lanes[0].name, "api");
    assert_eq!(view.types[0].run.p50_ns, Some(5_000_000));
    assert_eq!(view.agent_dropped, ax_wire::view::AgentDropped::default());
    agent.stop().await;
}

#[tokio::test]
async fn a_late_viewer_sees_the_past() {
    let agent = TestAgent::start();
    let checkout = hello("checkout");
    let mut service = agent.service(&checkout).await;
    let mut early = agent.viewer().await;
    for second in 1..=5 {
        service.send_sample(sample(second)).await;
    }
    view_of(&mut early, &checkout, |view| {
        view.window_ns >= 4 * crate::common::SECOND
    })
    .await;

    let mut late = agent.viewer().await;
    assert_eq!(backfill_of(&mut late, &checkout).await.points.len(), 5);
    let view = view_of(&mut late, &checkout, |_| true).await;
    assert_eq!(
        view.window_ns,
        4 * crate::common::SECOND,
        "at once, without another sample"
    );
    agent.stop().await;
}

#[tokio::test]
async fn an_unknown_major_version_is_refused_with_both_versions_even_in_a_shape_of_its_own() {
    let agent = TestAgent::start();
    let mut newer = hello("checkout");
    newer.protocol = ProtocolVersion { major: 9, minor: 3 };
    let mut peer = agent.connect().await;
    peer.send(&ToAgent::Hello(Box::new(newer))).await;
    let reason = peer.refusal().await;
    let ours = ax_wire::hello::PROTOCOL.to_string();
    assert!(reason.contains("9.3") && reason.contains(&ours), "{reason}");
    assert!(reason.contains("update the agent"), "{reason}");

    for shape in ["hello", "subscribe", "namaste"] {
        let mut peer = agent.connect().await;
        let line = format!(r#"{{"frame":"{shape}","protocol":{{"major":0,"minor":7}}}}"#);
        peer.send_raw(format!("{line}\n").as_bytes()).await;
        let reason = peer.refusal().await;
        assert!(
            reason.contains("0.7") && reason.contains("yours is older"),
            "{reason}"
        );
    }

    let mut viewer = agent.viewer().await;
    let seen = services(&mut viewer, |_| true).await;
    assert_eq!(seen.agent_dropped.refused_connections_total, 4);
    assert!(seen.services.is_empty());
    agent.stop().await;
}

#[tokio::test]
async fn wrong_first_lines_are_refused_and_counted() {
    let agent = TestAgent::start();
    for bad in [
        &b"GET / HTTP/1.1\n"[..],
        b"\n",
        b"{\"frame\":\"goodbye\"}\n",
        b"{\"frame\":\"hello\",\"service\":\"half\"}\n",
        b"\xff\xfe\xfd\n",
    ] {
        let mut peer = agent.connect().await;
        peer.send_raw(bad).await;
        peer.refusal().await;
    }
    let mut truncated = agent.connect().await;
    truncated.send_raw(b"{\"frame\":\"subscr").await;
    truncated.finish_sending().await;
    truncated.refusal().await;

    let mut viewer = agent.viewer().await;
    let seen = services(&mut viewer, |_| true).await;
    assert_eq!(seen.agent_dropped.bad_frames_total, 6);
    agent.stop().await;
}

#[tokio::test]
async fn a_bad_line_ends_its_own_service_and_touches_no_other() {
    let agent = TestAgent::start();
    let mut viewer = agent.viewer().await;
    let (good, bad, long) = (hello("good"), hello("bad"), hello("long"));
    let mut good_service = agent.service(&good).await;
    let mut bad_service = agent.service(&bad).await;
    let mut long_service = agent.service(&long).await;

    bad_service
        .send_raw(b"{\"frame\":\"sample\",\"seq\":-1}\n")
        .await;
    bad_service.refusal().await;
    let view = view_of(&mut viewer, &bad, |view| {
        view.summary.state == ServiceState::Lost
    })
    .await;
    assert_eq!(view.agent_dropped.bad_frames_total, 1);

    // The agent hangs up before the last byte, so the two ends must not wait for each other.
    let line = vec![b'x'; MAX_FRAME_BYTES + 2];
    long_service.send_raw(&line).await;
    let reason = long_service.refusal().await;
    assert!(reason.contains("8388608"), "{reason}");
    let view = view_of(&mut viewer, &long, |view| {
        view.summary.state == ServiceState::Lost
    })
    .await;
    assert_eq!(view.agent_dropped.oversized_frames_total, 1);

    good_service.send_sample(sample(1)).await;
    let view = view_of(&mut viewer, &good, has_point).await;
    assert_eq!(view.summary.state, ServiceState::Live);
    assert_eq!(view.agent_dropped.bad_frames_total, 0);
    agent.stop().await;
}

#[tokio::test]
async fn unknown_frames_of_a_newer_minor_version_are_ignored() {
    let agent = TestAgent::start();
    let mut newer = hello("checkout");
    newer.protocol.minor = 77;
    let mut service = agent.service(&newer).await;
    let mut viewer = agent.viewer().await;
    service
        .send_raw(b"{\"frame\":\"telepathy\",\"strength\":9}\n")
        .await;
    service.send_sample(sample(1)).await;
    view_of(&mut viewer, &newer, has_point).await;
    agent.stop().await;
}

#[tokio::test]
async fn silence_and_half_a_line_are_refused_when_the_time_is_up() {
    let agent = TestAgent::with(|config| config.handshake_timeout = Duration::from_millis(50));
    let mut silent = agent.connect().await;
    let mut half = agent.connect().await;
    half.send_raw(b"{\"frame\":\"hel").await;
    for peer in [&mut silent, &mut half] {
        let reason = peer.refusal().await;
        assert!(reason.contains("no first line within 0.05 s"), "{reason}");
    }
    agent.stop().await;
}

#[tokio::test]
async fn connections_and_services_beyond_the_limits_are_refused_until_one_leaves() {
    let agent = TestAgent::with(|config| {
        config.max_connections = 3;
        config.max_services = 1;
    });
    let mut viewer = agent.viewer().await;
    let first = hello("first");
    let service = agent.service(&first).await;

    let mut second = agent.connect().await;
    second
        .send(&ToAgent::Hello(Box::new(hello("second"))))
        .await;
    let reason = second.refusal().await;
    assert!(reason.contains("already watches 1"), "{reason}");

    let _third = agent.viewer().await;
    let mut fourth = agent.connect().await;
    let reason = fourth.refusal().await;
    assert!(reason.contains("all 3 connections"), "{reason}");

    drop(service);
    services(&mut viewer, |seen| {
        seen.services
            .iter()
            .any(|service| service.state == ServiceState::Lost)
    })
    .await;
    agent.service(&hello("second")).await;
    agent.stop().await;
}

#[tokio::test]
async fn two_instances_of_one_service_are_apart() {
    let agent = TestAgent::start();
    let mut viewer = agent.viewer().await;
    let (mut old, mut new) = (hello("checkout"), hello("checkout"));
    (old.process_start_unix_ns, new.process_start_unix_ns) = (1, 2);
    let other = hello("auth");
    let mut old_service = agent.service(&old).await;
    let mut new_service = agent.service(&new).await;
    let _other_service = agent.service(&other).await;
    let seen = services(&mut viewer, |seen| seen.services.len() == 3).await;
    let order: Vec<_> = seen
        .services
        .iter()
        .map(|service| service.instance)
        .collect();
    assert_eq!(
        order,
        [other.instance, new.instance, old.instance],
        "by name, newest first"
    );

    old_service.send_sample(sample(1)).await;
    new_service.send_sample(sample(9)).await;
    let old_view = view_of(&mut viewer, &old, has_point).await;
    let new_view = view_of(&mut viewer, &new, has_point).await;
    let at = |view: ServiceView| view.point.expect("has one").at_unix_ns;
    assert_eq!(at(new_view) - at(old_view), 8 * crate::common::SECOND);
    agent.stop().await;
}

#[tokio::test]
async fn a_reconnect_continues_the_history_and_replaces_a_connection_that_hangs() {
    let agent = TestAgent::start();
    let mut viewer = agent.viewer().await;
    let checkout = hello("checkout");
    let mut first = agent.service(&checkout).await;
    first.send_sample(sample(1)).await;
    view_of(&mut viewer, &checkout, has_point).await;

    // The first connection is still open.
    let mut second = agent.service(&checkout).await;
    assert!(first.next_or_end::<ToService>().await.is_none(), "closed");
    second.send_sample(sample(2)).await;
    let view = view_of(&mut viewer, &checkout, |view| {
        view.window_ns == crate::common::SECOND
    })
    .await;
    assert_eq!(view.summary.state, ServiceState::Live);
    assert!(
        view.process.cpus_used.is_some(),
        "measured against the sample before"
    );

    drop(second);
    view_of(&mut viewer, &checkout, |view| {
        view.summary.state == ServiceState::Lost
    })
    .await;
    let mut third = agent.service(&checkout).await;
    third.send_sample(sample(3)).await;
    let live = |view: &ServiceView| view.summary.state == ServiceState::Live;
    view_of(&mut viewer, &checkout, |view| {
        live(view) && view.window_ns == 2 * crate::common::SECOND
    })
    .await;
    let mut late = agent.viewer().await;
    assert_eq!(backfill_of(&mut late, &checkout).await.points.len(), 3);
    assert_eq!(services(&mut viewer, live_one).await.services.len(), 1);
    agent.stop().await;
}

fn live_one(seen: &Services) -> bool {
    seen.services
        .iter()
        .any(|service| service.state == ServiceState::Live)
}

#[tokio::test]
async fn goodbye_ends_a_service_and_a_broken_connection_loses_it() {
    let agent = TestAgent::with(|config| config.max_gone = 1);
    let mut viewer = agent.viewer().await;
    let (polite, killed) = (hello("polite"), hello("killed"));
    let mut service = agent.service(&polite).await;
    service.send(&ToAgent::Goodbye).await;
    drop(service);
    view_of(&mut viewer, &polite, |view| {
        view.summary.state == ServiceState::Ended
    })
    .await;
    drop(agent.service(&killed).await);
    view_of(&mut viewer, &killed, |view| {
        view.summary.state == ServiceState::Lost
    })
    .await;
    // Only one that is gone is kept: the one that went last.
    let seen = services(&mut viewer, |seen| seen.services.len() == 1).await;
    assert_eq!(seen.services[0].instance, killed.instance);
    agent.stop().await;
}

#[tokio::test]
async fn names_of_a_service_are_made_safe_on_the_way_in() {
    let agent = TestAgent::start();
    let mut viewer = agent.viewer().await;
    let mut rude = hello("\u{1b}[2Jcheckout");
    rude.features = vec!["a\u{7}".into(); 1_000];
    let _service = agent.service(&rude).await;
    let seen = services(&mut viewer, |seen| !seen.services.is_empty()).await;
    assert_eq!(seen.services[0].service, "\u{FFFD}[2Jcheckout");
    let view = view_of(&mut viewer, &rude, |_| true).await;
    assert_eq!(view.hello.features.len(), 32);
    assert_eq!(view.hello.features[0], "a\u{FFFD}");
    agent.stop().await;
}

#[tokio::test]
async fn a_viewer_that_does_not_read_loses_frames_and_holds_nobody_up() {
    let agent = TestAgent::with(|config| config.viewer_queue_frames = 4);
    let _stuck = agent.viewer().await;
    let mut viewer = agent.viewer().await;
    let checkout = hello("checkout");
    let mut service = agent.service(&checkout).await;
    // Long names fill the stuck viewer's socket soon.
    let types = |second| {
        let name = |n| format!("{n:0>200}");
        (0..128)
            .map(|n| job_type(&name(n), "api", done(second), &[]))
            .collect()
    };
    let mut lost = 0;
    for second in 1..=40 {
        let mut big = sample(second);
        big.types = types(second);
        service.send_sample(big).await;
        let at_unix_ns = crate::common::EPOCH_UNIX_NS + second * crate::common::SECOND;
        let view = view_of(&mut viewer, &checkout, |view| {
            view.point
                .as_ref()
                .is_some_and(|point| point.at_unix_ns == at_unix_ns)
        })
        .await;
        lost = view.agent_dropped.viewer_frames_total;
    }
    assert!(lost > 0, "the stuck viewer's frames are counted");
    services(&mut viewer, |seen| {
        seen.agent_dropped.viewer_frames_total >= lost
    })
    .await;
    // It does not hold the end up either.
    agent.stop().await;
}

#[tokio::test]
async fn a_second_agent_is_refused_and_shutdown_leaves_no_socket_and_no_connection() {
    let agent = TestAgent::start();
    let socket = agent.socket();
    assert!(matches!(
        Agent::bind(Config::at(&socket)),
        Err(BindError::AlreadyRunning { .. })
    ));
    let mut service = agent.service(&hello("checkout")).await;
    let mut viewer = agent.viewer().await;
    let mut undecided = agent.connect().await;
    // Served, and not only queued, so that its end is seen too.
    services(&mut viewer, |seen| !seen.services.is_empty()).await;
    undecided.send_raw(b"{").await;

    agent.stop.cancel();
    assert!(service.next_or_end::<ToService>().await.is_none());
    while viewer.next_or_end::<ToViewer>().await.is_some() {}
    assert!(undecided.next_or_end::<ToService>().await.is_none());
    assert!(!socket.exists());
    assert!(StdStream::connect(&socket).is_err());
    let next = Agent::bind(Config::at(&socket));
    agent.stop().await;
    next.expect("the lock is free again");
}

#[tokio::test]
async fn a_service_cannot_subscribe_and_a_viewer_is_not_listened_to() {
    let agent = TestAgent::start();
    let mut service = agent.service(&hello("checkout")).await;
    service.send(&subscribe()).await;
    service.refusal().await;
    let mut viewer = agent.viewer().await;
    viewer.send_sample(sample(1)).await;
    viewer.send_raw(b"not a frame\n").await;
    services(&mut viewer, |seen| seen.agent_dropped.bad_frames_total == 1).await;
    agent.stop().await;
}

#[tokio::test]
async fn the_largest_history_becomes_shorter_when_all_together_are_too_large() {
    let agent = TestAgent::with(|config| config.max_history_bytes = 200_000);
    let (large, small) = (hello("large"), hello("small"));
    let mut large_one = agent.service(&large).await;
    let mut small_one = agent.service(&small).await;
    for second in 1..=40 {
        let mut sample = sample(second);
        let types = (0..129).map(|n| job_type(&format!("type-{n}"), "api", done(second), &[]));
        sample.types = types.collect();
        large_one.send_sample(sample).await;
        if second <= 20 {
            small_one.send_sample(self::sample(second)).await;
        }
        // Under the pace at which an agent reads.
        tokio::time::sleep(Duration::from_millis(if second % 60 == 0 {
            1_000
        } else {
            1
        }))
        .await;
    }
    let mut viewer = agent.viewer().await;
    let view = view_of(&mut viewer, &large, |view| {
        view.agent_dropped.folded_total > 0
    })
    .await;
    println!("{} seconds were let go", view.agent_dropped.folded_total);
    let mut late = agent.viewer().await;
    assert!(backfill_of(&mut late, &large).await.points.len() < 40);
    let mut late = agent.viewer().await;
    assert_eq!(backfill_of(&mut late, &small).await.points.len(), 20);
    agent.stop().await;
}
