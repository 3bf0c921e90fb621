//! Whose code a stack shows: the runtime's frames are folded away, and the user's first one is named.
//!
//! Pure functions over names and places; nothing here looks at a file.

use std::path::Path;

use ax_wire::stack::{Frame, Function, Module, ThreadStack};

use super::crates::{crate_of, executable_crate, fetched_crate, is_standard};

/// Crates that carry every task, ours among them: what stands in them says nothing about the service.
const RUNTIME_CRATES: [&str; 15] = [
    "ax_probe",
    "ax_scheduler",
    "ax_wire",
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
///
/// `None` also where a frame further in lies in the same file and has no name, as in a stripped build that exports some of
/// its functions: it may be the one.
#[must_use]
pub fn culprit(stack: &ThreadStack) -> Option<&Function> {
    let owners = Owners::of(stack);
    let first = |wanted| {
        let mut functions = functions(stack);
        functions.find(|(frame, function)| owners.owner(stack.module_of(frame), function) == wanted)
    };
    let (found, function) = first(Owner::User).or_else(|| first(Owner::Library))?;
    let further_in = stack
        .frames
        .iter()
        .take_while(|frame| !std::ptr::eq(*frame, found));
    let mut unnamed = further_in.filter(|frame| frame.functions.is_empty());
    let in_doubt = unnamed.any(|frame| frame.module == found.module);
    (!in_doubt).then_some(function)
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

/// Every named function with its owner, innermost first.
pub(super) fn owned(stack: &ThreadStack) -> impl DoubleEndedIterator<Item = (Owner, &Function)> {
    let owners = Owners::of(stack);
    functions(stack)
        .map(move |(frame, function)| (owners.owner(stack.module_of(frame), function), function))
}

fn functions(stack: &ThreadStack) -> impl DoubleEndedIterator<Item = (&Frame, &Function)> {
    stack.frames.iter().flat_map(|frame| {
        let functions = frame.functions.iter();
        functions.map(move |function| (frame, function))
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
        let named_alike = functions(stack).find_map(|(frame, function)| {
            let name = crate_of(&function.name)?;
            let module = stack.module_of(frame)?;
            (executable_crate(module.name()) == name).then(|| name.to_owned())
        });
        Self {
            user_crate: named_alike,
        }
    }

    fn owner(&self, module: Option<&Module>, function: &Function) -> Owner {
        let file = function.file.as_deref();
        if file.is_some_and(is_standard) {
            return Owner::Runtime;
        }
        let fetched = file.and_then(fetched_crate);
        // What was inlined has no crate in its name where a build has line tables alone.
        let Some(name) = crate_of(&function.name).or(fetched.as_deref()) else {
            return owner_of_plain(module, function);
        };
        if RUNTIME_CRATES.contains(&name) {
            Owner::Runtime
        } else if FRAMEWORK_CRATES.contains(&name) || fetched.is_some() {
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

#[cfg(test)]
pub(super) mod tests {
    use ax_wire::{
        RuntimeId,
        stack::{StackEnd, StackProof},
    };

    use super::*;

    /// Frames as `module name[|file]`, innermost first; `+` is inlined into the next.
    pub(in super::super) fn stack(frames: &[(&str, &[(&str, &str)])]) -> ThreadStack {
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
        let registry = "/opt/u/.cargo/registry/src/index/serde_json-1.0.1/src/ser.rs";
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
        let tokio = "/opt/u/.cargo/registry/src/index.crates.io-1/tokio-1.54.1/src/park.rs";
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
    }

    #[test]
    fn a_crate_of_the_service_may_be_called_like_ours() {
        let named_alike = stack(&[
            (SHOP, &[("std::thread::sleep", STD_FILE)]),
            (SHOP, &[("ax_shop::db::query", "shop/src/db.rs")]),
            (
                SHOP,
                &[("ax_probe::spawn::Named::poll", "probe/src/spawn.rs")],
            ),
        ]);
        let found = culprit(&named_alike).expect("the service's");
        assert_eq!(found.name, "ax_shop::db::query");
    }

    #[test]
    fn nobody_is_named_where_a_frame_further_in_may_be_the_one() {
        let stripped = stack(&[(LIBC, &[]), (SHOP, &[]), (SHOP, &[("shop::exported", "")])]);
        assert_eq!(culprit(&stripped), None);
        let known = stack(&[(LIBC, &[]), (SHOP, &[("shop::exported", "")]), (SHOP, &[])]);
        let found = culprit(&known).expect("what is unnamed further in is of another file");
        assert_eq!(found.name, "shop::exported");
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
