//! Thresholds that end a session: `lag_p99>1s`, `p99>2s`, `errors>20%`, `pending>10000`.

use std::{fmt, time::Duration};

use ax_wire::{LatencyHistogram, session::ServiceSecond};

use super::plan;
use crate::{cli::span, format::duration};

/// How many of the newest samples are looked at: one alone may be a hiccup of the machine, and who waits for ten lets a
/// service suffer.
pub const SAMPLES: usize = 3;

/// One threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct Abort {
    /// As it was typed.
    pub text: String,
    over: Over,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Over {
    LagP99(Duration),
    P99(Duration),
    Errors(f64),
    Pending(u64),
}

/// What is known of the last moments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recent<'a> {
    /// The newest samples of the service.
    pub service: &'a [ServiceSecond],
    /// Of the generator, since the last look: answers and errors.
    pub answers: u64,
    pub errors: u64,
    /// Latency that the generator saw in the last moments. `None`: a wrapped command makes the load.
    pub latency: Option<&'a LatencyHistogram>,
}

impl Abort {
    /// Reads one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no threshold: say lag_p99>1s, p99>500ms, errors>20% or pending>10000"
            )
        };
        let (metric, value) = text.split_once('>').ok_or_else(wrong)?;
        let value = value.trim();
        let over = match metric.trim() {
            "lag_p99" => Over::LagP99(span::parse(value)?),
            "p99" => Over::P99(span::parse(value)?),
            "errors" => Over::Errors(plan::share(value)?),
            "pending" => Over::Pending(value.parse().map_err(|_| wrong())?),
            _ => return Err(wrong()),
        };
        Ok(Self {
            text: text.to_owned(),
            over,
        })
    }

    /// Whether it can break only where a service is watched.
    pub fn needs_service(&self) -> bool {
        matches!(self.over, Over::LagP99(_) | Over::Pending(_))
    }

    /// What broke it, for a person. `None`: nothing did.
    pub fn broken(&self, recent: Recent<'_>) -> Option<String> {
        let samples = &recent.service[recent.service.len().saturating_sub(SAMPLES)..];
        let over = |ns: Option<u64>, most: Duration| {
            let ns = ns.filter(|ns| u128::from(*ns) > most.as_nanos())?;
            Some(duration(ns))
        };
        let found = match self.over {
            Over::LagP99(most) => {
                let mut lags: Vec<u64> = samples
                    .iter()
                    .flat_map(|second| second.lag_ns.iter().copied())
                    .collect();
                lags.sort_unstable();
                over(
                    lags.get((lags.len() * 99).div_ceil(100).max(1) - 1)
                        .copied(),
                    most,
                )
            }
            Over::P99(most) => {
                let of_service = || {
                    let mut latency = LatencyHistogram::new();
                    let requests = samples.iter().filter_map(|second| second.requests.as_ref());
                    requests.for_each(|own| latency.merge(own));
                    latency
                };
                let latency = recent.latency.map_or_else(of_service, Clone::clone);
                over(latency.quantile_ns(0.99), most)
            }
            Over::Errors(most) => {
                let all = recent.answers + recent.errors;
                let share = recent.errors as f64 / all.max(1) as f64;
                (all > 0 && share > most).then(|| format!("{:.0} %", share * 100.0))
            }
            Over::Pending(most) => {
                let last = samples.last()?;
                let pending: u64 = last.lanes.iter().map(|lane| lane.pending).sum();
                (pending > most).then(|| pending.to_string())
            }
        };
        found.map(|found| format!("{self}: it is {found}"))
    }
}

impl fmt::Display for Abort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use ax_wire::session::LaneSecond;

    use super::*;

    fn second(lag_ns: u64, pending: u64) -> ServiceSecond {
        let mut requests = LatencyHistogram::new();
        requests.record_ns(600_000_000);
        ServiceSecond {
            lag_ns: vec![lag_ns; 10],
            requests: Some(requests),
            lanes: vec![LaneSecond {
                pending,
                ..LaneSecond::default()
            }],
            ..ServiceSecond::default()
        }
    }

    #[test]
    fn each_threshold_looks_at_its_own_figure() {
        let calm = [second(1_000, 3)];
        let bad = [second(1_000, 3), second(2_000_000_000, 20_000)];
        let broken = |text: &str, service: &[ServiceSecond], errors: u64| {
            let recent = Recent {
                service,
                answers: 70,
                errors,
                latency: None,
            };
            Abort::parse(text).expect("parses").broken(recent)
        };
        for (text, broken_by_bad) in [
            ("lag_p99>1s", true),
            ("pending>10000", true),
            ("p99>1s", false),
        ] {
            assert_eq!(broken(text, &calm, 0), None, "{text}");
            assert_eq!(broken(text, &bad, 0).is_some(), broken_by_bad, "{text}");
        }
        assert_eq!(
            broken("p99>500ms", &calm, 0).as_deref(),
            Some("p99>500ms: it is 600 ms")
        );
        assert_eq!(
            broken("errors>20%", &calm, 30).as_deref(),
            Some("errors>20%: it is 30 %")
        );
        assert_eq!(broken("errors>20%", &[], 10), None);
        // What the generator saw counts, and not what the service thinks.
        let mut latency = LatencyHistogram::new();
        latency.record_ns(2_000_000_000);
        let recent = Recent {
            latency: Some(&latency),
            ..Recent::default()
        };
        let said = Abort::parse("p99>1s").expect("parses").broken(recent);
        assert_eq!(said.as_deref(), Some("p99>1s: it is 2.0 s"));
        for wrong in ["", "lag", "lag_p99>1", "cpu>1", "errors>1", "pending>x"] {
            assert!(Abort::parse(wrong).is_err(), "{wrong}");
        }
    }
}
