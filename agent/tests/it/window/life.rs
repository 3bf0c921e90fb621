//! Whether a service speaks, and clocks that are stepped.

use ax_agent::{clock::Now, view::backfill};
use ax_wire::{event::Events, view::ServiceState};

use super::{at, feed, history};
use crate::common::{EPOCH_UNIX_NS, SECOND, hello, sample};

#[test]
fn states_follow_samples_goodbye_and_the_connection() {
    let mut history = history();
    assert_eq!(history.state(at(2)), ServiceState::Live);
    assert_eq!(history.state(at(3)), ServiceState::Silent);
    feed(&mut history, sample(4));
    assert_eq!(history.state(at(6)), ServiceState::Live);
    // Events alone do not make it speak: the sampler may be stuck.
    history.events(Events::default(), at(7));
    assert_eq!(history.state(at(7)), ServiceState::Silent);
    history.disconnected();
    assert_eq!(history.state(at(8)), ServiceState::Lost);
    assert_eq!(history.gone_since_mono_ns(), Some(7 * SECOND));
    history.hello_again(hello("checkout"), at(9));
    assert_eq!(history.state(at(9)), ServiceState::Live);
    history.goodbye(at(10));
    history.disconnected();
    assert_eq!(history.state(at(99)), ServiceState::Ended);
}

#[test]
fn a_stepped_wall_clock_moves_the_points_after_it() {
    let mut history = history();
    feed(&mut history, sample(1));
    let mut stepped = sample(2);
    stepped.clock = Some(ax_wire::hello::ClockAnchor {
        mono_ns: 2 * SECOND,
        unix_ns: 5 * SECOND,
    });
    feed(&mut history, stepped);
    let points = backfill(history.window()).points;
    assert_eq!(points[0].at_unix_ns, EPOCH_UNIX_NS + SECOND);
    assert_eq!(points[1].at_unix_ns, 5 * SECOND);
}

#[test]
fn silence_and_loss_are_measured_by_the_clock_that_nobody_steps() {
    let mut history = history();
    feed(&mut history, sample(1));
    for step_unix_ns in [0, EPOCH_UNIX_NS / 2, EPOCH_UNIX_NS * 2] {
        let stepped = |seconds: u64| Now {
            mono_ns: seconds * SECOND,
            unix_ns: step_unix_ns,
        };
        assert_eq!(history.state(stepped(3)), ServiceState::Live);
        assert_eq!(history.state(stepped(4)), ServiceState::Silent);
    }
    history.disconnected();
    assert_eq!(history.gone_since_mono_ns(), Some(SECOND));
}
