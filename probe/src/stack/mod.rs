//! The stack of another thread of this process.
//!
//! ```text
//!  watchdog                        thread that does not move
//!     |--- signal --------------------->|
//!     |                                 handler copies registers and up to 64 KiB of stack: about 1 us
//!     |<-- copied ----------------------|
//!     unwinds the copy                  goes on as before
//! ```
//!
//! What the service can notice: the kernel begins an interrupted system call again (`SA_RESTART`), but for some that end
//! with `EINTR`, above all `poll`, a bare `nanosleep`, and reads and writes with a timeout on the socket. Rust's standard
//! library begins most of them again by itself; C code that does not is the reason for
//! [`Builder::stacks`](crate::Builder::stacks).
//!
//! Linux on x86-64 and aarch64; elsewhere a stack is unknown.

use ax_wire::stack::{Frame, Module, StackEnd};

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod capture;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod modules;
#[cfg(all(
    test,
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod stress;
#[cfg_attr(
    not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )),
    path = "elsewhere.rs"
)]
mod taker;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod unwind;

pub(crate) use self::taker::{own_stack, take};

/// A stack that was taken.
pub(crate) struct Taken {
    pub(crate) at_ns: u64,
    pub(crate) held_up_ns: u64,
    pub(crate) end: StackEnd,
    pub(crate) modules: Vec<Module>,
    pub(crate) frames: Vec<Frame>,
}

/// Why a stack could not be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )),
    expect(dead_code, reason = "only `Unsupported` comes to pass there")
)]
pub(crate) enum Untaken {
    #[error("stacks are taken on Linux on x86-64 and aarch64 only")]
    #[cfg_attr(
        all(
            target_os = "linux",
            any(target_arch = "x86_64", target_arch = "aarch64")
        ),
        expect(dead_code, reason = "it is supported here")
    )]
    Unsupported,
    #[error("the service uses every real-time signal itself")]
    NoSignal,
    #[error("the thread blocks the probe's signal")]
    Blocked,
    #[error("the thread has ended")]
    Gone,
    #[error(
        "the thread did not get to it in time: it waits for a CPU, or in the kernel for a device"
    )]
    NoAnswer,
    #[error("the thread asked before is still at it")]
    Busy,
    #[error("/proc/self/maps or /proc/self/mem cannot be read")]
    NoProc,
}
