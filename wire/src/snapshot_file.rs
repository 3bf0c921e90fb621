//! Snapshot files: where they lie, what they are called, and how one is written so that nobody else can read, replace
//! or redirect it.
//!
//! Agent and probe both write through here. A file's name carries its [`IncidentId`], and a file never replaces another,
//! so that there is one file an incident in a folder, whoever wrote first.
//!
//! Everything here blocks on the file system: call it from a thread that may wait.

mod error;
mod folder;
mod name;
mod reading;
mod writing;

pub use self::{
    error::SnapshotFileError,
    folder::{Access, default_folder, prepare, remove_unfinished},
    name::{file_name, incident_of},
    reading::{culprit, read, summary},
    writing::{replace, write},
};

/// Longest file that [`read`] and [`summary`] look at. An incident is one frame of at most 8 MiB; with a view, histograms
/// and history beside it a file stays far below.
pub const MAX_SNAPSHOT_BYTES: u64 = 64 * 1024 * 1024;
