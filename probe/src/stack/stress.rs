//! Stacks of threads that are in the middle of what a signal must not disturb.
//!
//! `AX_FULL=1 cargo test --release -p ax-probe stack::stress -- --nocapture` takes 250,000 and prints what they cost;
//! `AX_BLESS=1` keeps that in `tests/results/`.

#![expect(
    unsafe_code,
    reason = "the loops fork and load libraries, which the standard library cannot"
)]

use std::{
    env, hint,
    panic::{self, catch_unwind},
    ptr,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use ax_wire::stack::StackEnd;

#[path = "../../../tests/support/record.rs"]
mod record;

use self::record::Record;
use super::{
    Taken, Untaken,
    capture::{MAX_STACK_BYTES, Signal},
    taker::{TAKER, own_stack, take},
};

/// The command behind the result files.
const HOW: &str =
    "AX_FULL=1 AX_BLESS=1 cargo test --release -p ax-probe stack::stress -- --nocapture";

/// A thread that does one thing again and again.
struct Target {
    tid: u32,
    stack: std::ops::Range<u64>,
    rounds: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Target {
    fn start(mut round: impl FnMut() + Send + 'static) -> Self {
        let (tid, low, high) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicU64::new(0)),
        );
        let (rounds, stop) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let thread = {
            let (tid, low, high) = (Arc::clone(&tid), Arc::clone(&low), Arc::clone(&high));
            let (rounds, stop) = (Arc::clone(&rounds), Arc::clone(&stop));
            thread::spawn(move || {
                let stack = own_stack().expect("a thread has a stack");
                low.store(stack.start, Relaxed);
                high.store(stack.end, Relaxed);
                let own = rustix::thread::gettid().as_raw_pid().unsigned_abs();
                tid.store(own.into(), Release);
                while !stop.load(Relaxed) {
                    round();
                    rounds.fetch_add(1, Relaxed);
                }
            })
        };
        while tid.load(Acquire) == 0 {
            thread::yield_now();
        }
        Self {
            tid: tid.load(Relaxed) as u32,
            stack: low.load(Relaxed)..high.load(Relaxed),
            rounds,
            stop,
            thread: Some(thread),
        }
    }

    fn take(&self) -> Result<Taken, Untaken> {
        take(self.tid, &self.stack)
    }

    /// Takes until it succeeds: a busy machine may not give the thread its CPU in time.
    fn take_surely(&self) -> Taken {
        let taken = (0..200).find_map(|_| self.take().ok());
        taken.expect("one of 200 stacks")
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // The test fails by itself if the thread has.
            let _ = thread.join();
        }
    }
}

fn full() -> bool {
    env::var_os("AX_FULL").is_some_and(|value| value == "1")
}

#[inline(never)]
fn sleep_a_little() {
    thread::sleep(Duration::from_millis(5));
    hint::black_box(());
}

#[inline(never)]
fn compute_a_little() {
    let until = Instant::now() + Duration::from_millis(5);
    let mut number = 7_u64;
    while Instant::now() < until {
        for factor in 0..500_u64 {
            number = number.rotate_left(5) ^ factor.wrapping_mul(0x9e37_79b9);
        }
        hint::black_box(number);
    }
}

/// Whether a frame lies in the first 512 bytes of the function, in the executable.
fn shows(taken: &Taken, function: fn()) -> bool {
    let mut modules = super::modules::Modules::open().expect("procfs");
    modules
        .refresh(&mut super::unwind::Unwinder::new())
        .expect("procfs");
    let (index, from) = modules.find(function as usize as u64).expect("in a file");
    let module = modules.module(index);
    taken.frames.iter().any(|frame| {
        let place = frame.module.map(|index| &taken.modules[index as usize]);
        place == Some(&module) && (from..from + 512).contains(&frame.offset)
    })
}

#[test]
fn the_stack_of_a_thread_shows_what_it_does_down_to_its_first_function() {
    for function in [sleep_a_little as fn(), compute_a_little] {
        let target = Target::start(function);
        let shown = (0..50).any(|_| {
            let taken = target.take_surely();
            assert_eq!(taken.end, StackEnd::Root);
            assert!(taken.frames.len() > 3, "{} frames", taken.frames.len());
            assert!(taken.modules.iter().any(|module| module.build_id.is_some()));
            shows(&taken, function)
        });
        assert!(shown, "a thread that does nothing else");
    }
}

