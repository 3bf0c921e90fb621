//! What an ELF file says of itself: its segments, and the build id that the linker wrote into it.

use std::{fs::File, os::unix::fs::FileExt as _};

/// In the program header of an ELF file: a segment of notes.
pub(crate) const PT_NOTE: u32 = 4;

/// The type of the note that holds the build id.
const NT_GNU_BUILD_ID: u32 = 3;

/// The longest segment of notes that is read: a build id stands within some hundred bytes.
const MAX_NOTES_BYTES: u64 = 64 * 1024;

/// The most program headers that are read; executables have about fifteen.
const MAX_SEGMENTS: u64 = 64;

/// A program header: what is mapped, or stands for the loader to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// One of the `PT_*`.
    pub(crate) kind: u32,
    pub(crate) file_offset: u64,
    /// Where it is to be in memory, before the loader moves the file as a whole.
    pub(crate) address: u64,
    pub(crate) file_size: u64,
}

/// The build id of the running executable, in hexadecimal. `None` where the linker was not asked for one.
pub(crate) fn own_build_id() -> Option<String> {
    build_id_of(&File::open("/proc/self/exe").ok()?)
}

fn build_id_of(file: &File) -> Option<String> {
    let segments = segments(file, 0)?;
    let mut notes = segments.iter().filter(|segment| segment.kind == PT_NOTE);
    notes.find_map(|notes| build_id_at(file, notes.file_offset, notes.file_size))
}

/// The build id among the notes that stand at `from`.
pub(crate) fn build_id_at(file: &File, from: u64, size: u64) -> Option<String> {
    let mut notes = vec![0; size.min(MAX_NOTES_BYTES) as usize];
    file.read_exact_at(&mut notes, from).ok()?;
    in_notes(&notes)
}

/// The segments of the 64-bit little-endian ELF file that begins at `from`: such files are what Linux runs on the
/// machines that the probe knows. `None` where none begins there.
pub(crate) fn segments(file: &File, from: u64) -> Option<Vec<Segment>> {
    let mut header = [0; 64];
    file.read_exact_at(&mut header, from).ok()?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = from.checked_add(u64_at(&header, 0x20)?)?;
    let size = u64::from(u16_at(&header, 0x36)?);
    let count = u64::from(u16_at(&header, 0x38)?).min(MAX_SEGMENTS);
    (0..count)
        .map(|index| {
            let mut segment = [0; 56];
            let at = table.checked_add(index * size)?;
            file.read_exact_at(&mut segment, at).ok()?;
            Some(Segment {
                kind: u32_at(&segment, 0)?,
                file_offset: u64_at(&segment, 0x08)?,
                address: u64_at(&segment, 0x10)?,
                file_size: u64_at(&segment, 0x20)?,
            })
        })
        .collect()
}

/// Notes stand one after the other: three lengths and types, a name, a description, each padded to four bytes.
fn in_notes(mut notes: &[u8]) -> Option<String> {
    loop {
        let name_len = u32_at(notes, 0)? as usize;
        let description_len = u32_at(notes, 4)? as usize;
        let kind = u32_at(notes, 8)?;
        let name = notes.get(12..12 + name_len)?;
        let start = 12 + name_len.next_multiple_of(4);
        let description = notes.get(start..start + description_len)?;
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" {
            return Some(hexadecimal(description));
        }
        notes = notes.get(start + description_len.next_multiple_of(4)..)?;
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for digit in [byte >> 4, byte & 0xf] {
            text.extend(char::from_digit(digit.into(), 16));
        }
    }
    text
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, name: &[u8], description: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [name.len() as u32, description.len() as u32, kind] {
            note.extend(word.to_le_bytes());
        }
        for part in [name, description] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn the_build_id_is_found_among_other_notes() {
        let mut notes = note(1, b"GNU\0", &[9; 16]);
        notes.extend(note(5, b"x\0", b"abcde"));
        notes.extend(note(NT_GNU_BUILD_ID, b"GNU\0", &[0xab, 0x01, 0xff]));
        assert_eq!(in_notes(&notes).as_deref(), Some("ab01ff"));
    }

    #[test]
    fn truncated_and_lying_notes_are_unknown() {
        let whole = note(NT_GNU_BUILD_ID, b"GNU\0", &[1; 20]);
        for length in 0..whole.len() {
            assert_eq!(in_notes(&whole[..length]), None);
        }
        let mut lying = whole;
        lying[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(in_notes(&lying), None);
    }

    #[test]
    fn a_file_that_is_no_executable_has_none() {
        let file = File::open("/proc/self/status").expect("opens");
        assert_eq!(build_id_of(&file), None);
    }
}
