//! Priorities: 1 (last) to 100 (first), first in first out among equals.

use std::ops::RangeInclusive;

/// Of a job for which nothing else was said.
pub const DEFAULT: u8 = 50;

/// All that exist.
pub const ALL: RangeInclusive<u8> = 1..=100;

/// The band of everyday work.
pub const NORMAL: RangeInclusive<u8> = 30..=70;

/// The band of work that keeps the system itself alive.
pub const SYSTEM: RangeInclusive<u8> = 80..=90;

/// The band of work that somebody waits for right now.
pub const URGENT: RangeInclusive<u8> = 95..=100;