#[test]
fn a_stack_that_is_too_deep_is_said_to_be_cut() {
    #[inline(never)]
    fn deep(levels: usize) {
        let fill = [levels as u8; 1024];
        if levels == 0 {
            thread::sleep(Duration::from_millis(5));
        } else {
            deep(levels - 1);
        }
        hint::black_box(&fill);
    }
    let target = Target::start(|| deep(2 * MAX_STACK_BYTES / 1024));
    let cut = (0..50)
        .map(|_| target.take_surely())
        .find(|taken| taken.end == StackEnd::Cut)
        .expect("a thread that is mostly deep down");
    assert!(cut.frames.len() > 20, "{} frames", cut.frames.len());
}

#[test]
fn outside_the_known_stack_only_the_registers_are_taken() {
    let target = Target::start(sleep_a_little);
    let elsewhere = target.stack.end..target.stack.end + 4096;
    let taken = (0..200)
        .find_map(|_| take(target.tid, &elsewhere).ok())
        .expect("one of 200 stacks");
    assert_eq!((taken.frames.len(), taken.end), (1, StackEnd::Cut));
}

#[test]
fn a_thread_that_has_ended_or_blocks_the_signal_is_not_waited_for() {
    assert_eq!(take(u32::MAX >> 1, &(0..1)).map(|_| ()), Err(Untaken::Gone));
    let target = Target::start(|| {
        // SAFETY: a full set of signals is made and blocked for this thread alone.
        unsafe {
            let mut all = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, ptr::null_mut());
        }
        thread::sleep(Duration::from_millis(5));
    });
    while target.rounds.load(Relaxed) == 0 {
        thread::yield_now();
    }
    let began = Instant::now();
    assert_eq!(target.take().map(|_| ()), Err(Untaken::Blocked));
    assert!(began.elapsed() < Duration::from_millis(100));
}

#[test]
fn signals_that_the_service_uses_are_left_alone() {
    extern "C" fn theirs(_signal: libc::c_int) {}
    let theirs = theirs as *const () as libc::sighandler_t;
    let last = libc::SIGRTMAX();
    let _one_at_a_time = TAKER.lock();
    // SAFETY: the handler does nothing; the signal is put back below.
    let before = unsafe { libc::signal(last, theirs) };
    let installed = Signal::install().expect("others are free");
    assert_ne!(installed.mask(), 1 << (last - 1));
    // SAFETY: as above.
    let after = unsafe { libc::signal(last, before) };
    assert_eq!(after, theirs);
}

fn allocate() {
    let blocks: Vec<Vec<u8>> = (0..64).map(|size| vec![0; 16 + size * 37]).collect();
    hint::black_box(blocks);
}

fn unwind_a_panic() {
    // Resumed, not begun: no hook prints it.
    let caught = catch_unwind(|| {
        let _dropped_on_the_way = String::from("a block of the heap");
        panic::resume_unwind(Box::new(()));
    });
    hint::black_box(caught.is_err());
}

fn load_and_unload() {
    for library in [c"libm.so.6", c"librt.so.1", c"libresolv.so.2"] {
        // SAFETY: these libraries of the system do nothing when they are loaded; each handle is closed once.
        unsafe {
            let handle = libc::dlopen(library.as_ptr(), libc::RTLD_NOW);
            if !handle.is_null() {
                libc::dlclose(handle);
            }
        }
    }
}

fn fork_and_wait() {
    // SAFETY: the child does nothing but end, without running anything that its missing threads may have held.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(0);
        }
        libc::waitpid(child, ptr::null_mut(), 0);
    }
}

/// As the standard library starts programs: `posix_spawn`, during which the thread blocks all signals and shares its memory
/// with the child.
fn spawn_and_wait() {
    let status = std::process::Command::new("true").status();
    assert!(status.expect("starts").success(), "ended by a signal");
}

fn percentile_us(sorted_ns: &[u64], share: f64) -> f64 {
    let last = sorted_ns.len().saturating_sub(1);
    let index = (last as f64 * share) as usize;
    sorted_ns.get(index).map_or(f64::NAN, |ns| *ns as f64 / 1e3)
}

