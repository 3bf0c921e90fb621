//! Copies the registers and the stack of another thread of this process: a signal makes that thread do it itself.
//!
//! The handler does nothing but copy: it allocates nothing, locks nothing and unwinds nothing, so it may interrupt the
//! thread anywhere, inside `malloc` or `dlopen` too. There is one [`Place`] to copy to, and one request at a time.

#![expect(
    unsafe_code,
    reason = "a signal handler that reads the interrupted thread's stack"
)]

use std::{
    cell::UnsafeCell,
    ffi::{c_int, c_void},
    hint, mem,
    ops::Range,
    ptr,
    sync::atomic::{
        AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
    thread,
    time::{Duration, Instant},
};

use super::Untaken;
use crate::clock;

/// Most bytes of a stack that are copied. `getaddrinfo` alone takes 8 KiB.
pub(super) const MAX_STACK_BYTES: usize = 64 * 1024;

/// How long the watchdog waits for a thread that was signalled. It takes 16 us where that thread can have a CPU.
const PATIENCE: Duration = Duration::from_millis(25);

/// How long of that it spins, before it lets others have the CPU.
const SPIN: Duration = Duration::from_micros(50);

/// What a word of [`Place::state`] says in its low byte; above stands the thread that is asked.
const REQUESTED: u64 = 1;
const COPYING: u64 = 2;
const COPIED: u64 = 3;
/// Nobody is asked.
const IDLE: u64 = 0;

/// The registers that unwinding begins with.
#[derive(Clone, Copy)]
pub(super) struct Registers {
    pub(super) ip: u64,
    pub(super) sp: u64,
    pub(super) fp: u64,
    /// The link register, on machines that have one.
    #[cfg(target_arch = "aarch64")]
    pub(super) lr: u64,
}

/// What the handler leaves.
struct Left {
    registers: Registers,
    at_ns: u64,
    held_up_ns: u64,
    /// The stack went on beyond what was copied.
    cut: bool,
    /// How many of `bytes` were copied, which begin at the stack pointer.
    len: usize,
    bytes: [u8; MAX_STACK_BYTES],
}

/// Where a thread copies its stack to.
struct Place {
    /// [`IDLE`] -> [`REQUESTED`] by the watchdog, -> [`COPYING`] -> [`COPIED`] by the handler on the thread that is
    /// asked, -> [`IDLE`] by the watchdog. `left` belongs to whoever made the last step.
    state: AtomicU64,
    /// The thread's stack, written before a request.
    low: AtomicU64,
    high: AtomicU64,
    left: UnsafeCell<Left>,
}

// SAFETY: `left` is written by the handler only, after it has won the exchange from `REQUESTED` to `COPYING`, which one
// thread can; it is read by the watchdog only, between `COPIED` (acquired) and `IDLE`. So no two touch it at once.
unsafe impl Sync for Place {}

static PLACE: Place = Place {
    state: AtomicU64::new(IDLE),
    low: AtomicU64::new(0),
    high: AtomicU64::new(0),
    left: UnsafeCell::new(Left {
        registers: Registers {
            ip: 0,
            sp: 0,
            fp: 0,
            #[cfg(target_arch = "aarch64")]
            lr: 0,
        },
        at_ns: 0,
        held_up_ns: 0,
        cut: false,
        len: 0,
        bytes: [0; MAX_STACK_BYTES],
    }),
};

/// A signal of which the handler is ours.
pub(super) struct Signal(c_int);

/// The copy of a thread's stack. Frees the place when it is dropped.
pub(super) struct Copied {
    left: &'static Left,
}

impl Signal {
    /// Takes a real-time signal that the service does not use.
    pub(super) fn install() -> Option<Self> {
        // The first ones are what programs choose by themselves, so the search begins at the other end.
        let mut free = (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev();
        free.find_map(|signal| {
            let untouched = |action: &libc::sigaction| action.sa_sigaction == libc::SIG_DFL;
            if !current_action(signal).as_ref().is_some_and(untouched) {
                return None;
            }
            let before = set_action(signal, &our_action())?;
            if untouched(&before) {
                return Some(Self(signal));
            }
            // Somebody took it between the two looks: it is theirs.
            set_action(signal, &before);
            None
        })
    }

    /// Whether the handler is still ours. The service may have replaced it, and a signal that has none would end the
    /// process.
    fn is_ours(&self) -> bool {
        current_action(self.0).is_some_and(|action| action.sa_sigaction == our_address())
    }

    /// As the kernel shows it in `/proc/self/task/TID/status`.
    pub(super) fn mask(&self) -> u64 {
        1 << (self.0 - 1)
    }

    /// Lets the thread `tid` copy its stack, which lies in `stack`; nothing outside is read. Waits 25 ms at most.
    ///
    /// One caller at a time.
    pub(super) fn copy_stack(&self, tid: u32, stack: &Range<u64>) -> Result<Copied, Untaken> {
        if !self.is_ours() {
            return Err(Untaken::NoSignal);
        }
        let word = |phase: u64| u64::from(tid) << 8 | phase;
        let state = &PLACE.state;
        // What came too late for the request before is of no use to anyone.
        let found = state.load(Acquire);
        if found != IDLE && found & 0xff != COPIED {
            return Err(Untaken::Busy);
        }
        PLACE.low.store(stack.start, Relaxed);
        PLACE.high.store(stack.end, Relaxed);
        state.store(word(REQUESTED), Release);
        // SAFETY: `tgkill` takes three integers; it reaches a thread of this process only, whose handler is ours.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_tgkill,
                rustix::process::getpid().as_raw_pid(),
                tid,
                self.0,
            )
        };
        let deadline = Instant::now() + PATIENCE;
        let spin_until = Instant::now() + SPIN;
        while sent == 0 && state.load(Acquire) != word(COPIED) {
            let now = Instant::now();
            if now >= deadline {
                break;
            }
            if now < spin_until {
                hint::spin_loop();
            } else {
                thread::sleep(SPIN);
            }
        }
        match state.compare_exchange(word(REQUESTED), IDLE, Acquire, Acquire) {
            Ok(_) if sent == 0 => Err(Untaken::NoAnswer),
            Ok(_) => Err(Untaken::Gone),
            Err(now) if now == word(COPIED) => {
                // SAFETY: `COPIED` was acquired, and nobody writes `left` until the next request, which the next call
                // makes; calls come one at a time, each after the `Copied` of the one before was dropped (see `taker.rs`,
                // whose lock is held for both).
                let left = unsafe { &*PLACE.left.get() };
                Ok(Copied { left })
            }
            // Copying: the thread lost its CPU in the middle of it.
            Err(_) => Err(Untaken::Busy),
        }
    }
}

