//! Frames into a file, as long as it may grow.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use ax_wire::ToViewer;
use flate2::{Compression, write::GzEncoder};

use super::{CHUNK_BYTES, CHUNK_NS, DONE, FORMAT, Head, MAGIC, RecordRef, RecordingError};

/// How large and how long a recording may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub bytes: u64,
    pub length_ns: u64,
}

/// Where a recording stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Left,
    /// It may not grow any more.
    Full(&'static str),
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Receipt {
    pub path: PathBuf,
    pub bytes: u64,
    pub frames: u64,
    pub from_unix_ns: u64,
    pub to_unix_ns: u64,
}

/// See the module. Dropped without [`Writer::finish`], the file lacks its end and says so when it is played.
pub struct Writer {
    path: PathBuf,
    file: File,
    limits: Limits,
    /// Of the file so far.
    bytes: u64,
    /// The frames of the chunk that is not yet closed, as text.
    text: Vec<u8>,
    from_unix_ns: u64,
    to_unix_ns: u64,
    /// Of the first frame of all.
    begin_unix_ns: Option<u64>,
    frames: u64,
    /// The newest list of services: every chunk begins with one.
    services: Option<ToViewer>,
}

impl Writer {
    /// Makes the file, readable by its owner alone: names of jobs and routes are the service's own business.
    ///
    /// # Errors
    ///
    /// The file is there already or cannot be made.
    pub fn create(path: &Path, limits: Limits) -> Result<Self, RecordingError> {
        let mut options = OpenOptions::new();
        let made = options.write(true).create_new(true).mode(0o600).open(path);
        let mut writer = Self {
            file: made.map_err(|error| io_error(path, error))?,
            path: path.to_owned(),
            limits,
            bytes: 0,
            text: Vec::new(),
            from_unix_ns: 0,
            to_unix_ns: 0,
            begin_unix_ns: None,
            frames: 0,
            services: None,
        };
        writer.put(format!("{MAGIC}{FORMAT}\n").as_bytes())?;
        Ok(writer)
    }

    /// Adds a frame that came at this time.
    ///
    /// # Errors
    ///
    /// The disk is full, or the file is gone.
    pub fn add(&mut self, at_unix_ns: u64, frame: &ToViewer) -> Result<Room, RecordingError> {
        let begin = *self.begin_unix_ns.get_or_insert(at_unix_ns);
        // The wall clock may be set back; a recording goes forward.
        let at_unix_ns = at_unix_ns.max(self.to_unix_ns);
        if self.text.is_empty() {
            self.from_unix_ns = at_unix_ns;
            if let Some(services) = self.services.take() {
                self.line(at_unix_ns, &services)?;
                self.services = Some(services);
            }
        }
        self.line(at_unix_ns, frame)?;
        self.to_unix_ns = at_unix_ns;
        self.frames += 1;
        if let ToViewer::Services(_) = frame {
            self.services = Some(frame.clone());
        }
        let spans = at_unix_ns - self.from_unix_ns;
        if self.text.len() >= CHUNK_BYTES || spans >= CHUNK_NS {
            self.close_chunk()?;
        }
        Ok(if self.bytes >= self.limits.bytes {
            Room::Full("it is as large as it may become (--max-size)")
        } else if at_unix_ns.saturating_sub(begin) >= self.limits.length_ns {
            Room::Full("it is as long as it may become (--for)")
        } else {
            Room::Left
        })
    }

    /// Ends the recording in order.
    ///
    /// # Errors
    ///
    /// The disk is full, or the file is gone.
    pub fn finish(mut self) -> Result<Receipt, RecordingError> {
        self.close_chunk()?;
        self.put(&DONE)?;
        let synced = self.file.sync_all();
        synced.map_err(|error| io_error(&self.path, error))?;
        Ok(Receipt {
            path: self.path,
            bytes: self.bytes,
            frames: self.frames,
            from_unix_ns: self.begin_unix_ns.unwrap_or(0),
            to_unix_ns: self.to_unix_ns,
        })
    }

    fn line(&mut self, at_unix_ns: u64, frame: &ToViewer) -> Result<(), RecordingError> {
        let record = RecordRef { at_unix_ns, frame };
        let written = serde_json::to_writer(&mut self.text, &record);
        written.map_err(|error| io_error(&self.path, error.into()))?;
        self.text.push(b'\n');
        Ok(())
    }

    fn close_chunk(&mut self) -> Result<(), RecordingError> {
        if self.text.is_empty() {
            return Ok(());
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let packed = encoder
            .write_all(&self.text)
            .and_then(|()| encoder.finish());
        let packed = packed.map_err(|error| io_error(&self.path, error))?;
        let head = Head {
            packed_bytes: packed.len() as u32,
            text_bytes: self.text.len() as u32,
            from_unix_ns: self.from_unix_ns,
            to_unix_ns: self.to_unix_ns,
        };
        self.text.clear();
        self.put(&head.to_bytes())?;
        self.put(&packed)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), RecordingError> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| io_error(&self.path, error))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

fn io_error(path: &Path, error: io::Error) -> RecordingError {
    RecordingError::Io {
        path: path.to_owned(),
        error,
    }
}
