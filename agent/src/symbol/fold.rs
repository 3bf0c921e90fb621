//! Whose code a stack shows: the runtime's frames are folded away, and the user's first one is named.
//!
//! Pure functions over names and places; nothing here looks at a file.

use std::path::Path;

use ax_wire::stack::{Frame, Function, Module, ThreadStack};

/// Crates that carry every task: what stands in them says nothing about the service.
const RUNTIME_CRATES: [&str; 12] = [
    "std",
    "core",
    "alloc",
    "tokio",
    "tokio_util",
    "futures_util",
    "futures_core",
    "futures_executor",
    "mio",
    "parking_lot",
    "parking_lot_core",
    "lock_api",
];

/// Crates that call the service's code, so that they stand around it in most services.
const FRAMEWORK_CRATES: [&str; 12] = [
    "axum",
    "axum_core",
    "hyper",
    "hyper_util",
    "tower",
    "tower_http",
    "tower_layer",
    "tower_service",
    "tonic",
    "tracing",
    "actix_web",
    "warp",
];

/// Begins the name of each crate of ours.
const OWN_PREFIX: &str = "ax_";

/// Part of the path of what Cargo has fetched.
const FETCHED: [&str; 2] = ["/.cargo/registry/", "/.cargo/git/"];

/// Part of the path of the standard library's sources.
const STANDARD: [&str; 2] = ["/rustc/", "/lib/rustlib/src/rust/"];

/// Whose a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The standard library, tokio, the system's libraries, ax.
    Runtime,
    /// A crate that the service uses.
    Library,
    /// The service.
    User,
}

/// A stack for the eye, innermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A function of the service or of a crate that it uses.
    Function {
        /// Which.
        function: &'a Function,
        /// Whose.
        owner: Owner,
        /// Whether it is the one to look at: see [`culprit`].
        culprit: bool,
    },
    /// An address without a name.
    Unnamed {
        /// In which file, where it is in one.
        module: Option<&'a Module>,
        /// See [`Frame::offset`].
        offset: u64,
    },
    /// Functions of the runtime that follow each other.
    Runtime {
        /// How many.
        functions: usize,
        /// The innermost of them, which tells what the thread does: `nanosleep`, `futex_wait`, `read`.
        innermost: &'a Function,
    },
}

/// The function to look at: the innermost one of the service; where there is none, the innermost one of a crate that it
/// uses.
#[must_use]
pub fn culprit(stack: &ThreadStack) -> Option<&Function> {
    let owners = Owners::of(stack);
    let first = |wanted| {
        let mut functions = functions(stack);
        functions.find(|(module, function)| owners.owner(*module, function) == wanted)
    };
    let (_, function) = first(Owner::User).or_else(|| first(Owner::Library))?;
    Some(function)
}

/// Folds the runtime's functions.
#[must_use]
pub fn fold(stack: &ThreadStack) -> Vec<Line<'_>> {
    let owners = Owners::of(stack);
    let culprit = culprit(stack);
    let mut lines = Vec::new();
    for frame in &stack.frames {
        let module = stack.module_of(frame);
        if frame.functions.is_empty() {
            lines.push(Line::Unnamed {
                module,
                offset: frame.offset,
            });
        }
        for function in &frame.functions {
            match (owners.owner(module, function), lines.last_mut()) {
                (Owner::Runtime, Some(Line::Runtime { functions, .. })) => *functions += 1,
                (Owner::Runtime, _) => lines.push(Line::Runtime {
                    functions: 1,
                    innermost: function,
                }),
                (owner, _) => lines.push(Line::Function {
                    function,
                    owner,
                    culprit: culprit.is_some_and(|culprit| std::ptr::eq(culprit, function)),
                }),
            }
        }
    }
    lines
}

fn functions(stack: &ThreadStack) -> impl Iterator<Item = (Option<&Module>, &Function)> {
    stack.frames.iter().flat_map(|frame: &Frame| {
        let module = stack.module_of(frame);
        let functions = frame.functions.iter();
        functions.map(move |function| (module, function))
    })
}

/// What the stack as a whole says about who owns its functions.
struct Owners {
    /// The crate of the service, where the executable has the name of one that is on the stack. Decides where there are
    /// no source files to go by.
    user_crate: Option<String>,
}