impl Copied {
    pub(super) fn registers(&self) -> Registers {
        self.left.registers
    }

    /// When the thread stood so.
    pub(super) fn at_ns(&self) -> u64 {
        self.left.at_ns
    }

    /// How long the thread was held up.
    pub(super) fn held_up_ns(&self) -> u64 {
        self.left.held_up_ns
    }

    /// Whether the stack goes on beyond the copy, or none could be made.
    pub(super) fn is_cut(&self) -> bool {
        self.left.cut
    }

    /// The word at an address of the copied part.
    pub(super) fn word_at(&self, address: u64) -> Option<u64> {
        let from = usize::try_from(address.checked_sub(self.left.registers.sp)?).ok()?;
        let bytes = self.left.bytes[..self.left.len].get(from..from.checked_add(8)?)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        PLACE.state.store(IDLE, Release);
    }
}

/// Runs on the thread that was asked, wherever it was. Must not allocate, lock, panic or change `errno`: it makes two
/// system calls at most, both without `errno` (`gettid`, and the clock's where there is no vDSO).
extern "C" fn on_signal(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    let at_ns = clock::now_ns();
    let tid = u64::from(rustix::thread::gettid().as_raw_pid().unsigned_abs()) << 8;
    // A signal that comes after its request was given up finds none, or a newer one for the same thread, which it may
    // serve.
    let asked = PLACE
        .state
        .compare_exchange(tid | REQUESTED, tid | COPYING, AcqRel, Relaxed);
    if asked.is_err() {
        return;
    }
    // SAFETY: the exchange makes `left` ours until `COPIED` is stored.
    let left = unsafe { &mut *PLACE.left.get() };
    // SAFETY: the kernel gives a handler with `SA_SIGINFO` a pointer to the context that it interrupted.
    let registers = registers_of(unsafe { &*context.cast::<libc::ucontext_t>() });
    let (low, high) = (PLACE.low.load(Relaxed), PLACE.high.load(Relaxed));
    // On another stack (of a coroutine, of another handler) its bounds are unknown: then the registers alone.
    let here = if (low..high).contains(&registers.sp) {
        (high - registers.sp) as usize
    } else {
        0
    };
    let len = here.min(MAX_STACK_BYTES);
    let from = ptr::with_exposed_provenance::<u8>(registers.sp as usize);
    // SAFETY: the bytes lie between the stack pointer and the top of this thread's own stack, all of which is in use
    // and so is mapped for as long as the thread is here; the place is a static of `MAX_STACK_BYTES` elsewhere.
    unsafe { ptr::copy_nonoverlapping(from, left.bytes.as_mut_ptr(), len) };
    left.registers = registers;
    left.len = len;
    left.cut = len < here || here == 0;
    left.at_ns = at_ns;
    left.held_up_ns = clock::now_ns().saturating_sub(at_ns);
    PLACE.state.store(tid | COPIED, Release);
}

