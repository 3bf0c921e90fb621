//! Where no stack can be taken.

use std::ops::Range;

use super::{Taken, Untaken};

pub(crate) fn own_stack() -> Option<Range<u64>> {
    None
}

pub(crate) fn take(_tid: u32, _stack: &Range<u64>) -> Result<Taken, Untaken> {
    Err(Untaken::Unsupported)
}
