//! One connection: its first line says what it is.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ax_wire::{
    ToAgent, ToService, ToViewer,
    frame::{self, Ack, FrameError, MAX_FRAME_BYTES},
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
use tokio_util::{
    codec::{FramedRead, LinesCodec, LinesCodecError},
    sync::CancellationToken,
};

use super::{
    hub::{FromService, HubHandle, Loss},
    line, refusal,
};
use crate::{
    config::{Config, MAX_FRAMES_PER_SECOND},
    ingest::{CleanSample, clean_events, clean_hello},
};

/// How long a peer may take to read why its connection closes.
const REFUSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection, told from all others of this agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ConnectionId(u64);

impl ConnectionId {
    fn next() -> Self {
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
    uid: u32,
    lines: FramedRead<OwnedReadHalf, LinesCodec>,
    write: OwnedWriteHalf,
    config: Arc<Config>,
    hub: HubHandle,
    stop: CancellationToken,
}

impl Connection {
    pub(super) fn new(
        stream: UnixStream,
        uid: u32,
        config: Arc<Config>,
        hub: HubHandle,
        stop: CancellationToken,
    ) -> Self {
        let (read, write) = stream.into_split();
        Self {
            id: ConnectionId::next(),
            uid,
            lines: FramedRead::new(read, frame::lines_codec()),
            write,
            config,
            hub,
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
            tracing::warn!(uid = self.uid, "connection closed: {reason}");
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
            Some(Err(LinesCodecError::MaxLineLengthExceeded)) => Err(Close::Refuse(
                Loss::OversizedFrame,
                format!("a line is longer than the limit of {MAX_FRAME_BYTES} bytes"),
            )),
            Some(Err(LinesCodecError::Io(error))) if error.kind() == io::ErrorKind::InvalidData => {
                Err(Close::malformed("a line is not UTF-8"))
            }
            None | Some(Err(LinesCodecError::Io(_))) => Err(Close::Quietly),
        }
    }

    async fn talk_to_service(&mut self, mut hello: Hello) -> Close {
        clean_hello(&mut hello);
        let joined = self
            .hub
            .join(self.id, self.uid, hello, self.stop.clone())
            .await;
        if let Err(reason) = joined {
            return Close::Refuse(Loss::Refused, reason);
        }
        let taken = line(&ToService::Ack(ack()));
        if self.write.write_all(&taken).await.is_err() {
            return Close::Quietly;
        }
        let mut pace = Pace::new();
        loop {
            let line = match self.next_line().await {
                Ok(line) => line,
                Err(close) => return close,
            };
            let frame = match decode_service_frame(line.as_bytes()) {
                Ok(frame) => frame,
                Err(error) => return Close::malformed(error),
            };
            // The text may be megabytes, and the hub may be busy.
            drop(line);
            let frame = match frame {
                ToAgent::Hello(mut hello) => {
                    clean_hello(&mut hello);
                    FromService::HelloAgain(hello)
                }
                ToAgent::Sample(sample) => {
                    FromService::Sample(Box::new(CleanSample::from(*sample)))
                }
                ToAgent::Events(mut events) => {
                    clean_events(&mut events);
                    FromService::Events(events)
                }
                ToAgent::Goodbye => FromService::Goodbye,
                ToAgent::Subscribe(_) | ToAgent::Capture(_) => {
                    return Close::malformed("a service cannot ask what a viewer asks");
                }
                ToAgent::Incident(_) | ToAgent::Unknown => continue,
            };
            self.hub.frame(self.id, frame).await;
            pace.wait().await;
        }
    }

    async fn talk_to_viewer(&mut self) -> Close {
        let taken = line(&ToViewer::Ack(ack()));
        if self.write.write_all(&taken).await.is_err() {
            return Close::Quietly;
        }
        let (queue, mut frames) = mpsc::channel(self.config.viewer_queue_frames.max(1));
        self.hub.subscribe(self.id, queue).await;
        loop {
            tokio::select! {
                frame = frames.recv() => match frame {
                    Some(frame) => if self.write.write_all(&frame).await.is_err() {
                        return Close::Quietly;
                    },
                    None => return Close::Quietly,
                },
                // Nothing is asked of a viewer that has subscribed: the line is read to be rid of it, and to see the end.
                line = self.next_line() => if let Err(close) = line {
                    return close;
                },
            }
        }
    }
}

/// Reads a frame of a service. One that begins as a probe writes its samples is read as a sample at once: going through
/// the enum, whose tag may stand anywhere, would build all of it twice.
fn decode_service_frame(line: &[u8]) -> Result<ToAgent, FrameError> {
    if line.starts_with(br#"{"frame":"sample","#) {
        return frame::decode(line).map(ToAgent::Sample);
    }
    frame::decode(line)
}

fn ack() -> Ack {
    Ack {
        protocol: PROTOCOL,
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        agent_pid: std::process::id(),
    }
}

/// Holds a flood back: what is not read waits with the sender.
struct Pace {
    began: Instant,
    frames: u32,
}

impl Pace {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            frames: 0,
        }
    }

    /// Call once a frame: returns at once, or when the second that has had its frames is over.
    async fn wait(&mut self) {
        let over = self.began + Duration::from_secs(1);
        self.frames += 1;
        if Instant::now() < over {
            if self.frames < MAX_FRAMES_PER_SECOND {
                return;
            }
            sleep_until(over).await;
        }
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_read_at_its_pace_and_a_probe_never_waits() {
        let start = Instant::now();
        let mut pace = Pace::new();
        for _ in 0..3 * MAX_FRAMES_PER_SECOND {
            pace.wait().await;
        }
        assert!(start.elapsed() >= Duration::from_secs(3));

        let mut pace = Pace::new();
        for _ in 0..100 {
            tokio::time::advance(Duration::from_millis(250)).await;
            let before = Instant::now();
            pace.wait().await;
            assert_eq!(before.elapsed(), Duration::ZERO);
        }
    }
}
