//! Whether a step was good.

use ax_wire::session::{Limits, Session, Step};
use serde::Serialize;

use super::{StepFigures, Throughput};

/// Less of the schedule sent than this, and the step says nothing of the service.
const SENT_SHARE: f64 = 0.98;

/// Sent so late at the 99th percentile, and it says nothing either.
const SEND_ERROR_NS: u64 = 50_000_000;

/// Where more than this share of the offered load may be chance, whether it was achieved cannot be told.
pub(super) const MOST_NOISE_SHARE: f64 = 0.25;

/// One step with what is made of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// Its figures.
    #[serde(flatten)]
    pub figures: StepFigures,
    /// What is made of them.
    pub judgement: Judgement,
}

/// What is made of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// The service bore the load.
    Good,
    /// It did not.
    Bad(Vec<Reason>),
    /// The step does not tell, and why.
    Unsure(String),
}

/// Why a step was bad.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Less was achieved than the share of the offered load that must be.
    Achieved {
        /// The share that was.
        share: f64,
        /// The share that must be.
        least: f64,
    },
    /// Latency is over its limit.
    P99 {
        /// What it is.
        ns: u64,
        /// What it may be.
        most_ns: u64,
    },
    /// Event-loop lag is over its limit.
    LagP99 {
        /// What it is.
        ns: u64,
        /// What it may be.
        most_ns: u64,
    },
    /// Too much fails.
    Errors {
        /// The share that does.
        share: f64,
        /// The share that may.
        most: f64,
    },
    /// Jobs pile up in the lanes.
    PendingGrows {
        /// So many a second.
        per_s: f64,
    },
    /// Requests pile up on the way.
    InFlightGrows {
        /// So many a second.
        per_s: f64,
    },
}

impl Judged {
    /// Whether it was good.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.judgement == Judgement::Good
    }

    /// Whether it was bad.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        matches!(self.judgement, Judgement::Bad(_))
    }

    /// Whether more was offered than the service can do: bad for failures or latency alone says nothing of that.
    #[must_use]
    pub fn is_overloaded(&self) -> bool {
        let Judgement::Bad(reasons) = &self.judgement else {
            return false;
        };
        let failing = reasons
            .iter()
            .any(|reason| matches!(reason, Reason::Errors { share, .. } if *share > 0.5));
        !failing
            && reasons.iter().any(|reason| {
                matches!(
                    reason,
                    Reason::Achieved { .. }
                        | Reason::PendingGrows { .. }
                        | Reason::InFlightGrows { .. }
                )
            })
    }
}

/// Judges every step of a session, in the order of time.
#[must_use]
pub fn judge(session: &Session, throughput: &Throughput) -> Vec<Judged> {
    let steps = session.steps.iter();
    steps
        .map(|step| {
            let figures = StepFigures::of(step, throughput);
            let sent = step
                .client
                .as_ref()
                .map(|client| (client.sent_total, client.scheduled_total));
            let judgement = match cut_short(step, session) {
                Some(why) => Judgement::Unsure(why.to_owned()),
                None => one(&figures, sent, &session.plan.limits),
            };
            Judged { figures, judgement }
        })
        .collect()
}

/// Why a step did not last as long as it was to, where that is so.
fn cut_short(step: &Step, session: &Session) -> Option<&'static str> {
    if let Some(run) = &step.command {
        return (run.exit_code != Some(0)).then_some("the command was ended or failed in it");
    }
    let lasted_ns = step.ended_unix_ns.saturating_sub(step.began_unix_ns);
    // The run-in is at most a tenth of what was planned.
    let cut = step.client.is_some() && (lasted_ns as f64) < session.plan.step_ns as f64 * 0.75;
    cut.then_some("it was cut short")
}