impl Owners {
    fn of(stack: &ThreadStack) -> Self {
        let named_alike = functions(stack).find_map(|(module, function)| {
            let name = crate_of(&function.name)?;
            (executable_crate(module?.name()) == name).then(|| name.to_owned())
        });
        Self {
            user_crate: named_alike,
        }
    }

    fn owner(&self, module: Option<&Module>, function: &Function) -> Owner {
        let file = function.file.as_deref();
        let in_file =
            |parts: &[&str]| file.is_some_and(|file| parts.iter().any(|part| file.contains(part)));
        if in_file(&STANDARD) {
            return Owner::Runtime;
        }
        let fetched = file.and_then(fetched_crate);
        // What was inlined has no crate in its name where a build has line tables alone.
        let Some(name) = crate_of(&function.name).or(fetched.as_deref()) else {
            return owner_of_plain(module, function);
        };
        if name.starts_with(OWN_PREFIX) || RUNTIME_CRATES.contains(&name) {
            Owner::Runtime
        } else if FRAMEWORK_CRATES.contains(&name) || in_file(&FETCHED) {
            Owner::Library
        } else if file.is_some() {
            Owner::User
        } else {
            match &self.user_crate {
                Some(user) if user != name => Owner::Library,
                _ => Owner::User,
            }
        }
    }
}

/// A function without a crate: of C, of the machine code that starts threads, or one that was inlined.
fn owner_of_plain(module: Option<&Module>, function: &Function) -> Owner {
    let name = function.name.as_str();
    let file = function.file.as_deref().map(Path::new);
    let rust = file
        .and_then(Path::extension)
        .is_some_and(|end| end == "rs");
    if module.is_none_or(|module| module.name().contains(".so")) || name == "main" {
        Owner::Runtime
    } else if rust {
        Owner::User
    } else if name.starts_with('_') {
        Owner::Runtime
    } else {
        // C code that is linked into the service.
        Owner::Library
    }
}

/// The crate of a source file that Cargo has fetched: `.../registry/src/INDEX/NAME-VERSION/...`.
fn fetched_crate(file: &str) -> Option<String> {
    let (_, below) = file.split_once("/registry/src/")?;
    let (name, _version) = below.split('/').nth(1)?.rsplit_once('-')?;
    Some(name.replace('-', "_"))
}

