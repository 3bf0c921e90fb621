//! Whether a thread moved between two of its stacks.

use ax_wire::stack::{Frame, Function, ThreadStack};

use super::fold::{Owner, owned};

/// What two stacks of one stall say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// The same addresses from end to end: it waits, or goes round in a very small circle.
    None,
    /// Something moved, while this function of the service went on: the innermost one that both have.
    Within(&'a Function),
    /// They have no function of the service in common.
    Elsewhere,
}

/// Compares the stacks of one thread, the earlier one first. `None` where they cannot be compared: one of them does not
/// reach as far as the other, or they are of different stalls.
#[must_use]
pub fn progress<'a>(earlier: &ThreadStack, later: &'a ThreadStack) -> Option<Progress<'a>> {
    if earlier.stall != later.stall || earlier.tid != later.tid || earlier.end != later.end {
        return None;
    }
    let same_place = |(one, other): &(&Frame, &Frame)| {
        one.offset == other.offset
            && earlier.module_of(one).map(|module| &module.path)
                == later.module_of(other).map(|module| &module.path)
    };
    // From the thread's first function on.
    let pairs = || earlier.frames.iter().rev().zip(later.frames.iter().rev());
    let common = pairs().take_while(same_place).count();
    if common == earlier.frames.len() && common == later.frames.len() {
        return Some(Progress::None);
    }
    // By name: a function goes on though it makes another call.
    let functions = owned(earlier).rev().zip(owned(later).rev());
    let in_common = functions.take_while(|((_, before), (_, now))| before.name == now.name);
    let within = in_common
        .filter(|(_, (owner, _))| *owner == Owner::User)
        .last();
    Some(within.map_or(Progress::Elsewhere, |(_, (_, function))| {
        Progress::Within(function)
    }))
}

#[cfg(test)]
mod tests {
    use super::{super::fold::tests::stack, *};

    const SHOP: &str = "/srv/shop";

    fn in_function(name: &str, offset: u64) -> ThreadStack {
        let mut stack = stack(&[
            (SHOP, &[("std::fmt::write", "")]),
            (SHOP, &[(name, "src/db.rs")]),
            (SHOP, &[("tokio::run", "")]),
        ]);
        stack.frames[0].offset = offset;
        stack
    }

    #[test]
    fn two_stacks_tell_whether_the_thread_moves() {
        let first = in_function("shop::query", 1);
        let again = in_function("shop::query", 1);
        assert_eq!(progress(&first, &again), Some(Progress::None));
        let further = in_function("shop::query", 2);
        let moved = progress(&first, &further);
        assert!(
            matches!(moved, Some(Progress::Within(function)) if function.name == "shop::query"),
            "{moved:?}"
        );
        let other = in_function("shop::render", 2);
        let outer = |mut stack: ThreadStack| {
            let handler = in_function("shop::handler", 3).frames.remove(1);
            stack.frames.insert(2, handler);
            stack
        };
        let (one, two) = (outer(first.clone()), outer(other.clone()));
        assert!(
            matches!(progress(&one, &two), Some(Progress::Within(function)) if function.name == "shop::handler")
        );
        assert_eq!(progress(&first, &other), Some(Progress::Elsewhere));
    }

    #[test]
    fn stacks_of_two_stalls_are_not_compared() {
        let first = in_function("shop::query", 1);
        let mut later = first.clone();
        later.stall += 1;
        assert_eq!(progress(&first, &later), None);
    }
}