#[test]
fn nothing_breaks_in_the_middle_of_malloc_panic_dlopen_fork_and_spawn() {
    let wanted = if full() { 50_000 } else { 500 };
    let mut record = Record::new("stacks-stress.txt", HOW);
    record.line("Stacks of a thread in the middle of a loop, without a deadlock or a crash. Held up: in the handler.");
    record.line(
        "Whole: from the request to the unwound stack, the search for new libraries included.",
    );
    record.line(format!(
        "{:<10} {:>8} {:>10} {:>8} {:>8} {:>22} {:>22}",
        "loop", "stacks", "no answer", "to root", "< 6", "held up p50/p99 us", "whole p50/p99 us"
    ));
    let loops: [(&str, fn()); 5] = [
        ("malloc", allocate),
        ("panic", unwind_a_panic),
        ("dlopen", load_and_unload),
        ("fork", fork_and_wait),
        ("spawn", spawn_and_wait),
    ];
    for (name, round) in loops {
        let target = Target::start(round);
        let (mut held_up, mut whole) = (Vec::new(), Vec::new());
        let (mut no_answer, mut to_root, mut short) = (0, 0, 0);
        while held_up.len() < wanted {
            let began = Instant::now();
            match target.take() {
                Ok(taken) => {
                    whole.push(began.elapsed().as_nanos() as u64);
                    held_up.push(taken.held_up_ns);
                    to_root += usize::from(taken.end == StackEnd::Root);
                    short += usize::from(taken.frames.len() < 6);
                }
                Err(Untaken::NoAnswer | Untaken::Busy) => no_answer += 1,
                // Until the child has begun its program, or the thread has come back from the handler of the last one.
                Err(Untaken::Blocked) => thread::sleep(Duration::from_micros(200)),
                Err(other) => panic!("{name}: {other}"),
            }
            assert!(no_answer < wanted, "{name}: {no_answer} without an answer");
        }
        let rounds = target.rounds.load(Relaxed);
        let still_moves = (0..1_000).any(|_| {
            thread::sleep(Duration::from_millis(1));
            target.rounds.load(Relaxed) > rounds
        });
        assert!(still_moves, "{name}: the thread stands still");
        held_up.sort_unstable();
        whole.sort_unstable();
        let percent = |count: usize| count as f64 * 100.0 / wanted as f64;
        record.line(format!(
            "{name:<10} {wanted:>8} {no_answer:>10} {:>7.1}% {:>7.1}% {:>12.1} / {:>6.1} {:>13.1} / {:>7.1}",
            percent(to_root),
            percent(short),
            percentile_us(&held_up, 0.5),
            percentile_us(&held_up, 0.99),
            percentile_us(&whole, 0.5),
            percentile_us(&whole, 0.99),
        ));
        assert!(
            to_root * 10 > wanted * 9,
            "{name}: {to_root} of {wanted} to the root"
        );
    }
    if full() {
        record.finish();
    }
}

/// From the signal to the copy, without the unwinding.
#[test]
fn a_copy_takes_microseconds() {
    let _one_at_a_time = TAKER.lock();
    let signal = Signal::install().expect("a free signal");
    let mut record = Record::new("stacks-cost.txt", HOW);
    record.line("Copying the registers and the stack of a thread. Handler: how long the thread was held up.");
    for (name, function) in [
        ("sleeps", sleep_a_little as fn()),
        ("computes", compute_a_little),
    ] {
        let target = Target::start(function);
        let (mut times, mut held_up) = (Vec::new(), Vec::new());
        for _ in 0..if full() { 5_000 } else { 200 } {
            let began = Instant::now();
            if let Ok(copied) = signal.copy_stack(target.tid, &target.stack) {
                times.push(began.elapsed().as_nanos() as u64);
                held_up.push(copied.held_up_ns());
            }
            thread::sleep(Duration::from_micros(200));
        }
        times.sort_unstable();
        held_up.sort_unstable();
        let figures = |sorted_ns: &[u64]| {
            let of = |share| percentile_us(sorted_ns, share);
            format!("p50 {:.1} us, p99 {:.1} us", of(0.5), of(0.99))
        };
        record.line(format!(
            "thread {name:<9} {:>5} times  handler {}  signal to copy {}",
            times.len(),
            figures(&held_up),
            figures(&times)
        ));
        let p50 = percentile_us(&times, 0.5);
        assert!(p50 < 5_000.0, "{p50} us");
    }
    if full() {
        record.finish();
    }
}
