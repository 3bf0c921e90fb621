//! One connection: its first line says what it is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use ax_wire::{
    ToAgent, ToService, ToViewer,
    frame::{self, Ack, FrameError},
    hello::{Hello, PROTOCOL, ProtocolVersion},
};
use futures_util::StreamExt as _;
use serde::Deserialize;
use tokio::{
    io::AsyncWriteExt as _,
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::{codec::FramedRead, sync::CancellationToken};

use super::{
    Logs, Server, line,
    lines::{LineError, Lines},
    message::{FromService, HubHandle, Loss},
    refusal,
    service::Speaker,
};
use crate::{
    access::{Peer, Sees},
    config::{Config, MAX_FRAMES_PER_SECOND},
    ingest::{
        CleanSample, clean_action, clean_answer, clean_backfill, clean_controlled, clean_events,
        clean_hello, clean_incident, clean_question, clean_silence,
    },
};

/// How long a peer may take to read why its connection closes.
const REFUSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a service may take to read a line of ours.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Frames that wait for a service to read them: an acknowledgement and a capture now and then.
const OUTBOX: usize = 8;

/// In which [`MAX_FRAMES_PER_SECOND`] are read.
const PACE: Duration = Duration::from_secs(1);

/// A frame costs about three times its decoding: history, figures, the view. Resting six times as long, divided among the
/// services, leaves half of a core.
const REST_FACTOR: u32 = 6;

/// The longest pause after one frame.
const LONGEST_REST: Duration = Duration::from_secs(5);

/// A connection, told from all others of this agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ConnectionId(u64);

impl ConnectionId {
    pub(super) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Only uniqueness matters, and a single counter gives it in any ordering.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Why a connection is closed by the agent.
#[derive(Debug)]
enum Close {
    /// The peer is gone, or a stop was asked for: there is nobody to tell.
    Quietly,
    /// It is told why, and it is counted.
    Refuse(Loss, String),
}

impl Close {
    fn malformed(why: impl std::fmt::Display) -> Self {
        Self::Refuse(Loss::BadFrame, why.to_string())
    }
}

/// The part of a first line that every version has. Read on its own, because the rest of a stranger's hello may have a
/// shape that this version cannot read.
#[derive(Deserialize)]
struct FirstLine {
    protocol: Option<ProtocolVersion>,
}

pub(super) struct Connection {
    id: ConnectionId,
    peer: Peer,
    sees: Sees,
    lines: FramedRead<OwnedReadHalf, Lines>,
    write: OwnedWriteHalf,
    config: Arc<Config>,
    hub: HubHandle,
    /// How many services speak.
    speaking: Arc<AtomicU32>,
    logs: Arc<Logs>,
    stop: CancellationToken,
}

impl Connection {
    pub(super) fn new(
        stream: UnixStream,
        peer: Peer,
        sees: Sees,
        server: &Server,
        stop: CancellationToken,
    ) -> Self {
        let (read, write) = stream.into_split();
        let lines = Lines::short(peer.uid, Arc::clone(&server.long_lines));
        Self {
            id: ConnectionId::next(),
            peer,
            sees,
            lines: FramedRead::new(read, lines),
            write,
            config: Arc::clone(&server.config),
            hub: server.hub.clone(),
            speaking: Arc::clone(&server.speaking),
            logs: Arc::clone(&server.logs),
            stop,
        }
    }

    /// Serves it until the peer goes, misbehaves, or a stop is asked for.
    pub(super) async fn serve(mut self) {
        let stop = self.stop.clone();
        let close = tokio::select! {
            biased;
            () = stop.cancelled() => Close::Quietly,
            close = self.talk() => close,
        };
        if let Close::Refuse(loss, reason) = close {
            if let Some(more) = self.logs.closed.admit_words(std::time::Instant::now()) {
                tracing::warn!(uid = self.peer.uid, "connection closed: {reason}{more}");
            }
            // Counted while the hub still knows whose connection it was.
            self.hub.lost(Some(self.id), loss).await;
            // A peer that does not listen is closed all the same.
            let _ = timeout(REFUSE_TIMEOUT, self.write.write_all(&refusal(&reason))).await;
        }
        self.hub.disconnected(self.id).await;
    }

    async fn talk(&mut self) -> Close {
        match self.first_frame().await {
            Ok(ToAgent::Hello(hello)) => self.talk_to_service(*hello).await,
            Ok(ToAgent::Subscribe(_)) => self.talk_to_viewer().await,
            Ok(_) => Close::malformed("the first line must be a hello or a subscribe"),
            Err(close) => close,
        }
    }

    async fn first_frame(&mut self) -> Result<ToAgent, Close> {
        let limit = self.config.handshake_timeout;
        let Ok(line) = timeout(limit, self.next_line()).await else {
            let reason = format!("no first line within {} s", limit.as_secs_f64());
            return Err(Close::Refuse(Loss::Refused, reason));
        };
        let line = line?;
        if let Ok(FirstLine {
            protocol: Some(theirs),
        }) = frame::decode(line.as_bytes())
            && theirs.major != PROTOCOL.major
        {
            let older = if theirs.major < PROTOCOL.major {
                "yours is older: update the crate or program that connects"
            } else {
                "ours is older: update the agent"
            };
            return Err(Close::Refuse(
                Loss::Refused,
                format!("you speak protocol {theirs}, this agent speaks {PROTOCOL}; {older}"),
            ));
        }
        frame::decode(line.as_bytes()).map_err(Close::malformed)
    }

    /// The next line. Cancel safe: a line half read stays in the buffer.
    async fn next_line(&mut self) -> Result<String, Close> {
        match self.lines.next().await {
            Some(Ok(line)) => Ok(line),
            Some(Err(error @ LineError::TooLong(_))) => {
                Err(Close::Refuse(Loss::OversizedFrame, error.to_string()))
            }
            Some(Err(error @ LineError::NoPlace(_))) => {
                Err(Close::Refuse(Loss::Refused, error.to_string()))
            }
            Some(Err(error @ LineError::NotText)) => Err(Close::malformed(error)),
            None | Some(Err(LineError::Io(_))) => Err(Close::Quietly),
        }
    }

    async fn talk_to_service(&mut self, mut hello: Hello) -> Close {
        clean_hello(&mut hello);
        let (outbox, mut frames) = mpsc::channel(OUTBOX);
        let speaker = Speaker {
            id: self.id,
            peer: self.peer,
            stop: self.stop.clone(),
            outbox,
        };
        if let Err(reason) = self.hub.join(hello, speaker).await {
            return Close::Refuse(Loss::Refused, reason);
        }
        self.lines.decoder_mut().allow_long();
        if !self.send(&line(&ToService::Ack(ack(&self.config)))).await {
            return Close::Quietly;
        }
        let speaking = Speaking::new(Arc::clone(&self.speaking));
        let mut pace = Pace::new();
        loop {
            let rest = pace.rest();
            let deadline = self.lines.decoder().deadline();
            let taken = tokio::select! {
                // An acknowledgement is waited for, and not long: it goes before what comes.
                biased;
                Some(frame) = frames.recv() => {
                    if self.send(&line(&frame)).await {
                        continue;
                    }
                    return Close::Quietly;
                }
                () = sleep_until(rest.unwrap_or_else(Instant::now)), if rest.is_some() => continue,
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    Err(Close::malformed("a long line does not end"))
                }
                line = self.next_line(), if rest.is_none() => line,
            };
            let line = match taken {
                Ok(line) => line,
                Err(close) => return close,
            };
            let began = Instant::now();
            let frame = match decode_service_frame(line.as_bytes()) {
                Ok(frame) => from_service(frame),
                Err(error) => return Close::malformed(error),
            };
            pace.note(began.elapsed(), speaking.count());
            // The text may be megabytes, and the hub may be busy.
            drop(line);
            match frame {
                Ok(Some(frame)) => self.hub.frame(self.id, frame).await,
                Ok(None) => {}
                Err(close) => return close,
            }
        }
    }

    async fn talk_to_viewer(&mut self) -> Close {
        if !self.send(&line(&ToViewer::Ack(ack(&self.config)))).await {
            return Close::Quietly;
        }
        let (queue, mut frames) = mpsc::channel(self.config.viewer_queue_frames.max(1));
        self.hub.subscribe(self.id, queue, self.sees).await;
        loop {
            tokio::select! {
                frame = frames.recv() => match frame {
                    // A viewer may take its time; what it misses meanwhile is counted.
                    Some(frame) => if self.write.write_all(&frame).await.is_err() {
                        return Close::Quietly;
                    },
                    None => return Close::Quietly,
                },
                line = self.next_line() => match line {
                    // Anything else that a viewer says is read to be rid of it.
                    Ok(line) => match frame::decode(line.as_bytes()) {
                        Ok(ToAgent::Capture(capture)) => {
                            self.hub.capture(self.id, capture.instance).await;
                        }
                        Ok(ToAgent::Ask(mut ask)) => {
                            clean_question(&mut ask.question);
                            self.hub.ask(self.id, ask).await;
                        }
                        Ok(ToAgent::Control(mut control)) => {
                            clean_action(&mut control.action);
                            self.hub.control((self.id, self.peer.uid), control).await;
                        }
                        Ok(ToAgent::Rules) => self.hub.rules(self.id).await,
                        Ok(ToAgent::Silence(mut request)) => {
                            clean_silence(&mut request);
                            let asker = (self.id, self.peer.uid, self.sees);
                            self.hub.silence(asker, request).await;
                        }
                        _ => {}
                    },
                    Err(close) => return close,
                },
            }
        }
    }

    /// Whether a line to a service went out. One that does not read is not waited for long: nothing of it is read
    /// meanwhile.
    async fn send(&mut self, line: &[u8]) -> bool {
        let sent = timeout(SEND_TIMEOUT, self.write.write_all(line)).await;
        matches!(sent, Ok(Ok(())))
    }
}

/// A frame of a service, cleaned; `None` for one that this version does not know.
fn from_service(frame: ToAgent) -> Result<Option<FromService>, Close> {
    Ok(Some(match frame {
        ToAgent::Hello(mut hello) => {
            clean_hello(&mut hello);
            FromService::HelloAgain(hello)
        }
        ToAgent::Backfill(mut charts) => {
            let folded = clean_backfill(&mut charts);
            FromService::Backfill(charts, folded)
        }
        ToAgent::Sample(sample) => FromService::Sample(Box::new(CleanSample::from(*sample))),
        ToAgent::Events(mut events) => {
            let folded = clean_events(&mut events);
            FromService::Events(events, folded)
        }
        ToAgent::Incident(mut incident) => {
            clean_incident(&mut incident);
            FromService::Incident(incident)
        }
        ToAgent::Answer(mut answer) => {
            clean_answer(&mut answer);
            FromService::Answer(answer)
        }
        ToAgent::Controlled(mut controlled) => {
            clean_controlled(&mut controlled);
            FromService::Controlled(controlled)
        }
        ToAgent::Goodbye => FromService::Goodbye,
        ToAgent::Subscribe(_)
        | ToAgent::Capture(_)
        | ToAgent::Ask(_)
        | ToAgent::Control(_)
        | ToAgent::Rules
        | ToAgent::Silence(_) => {
            return Err(Close::malformed("a service cannot ask what a viewer asks"));
        }
        ToAgent::Unknown => return Ok(None),
    }))
}

/// Reads a frame of a service. One that begins as a probe writes its samples is read as a sample at once: going through
/// the enum, whose tag may stand anywhere, would build all of it twice.
fn decode_service_frame(line: &[u8]) -> Result<ToAgent, FrameError> {
    if line.starts_with(br#"{"frame":"sample","#) {
        return frame::decode(line).map(ToAgent::Sample);
    }
    frame::decode(line)
}

fn ack(config: &Config) -> Ack {
    Ack {
        embedded: config.embedded,
        protocol: PROTOCOL,
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        agent_pid: std::process::id(),
    }
}

/// One of the services that speak, as long as it lives. The count is a measure, not a lock: any ordering will do.
struct Speaking(Arc<AtomicU32>);

impl Speaking {
    fn new(count: Arc<AtomicU32>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }

    fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Speaking {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Holds a flood back: what is not read waits with the sender. Both the count of frames and the time that they take to
/// decode are held to a share, so that services which send as much as they can leave half of a core free.
struct Pace {
    began: Instant,
    frames: u32,
    rest_until: Instant,
}

impl Pace {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            began: now,
            frames: 0,
            rest_until: now,
        }
    }

    /// Counts a frame that took so long to decode, among so many services.
    fn note(&mut self, took: Duration, services: u32) {
        let now = Instant::now();
        if now >= self.began + PACE {
            (self.began, self.frames) = (now, 0);
        }
        self.frames += 1;
        if self.frames >= MAX_FRAMES_PER_SECOND {
            self.rest_until = self.began + PACE;
        }
        let share = took
            .saturating_mul(REST_FACTOR * services)
            .min(LONGEST_REST);
        self.rest_until = self.rest_until.max(now + share);
    }

    /// Until when nothing more is read; `None` when there is no need to rest.
    fn rest(&self) -> Option<Instant> {
        (Instant::now() < self.rest_until).then_some(self.rest_until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_read_at_its_pace_and_a_probe_never_waits() {
        let start = Instant::now();
        let mut pace = Pace::new();
        for _ in 0..=3 * MAX_FRAMES_PER_SECOND {
            if let Some(rest) = pace.rest() {
                sleep_until(rest).await;
            }
            pace.note(Duration::ZERO, 1);
        }
        assert!(start.elapsed() >= Duration::from_secs(3));

        let mut pace = Pace::new();
        for _ in 0..100 {
            tokio::time::advance(Duration::from_millis(250)).await;
            assert_eq!(pace.rest(), None);
            pace.note(Duration::from_millis(1), 20);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_dear_to_decode_is_read_the_more_rarely_the_more_services_there_are() {
        let start = Instant::now();
        let mut pace = Pace::new();
        pace.note(Duration::from_millis(2), 64);
        assert_eq!(pace.rest(), Some(start + Duration::from_millis(768)));
        pace.note(Duration::from_secs(9), 64);
        assert_eq!(pace.rest(), Some(start + LONGEST_REST));
    }
}
