//! Hostile neighbours: whatever some connections do, the samples of the others keep their rhythm, and memory is bounded.
//!
//! The agent runs in a process of its own, so that its memory can be told from the flood's.

use std::time::Duration;

use ax_wire::{
    InstanceId, ToAgent, ToService, ToViewer,
    frame::{MAX_FRAME_BYTES, decode},
    sample::{JobCounters, Sample},
};
use tokio::{
    io::AsyncWriteExt as _,
    net::UnixStream,
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use crate::{
    budget::{mib, rss_bytes, start},
    common::{Peer, hello, job_type, sample, subscribe},
};

/// Samples of the service that must not be hurt; a tenth of a real second, so that a gap shows in a short test.
const PERIOD: Duration = Duration::from_millis(100);

/// A view that comes so late is a lost rhythm. Unoptimized, an agent that is handed 64 full services at once is hard put;
/// the figures that are printed by a release build are the ones to look at.
const LONGEST_GAP: Duration = Duration::from_secs(if cfg!(debug_assertions) { 6 } else { 1 });

const MAX_RSS_BYTES: u64 = 512 << 20;

/// How long each flood goes on.
const FLOOD: Duration = Duration::from_secs(3);

/// An unoptimized agent takes a minute for 100,000 names.
fn thousands_of_types() -> u64 {
    if cfg!(debug_assertions) { 10 } else { 100 }
}

/// How many services fill every table: as many as a user may have, or what an agent without optimisation, some ten times
/// slower, can be asked to read on a busy machine.
fn full_services() -> usize {
    if cfg!(debug_assertions) { 16 } else { 64 }
}

fn full_of_types(names: std::ops::Range<u64>, second: u64) -> Sample {
    let types = names.map(|n| job_type(&format!("type-{n}"), "api", JobCounters::default(), &[]));
    Sample {
        types: types.collect(),
        ..sample(second)
    }
}

/// Opens connections, writes `bytes` to each, and keeps them; the agent may close them.
async fn many(socket: &std::path::Path, count: usize, bytes: &[u8]) -> Vec<UnixStream> {
    let mut open = Vec::new();
    for _ in 0..count {
        if let Ok(mut stream) = UnixStream::connect(socket).await {
            let _ = stream.write_all(bytes).await;
            open.push(stream);
        }
    }
    open
}

async fn joined(socket: &std::path::Path, name: &str) -> Option<Peer> {
    let mut peer = Peer::connect(socket).await;
    peer.send(&ToAgent::Hello(Box::new(hello(name)))).await;
    matches!(peer.next_or_end().await, Some(ToService::Ack(_))).then_some(peer)
}

/// Floods one after the other, each for [`FLOOD`].
async fn flood(socket: std::path::PathBuf, kind: &'static str) {
    match kind {
        "1,000 connections" => {
            let open = many(&socket, 1_000, b"").await;
            sleep(FLOOD).await;
            drop(open);
        }
        "half-open" => {
            let mut rounds = interval(Duration::from_millis(500));
            for _ in 0..6 {
                rounds.tick().await;
                drop(many(&socket, 200, b"{\"frame\":\"hello\",").await);
            }
        }
        "one byte a second" => {
            let mut open = many(&socket, 200, b"{").await;
            for _ in 0..FLOOD.as_secs() {
                sleep(Duration::from_secs(1)).await;
                for stream in &mut open {
                    let _ = stream.try_write(b" ");
                }
            }
        }
        "8 MiB lines" => {
            let line = vec![b'x'; MAX_FRAME_BYTES - 1];
            let mut peers = Vec::new();
            for n in 0..40 {
                peers.extend(joined(&socket, &format!("long-{n}")).await);
            }
            let until = Instant::now() + FLOOD;
            let sending = peers.into_iter().map(|mut peer| {
                let line = line.clone();
                tokio::spawn(async move {
                    while Instant::now() < until {
                        let _ =
                            tokio::time::timeout(Duration::from_millis(200), peer.send_raw(&line))
                                .await;
                        sleep(Duration::from_millis(20)).await;
                    }
                })
            });
            for sent in sending.collect::<Vec<JoinHandle<()>>>() {
                sent.await.expect("no panic");
            }
        }
        "thousands of job types" => {
            let mut peer = joined(&socket, "types").await.expect("joins");
            for second in 1..=thousands_of_types() {
                let names = second * 1_000..(second + 1) * 1_000;
                peer.send_sample(full_of_types(names, second)).await;
            }
        }
        "full services" => {
            let mut peers = Vec::new();
            for n in 0..full_services() {
                peers.extend(joined(&socket, &format!("full-{n}")).await);
            }
            for second in 1..=6 {
                for peer in &mut peers {
                    peer.send_sample(full_of_types(0..129, second)).await;
                }
            }
        }
        other => panic!("no such flood: {other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_samples_of_others_keep_their_rhythm_and_memory_stays_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("agent.sock");
    let mut child = start(&socket);
    let mut viewer = Peer::connect(&socket).await;
    viewer.send(&subscribe()).await;
    let own = hello("victim");
    let mut victim = Peer::connect(&socket).await;
    victim.send(&ToAgent::Hello(Box::new(own.clone()))).await;
    let speaking = tokio::spawn(async move {
        let mut tick = interval(PERIOD);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for second in 1.. {
            tick.tick().await;
            victim.send_sample(sample(second)).await;
        }
    });
    println!(
        "bound of a gap: {LONGEST_GAP:?}; names: {},000 ({} build)",
        thousands_of_types(),
        if cfg!(debug_assertions) {
            "debug"
        } else {
            "release"
        }
    );
    let mut dropped = None;
    for kind in [
        "1,000 connections",
        "half-open",
        "one byte a second",
        "8 MiB lines",
        "thousands of job types",
        "full services",
    ] {
        let flooding = tokio::spawn(flood(socket.clone(), kind));
        let (longest, views) =
            longest_gap(&mut viewer, own.instance, &flooding, &mut dropped).await;
        flooding.await.expect("no panic");
        let rss = rss_bytes(child.id());
        println!(
            "{kind}: {views} views, longest gap {longest:?}, rss {:.1} MiB",
            mib(rss)
        );
        assert!(views > 0 && longest < LONGEST_GAP, "{kind}: {longest:?}");
        assert!(rss < MAX_RSS_BYTES, "{kind}: {:.1} MiB", mib(rss));
    }
    let dropped = dropped.expect("is told");
    println!("{dropped:?}");
    assert!(dropped.refused_connections_total > 1_000);
    assert!(dropped.bad_frames_total + dropped.oversized_frames_total > 0);
    assert!(dropped.folded_total >= thousands_of_types() * 800);
    speaking.abort();
    drop(child.stdin.take());
    assert!(child.wait().expect("ends").success());
}

/// The longest time between two views of a service until the flood is over.
async fn longest_gap(
    viewer: &mut Peer,
    of: InstanceId,
    flooding: &JoinHandle<()>,
    dropped: &mut Option<ax_wire::view::AgentDropped>,
) -> (Duration, u32) {
    let of = of.to_string();
    let (mut longest, mut last, mut views) = (Duration::ZERO, Instant::now(), 0);
    while !flooding.is_finished() || views < 3 {
        // Reading the views of the flood would take longer than they took the agent.
        let line = viewer.next_line().await;
        if line.starts_with(r#"{"frame":"view""#) && line.contains(&of) {
            longest = longest.max(last.elapsed());
            last = Instant::now();
            views += 1;
        } else if line.starts_with(r#"{"frame":"services""#)
            && let Ok(ToViewer::Services(services)) = decode(line.as_bytes())
        {
            *dropped = Some(services.agent_dropped);
        }
    }
    (longest, views)
}
