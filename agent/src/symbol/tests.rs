//! Names from a small library that is built on the spot, whole and damaged. The child process itself is tested with the
//! real program, in `tests/stacks.rs` of the workspace.

use std::{
    env, fs,
    io::Cursor,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use object::{Object as _, ObjectSymbol as _};
use proptest::{collection::vec, prelude::*};

use super::names::{NamesError, hexadecimal, read};

/// Without the standard library, so that it has some kilobytes.
const SOURCE: &str = r#"
#![no_std]
#[panic_handler]
fn panicked(_: &core::panic::PanicInfo) -> ! { loop {} }

#[inline(always)]
fn inlined(number: u64) -> u64 {
    unsafe { core::ptr::read_volatile(&number) }
}

#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn outer(number: u64) -> u64 {
    inlined(number)
}
"#;

struct Library {
    _folder: tempfile::TempDir,
    path: PathBuf,
    bytes: Vec<u8>,
    build_id: String,
    /// From the function's beginning to its end.
    outer: Vec<u64>,
}

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, path) = (
            folder.path().join("small.rs"),
            folder.path().join("small.so"),
        );
        fs::write(&source, SOURCE).expect("writes");
        let status = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
            .args(["--edition=2024", "--crate-type=cdylib", "-Copt-level=1"])
            .args([
                "-Cdebuginfo=1",
                "-Cpanic=abort",
                "-Clink-arg=-Wl,--build-id",
            ])
            .args(["-Clink-arg=-nostdlib", "-o"])
            .args([&path, &source])
            .status();
        assert!(status.expect("rustc starts").success());
        let bytes = fs::read(&path).expect("reads");
        let object = object::File::parse(&*bytes).expect("an ELF file");
        let build_id = object.build_id().expect("reads").expect("has one");
        let outer = object
            .dynamic_symbols()
            .find(|symbol| symbol.name() == Ok("outer"))
            .expect("is exported");
        Library {
            build_id: hexadecimal(build_id),
            outer: (outer.address()..outer.address() + outer.size()).collect(),
            bytes,
            path,
            _folder: folder,
        }
    })
}

/// The library without some of its parts, where `strip` is installed.
fn stripped(option: &str) -> Option<Vec<u8>> {
    let copy = library()
        .path
        .with_extension(option.trim_start_matches('-'));
    let status = Command::new("strip")
        .args([Path::new(option), Path::new("-o"), &copy, &library().path])
        .status();
    let Ok(status) = status else {
        println!("skipped: needs strip");
        assert!(env::var_os("AX_REQUIRE_ALL").is_none_or(|value| value != "1"));
        return None;
    };
    assert!(status.success());
    Some(fs::read(copy).expect("reads"))
}

#[test]
fn an_address_gives_the_function_and_those_inlined_into_it() {
    let library = library();
    let id = Some(library.build_id.as_str());
    let names = read(Cursor::new(&library.bytes), id, &library.outer).expect("reads");
    assert!(names.has_lines);
    let both = names.functions.iter().find(|functions| functions.len() > 1);
    let both = both.expect("an address of the inlined function");
    let innermost = &both[both.len() - 2];
    assert!(innermost.name.ends_with("::inlined"), "{both:?}");
    assert!(
        innermost
            .file
            .as_ref()
            .is_some_and(|file| file.ends_with("small.rs"))
    );
    assert_eq!(innermost.line, Some(8));
    let outer = &both[both.len() - 1];
    assert_eq!((outer.name.as_str(), outer.line), ("outer", Some(14)));
}

#[test]
fn without_debug_information_the_symbols_name_it() {
    for option in ["--strip-debug", "--strip-all"] {
        let Some(bytes) = stripped(option) else {
            return;
        };
        let id = Some(library().build_id.as_str());
        let names = read(Cursor::new(bytes), id, &library().outer).expect("reads");
        assert!(!names.has_lines);
        for functions in names.functions {
            assert_eq!(functions.len(), 1, "{option}");
            assert_eq!(
                (functions[0].name.as_str(), functions[0].line),
                ("outer", None)
            );
        }
    }
}

#[test]
fn another_build_and_other_files_are_refused_with_a_reason() {
    let library = library();
    let other = read(Cursor::new(&library.bytes), Some("abcd"), &library.outer);
    let error = other.expect_err("another build");
    assert!(matches!(error, NamesError::OtherBuild { .. }));
    let text = error.to_string();
    assert!(
        text.contains("abcd") && text.contains(&library.build_id),
        "{text}"
    );
    for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF", &library.bytes[..64]] {
        let refused = read(Cursor::new(bytes), Some("abcd"), &[1]);
        assert!(refused.is_err());
    }
}

#[test]
fn addresses_outside_everything_have_no_name() {
    let addresses = [0, 1, u64::MAX, u64::MAX / 2];
    let names = read(Cursor::new(&library().bytes), None, &addresses).expect("reads");
    assert!(names.functions.iter().all(Vec::is_empty), "{names:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        if env::var_os("AX_FULL").is_some_and(|value| value == "1") { 20_000 } else { 500 }
    ))]

    /// Bytes changed anywhere, above all in the headers and tables at both ends: no panic, no endless loop, bounded names.
    #[test]
    fn a_damaged_file_gives_an_error_or_bounded_names(
        changes in vec((0.0..1.0_f64, any::<u8>()), 1..64),
        near_the_end in any::<bool>(),
        length in 0.5..1.2_f64,
    ) {
        let library = library();
        let mut bytes = library.bytes.clone();
        let size = bytes.len() as f64;
        for (place, byte) in changes {
            let place = if near_the_end { 1.0 - place * place / 4.0 } else { place };
            let at = (place * size) as usize;
            if let Some(at) = bytes.get_mut(at) {
                *at = byte;
            }
        }
        bytes.truncate((length * size) as usize);
        if let Ok(names) = read(Cursor::new(bytes), None, &library.outer) {
            prop_assert_eq!(names.functions.len(), library.outer.len());
            for function in names.functions.iter().flatten() {
                prop_assert!(function.name.len() <= 1024);
            }
        }
    }
}
