//! What a file is called.

use std::ffi::OsStr;

use uuid::Uuid;

use crate::incident::IncidentId;

/// Characters of the service's name in a file's name.
const MAX_NAME_CHARS: usize = 48;

/// Ends the name of a file that is still being written.
pub(super) const UNFINISHED: &str = ".tmp";

/// Ends the name of a file that is ready.
const READY: &str = ".json";

/// The name of an incident's file: the service, then the id, which sorts by time.
#[must_use]
pub fn file_name(service: &str, id: IncidentId) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let service: String = service
        .chars()
        .take(MAX_NAME_CHARS)
        .map(|c| if plain(c) { c } else { '-' })
        .collect();
    format!("{service}-{id}{READY}")
}

/// The incident of a file, or `None` where the name is not one of [`file_name`].
#[must_use]
pub fn incident_of(name: &OsStr) -> Option<IncidentId> {
    const ID_CHARS: usize = 36;
    let stem = name.to_str()?.strip_suffix(READY)?;
    let (service, id) = stem.split_at_checked(stem.len().checked_sub(ID_CHARS)?)?;
    let id = Uuid::try_parse(id).ok()?;
    service.ends_with('-').then_some(IncidentId(id))
}
