//! A second opinion on the knee, from the shape of the curve alone: the Kneedle rule of Satopää, Albrecht, Irwin and
//! Raghavan (2011), for a curve that rises and bends down.

/// How far the curve must fall back before a bend counts, in mean distances of the points.
const SENSITIVITY: f64 = 1.0;

/// Less of a bend than this is none: the curve is a straight line but for noise.
const LEAST_BEND: f64 = 0.05;

/// Where a curve of (offered, achieved) bends: the abscissa of its knee. `None` for fewer than four points, or where it
/// does not bend.
///
/// ```
/// let curve = [100.0, 200.0, 300.0, 400.0, 500.0, 600.0];
/// let curve = curve.map(|offered: f64| (offered, offered.min(300.0)));
/// assert_eq!(ax_agent::load::kneedle(&curve), Some(300.0));
/// ```
#[must_use]
pub fn kneedle(curve: &[(f64, f64)]) -> Option<f64> {
    let mut points = curve.to_vec();
    points.retain(|(x, y)| x.is_finite() && y.is_finite());
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    // The mean of several tries of one load.
    let mut merged: Vec<(f64, f64, f64)> = Vec::new();
    for (x, y) in points {
        match merged.last_mut() {
            Some((known, sum, count)) if known.total_cmp(&x).is_eq() => {
                *sum += y;
                *count += 1.0;
            }
            _ => merged.push((x, y, 1.0)),
        }
    }
    let points: Vec<_> = merged
        .iter()
        .map(|(x, sum, count)| (*x, sum / count))
        .collect();
    let (first, last) = (points.first()?, points.last()?);
    let lowest = points.iter().map(|(_, y)| *y).fold(f64::INFINITY, f64::min);
    let highest = points
        .iter()
        .map(|(_, y)| *y)
        .fold(f64::NEG_INFINITY, f64::max);
    if points.len() < 4 || highest <= lowest {
        return None;
    }
    let above: Vec<f64> = points
        .iter()
        .map(|(x, y)| {
            let x = (x - first.0) / (last.0 - first.0);
            (y - lowest) / (highest - lowest) - x
        })
        .collect();
    let step = 1.0 / (points.len() - 1) as f64;
    let peak = (1..points.len() - 1)
        .filter(|at| above[*at] >= above[at - 1] && above[*at] >= above[at + 1])
        .max_by(|a, b| above[*a].total_cmp(&above[*b]))?;
    let threshold = above[peak] - SENSITIVITY * step;
    let falls = above[peak + 1..].iter().any(|height| *height < threshold);
    (falls && above[peak] > LEAST_BEND).then_some(points[peak].0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straight_line_and_too_few_points_have_no_knee() {
        let line: Vec<_> = (1..10).map(|n| (f64::from(n), f64::from(n))).collect();
        assert_eq!(kneedle(&line), None);
        assert_eq!(kneedle(&[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)]), None);
        assert_eq!(kneedle(&[]), None);
        assert_eq!(kneedle(&[(1.0, f64::NAN); 9]), None);
    }

    /// The knee of the curve that the paper itself uses as an example.
    #[test]
    fn the_papers_own_curve() {
        let curve: Vec<_> = (0..10)
            .map(|n| f64::from(n) / 9.0)
            .map(|x| (x, -1.0 / (x + 0.1) + 5.0))
            .collect();
        let knee = kneedle(&curve).expect("bends");
        assert!((knee - 0.222).abs() < 0.01, "{knee}");
    }

    #[test]
    fn several_tries_of_one_load_are_one_point() {
        let curve = [
            (1.0, 1.0),
            (2.0, 2.0),
            (2.0, 2.2),
            (3.0, 3.0),
            (4.0, 3.0),
            (5.0, 3.0),
            (6.0, 3.1),
        ];
        assert_eq!(kneedle(&curve), Some(3.0));
    }
}
