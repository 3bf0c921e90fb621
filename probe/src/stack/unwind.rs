//! From a copy of a stack to the addresses of its calls.

use ax_wire::stack::{MAX_FRAMES, StackEnd};
use framehop::{
    CacheNative, Error, MayAllocateDuringUnwind, UnwindRegsNative, Unwinder as _, UnwinderNative,
};

use super::capture::{Copied, Registers};

/// Knows the unwind tables of every module.
pub(super) type Unwinder = UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>;

/// Remembers how to leave a function: unwinding the second stack takes 2 us.
pub(super) type Cache = CacheNative<MayAllocateDuringUnwind>;

/// Calls `each` with the address of each frame, innermost first, until it answers `false`. An address lies within the
/// instruction that runs, or that made the call.
pub(super) fn unwind(
    copied: &Copied,
    unwinder: &Unwinder,
    cache: &mut Cache,
    mut each: impl FnMut(u64) -> bool,
) -> StackEnd {
    let registers = copied.registers();
    let mut word_at = |address| copied.word_at(address).ok_or(());
    let mut frames = unwinder.iter_frames(registers.ip, begin_with(registers), cache, &mut word_at);
    for _ in 0..MAX_FRAMES {
        match frames.next() {
            Ok(Some(frame)) => {
                if !each(frame.address_for_lookup()) {
                    return StackEnd::Lost;
                }
            }
            Ok(None) => return StackEnd::Root,
            Err(Error::CouldNotReadStack(_)) if copied.is_cut() => return StackEnd::Cut,
            Err(_) => return StackEnd::Lost,
        }
    }
    StackEnd::Cut
}

#[cfg(target_arch = "x86_64")]
fn begin_with(registers: Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(registers.ip, registers.sp, registers.fp)
}

#[cfg(target_arch = "aarch64")]
fn begin_with(registers: Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(registers.lr, registers.sp, registers.fp)
}
