//! A recording: what the agent told, in a file, to be played again on the same screens.
//!
//! ```text
//!  ax-recording 1\n                          the format, in a line that a person can read
//!  chunk: CHNK, lengths, from, to, gzip      the frames of at most half a minute, a JSON object a line
//!  chunk ..
//!  DONE                                      the recording was ended in order
//! ```
//!
//! A chunk begins with the list of services, so that reading can begin at any of them; an index of them is made when the
//! file is opened, and of the frames themselves only those of one chunk are held.

mod player;
mod writer;

use std::{io, path::PathBuf};

use ax_wire::ToViewer;
use serde::{Deserialize, Serialize};

pub use self::{
    player::{Contents, Player},
    writer::{Limits, Receipt, Room, Writer},
};

/// The format that is written. A reader refuses a newer one; a change that an older reader would misread makes it one
/// larger.
const FORMAT: u32 = 1;

/// What the first line begins with.
const MAGIC: &str = "ax-recording ";

/// Longest first line.
const MAX_FIRST_LINE: usize = 32;

const CHUNK: [u8; 4] = *b"CHNK";
const DONE: [u8; 4] = *b"DONE";

/// A chunk is closed when its frames take so much as text, or span so much time.
const CHUNK_BYTES: usize = 1024 * 1024;
const CHUNK_NS: u64 = 30_000_000_000;

/// More than any chunk takes as text: its last frame may be the largest that there is.
const MAX_CHUNK_BYTES: usize = CHUNK_BYTES + 2 * ax_wire::frame::MAX_FRAME_BYTES;

/// One line of a chunk.
#[derive(Serialize, Deserialize)]
struct Record {
    /// When it came.
    at_unix_ns: u64,
    frame: ToViewer,
}

/// The same, to be written.
#[derive(Serialize)]
struct RecordRef<'a> {
    at_unix_ns: u64,
    frame: &'a ToViewer,
}

/// What stands before the frames of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    /// Bytes in the file.
    packed_bytes: u32,
    /// Bytes as text.
    text_bytes: u32,
    from_unix_ns: u64,
    to_unix_ns: u64,
}

impl Head {
    /// Its length in the file, the four letters included.
    const BYTES: usize = 28;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&CHUNK);
        bytes[4..8].copy_from_slice(&self.packed_bytes.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.text_bytes.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.from_unix_ns.to_le_bytes());
        bytes[20..].copy_from_slice(&self.to_unix_ns.to_le_bytes());
        bytes
    }

    /// What stands behind the four letters.
    fn of(bytes: [u8; Self::BYTES - 4]) -> Self {
        let short = |at: usize| {
            let mut four = [0; 4];
            four.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(four)
        };
        let long = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(eight)
        };
        Self {
            packed_bytes: short(0),
            text_bytes: short(4),
            from_unix_ns: long(8),
            to_unix_ns: long(16),
        }
    }
}

/// Why a recording cannot be written or played.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{} is no recording: `ax-top record -o FILE` makes one, `ax-top open` is for snapshots", path.display())]
    Foreign { path: PathBuf },
    #[error(
        "{} was recorded by a newer ax-top (format {format}; this one plays up to {FORMAT}): play it with that one",
        path.display()
    )]
    Newer { path: PathBuf, format: u32 },
    #[error(
        "{} is cut off after {whole} whole chunk(s): the recording was not ended in order, or the copy is not whole; \
         --salvage plays what there is",
        path.display()
    )]
    CutOff { path: PathBuf, whole: usize },
    #[error("{} is damaged at byte {at}: {why}", path.display())]
    Damaged { path: PathBuf, at: u64, why: String },
    #[error("{} holds no frames: no service was connected while it was recorded", path.display())]
    Empty { path: PathBuf },
}

#[cfg(test)]
mod tests;
