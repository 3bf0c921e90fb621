//! The build id that the linker wrote into an executable.

use std::{fs::File, os::unix::fs::FileExt as _};

/// In the program header of an ELF file: a segment of notes.
const PT_NOTE: u32 = 4;

/// The type of the note that holds the build id.
const NT_GNU_BUILD_ID: u32 = 3;

/// The longest segment of notes that is read: a build id stands within some hundred bytes.
const MAX_NOTES_BYTES: u64 = 64 * 1024;

/// The build id of the running executable, in hexadecimal. `None` where the linker was not asked for one.
pub(super) fn of_this_process() -> Option<String> {
    of_file(&File::open("/proc/self/exe").ok()?)
}

/// Of a 64-bit little-endian ELF file, which is what Linux runs on the machines that the probe knows.
fn of_file(file: &File) -> Option<String> {
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).ok()?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = u64_at(&header, 0x20)?;
    let size = u64::from(u16_at(&header, 0x36)?);
    let count = u64::from(u16_at(&header, 0x38)?);
    (0..count).find_map(|index| {
        let mut segment = [0; 56];
        file.read_exact_at(&mut segment, table + index * size)
            .ok()?;
        if u32_at(&segment, 0)? != PT_NOTE {
            return None;
        }
        let mut notes = vec![0; u64_at(&segment, 0x20)?.min(MAX_NOTES_BYTES) as usize];
        file.read_exact_at(&mut notes, u64_at(&segment, 8)?).ok()?;
        in_notes(&notes)
    })
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

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
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
        assert_eq!(of_file(&file), None);
    }
}
