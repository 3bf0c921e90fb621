//! The crate that a function belongs to, by its name and by the place of its source file.

/// Part of the path of the standard library's sources.
const STANDARD: [&str; 2] = ["/rustc/", "/lib/rustlib/src/rust/"];

/// Whether it is a source file of the standard library.
pub(super) fn is_standard(file: &str) -> bool {
    STANDARD.iter().any(|part| file.contains(part))
}

/// The crate of a source file that Cargo has fetched, from a registry, a repository or a folder of vendored crates:
/// `.../registry/src/INDEX/NAME-VERSION/...`, `.../git/checkouts/REPOSITORY/COMMIT/.../NAME/src/...`,
/// `.../vendor/NAME/src/...`; or of one whose path was shortened to [`without_home`].
pub(super) fn fetched_crate(file: &str) -> Option<String> {
    let name = if let Some((_, below)) = file.split_once("/registry/src/") {
        without_version(below.split('/').nth(1)?)?
    } else if let Some((_, below)) = file.split_once("/git/checkouts/") {
        let (folder, _) = below.split_once("/src/")?;
        match folder.split('/').skip(2).last() {
            Some(folder) => folder,
            // The crate is the repository, whose folder has a hash at its end.
            None => folder.split('/').next()?.rsplit_once('-')?.0,
        }
    } else if let Some((_, below)) = file.split_once("/vendor/") {
        let (folder, _) = below.split_once("/src/")?;
        (!folder.contains('/')).then_some(folder)?
    } else {
        without_version(file.split_once('/')?.0)?
    };
    Some(name.replace('-', "_"))
}

/// Splits `tokio-util-0.7.20` before its version, and nothing else.
fn without_version(folder: &str) -> Option<&str> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let parts = folder.match_indices('-').map(|(at, _)| folder.split_at(at));
    let mut named = parts.filter(|(_, version)| {
        let mut numbers = version[1..].splitn(3, '.');
        let mut whole = || {
            numbers
                .next()
                .is_some_and(|of| !of.is_empty() && digits(of) == of.len())
        };
        // What is marked, as `3-rc.1` is, stands with the last.
        whole() && whole() && numbers.next().is_some_and(|of| digits(of) > 0)
    });
    named.next().map(|(name, _)| name)
}

/// The end of the path of a source file of the standard library, or of one that Cargo has fetched, from which it is the same
/// on every machine, and can still be told from the service's own. `None` for the service's own.
#[must_use]
pub fn without_home(file: &str) -> Option<&str> {
    if let Some((_, below)) = file.split_once("/registry/src/") {
        return below.split_once('/').map(|(_, below)| below);
    }
    let shared = STANDARD.iter().chain(&["/git/checkouts/"]);
    let begin = shared.filter_map(|part| file.find(part)).min();
    let vendored = || {
        file.find("/vendor/")
            .filter(|_| fetched_crate(file).is_some())
    };
    begin.or_else(vendored).map(|at| &file[at..])
}

/// The crate that an executable of this name is made of: without the hash that Cargo gives to tests.
pub(super) fn executable_crate(file: &str) -> String {
    let stem = match file.rsplit_once('-') {
        Some((stem, hash)) if hash.len() == 16 && hash.bytes().all(|c| c.is_ascii_hexdigit()) => {
            stem
        }
        _ => file,
    };
    stem.replace('-', "_")
}

/// The crate that a demangled name belongs to: of a method, that of its type, or of its trait where the type is one of
/// the standard library or a parameter. `None` where the name has no crate.
pub(super) fn crate_of(name: &str) -> Option<&str> {
    let standard = |name: &&str| ["std", "core", "alloc"].contains(name);
    // In front of an `impl` stands the module that it is written in.
    if !name.starts_with('<') {
        return first_segment(name);
    }
    let (subject, of_trait) = split_impl(name)?;
    let of_subject = first_segment(subject);
    let of_trait = of_trait.and_then(first_segment);
    of_subject
        .filter(|name| !standard(name))
        .or(of_trait.filter(|name| !standard(name)))
        .or(of_subject)
        .or(of_trait)
}

/// Splits `<Type as Trait>::method` into its type and its trait.
fn split_impl(name: &str) -> Option<(&str, Option<&str>)> {
    let inside = name.strip_prefix('<')?;
    let mut depth = 0_u32;
    let mut of_trait = None;
    let bytes = inside.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' | b'(' | b'[' => depth += 1,
            // The arrow of a function's type closes nothing.
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' if depth == 0 => {
                let subject = &inside[..of_trait.unwrap_or(at)];
                let of_trait = of_trait.map(|from| &inside[from + " as ".len()..at]);
                return Some((subject, of_trait));
            }
            b'>' | b')' | b']' => depth = depth.checked_sub(1)?,
            b' ' if depth == 0 && of_trait.is_none() && inside[at..].starts_with(" as ") => {
                of_trait = Some(at);
            }
            _ => {}
        }
    }
    None
}

