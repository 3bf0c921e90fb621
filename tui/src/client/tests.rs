//! The client against an agent made of a few lines: what belongs here is attaching, refusal and loss, not figures.

use std::{fs::Permissions, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use ax_wire::{
    InstanceId, ToAgent, ToViewer,
    frame::{self, Ack, Capture, Captured, Refused},
    hello::PROTOCOL,
    view::Services,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
    time::timeout,
};

use super::*;
use crate::fixture;

const PATIENCE: Duration = Duration::from_secs(10);

async fn answer(stream: UnixStream, frames: &[ToViewer]) -> BufReader<UnixStream> {
    let mut stream = BufReader::new(stream);
    let mut subscription = String::new();
    stream.read_line(&mut subscription).await.expect("reads");
    assert!(subscription.contains("subscribe"), "{subscription}");
    let mut lines = Vec::new();
    for frame in frames {
        frame::encode(frame, &mut lines).expect("encodes");
    }
    stream.write_all(&lines).await.expect("writes");
    stream
}

fn ack() -> ToViewer {
    ack_of(false)
}

fn ack_of(embedded: bool) -> ToViewer {
    ToViewer::Ack(Ack {
        protocol: PROTOCOL,
        agent_version: "0".to_owned(),
        agent_pid: 1,
        embedded,
    })
}

fn services() -> ToViewer {
    ToViewer::Services(Services::default())
}

/// The next update; a question for charts is left unanswered.
async fn next(client: &mut Client) -> Update {
    loop {
        let update = timeout(PATIENCE, client.updates.recv()).await;
        let update = update.expect("in time").expect("the client lives");
        if !matches!(update, Update::HandOver(_)) {
            return update;
        }
    }
}

fn listen(socket: &Path) -> UnixListener {
    UnixListener::bind(socket).expect("binds")
}

#[tokio::test]
async fn attaches_hands_on_frames_and_comes_back_after_a_loss() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("agent.sock");
    let agent = listen(&socket);
    let mut client = start(Sockets::only(socket.clone()));
    for _ in 0..2 {
        let (stream, _) = timeout(PATIENCE, agent.accept())
            .await
            .expect("in time")
            .expect("accepts");
        let stream = answer(stream, &[ack(), services()]).await;
        let link = next(&mut client).await;
        assert!(matches!(link, Update::Link(Link::Attached { socket: on }) if on == socket));
        assert!(matches!(
            next(&mut client).await,
            Update::Frame(ToViewer::Services(_))
        ));
        drop(stream);
        let link = next(&mut client).await;
        assert!(matches!(
            link,
            Update::Link(Link::Connecting {
                problem: Some(_),
                ..
            })
        ));
    }
}

#[tokio::test]
async fn a_capture_is_asked_for_and_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("agent.sock");
    let agent = listen(&socket);
    let mut client = start(Sockets::only(socket));
    let capture = Capture {
        instance: InstanceId::new_now(),
    };
    assert!(client.ask(ToAgent::Capture(capture)));
    let (stream, _) = agent.accept().await.expect("accepts");
    let mut stream = answer(stream, &[ack()]).await;
    assert!(matches!(next(&mut client).await, Update::Link(_)));
    let wanted = Capture {
        instance: InstanceId::new_now(),
    };
    assert!(client.ask(ToAgent::Capture(wanted)));
    let mut line = String::new();
    stream.read_line(&mut line).await.expect("reads");
    let asked: ToAgent = frame::decode(line.as_bytes()).expect("a frame");
    assert_eq!(
        asked,
        ToAgent::Capture(wanted),
        "what was asked for before there was an agent is forgotten"
    );
    let captured = Captured {
        instance: wanted.instance,
        outcome: Err("one was taken just now".to_owned()),
    };
    let mut line = Vec::new();
    frame::encode(&ToViewer::Captured(captured.clone()), &mut line).expect("encodes");
    stream.write_all(&line).await.expect("writes");
    let Update::Frame(told) = next(&mut client).await else {
        panic!("told something else");
    };
    assert_eq!(told, ToViewer::Captured(captured));
}

#[tokio::test]
async fn a_folder_that_others_may_enter_is_refused_with_advice() {
    let folder = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o755))
        .tempdir()
        .expect("a folder");
    let socket = folder.path().join("agent.sock");
    let _agent = listen(&socket);
    let mut client = start(Sockets {
        private: Some(socket.clone()),
        ..Sockets::only(socket)
    });
    let Update::Link(Link::Connecting {
        problem: Some(problem),
        ..
    }) = next(&mut client).await
    else {
        panic!("told something else");
    };
    assert!(problem.contains("can be entered by others"), "{problem}");
    assert!(problem.contains("AX_SOCKET"), "{problem}");
}

