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

/// The bands that a lane's queue is told by, highest first: each begins where a named one does, and reaches up to the
/// next; what is below all of them is the last.
pub const BANDS: [RangeInclusive<u8>; 4] = [
    *URGENT.start()..=*ALL.end(),
    *SYSTEM.start()..=*URGENT.start() - 1,
    *NORMAL.start()..=*SYSTEM.start() - 1,
    *ALL.start()..=*NORMAL.start() - 1,
];

/// The place of a priority in [`BANDS`].
pub(crate) fn band(priority: u8) -> usize {
    let above = BANDS.iter().take_while(|band| priority < *band.start());
    above.count().min(BANDS.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_priority_is_in_one_band() {
        for priority in ALL {
            let of = BANDS.iter().filter(|band| band.contains(&priority));
            assert_eq!(of.count(), 1, "{priority}");
            assert!(BANDS[band(priority)].contains(&priority), "{priority}");
        }
    }
}
