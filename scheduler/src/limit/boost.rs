//! A limit that rises for a while and falls back by itself.

/// The most that a boost adds, as a share of the limit: what a downstream with the usual reserve of 20 % bears for a
/// while.
pub const MAX_BOOST_PERCENT: u8 = 30;

/// A boost that has begun. It ends when a runner picks its next job after `until_ns`: no timer is needed, since a limit
/// means something only then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Boost {
    pub(crate) percent: u8,
    pub(crate) until_ns: u64,
}

impl Boost {
    /// The boosted limit, rounded down: never more than the share.
    pub(crate) fn of(&self, base: usize) -> usize {
        base + base * usize::from(self.percent) / 100
    }
}
