//! The frames, and their form on the socket: one JSON object a line.

mod read;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio_util::codec::LinesCodec;

use crate::{
    control::{Control, Controlled, Order},
    event::Events,
    hello::{Hello, ProtocolVersion},
    id::InstanceId,
    incident::{Incident, IncidentId, SnapshotSummary},
    query::{Answer, Ask, Inquiry},
    rules::{RulesReport, SilenceAnswer, SilenceRequest},
    sample::Sample,
    view::{Backfill, ServiceView, Services},
};

/// The longest line, without its newline. A longer one closes the connection and is counted.
///
/// A sample of 128 types with three full histograms each is about 2 MB; doubling the cap doubles what a hostile peer
/// can make the reader hold.
pub const MAX_FRAME_BYTES: usize = 8 * 1024 * 1024;

/// What an agent reads: from services, and from viewers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "frame", rename_all = "snake_case")]
pub enum ToAgent {
    /// The first frame of a service.
    Hello(Box<Hello>),
    /// The charts that the service itself kept while no agent watched it: once, after its hello was taken.
    Backfill(Backfill),
    /// Once a second.
    Sample(Box<Sample>),
    /// When something happened.
    Events(Events),
    /// Evidence of something that went wrong, taken at that instant. Acknowledged by `incident_ack`, or the service
    /// writes the snapshot itself.
    Incident(Box<Incident>),
    /// The service ends on purpose.
    Goodbye,
    /// The first frame of a viewer.
    Subscribe(Subscribe),
    /// A viewer asks for a snapshot of a service now. Answered by `captured`.
    Capture(Capture),
    /// A viewer asks something. Answered by `answer`.
    Ask(Ask),
    /// A service answers an `ask`.
    Answer(Box<Answer>),
    /// A viewer asks for a change of a service. Answered by `controlled`.
    Control(Control),
    /// What became of an order: by a service, with the agent's number of it.
    Controlled(Controlled),
    /// A viewer asks what the rules are and what they say. Answered by `rules`.
    Rules,
    /// A viewer asks for a silence. Answered by `silenced`.
    Silence(SilenceRequest),
    /// A frame of a newer minor version: ignored.
    #[serde(other)]
    Unknown,
}

/// The first frame of a viewer: from now on it gets every service that it may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Subscribe {
    /// What the viewer speaks.
    pub protocol: ProtocolVersion,
}

/// What a service reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "frame", rename_all = "snake_case")]
pub enum ToService {
    /// The hello was taken.
    Ack(Ack),
    /// The hello was not taken; the connection closes.
    Refused(Refused),
    /// Take evidence now; answered by an `incident` whose reason is `capture`.
    Capture,
    /// The agent writes the snapshot of this incident; the service must not.
    IncidentAck(IncidentAck),
    /// Answered by an `answer` of the same number.
    Ask(Inquiry),
    /// Change something. Answered by a `controlled` of the same number.
    Control(Order),
    /// A frame of a newer minor version: ignored.
    #[serde(other)]
    Unknown,
}

/// What a viewer reads.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "frame", rename_all = "snake_case")]
pub enum ToViewer {
    /// The subscription was taken.
    Ack(Ack),
    /// The subscription was not taken; the connection closes.
    Refused(Refused),
    /// When a service comes, goes or changes its state, and once at the start.
    Services(Services),
    /// The charts of a service, once, before its first view.
    Backfill(Backfill),
    /// The figures of one service, once a second.
    View(Box<ServiceView>),
    /// What became of a `capture`.
    Captured(Captured),
    /// What the rules are and what they say.
    Rules(Box<RulesReport>),
    /// What became of a `silence`.
    Silenced(SilenceAnswer),
    /// What became of an `ask`.
    Answer(Box<Answer>),
    /// What became of a `control`.
    Controlled(Controlled),
    /// A frame of a newer minor version: ignored.
    #[serde(other)]
    Unknown,
}

/// A viewer asks for a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Capture {
    /// Of which service.
    pub instance: InstanceId,
}

/// What became of a [`Capture`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Captured {
    /// Of which service.
    pub instance: InstanceId,
    /// The file, or why there is none, for a person.
    pub outcome: Result<SnapshotSummary, String>,
}

/// The agent takes an incident over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IncidentAck {
    /// Which.
    pub id: IncidentId,
}

