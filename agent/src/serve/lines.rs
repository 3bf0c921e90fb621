//! Lines off a socket, in bounded memory over all connections.

use std::{sync::Arc, time::Duration};

use ax_wire::frame::{MAX_FRAME_BYTES, lines_codec};
use tokio::time::Instant;
use tokio_util::{
    bytes::BytesMut,
    codec::{Decoder, LinesCodec, LinesCodecError},
};

use crate::access::{Place, Quota};

/// The longest line of whoever has not said who it is, and of a viewer: a hello or a request is a few kilobytes.
pub(super) const MAX_SHORT_BYTES: usize = 64 * 1024;

/// A longer line of a service needs a place, of which there are few: samples of 128 full types take 2 MB, real ones a
/// tenth of that.
const LONG_BYTES: usize = 1024 * 1024;

/// How long a line may take that has a place. A socket carries 8 MiB in milliseconds.
const LONG_TIMEOUT: Duration = Duration::from_secs(5);

/// Why no line came.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("a line is longer than the limit of {0} bytes")]
    TooLong(usize),
    #[error("a long line cannot be read now: {0}")]
    NoPlace(String),
    #[error("a line is not UTF-8")]
    NotText,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Takes lines apart.
pub(super) struct Lines {
    codec: LinesCodec,
    max_bytes: usize,
    uid: u32,
    quota: Arc<Quota>,
    long: Option<(Place, Instant)>,
}

impl Lines {
    /// Short lines only.
    pub(super) fn short(uid: u32, quota: Arc<Quota>) -> Self {
        Self {
            codec: LinesCodec::new_with_max_length(MAX_SHORT_BYTES),
            max_bytes: MAX_SHORT_BYTES,
            uid,
            quota,
            long: None,
        }
    }

    /// The peer is a service: its lines may be long.
    pub(super) fn allow_long(&mut self) {
        self.codec = lines_codec();
        self.max_bytes = MAX_FRAME_BYTES;
    }

    /// When the long line that is being read must have ended.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let (_, began) = self.long.as_ref()?;
        Some(*began + LONG_TIMEOUT)
    }

    fn told(&self, error: LinesCodecError) -> LineError {
        match error {
            LinesCodecError::MaxLineLengthExceeded => LineError::TooLong(self.max_bytes),
            LinesCodecError::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                LineError::NotText
            }
            LinesCodecError::Io(error) => LineError::Io(error),
        }
    }
}

impl Decoder for Lines {
    type Item = String;
    type Error = LineError;

    fn decode(&mut self, src: &mut BytesMut) -> Result<Option<String>, LineError> {
        match self.codec.decode(src) {
            Ok(Some(line)) => {
                if self.long.take().is_some() {
                    // The room of a long line is given back with its place.
                    *src = BytesMut::from(&src[..]);
                }
                Ok(Some(line))
            }
            Ok(None) => {
                if src.len() > LONG_BYTES && self.long.is_none() {
                    let place = self.quota.take(self.uid, "places for long lines");
                    self.long = Some((place.map_err(LineError::NoPlace)?, Instant::now()));
                }
                Ok(None)
            }
            Err(error) => Err(self.told(error)),
        }
    }

    fn decode_eof(&mut self, src: &mut BytesMut) -> Result<Option<String>, LineError> {
        let line = self.codec.decode_eof(src);
        line.map_err(|error| self.told(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_needs_a_place_and_gives_it_back() {
        let quota = Quota::new(1, 1);
        let service = || {
            let mut lines = Lines::short(7, Arc::clone(&quota));
            lines.allow_long();
            lines
        };
        let (mut first, mut second) = (service(), service());
        let half = vec![b'x'; LONG_BYTES + 1];
        let mut src = BytesMut::from(&half[..]);
        assert!(first.decode(&mut src).expect("goes on").is_none());
        assert!(first.deadline().is_some());
        let refused = second.decode(&mut BytesMut::from(&half[..]));
        assert!(matches!(refused, Err(LineError::NoPlace(_))));
        src.extend_from_slice(b"\nrest");
        let line = first.decode(&mut src).expect("ends").expect("a line");
        assert_eq!(line.len(), half.len());
        assert_eq!((&src[..], first.deadline()), (&b"rest"[..], None));
        assert!(src.capacity() < LONG_BYTES, "{}", src.capacity());
        let accepted = second.decode(&mut BytesMut::from(&half[..]));
        assert!(accepted.expect("goes on").is_none());
    }

    #[test]
    fn before_a_hello_only_short_lines_are_read() {
        let mut lines = Lines::short(7, Quota::new(1, 1));
        let mut src = BytesMut::from(&vec![b'x'; MAX_SHORT_BYTES + 1][..]);
        assert!(matches!(
            lines.decode(&mut src),
            Err(LineError::TooLong(MAX_SHORT_BYTES))
        ));
    }
}
