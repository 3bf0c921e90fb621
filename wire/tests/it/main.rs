//! The contract from outside: what a reader and a writer of frames and files may rely on.

mod round_trip;
mod schema;
mod snapshot_file;