fn one(figures: &StepFigures, sent: Option<(u64, u64)>, limits: &Limits) -> Judgement {
    let Some(achieved) = figures.achieved_per_s else {
        return Judgement::Unsure(
            "nothing was counted in it: no sample of the service lies in it".to_owned(),
        );
    };
    let noise = figures.noise_per_s.unwrap_or(0.0);
    // The own generator knows what came of each request; of a wrapped command only the service tells.
    let by_service = sent.is_none();
    if by_service && achieved <= noise {
        return Judgement::Unsure(
            "no more ended in it than without the load: does it reach this service?".to_owned(),
        );
    }
    let mut reasons = Vec::new();
    let mut drowned = false;
    if let Some(offered) = figures.offered_per_s.filter(|offered| *offered > 0.0) {
        let share = achieved / offered;
        let least = limits.achieved_share;
        if share < least && offered - achieved > noise {
            reasons.push(Reason::Achieved { share, least });
        }
        drowned = by_service && noise > MOST_NOISE_SHARE * offered;
        // What waits for an answer before it sends again cannot pile up.
        let open = !matches!(figures.load, ax_wire::session::Load::Connections(_));
        let growing =
            |slope: Option<super::Slope>| slope.filter(|slope| open && slope.grows(offered));
        if let Some(slope) = growing(figures.pending_slope) {
            reasons.push(Reason::PendingGrows { per_s: slope.per_s });
        } else if let Some(slope) = growing(figures.in_flight_slope) {
            reasons.push(Reason::InFlightGrows { per_s: slope.per_s });
        }
    }
    if let Some((ns, most_ns)) = figures
        .p99_ns
        .zip(limits.p99_ns)
        .filter(|(ns, most)| ns > most)
    {
        reasons.push(Reason::P99 { ns, most_ns });
    }
    let lag = figures.lag_p99_ns.zip(limits.lag_p99_ns);
    if let Some((ns, most_ns)) = lag.filter(|(ns, most)| ns > most) {
        reasons.push(Reason::LagP99 { ns, most_ns });
    }
    let errors = figures.error_share.zip(limits.error_share);
    if let Some((share, most)) = errors.filter(|(share, most)| share > most) {
        reasons.push(Reason::Errors { share, most });
    }
    // A generator that fell behind has offered less than it says: what the step then shows is the generator.
    let dropped = figures.dropped_share.unwrap_or(0.0);
    let sent_late = figures
        .send_error_p99_ns
        .is_some_and(|late| late > SEND_ERROR_NS);
    let sent_little = sent.is_some_and(|(sent, scheduled)| {
        (sent as f64) < SENT_SHARE * scheduled as f64 * (1.0 - dropped)
    });
    match (reasons.is_empty(), sent_late || sent_little) {
        (true, false) if drowned => Judgement::Unsure(
            "the service's other traffic moves too much to tell whether this was achieved"
                .to_owned(),
        ),
        (true, false) => Judgement::Good,
        (false, false) => Judgement::Bad(reasons),
        (_, true) => Judgement::Unsure(
            "the generator could not keep to its schedule, so this says nothing of the service"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use ax_wire::session::Load;

    use super::*;
    use crate::load::made;

    fn judged(session: &Session) -> Vec<Judgement> {
        let steps = judge(session, &Throughput::of(session));
        steps.into_iter().map(|step| step.judgement).collect()
    }

    /// F20 to F22, F83: each way of being bad is told by its own figure.
    #[test]
    fn each_reason_is_told() {
        let mut session = made::session(&[500.0], 1_000.0);
        assert_eq!(judged(&session), [Judgement::Good]);
        session.plan.limits.lag_p99_ns = Some(1_000);
        session.plan.limits.p99_ns = Some(1_000_000);
        assert!(matches!(&judged(&session)[0], Judgement::Bad(reasons)
            if matches!(reasons[..], [Reason::P99 { .. }, Reason::LagP99 { .. }])));
        let over = made::session(&[1_030.0, 1_500.0], 1_000.0);
        let judged_over = judged(&over);
        assert!(
            matches!(&judged_over[0], Judgement::Bad(reasons)
            if matches!(reasons[..], [Reason::PendingGrows { .. }])),
            "{judged_over:?}"
        );
        assert!(matches!(&judged_over[1], Judgement::Bad(reasons)
            if matches!(reasons[..], [Reason::Achieved { .. }, Reason::PendingGrows { .. }])));
    }

    #[test]
    fn a_generator_that_falls_behind_judges_nobody() {
        let mut session = made::session(&[1_500.0], 1_000.0);
        let client = session.steps[0].client.as_mut().expect("has one");
        client.sent_total /= 2;
        assert!(matches!(&judged(&session)[0], Judgement::Unsure(_)));
    }

    #[test]
    fn a_step_in_which_the_session_ended_is_not_judged() {
        let mut session = made::session(&[1_500.0], 1_000.0);
        session.steps[0].ended_unix_ns -= 4_000_000_000;
        assert!(matches!(&judged(&session)[0], Judgement::Unsure(why) if why.contains("cut")));
    }

    /// What is dropped on purpose, since the service holds too much, is the service's doing.
    #[test]
    fn what_is_dropped_counts_against_the_service() {
        let mut session = made::session(&[1_500.0], 1_000.0);
        let client = session.steps[0].client.as_mut().expect("has one");
        client.dropped_total = client.scheduled_total / 2;
        client.sent_total -= client.dropped_total;
        assert!(matches!(&judged(&session)[0], Judgement::Bad(_)));
    }

    /// Eighteen requests of which one is still under way are no overload.
    #[test]
    fn what_is_under_way_at_the_end_of_a_short_step_is_not_missing() {
        let mut session = made::session(&[2.0], 1_000.0);
        let client = session.steps[0].client.as_mut().expect("has one");
        (client.achieved_total, client.mean_in_flight) = (18, 2.0);
        assert_eq!(judged(&session), [Judgement::Good]);
        let client = session.steps[0].client.as_mut().expect("has one");
        client.achieved_total = 14;
        assert!(matches!(&judged(&session)[0], Judgement::Bad(_)));
    }

    /// A service with a hundred other requests a second: what a wrapped command adds is told from them, or said not to be.
    #[test]
    fn other_traffic_is_neither_achieved_nor_missing() {
        let wrapped = |loads: &[(Load, f64)]| {
            let session = made::wrapped(loads, 100.0);
            judge(&session, &Throughput::of(&session))
        };
        let steps = wrapped(&[
            (Load::Connections(2), 46.0),
            (Load::Connections(4), 91.0),
            (Load::Connections(16), 380.0),
            (Load::Connections(64), 600.0),
        ]);
        let words: Vec<_> = steps.iter().map(|step| &step.judgement).collect();
        assert!(
            !steps[0].is_bad() && steps[1].is_good() && steps[2].is_good() && steps[3].is_bad(),
            "{words:?}"
        );
        let near = |step: &Judged, per_s: f64| {
            let achieved = step.figures.achieved_per_s.expect("is known");
            (achieved - per_s).abs() < 10.0
        };
        assert!(near(&steps[1], 91.0) && near(&steps[2], 380.0), "{steps:?}");

        let drowned = wrapped(&[(Load::RatePerS(20.0), 20.0)]);
        assert!(
            matches!(&drowned[0].judgement, Judgement::Unsure(why) if why.contains("moves too much")),
            "{drowned:?}"
        );
        let elsewhere = wrapped(&[(Load::RatePerS(500.0), 0.0), (Load::Unknown, 0.0)]);
        for step in elsewhere {
            assert!(
                matches!(&step.judgement, Judgement::Unsure(why) if why.contains("reach")),
                "{step:?}"
            );
        }
    }

    #[test]
    fn a_command_that_was_ended_judges_nobody() {
        let mut session = made::wrapped(&[(Load::RatePerS(500.0), 500.0)], 0.0);
        assert_eq!(judged(&session), [Judgement::Good]);
        let run = session.steps[0].command.as_mut().expect("has one");
        (run.exit_code, run.signal) = (None, Some(15));
        assert!(matches!(&judged(&session)[0], Judgement::Unsure(why) if why.contains("ended")));
    }
}
