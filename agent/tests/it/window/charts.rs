//! Charts from before a viewer came.

use ax_agent::view::backfill;
use ax_wire::view::Point;

use super::{feed, history};
use crate::common::{EPOCH_UNIX_NS, SECOND, sample};

#[test]
fn charts_of_an_earlier_agent_come_before_its_own() {
    let mut history = history();
    let mut earlier = self::history();
    for second in 1..=5 {
        feed(&mut earlier, sample(second));
    }
    history.recall(backfill(earlier.window()).points);
    assert_eq!(backfill(history.window()).points.len(), 5);
    for second in [4, 5, 6] {
        feed(&mut history, sample(second));
    }
    let points = backfill(history.window()).points;
    let seconds = |unix_ns: u64| (unix_ns - EPOCH_UNIX_NS) / SECOND;
    let shown: Vec<_> = points
        .iter()
        .map(|point| seconds(point.at_unix_ns))
        .collect();
    assert_eq!(shown, [1, 2, 3, 4, 5, 6], "its own where both know");
    // The service was there while no agent was, and knows that time better.
    let own = points[2..4].iter().cloned().map(|point| Point {
        running: 99,
        ..point
    });
    history.recall(own.collect());
    let points = backfill(history.window()).points.into_iter();
    let told_by_it: Vec<_> = points.map(|point| point.running == 99).collect();
    assert_eq!(told_by_it, [false, false, true, false, false, false]);
    feed(&mut history, sample(15 * 60 + 3));
    let first = backfill(history.window()).points[0].at_unix_ns;
    assert_eq!(seconds(first), 3, "no older than 15 minutes");
}