/// The first segment of a path, behind references, pointers and `dyn`. `None` where there is only one.
fn first_segment(path: &str) -> Option<&str> {
    let mut path = path;
    loop {
        let shorter = [
            "&", "*const ", "*mut ", "mut ", "dyn ", "impl ", "<", "(", "[",
        ]
        .iter()
        .find_map(|prefix| path.strip_prefix(prefix));
        match shorter {
            Some(shorter) => path = shorter,
            None => break,
        }
    }
    let (first, _) = path.split_once("::")?;
    let plain = |c: char| c.is_alphanumeric() || c == '_';
    (!first.is_empty() && first.chars().all(plain)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crate_of_a_name_is_that_of_its_type_or_trait() {
        for (name, expected) in [
            ("std::thread::sleep", Some("std")),
            ("shop::checkout::{{closure}}", Some("shop")),
            ("<shop::Cart as core::fmt::Display>::fmt", Some("shop")),
            ("<T as shop::Price>::price", Some("shop")),
            (
                "<&mut shop::Cart as core::future::future::Future>::poll",
                Some("shop"),
            ),
            (
                "<core::pin::Pin<P> as core::future::future::Future>::poll",
                Some("core"),
            ),
            (
                "<alloc::vec::Vec<u64> as serde_core::ser::Serialize>::serialize",
                Some("serde_core"),
            ),
            (
                "<alloc::boxed::Box<dyn core::ops::Fn(shop::A) -> shop::B> as core::ops::FnOnce<()>>::call_once",
                Some("alloc"),
            ),
            (
                "serde_core::ser::impls::<impl serde_core::Serialize for [T]>::serialize",
                Some("serde_core"),
            ),
            ("<shop::A>::b", Some("shop")),
            ("clock_nanosleep", None),
            ("", None),
            ("<", None),
            ("<>", None),
            ("<a>>::b", None),
            ("<<<<", None),
            ("::", None),
        ] {
            assert_eq!(crate_of(name), expected, "{name}");
        }
    }

    #[test]
    fn the_crate_of_a_fetched_file_is_told_by_its_folder() {
        for (file, expected) in [
            (
                "/opt/u/.cargo/registry/src/index.crates.io-1/tokio-1.54.1/src/park.rs",
                Some("tokio"),
            ),
            (
                "/usr/local/cargo/registry/src/index-1/futures-util-0.3.1/src/a.rs",
                Some("futures_util"),
            ),
            (
                "/opt/u/.cargo/git/checkouts/tokio-0a1b/c2d3/tokio-util/src/lib.rs",
                Some("tokio_util"),
            ),
            (
                "/opt/u/.cargo/git/checkouts/some-crate-0a1b/c2d3/src/lib.rs",
                Some("some_crate"),
            ),
            ("/srv/shop/vendor/serde_json/src/ser.rs", Some("serde_json")),
            ("/srv/shop/src/vendor/prices.rs", None),
            ("src/main.rs", None),
            ("/registry/src/", None),
            ("/git/checkouts/", None),
            ("tokio-util-0.7.20+more/src/lib.rs", Some("tokio_util")),
            ("md-5-0.10.6/src/lib.rs", Some("md_5")),
            ("my-shop/src/lib.rs", None),
            ("shop-2/src/lib.rs", None),
        ] {
            assert_eq!(fetched_crate(file).as_deref(), expected, "{file}");
            let shortened = without_home(file).unwrap_or(file);
            let told = fetched_crate(shortened);
            assert_eq!(told.as_deref(), expected, "{file} as {shortened}");
        }
        let standard = "/opt/u/.rustup/toolchains/x/lib/rustlib/src/rust/library/std/src/io.rs";
        for file in [standard, "/rustc/abc/library/std/src/io.rs"] {
            let shortened = without_home(file).expect("is the same everywhere");
            assert!(is_standard(file) && is_standard(shortened), "{shortened}");
            assert!(!shortened.contains("/opt/u"), "{shortened}");
        }
        assert_eq!(without_home("/opt/u/shop/src/vendor/prices.rs"), None);
    }

    #[test]
    fn the_crate_of_an_executable_is_its_name_without_a_hash() {
        assert_eq!(executable_crate("my-shop"), "my_shop");
        assert_eq!(executable_crate("stacks-0123456789abcdef"), "stacks");
        assert_eq!(executable_crate("shop-deadbeef"), "shop_deadbeef");
    }
}
