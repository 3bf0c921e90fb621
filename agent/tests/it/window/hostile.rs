//! Text and numbers that no probe sends.

use ax_agent::{
    CleanSample,
    history::ServiceHistory,
    view::{Extras, view},
    window::Tallies,
};
use ax_wire::{
    InstanceId,
    event::{Event, Events, StallKind},
    sample::{JobCounters, Sample},
    view::Quantiles,
};
use proptest::prelude::*;

use super::{at, busy, feed, history, seen, stalls::stall};
use crate::common::{done, hello, job_type, lag_point, lane, sample};

#[test]
fn text_of_a_service_cannot_reach_the_terminal() {
    let mut history = history();
    let mut rude = busy(1, 1, 1);
    rude.types[0].name = "\u{1b}]0;owned\u{7}".into();
    rude.types[0].place = Some("a\nb".into());
    rude.lanes[0].name = "x".repeat(5_000);
    rude.runtimes[0].info.name = Some("\u{9b}2J".into());
    rude.runtimes[0].workers[0]
        .thread
        .as_mut()
        .expect("has one")
        .state = Some('\u{1b}');
    feed(&mut history, rude);
    let view = seen(&history, 1);
    assert_eq!(view.types[0].name, "\u{FFFD}]0;owned\u{FFFD}");
    assert_eq!(view.types[0].place.as_deref(), Some("a\u{FFFD}b"));
    assert!(view.lanes[0].name.chars().count() <= 201);
    assert_eq!(view.runtimes[0].info.name.as_deref(), Some("\u{FFFD}2J"));
    assert_eq!(
        view.runtimes[0].workers[0].thread.expect("kept").state,
        None
    );
}

proptest! {
    #[test]
    fn no_counters_make_a_rate_negative_infinite_or_a_panic(
        steps in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()), 1..12)
    ) {
        let mut history = ServiceHistory::new(
            ax_wire::hello::Hello { instance: InstanceId::new_now(), ..hello("wild") },
            0,
            at(0),
        );
            for (at_mono_ns, a, b, c) in steps {
            let counters = JobCounters {
                submitted_total: a,
                succeeded_total: b,
                failed_total: c,
                cancelled_total: a,
                rejected_total: b,
                ..JobCounters::default()
            };
            let mut wild = Sample {
                lanes: vec![lane("api", counters)],
                types: vec![job_type("t", "api", counters, &[a, b, c])],
                lag: vec![lag_point(a, b)],
                ..sample(1)
            };
            wild.at_mono_ns = at_mono_ns;
            wild.interval_ns = c;
            wild.lanes[0].running = a;
            wild.lanes[0].limit = b;
            wild.process.cpu_ns_total = Some(c);
            wild.runtimes[0].workers[0].busy_ns_total = a;
            let began = stall(a, StallKind::Stall, b, c);
            history.events(Events { events: vec![Event::StallBegan(began)] }, at(1));
            // Out of order is one of the wild things, and refused.
            let _ = history.sample(CleanSample::from(wild), at(1));
            let view = view(history.window(), at(2), Extras::default(), &mut Tallies::default());
            for lane in &view.lanes {
                for rate in [lane.rates.submitted_per_s, lane.rates.finished_per_s].into_iter().flatten() {
                    prop_assert!(rate.is_finite() && rate >= 0.0, "{rate}");
                }
                prop_assert!(lane.run.p50_ns <= lane.run.max_ns);
            }
            let used = view.process.cpus_used.unwrap_or(0.0);
            prop_assert!(used.is_finite() && used >= 0.0, "{used}");
            for share in view.point.iter().flat_map(|p| &p.busy_shares).flatten() {
                prop_assert!((0.0..=1.0).contains(share), "{share}");
            }
        }
    }

    #[test]
    fn window_quantiles_are_those_of_all_recordings(
        seconds in prop::collection::vec(prop::collection::vec(1_000..5_000_000_000_u64, 0..20), 1..45)
    ) {
        let mut history = history();
        let mut all = ax_wire::LatencyHistogram::new();
        for (index, runs) in seconds.iter().enumerate() {
            for ns in runs {
                all.record_ns(*ns);
            }
            let second = index as u64 + 1;
            feed(&mut history, Sample {
                types: vec![job_type("t", "api", done(second), runs)],
                ..sample(second)
            });
        }
        let expected = Quantiles {
            count: all.count(),
            p50_ns: all.quantile_ns(0.5),
            p90_ns: all.quantile_ns(0.9),
            p99_ns: all.quantile_ns(0.99),
            max_ns: all.max_ns(),
        };
        prop_assert_eq!(seen(&history, 60).types[0].run, expected);
    }
}