/// The crate that an executable of this name is made of: without the hash that Cargo gives to tests.
fn executable_crate(file: &str) -> String {
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
fn crate_of(name: &str) -> Option<&str> {
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
    use ax_wire::{
        RuntimeId,
        stack::{StackEnd, StackProof},
    };

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
    fn the_crate_of_an_executable_is_its_name_without_a_hash() {
        assert_eq!(executable_crate("my-shop"), "my_shop");
        assert_eq!(executable_crate("stacks-0123456789abcdef"), "stacks");
        assert_eq!(executable_crate("shop-deadbeef"), "shop_deadbeef");
    }

    /// Frames as `module name[|file]`, innermost first; `+` is inlined into the next.
    fn stack(frames: &[(&str, &[(&str, &str)])]) -> ThreadStack {
        let mut modules: Vec<Module> = Vec::new();
        let frames = frames
            .iter()
            .map(|(path, functions)| {
                let known = modules.iter().position(|module| module.path == *path);
                let module = known.unwrap_or_else(|| {
                    modules.push(Module {
                        path: (*path).to_owned(),
                        build_id: None,
                        unnamed: None,
                    });
                    modules.len() - 1
                });
                let functions = functions.iter().map(|(name, file)| Function {
                    name: (*name).to_owned(),
                    file: (!file.is_empty()).then(|| (*file).to_owned()),
                    line: None,
                });
                Frame {
                    module: Some(module as u32),
                    offset: 0x1000,
                    functions: functions.collect(),
                }
            })
            .collect();
        ThreadStack {
            stall: 1,
            runtime: RuntimeId(1),
            worker: Some(0),
            tid: 1,
            at_mono_ns: 0,
            stall_age_ns: 0,
            held_up_ns: 0,
            proof: StackProof::SamePoll,
            end: StackEnd::Root,
            modules,
            frames,
        }
    }

    const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";
    const SHOP: &str = "/srv/shop";
    const STD_FILE: &str = "/rustc/abc/library/std/src/thread/mod.rs";

    #[test]
    fn the_runtimes_frames_are_folded_and_the_users_first_one_is_named() {
        let stack = stack(&[
            (LIBC, &[("clock_nanosleep", "")]),
            (
                SHOP,
                &[
                    ("std::thread::sleep", STD_FILE),
                    ("shop::db::query", "src/db.rs"),
                ],
            ),
            (SHOP, &[("shop::handler::{{closure}}", "src/main.rs")]),
            (
                SHOP,
                &[(
                    "<core::pin::Pin<P> as core::future::future::Future>::poll",
                    "",
                )],
            ),
            (SHOP, &[("tokio::runtime::task::raw::poll", "")]),
            (SHOP, &[]),
        ]);
        let found = culprit(&stack).expect("one of the service");
        assert_eq!(found.name, "shop::db::query");
        let lines: Vec<String> = fold(&stack)
            .iter()
            .map(|line| match line {
                Line::Function {
                    function, culprit, ..
                } => format!("{}{}", if *culprit { "> " } else { "" }, function.name),
                Line::Unnamed { module, offset } => {
                    format!(
                        "{} + {offset:#x}",
                        module.map_or("?", |module| module.name())
                    )
                }
                Line::Runtime {
                    functions,
                    innermost,
                } => format!("({functions} of the runtime: {})", innermost.name),
            })
            .collect();
        assert_eq!(
            lines,
            [
                "(2 of the runtime: clock_nanosleep)",
                "> shop::db::query",
                "shop::handler::{{closure}}",
                "(2 of the runtime: <core::pin::Pin<P> as core::future::future::Future>::poll)",
                "shop + 0x1000",
            ]
        );
    }

    #[test]
    fn a_library_is_the_culprit_only_where_the_service_is_not_on_the_stack() {
        let registry = "/home/u/.cargo/registry/src/index/serde_json-1.0.1/src/ser.rs";
        let library: (&str, &[(&str, &str)]) = (SHOP, &[("serde_json::ser::to_string", registry)]);
        let user: (&str, &[(&str, &str)]) = (SHOP, &[("shop::render", "src/lib.rs")]);
        let with_user = stack(&[library, user]);
        assert_eq!(culprit(&with_user).expect("found").name, "shop::render");
        let alone = stack(&[library]);
        let found = culprit(&alone).expect("found");
        assert_eq!(found.name, "serde_json::ser::to_string");
    }

    #[test]
    fn without_source_files_the_executables_name_tells_the_service() {
        let stack = stack(&[
            (SHOP, &[("serde_json::ser::to_string", "")]),
            (SHOP, &[("shop::render", "")]),
            (SHOP, &[("hyper::proto::h1::poll", "")]),
        ]);
        assert_eq!(culprit(&stack).expect("found").name, "shop::render");
    }

    #[test]
    fn what_was_inlined_is_told_by_its_source_file() {
        let tokio = "/home/u/.cargo/registry/src/index.crates.io-1/tokio-1.54.1/src/park.rs";
        let of_line_tables = stack(&[
            (
                SHOP,
                &[
                    ("poll", STD_FILE),
                    ("{closure#0}", "src/db.rs"),
                    ("shop::db::query", "src/db.rs"),
                ],
            ),
            (SHOP, &[("park<T>", tokio), ("main", "")]),
        ]);
        assert_eq!(culprit(&of_line_tables).expect("found").name, "{closure#0}");
        let runtime = stack(&[(SHOP, &[("poll", STD_FILE), ("park<T>", tokio)])]);
        assert_eq!(culprit(&runtime), None);
        assert_eq!(fetched_crate(tokio).as_deref(), Some("tokio"));
        assert_eq!(fetched_crate("src/main.rs"), None);
    }

    #[test]
    fn a_stack_of_the_runtime_alone_has_no_culprit() {
        let stack = stack(&[
            (LIBC, &[("epoll_wait", "")]),
            (
                SHOP,
                &[
                    ("mio::poll::Poll::poll", ""),
                    ("tokio::runtime::io::driver::turn", ""),
                ],
            ),
            (SHOP, &[("ax_probe::spawn::Named::poll", "")]),
            (SHOP, &[("main", "")]),
            (LIBC, &[("__libc_start_main", "")]),
        ]);
        assert_eq!(culprit(&stack), None);
        assert_eq!(fold(&stack).len(), 1);
    }
}
