//! A recording as a world that can be taken to any instant of it.

use std::{
    fs::File,
    io::{self, BufReader, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use ax_wire::ToViewer;
use flate2::read::GzDecoder;

use super::{
    CHUNK, DONE, FORMAT, Head, MAGIC, MAX_CHUNK_BYTES, MAX_FIRST_LINE, Record, RecordingError,
};
use crate::{
    app::time::Playback,
    world::{Link, Update, World},
};

/// What the charts show of the past: so much is read before the instant that is gone to.
const PAST_NS: u64 = 15 * 60 * 1_000_000_000;

/// A chunk, and where its frames begin in the file.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    head: Head,
    at: u64,
}

/// What there is to be played.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Contents {
    pub path: PathBuf,
    pub bytes: u64,
    pub from_unix_ns: u64,
    pub to_unix_ns: u64,
    pub chunks: usize,
    /// Whether it was ended in order.
    pub whole: bool,
}

/// See the module. It holds an index of some bytes for each half minute, the frames of one chunk, and a world.
pub struct Player {
    path: PathBuf,
    file: BufReader<File>,
    chunks: Vec<Chunk>,
    contents: Contents,
    world: World,
    at_unix_ns: u64,
    /// The chunk that is read next.
    next_chunk: usize,
    /// The frames of the chunk that is open, as text, and where the next one begins.
    text: Vec<u8>,
    read: usize,
    /// The next frame, which is not yet due.
    ahead: Option<Record>,
}

impl Player {
    /// Opens a recording and makes its index.
    ///
    /// # Errors
    ///
    /// It is no recording, of a newer format, damaged, empty, or cut off and `salvage` is not wished for.
    pub fn open(path: &Path, salvage: bool) -> Result<Self, RecordingError> {
        let io = |error| RecordingError::Io {
            path: path.to_owned(),
            error,
        };
        let mut file = BufReader::new(File::open(path).map_err(io)?);
        let bytes = file.get_ref().metadata().map_err(io)?.len();
        let begin = first_line(path, &mut file)?;
        let (chunks, whole) = index(path, &mut file, begin, bytes)?;
        if !whole && !salvage {
            return Err(RecordingError::CutOff {
                path: path.to_owned(),
                whole: chunks.len(),
            });
        }
        let (Some(first), Some(last)) = (chunks.first(), chunks.last()) else {
            return Err(RecordingError::Empty {
                path: path.to_owned(),
            });
        };
        let contents = Contents {
            path: path.to_owned(),
            bytes,
            from_unix_ns: first.head.from_unix_ns,
            to_unix_ns: last.head.to_unix_ns,
            chunks: chunks.len(),
            whole,
        };
        let mut player = Self {
            path: path.to_owned(),
            file,
            chunks,
            world: World::new(),
            at_unix_ns: contents.from_unix_ns,
            contents,
            next_chunk: 0,
            text: Vec::new(),
            read: 0,
            ahead: None,
        };
        player.begin_at(0);
        Ok(player)
    }

    /// What there is to be played.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Playing, from the beginning.
    pub fn playback(&self, speed: f64) -> Playback {
        Playback {
            name: self.name(),
            paused: false,
            speed,
            at_unix_ns: self.contents.from_unix_ns,
            begin_unix_ns: self.contents.from_unix_ns,
            end_unix_ns: self.contents.to_unix_ns,
        }
    }

    /// Goes to an instant. Returns the world of that instant, where it is another one than before.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is damaged there.
    pub fn go_to(&mut self, unix_ns: u64) -> Result<Option<World>, RecordingError> {
        let fresh = self.world.now_unix_ns == 0;
        if unix_ns == self.at_unix_ns && !fresh {
            return Ok(None);
        }
        let from = unix_ns.saturating_sub(PAST_NS);
        let first = self
            .chunks
            .partition_point(|chunk| chunk.head.to_unix_ns < from);
        // Back, or so far forward that what lies between is not seen.
        if unix_ns < self.at_unix_ns || first > self.next_chunk {
            self.begin_at(first);
        }
        while let Some(record) = self.next()? {
            if record.at_unix_ns > unix_ns {
                self.ahead = Some(record);
                break;
            }
            self.world.now_unix_ns = record.at_unix_ns;
            self.world.apply(Update::Frame(record.frame));
        }
        self.at_unix_ns = unix_ns;
        self.world.now_unix_ns = unix_ns;
        Ok(Some(self.world.clone()))
    }

    fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        name.to_string_lossy().into_owned()
    }

    /// Begins anew at a chunk, with an empty world.
    fn begin_at(&mut self, chunk: usize) {
        self.world = World::new();
        self.world
            .apply(Update::Link(Link::Recording { name: self.name() }));
        self.next_chunk = chunk;
        self.text.clear();
        self.read = 0;
        self.ahead = None;
    }

    /// The next frame, whatever its time.
    fn next(&mut self) -> Result<Option<Record>, RecordingError> {
        if let Some(ahead) = self.ahead.take() {
            return Ok(Some(ahead));
        }
        while self.read >= self.text.len() {
            let Some(chunk) = self.chunks.get(self.next_chunk).copied() else {
                return Ok(None);
            };
            self.unpack(chunk)?;
            self.next_chunk += 1;
        }
        let rest = &self.text[self.read..];
        let length = rest
            .iter()
            .position(|byte| *byte == b'\n')
            .unwrap_or(rest.len());
        let record = serde_json::from_slice(&rest[..length]);
        self.read += length + 1;
        let at = self.chunks[self.next_chunk - 1].at;
        record
            .map(Some)
            .map_err(|error| self.damaged(at, &error.to_string()))
    }

    fn unpack(&mut self, chunk: Chunk) -> Result<(), RecordingError> {
        self.text.clear();
        self.read = 0;
        let sought = self.file.seek(SeekFrom::Start(chunk.at));
        sought.map_err(|error| self.damaged(chunk.at, &error.to_string()))?;
        let packed = (&mut self.file).take(u64::from(chunk.head.packed_bytes));
        // One byte more than it says would show that it lies.
        let mut text = GzDecoder::new(packed).take(u64::from(chunk.head.text_bytes) + 1);
        let read = text.read_to_end(&mut self.text);
        match read {
            Ok(read) if read == chunk.head.text_bytes as usize => Ok(()),
            Ok(_) => Err(self.damaged(chunk.at, "a chunk is not as long as it says")),
            Err(error) => Err(self.damaged(chunk.at, &error.to_string())),
        }
    }

    fn damaged(&self, at: u64, why: &str) -> RecordingError {
        RecordingError::Damaged {
            path: self.path.clone(),
            at,
            why: why.to_owned(),
        }
    }

    /// The names of the services in it, each once, in the order in which they came.
    ///
    /// # Errors
    ///
    /// As [`Player::go_to`]. It reads all of the recording.
    pub fn services(&mut self) -> Result<Vec<String>, RecordingError> {
        self.begin_at(0);
        let mut names: Vec<String> = Vec::new();
        while let Some(record) = self.next()? {
            if let ToViewer::Services(services) = record.frame {
                for service in services.services {
                    if !names.contains(&service.service) {
                        names.push(service.service);
                    }
                }
            }
        }
        self.begin_at(0);
        Ok(names)
    }
}

/// Checks the first line. Returns where it ends.
fn first_line(path: &Path, file: &mut BufReader<File>) -> Result<u64, RecordingError> {
    let foreign = || RecordingError::Foreign {
        path: path.to_owned(),
    };
    let mut line = Vec::new();
    for _ in 0..MAX_FIRST_LINE {
        let mut byte = [0];
        file.read_exact(&mut byte).map_err(|_| foreign())?;
        if byte[0] == b'\n' {
            break;
        }
        line.push(byte[0]);
    }
    let text = std::str::from_utf8(&line).map_err(|_| foreign())?;
    let format = text.strip_prefix(MAGIC).ok_or_else(foreign)?;
    let format: u32 = format.trim().parse().map_err(|_| foreign())?;
    if format > FORMAT {
        return Err(RecordingError::Newer {
            path: path.to_owned(),
            format,
        });
    }
    Ok(line.len() as u64 + 1)
}

/// The chunks from this byte on, and whether the end is there.
fn index(
    path: &Path,
    file: &mut BufReader<File>,
    begin: u64,
    bytes: u64,
) -> Result<(Vec<Chunk>, bool), RecordingError> {
    let damaged = |at: u64, why: &str| RecordingError::Damaged {
        path: path.to_owned(),
        at,
        why: why.to_owned(),
    };
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut at = begin;
    loop {
        let mut letters = [0; 4];
        match file.read_exact(&mut letters) {
            Ok(()) if letters == DONE => return Ok((chunks, true)),
            Ok(()) if letters == CHUNK => {}
            Ok(()) => return Err(damaged(at, "no chunk begins where one should")),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Ok((chunks, false));
            }
            Err(error) => return Err(damaged(at, &error.to_string())),
        }
        let mut head = [0; Head::BYTES - 4];
        if file.read_exact(&mut head).is_err() {
            return Ok((chunks, false));
        }
        let head = Head::of(head);
        let frames_at = at + Head::BYTES as u64;
        let next = frames_at + u64::from(head.packed_bytes);
        if next > bytes {
            return Ok((chunks, false));
        }
        let before = chunks.last().map_or(0, |chunk| chunk.head.to_unix_ns);
        let sane = head.text_bytes as usize <= MAX_CHUNK_BYTES
            && head.from_unix_ns <= head.to_unix_ns
            && before <= head.from_unix_ns;
        if !sane {
            return Err(damaged(at, "a chunk says what cannot be"));
        }
        let skipped = file.seek_relative(i64::from(head.packed_bytes));
        skipped.map_err(|error| damaged(at, &error.to_string()))?;
        chunks.push(Chunk {
            head,
            at: frames_at,
        });
        at = next;
    }
}
