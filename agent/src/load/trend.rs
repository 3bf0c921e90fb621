//! Whether something grows.

use serde::Serialize;

/// The straight line through a queue's length over time, by least squares.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Slope {
    /// How much it grows a second.
    pub per_s: f64,
    /// The standard error of that.
    pub error_per_s: f64,
    /// The standard deviation of what is left beside the line.
    pub residual: f64,
    /// The span that it covers.
    pub span_s: f64,
}

impl Slope {
    /// Through points of seconds and lengths. `None` for fewer than three points, or for no span of time.
    #[must_use]
    pub fn of(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        if points.len() < 3 {
            return None;
        }
        let mean_t = points.iter().map(|(t, _)| t).sum::<f64>() / count;
        let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
        let spread: f64 = points.iter().map(|(t, _)| (t - mean_t).powi(2)).sum();
        if spread <= 0.0 {
            return None;
        }
        let together: f64 = points
            .iter()
            .map(|(t, y)| (t - mean_t) * (y - mean_y))
            .sum();
        let per_s = together / spread;
        let left: f64 = points
            .iter()
            .map(|(t, y)| (y - mean_y - per_s * (t - mean_t)).powi(2))
            .sum();
        let variance = left / (count - 2.0);
        let (first, last) = (points.first()?.0, points.last()?.0);
        Some(Self {
            per_s,
            error_per_s: (variance / spread).sqrt(),
            residual: variance.sqrt(),
            span_s: (last - first).abs(),
        })
    }

    /// Whether the queue grows, told from noise: by more than half a per cent of what comes (`per_s` of it), by more than
    /// twice its error, and over the whole span by more than three times what it moves up and down. A queue that is at
    /// rest has a slope above zero half of the time, so that zero itself is no threshold.
    #[must_use]
    pub fn grows(&self, offered_per_s: f64) -> bool {
        self.per_s > 0.005 * offered_per_s
            && self.per_s > 2.0 * self.error_per_s
            && self.per_s * self.span_s > (3.0 * self.residual).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_noise_is_not_growth() {
        let line: Vec<_> = (0..20)
            .map(|n| (f64::from(n) / 10.0, 5.0 + 3.0 * f64::from(n)))
            .collect();
        let slope = Slope::of(&line).expect("has points");
        assert!((slope.per_s - 30.0).abs() < 1e-9 && slope.error_per_s < 1e-9);
        assert!(slope.grows(1_000.0));
        assert!(!slope.grows(10_000.0), "0.3 % of the load is nothing");
        let wobble: Vec<_> = (0..20)
            .map(|n| {
                (
                    f64::from(n) / 10.0,
                    f64::from(n * 7 % 5) + f64::from(n) * 0.2,
                )
            })
            .collect();
        assert!(!Slope::of(&wobble).expect("has points").grows(100.0));
        assert_eq!(Slope::of(&line[..2]), None);
        assert_eq!(Slope::of(&[(1.0, 1.0); 5]), None);
    }
}
