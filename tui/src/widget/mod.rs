//! The two widgets that every screen is made of, and what they share.

pub mod chart;
pub mod heat;
pub mod histogram;
pub mod table;

/// Which parts fit side by side: the parts of the highest `keep` are chosen first, each taking its width and one
/// space. Parts that do not fit are left out; a less important one that is narrow enough may still come in.
pub fn fitting(parts: impl Iterator<Item = (u16, u8)>, room: u16) -> Vec<bool> {
    let parts: Vec<_> = parts.collect();
    let mut by_importance: Vec<usize> = (0..parts.len()).collect();
    by_importance.sort_by_key(|part| std::cmp::Reverse(parts[*part].1));
    let mut shown = vec![false; parts.len()];
    let mut left = room;
    for part in by_importance {
        let cost = parts[part].0 + 1;
        if cost <= left {
            left -= cost;
            shown[part] = true;
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_important_parts_are_kept() {
        let parts = [(5, 9), (10, 1), (3, 5)];
        assert_eq!(fitting(parts.into_iter(), 100), [true, true, true]);
        assert_eq!(fitting(parts.into_iter(), 12), [true, false, true]);
        assert_eq!(fitting(parts.into_iter(), 7), [true, false, false]);
        assert_eq!(fitting(parts.into_iter(), 2), [false, false, false]);
    }
}
