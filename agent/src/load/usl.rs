//! The universal scalability law: throughput as a function of how many requests are under way,
//! `X(N) = l N / (1 + s (N - 1) + k N (N - 1))`.

use serde::Serialize;

/// The law that fits a session best, and how well.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Usl {
    /// `l`: throughput of one request at a time, per second.
    pub lambda_per_s: f64,
    /// `s`: the share of the work that is done one after the other.
    pub sigma: f64,
    /// `k`: what each pair costs to agree.
    pub kappa: f64,
    /// The root mean square of the relative errors of throughput. Above some 0.1 the law does not describe the service: a
    /// limit, such as a lane's, is a corner and no curve.
    pub error: f64,
    /// Requests under way at which throughput is highest. `None`: it goes on rising towards its ceiling.
    pub best_concurrency: Option<f64>,
    /// The throughput there, or the ceiling. `None`: there is none.
    pub most_per_s: Option<f64>,
}

impl Usl {
    /// What the law says for so many under way.
    #[must_use]
    pub fn per_s(&self, concurrency: f64) -> f64 {
        let others = concurrency - 1.0;
        self.lambda_per_s * concurrency
            / (1.0 + self.sigma * others + self.kappa * concurrency * others)
    }
}

/// Fits the law to points of (under way, achieved per second), by least squares of the relative error of `N / X`, which is
/// linear in what is looked for. No coefficient is below zero. `None` for fewer than four points, or where they all lie
/// at one concurrency.
#[must_use]
pub fn usl(points: &[(f64, f64)]) -> Option<Usl> {
    let usable: Vec<_> = points
        .iter()
        .copied()
        .filter(|(n, x)| n.is_finite() && x.is_finite() && *n > 0.0 && *x > 0.0)
        .collect();
    if usable.len() < 4 {
        return None;
    }
    // Each subset of the three terms: the best one without a negative coefficient.
    let mut best: Option<Usl> = None;
    for terms in 1..8_u8 {
        let Some([a, b, c]) = fitted(&usable, terms) else {
            continue;
        };
        if a <= 0.0 || b < 0.0 || c < 0.0 {
            continue;
        }
        let law = law(a, b, c, &usable);
        if law.error.is_finite() && best.is_none_or(|best| law.error < best.error) {
            best = Some(law);
        }
    }
    best
}

fn law(a: f64, b: f64, c: f64, points: &[(f64, f64)]) -> Usl {
    let (sigma, kappa) = (b / a, c / a);
    let mut law = Usl {
        lambda_per_s: 1.0 / a,
        sigma,
        kappa,
        error: 0.0,
        best_concurrency: None,
        most_per_s: None,
    };
    if kappa > 0.0 && sigma < 1.0 {
        let best = ((1.0 - sigma) / kappa).sqrt().max(1.0);
        law.best_concurrency = Some(best);
        law.most_per_s = Some(law.per_s(best));
    } else if sigma > 0.0 {
        law.most_per_s = Some(law.lambda_per_s / sigma);
    }
    let squares = points
        .iter()
        .map(|(n, x)| (law.per_s(*n) / x - 1.0).powi(2));
    law.error = (squares.sum::<f64>() / points.len() as f64).sqrt();
    law
}

/// `N / X = a + b (N - 1) + c N (N - 1)` with the terms whose bits are set, weighted by `X / N`. The first is always
/// wanted.
fn fitted(points: &[(f64, f64)], terms: u8) -> Option<[f64; 3]> {
    let used: Vec<usize> = (0..3).filter(|term| terms & (1 << term) != 0).collect();
    if used.first() != Some(&0) {
        return None;
    }
    let size = used.len();
    let mut rows = [[0.0_f64; 4]; 3];
    for (n, x) in points {
        let weight = x / n;
        let all = [1.0, n - 1.0, n * (n - 1.0)].map(|term| term * weight);
        for (row, i) in used.iter().enumerate() {
            for (column, j) in used.iter().enumerate() {
                rows[row][column] += all[*i] * all[*j];
            }
            rows[row][3] += all[*i];
        }
    }
    let solved = solved(&mut rows, size)?;
    let mut found = [0.0; 3];
    for (position, term) in used.into_iter().enumerate() {
        found[term] = solved[position];
    }
    Some(found)
}

/// The solution of `size` equations, right sides in the last column, by elimination with the largest pivot.
fn solved(rows: &mut [[f64; 4]; 3], size: usize) -> Option<[f64; 3]> {
    for at in 0..size {
        let pivot = (at..size).max_by(|a, b| rows[*a][at].abs().total_cmp(&rows[*b][at].abs()))?;
        rows.swap(at, pivot);
        let lead = rows[at];
        if lead[at].abs() < 1e-300 {
            return None;
        }
        for (position, row) in rows.iter_mut().enumerate().take(size) {
            if position != at {
                let factor = row[at] / lead[at];
                for (cell, of_lead) in row.iter_mut().zip(lead) {
                    *cell -= factor * of_lead;
                }
            }
        }
    }
    let mut solution = [0.0; 3];
    for at in 0..size {
        solution[at] = rows[at][3] / rows[at][at];
    }
    solution.iter().all(|x| x.is_finite()).then_some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(lambda: f64, sigma: f64, kappa: f64) -> Vec<(f64, f64)> {
        let law = Usl {
            lambda_per_s: lambda,
            sigma,
            kappa,
            error: 0.0,
            best_concurrency: None,
            most_per_s: None,
        };
        [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
            .map(|n| (n, law.per_s(n)))
            .to_vec()
    }

    #[test]
    fn a_curve_of_the_law_gives_its_coefficients_back() {
        for (lambda, sigma, kappa) in [
            (995.0, 0.03, 0.0001),
            (50.0, 0.2, 0.0),
            (1_000.0, 0.0, 0.0),
            (400.0, 0.0, 0.002),
        ] {
            let found = usl(&curve(lambda, sigma, kappa)).expect("fits");
            assert!(found.error < 1e-6, "{found:?}");
            assert!(
                (found.lambda_per_s / lambda - 1.0).abs() < 1e-3,
                "{found:?}"
            );
            assert!(
                (found.sigma - sigma).abs() < 1e-4 && (found.kappa - kappa).abs() < 1e-5,
                "{found:?}"
            );
        }
        let most = usl(&curve(995.0, 0.03, 0.0001)).expect("fits");
        assert!((most.best_concurrency.expect("peaks") - 98.5).abs() < 0.1);
    }

    /// A lane's limit is a corner, and the law says how badly it fits it.
    #[test]
    fn a_corner_fits_badly_and_few_points_not_at_all() {
        let corner = [5.0, 10.0, 15.0, 20.0, 60.0, 200.0].map(|n: f64| (n, n.min(20.0) * 50.0));
        assert!(usl(&corner).expect("fits somehow").error > 0.05);
        assert_eq!(usl(&corner[..3]), None);
        assert_eq!(
            usl(&[(0.0, 1.0), (f64::NAN, 2.0), (3.0, 0.0), (4.0, 1.0)]),
            None
        );
    }
}