/// The agent takes the connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ack {
    /// What the agent speaks.
    pub protocol: ProtocolVersion,
    /// Its version.
    pub agent_version: String,
    /// Its process id.
    pub agent_pid: u32,
    /// Whether it runs inside an `ax-top`, and ends with it.
    #[serde(default)]
    pub embedded: bool,
}

/// The agent does not take the connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Refused {
    /// For a person: what was wrong and what to do.
    pub reason: String,
    /// What the agent speaks.
    pub protocol: ProtocolVersion,
}

/// A line that is not a frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Longer than [`MAX_FRAME_BYTES`].
    #[error("a frame of {bytes} bytes is longer than the limit of {MAX_FRAME_BYTES}")]
    Oversized {
        /// Its length.
        bytes: usize,
    },
    /// Not JSON, or not of this shape.
    #[error("not a frame: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// Appends a frame and its newline to `line`.
///
/// # Errors
///
/// [`FrameError::Oversized`] when the frame is longer than the peer would take; `line` is then as it was.
/// [`FrameError::Malformed`] when a value cannot be written as JSON.
pub fn encode<T: Serialize>(frame: &T, line: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = line.len();
    let written = serde_json::to_writer(&mut *line, frame).map_err(FrameError::from);
    let bytes = line.len() - start;
    let checked = written.and_then(|()| {
        (bytes <= MAX_FRAME_BYTES)
            .then_some(())
            .ok_or(FrameError::Oversized { bytes })
    });
    match checked {
        Ok(()) => line.push(b'\n'),
        Err(_) => line.truncate(start),
    }
    checked
}

/// Reads one line, with or without its newline.
///
/// # Errors
///
/// [`FrameError::Oversized`] or [`FrameError::Malformed`].
pub fn decode<T: DeserializeOwned>(line: &[u8]) -> Result<T, FrameError> {
    if line.len() > MAX_FRAME_BYTES + 1 {
        return Err(FrameError::Oversized { bytes: line.len() });
    }
    Ok(serde_json::from_slice(line)?)
}

/// The codec for an asynchronous socket: lines up to [`MAX_FRAME_BYTES`].
#[must_use]
pub fn lines_codec() -> LinesCodec {
    LinesCodec::new_with_max_length(MAX_FRAME_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hello::PROTOCOL;

    #[test]
    fn a_frame_is_one_line_and_comes_back() {
        let frame = ToAgent::Subscribe(Subscribe { protocol: PROTOCOL });
        let mut line = Vec::new();
        encode(&frame, &mut line).expect("encodes");
        assert_eq!(
            line.split(|byte| *byte == b'\n').count(),
            2,
            "one newline, at the end"
        );
        assert_eq!(decode::<ToAgent>(&line).expect("decodes"), frame);
    }

    #[test]
    fn unknown_frames_and_fields_are_ignored() {
        let newer = br#"{"frame":"telepathy","strength":9}"#;
        assert_eq!(decode::<ToAgent>(newer).expect("decodes"), ToAgent::Unknown);
        let field =
            br#"{"frame":"subscribe","protocol":{"major":1,"minor":7,"patch":3},"mood":"x"}"#;
        assert!(matches!(
            decode::<ToAgent>(field).expect("decodes"),
            ToAgent::Subscribe(_)
        ));
    }

    #[test]
    fn wrong_and_truncated_lines_are_errors() {
        for bad in [
            &b""[..],
            b"{",
            b"[]",
            b"{\"frame\":\"hello\"}",
            b"{\"frame\":7}",
            b"\xff\xfe",
        ] {
            assert!(matches!(
                decode::<ToAgent>(bad),
                Err(FrameError::Malformed(_))
            ));
        }
    }

    #[test]
    fn oversized_frames_are_refused_on_both_sides() {
        let mut line = b"kept".to_vec();
        let refused = encode(&"x".repeat(MAX_FRAME_BYTES), &mut line);
        assert!(matches!(refused, Err(FrameError::Oversized { .. })));
        assert_eq!(line, b"kept");
        let long = vec![b'x'; MAX_FRAME_BYTES + 2];
        assert!(matches!(
            decode::<ToAgent>(&long),
            Err(FrameError::Oversized { .. })
        ));
    }
}
