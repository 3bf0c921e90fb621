//! What is usual, by figures that a few wild ones do not move.

/// Fewer values than these say nothing of what is usual.
pub(crate) const FEWEST: usize = 8;

/// The median of values, and how far from it they usually lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Baseline {
    pub(crate) median: f64,
    /// Median distance from the median, scaled to be the standard deviation where values are normal.
    pub(crate) spread: f64,
}

/// What makes the median distance a standard deviation.
const MAD_TO_SIGMA: f64 = 1.4826;

impl Baseline {
    /// `None` of fewer than [`FEWEST`] values.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        if values.len() < FEWEST {
            return None;
        }
        let median = median(&mut values)?;
        for value in &mut values {
            *value = (*value - median).abs();
        }
        Some(Self {
            median,
            spread: MAD_TO_SIGMA * self::median(&mut values)?,
        })
    }

    /// Whether a value lies above what is usual: by half of it, by `least`, and by three spreads.
    pub(crate) fn is_exceeded_by(self, value: f64, least: f64) -> bool {
        let above = value - self.median;
        above > 0.5 * self.median && above > least && above > 3.0 * self.spread
    }
}

/// Of an even number of values the higher of the two in the middle. `None` of none.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let (_, median, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    Some(*median)
}

/// The median of the slopes between all pairs of points `(x, y)`: a few wild points do not turn it. `None` of fewer than
/// two. For some tens of points.
pub(crate) fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    for (at, (x, y)) in points.iter().enumerate() {
        for (later_x, later_y) in &points[at + 1..] {
            if later_x > x {
                slopes.push((later_y - y) / (later_x - x));
            }
        }
    }
    median(&mut slopes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_wild_values_move_neither_figure_by_much() {
        let mut values: Vec<f64> = (0..100).map(|i| 10.0 + f64::from(i % 5)).collect();
        let calm = Baseline::of(values.clone()).expect("enough");
        values.extend([1e9; 20]);
        let wild = Baseline::of(values).expect("enough");
        assert!(
            (calm.median - wild.median).abs() <= 1.0,
            "{calm:?} {wild:?}"
        );
        assert!(wild.spread <= 3.0, "{wild:?}");
        assert!(wild.is_exceeded_by(40.0, 1.0));
        assert!(!wild.is_exceeded_by(14.0, 1.0), "within the spread");
        assert!(!wild.is_exceeded_by(40.0, 50.0), "too little to matter");
    }

    #[test]
    fn few_values_say_nothing() {
        assert_eq!(Baseline::of(vec![1.0; FEWEST - 1]), None);
        assert_eq!(slope(&[(1.0, 1.0)]), None);
        assert_eq!(median(&mut []), None);
    }

    #[test]
    fn a_slope_follows_most_points() {
        let mut points: Vec<_> = (0..10)
            .map(|i| (f64::from(i), 3.0 * f64::from(i)))
            .collect();
        points[4].1 = 1e6;
        let slope = slope(&points).expect("points");
        assert!((slope - 3.0).abs() < 0.01, "{slope}");
    }
}