#[tokio::test]
async fn a_refusal_is_told_and_no_second_agent_is_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("agent.sock");
    let agent = listen(&socket);
    let mut client = start(Sockets {
        candidates: vec![socket],
        own: Some(folder.path().join("own.sock")),
        configured: false,
        private: None,
    });
    let (stream, _) = agent.accept().await.expect("accepts");
    let refused = ToViewer::Refused(Refused {
        reason: "speak protocol 2".to_owned(),
        protocol: PROTOCOL,
    });
    let _stream = answer(stream, &[refused]).await;
    let Update::Link(Link::Connecting {
        problem: Some(problem),
        ..
    }) = next(&mut client).await
    else {
        panic!("told something else");
    };
    assert!(problem.contains("speak protocol 2"), "{problem}");
    assert!(!folder.path().join("own.sock").exists());
}

#[tokio::test]
async fn embeds_an_agent_where_none_listens() {
    let folder = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .expect("a folder");
    let socket = folder.path().join("agent.sock");
    let mut client = start(Sockets::only(socket.clone()));
    let link = next(&mut client).await;
    assert!(
        matches!(&link, Update::Link(Link::Embedded { socket: on }) if *on == socket),
        "{link:?}"
    );
    assert!(matches!(
        next(&mut client).await,
        Update::Frame(ToViewer::Services(_))
    ));
    let mut second = start(Sockets::only(socket.clone()));
    let link = next(&mut second).await;
    assert!(matches!(link, Update::Link(Link::Attached { .. })));
}

/// A service manager restarts an agent: it must find its lock free.
#[tokio::test]
async fn a_separate_agent_is_waited_for_and_an_embedded_one_replaced_at_once() {
    for embedded in [false, true] {
        let folder = tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .expect("a folder");
        let socket = folder.path().join("agent.sock");
        let agent = listen(&socket);
        let mut client = start(Sockets::only(socket.clone()));
        let (stream, _) = agent.accept().await.expect("accepts");
        let stream = answer(stream, &[ack_of(embedded)]).await;
        assert!(matches!(
            next(&mut client).await,
            Update::Link(Link::Attached { .. })
        ));
        drop((stream, agent));
        std::fs::remove_file(&socket).expect("was there");
        let mut told = Vec::new();
        // The first says why it went, the second what is done about it.
        for _ in 0..2 {
            told.push(next(&mut client).await);
        }
        match &told[1] {
            Update::Link(Link::Embedded { .. }) => assert!(embedded),
            Update::Link(Link::Connecting {
                own_agent_in: Some(left),
                ..
            }) => {
                assert!(!embedded);
                assert!(*left > COMES_BACK_WITHIN / 2, "{left:?}");
                let _restarted = listen(&socket);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// An embedded agent ends with its ax-top. The next one goes on with the charts that its own viewer had.
#[tokio::test]
async fn the_next_embedded_agent_is_handed_the_charts() {
    let folder = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .expect("a folder");
    let socket = folder.path().join("agent.sock");
    let mut first = start(Sockets::only(socket.clone()));
    assert!(matches!(
        next(&mut first).await,
        Update::Link(Link::Embedded { .. })
    ));
    let mut second = start(Sockets::only(socket.clone()));
    assert!(matches!(
        next(&mut second).await,
        Update::Link(Link::Attached { .. })
    ));
    drop(first);

    let view = fixture::healthy();
    let known = Backfill {
        instance: view.summary.instance,
        points: fixture::points(&view),
    };
    loop {
        let update = timeout(PATIENCE, second.updates.recv()).await;
        match update.expect("in time").expect("the client lives") {
            Update::HandOver(answer) => answer.send(vec![known.clone()]).expect("it waits"),
            Update::Link(Link::Embedded { .. }) => break,
            _ => {}
        }
    }

    let mut service = UnixStream::connect(&socket).await.expect("it listens");
    let mut hello = Vec::new();
    frame::encode(&ToAgent::Hello(Box::new(view.hello)), &mut hello).expect("encodes");
    service.write_all(&hello).await.expect("writes");
    let mut third = start(Sockets::only(socket));
    loop {
        if let Update::Frame(ToViewer::Backfill(backfill)) = next(&mut third).await {
            assert_eq!(backfill, known);
            return;
        }
    }
}
