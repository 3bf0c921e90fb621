//! What was typed, as a plan: `100..2000x8`, `5%`, `db:+500ms`.

use ax_wire::session::{Injection, Load};

use crate::cli::span;

/// More steps than this are a typing error, and would last for hours.
const MAX_STEPS: usize = 1_000;

/// Faster than this is beyond what one process can send.
const MAX_RATE: f64 = 1e6;

/// The sizes of the steps, as they were typed: rates, or connections.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps(pub Vec<f64>);

impl Steps {
    /// As rates.
    pub fn rates(&self) -> Vec<Load> {
        self.0.iter().copied().map(Load::RatePerS).collect()
    }

    /// As whole connections, each once.
    pub fn connections(&self) -> Vec<Load> {
        let mut counts: Vec<u64> = self
            .0
            .iter()
            .map(|size| size.round().max(1.0) as u64)
            .collect();
        counts.dedup();
        counts.into_iter().map(Load::Connections).collect()
    }
}

/// Where none were typed: from 100 to 1,000 a second.
pub fn default_rates() -> Vec<Load> {
    (0..6)
        .map(|at| Load::RatePerS(100.0 + 180.0 * f64::from(at)))
        .collect()
}

/// Where none were typed and the command takes connections: a thousand of them would be no first step.
pub fn default_connections() -> Vec<Load> {
    (0..7).map(|at| Load::Connections(1 << at)).collect()
}

/// `100..2000x8`: from 100 to 2000 in 8 steps; `100,200,500`: these; `300`: one.
pub fn steps(text: &str) -> Result<Steps, String> {
    let wrong = || {
        format!(
            "`{text}` is no plan of steps: say 100..2000x8 (from, to, how many), 100,200,500, or 300"
        )
    };
    let size = |part: &str| {
        let size: f64 = part.trim().parse().map_err(|_| wrong())?;
        if size > 0.0 && size <= MAX_RATE {
            Ok(size)
        } else {
            Err(format!(
                "a step of {} is not between 0 and {MAX_RATE}",
                part.trim()
            ))
        }
    };
    let sizes = match text.split_once("..") {
        Some((from, rest)) => {
            let (to, count) = rest.rsplit_once('x').ok_or_else(wrong)?;
            let (from, to) = (size(from)?, size(to)?);
            let count: usize = count.trim().parse().map_err(|_| wrong())?;
            if !(2..=MAX_STEPS).contains(&count) || from >= to {
                return Err(wrong());
            }
            let step = (to - from) / (count - 1) as f64;
            (0..count)
                .map(|at| rounded(from + step * at as f64))
                .collect()
        }
        None => text.split(',').map(size).collect::<Result<Vec<_>, _>>()?,
    };
    if sizes.len() > MAX_STEPS || !sizes.is_sorted() {
        return Err(format!(
            "steps go upwards, and there are at most {MAX_STEPS}"
        ));
    }
    Ok(Steps(sizes))
}

/// Whole numbers are easier to talk about, where there is room for them.
fn rounded(size: f64) -> f64 {
    if size >= 20.0 { size.round() } else { size }
}

/// `5%` as 0.05.
pub fn share(text: &str) -> Result<f64, String> {
    let number = text
        .strip_suffix('%')
        .and_then(|text| text.trim().parse::<f64>().ok());
    match number {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("say how much with a per cent sign: 5%".to_owned()),
    }
}

/// `db:+500ms`.
pub fn injection(text: &str) -> Result<Injection, String> {
    let wrong = || "say which downstream and how much longer each call takes: db:+500ms".to_owned();
    let (downstream, delay) = text.rsplit_once(":+").ok_or_else(wrong)?;
    let delay = span::parse(delay)?;
    if downstream.is_empty() {
        return Err(wrong());
    }
    Ok(Injection {
        downstream: downstream.to_owned(),
        delay_ns: delay.as_nanos() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_a_range_a_list_or_one() {
        assert_eq!(steps("100..2000x8").map(|steps| steps.0.len()), Ok(8));
        assert_eq!(steps("100..300x3"), Ok(Steps(vec![100.0, 200.0, 300.0])));
        assert_eq!(steps("1..2x3"), Ok(Steps(vec![1.0, 1.5, 2.0])));
        assert_eq!(steps("5, 10,20"), Ok(Steps(vec![5.0, 10.0, 20.0])));
        assert_eq!(steps("300"), Ok(Steps(vec![300.0])));
        let connections = steps("1..3x5").map(|steps| steps.connections());
        assert_eq!(connections, Ok([1, 2, 3].map(Load::Connections).to_vec()));
        for wrong in [
            "",
            "x",
            "100..50x3",
            "100..200",
            "1..2x1",
            "0",
            "-5",
            "1e9",
            "20,10",
            "1..2x9999",
            "nan",
            "inf",
        ] {
            assert!(steps(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn shares_and_delays_carry_their_unit() {
        assert_eq!(share("5%"), Ok(0.05));
        assert!(share("5").is_err() && share("101%").is_err() && share("%").is_err());
        assert_eq!(
            steps("100..1000x6").map(|steps| steps.rates()),
            Ok(default_rates())
        );
        assert_eq!(default_connections().last(), Some(&Load::Connections(64)));
        let delay = injection("my:db:+500ms").expect("parses");
        assert_eq!(
            (delay.downstream.as_str(), delay.delay_ns),
            ("my:db", 500_000_000)
        );
        assert!(
            injection("db:500ms").is_err()
                && injection(":+5s").is_err()
                && injection("db:+5").is_err()
        );
    }
}