#[cfg(target_arch = "x86_64")]
fn registers_of(context: &libc::ucontext_t) -> Registers {
    let of = |register: c_int| context.uc_mcontext.gregs[register as usize].cast_unsigned();
    Registers {
        ip: of(libc::REG_RIP),
        sp: of(libc::REG_RSP),
        fp: of(libc::REG_RBP),
    }
}

#[cfg(target_arch = "aarch64")]
fn registers_of(context: &libc::ucontext_t) -> Registers {
    let machine = &context.uc_mcontext;
    Registers {
        ip: machine.pc,
        sp: machine.sp,
        fp: machine.regs[29],
        lr: machine.regs[30],
    }
}

/// Where the stack of the calling thread lies: some microseconds, and 100 for the main thread.
pub(crate) fn own_stack() -> Option<Range<u64>> {
    // SAFETY: `pthread_getattr_np` fills the attributes that it is given, from which the next call reads; both answer 0
    // if they did, and they are destroyed exactly once, after that.
    unsafe {
        let mut attributes = mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return None;
        }
        let (mut low, mut size) = (ptr::null_mut(), 0);
        let got = libc::pthread_attr_getstack(&raw const attributes, &raw mut low, &raw mut size);
        libc::pthread_attr_destroy(&raw mut attributes);
        let low = low.expose_provenance() as u64;
        (got == 0).then(|| low..low.saturating_add(size as u64))
    }
}

fn our_address() -> libc::sighandler_t {
    on_signal as *const () as libc::sighandler_t
}

/// `SA_RESTART`: system calls go on where they can. `SA_ONSTACK`: where the thread has a second stack for signals, as
/// each of Rust's has, a thread at the end of its stack is not pushed over it.
fn our_action() -> libc::sigaction {
    // SAFETY: all zeros is a valid `sigaction` with an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = our_address();
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    action
}

fn current_action(signal: c_int) -> Option<libc::sigaction> {
    // SAFETY: as in `our_action`; with no new action, the call only fills in the present one.
    unsafe {
        let mut action = mem::zeroed();
        (libc::sigaction(signal, ptr::null(), &raw mut action) == 0).then_some(action)
    }
}

/// Returns the action that it replaces.
fn set_action(signal: c_int, action: &libc::sigaction) -> Option<libc::sigaction> {
    // SAFETY: both point to whole structures; the handler of ours is async-signal-safe, and any other was there before.
    unsafe {
        let mut before = mem::zeroed();
        (libc::sigaction(signal, action, &raw mut before) == 0).then_some(before)
    }
}
