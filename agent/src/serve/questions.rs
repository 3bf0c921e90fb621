//! The questions of viewers that wait for an answer of a service.

use std::collections::HashMap;

use ax_wire::{InstanceId, query::Question};

use super::connection::ConnectionId;
use crate::clock::Now;

/// How long a service may take to answer. A probe looks at its socket ten times a second.
const ANSWER_NS: u64 = 2_000_000_000;

/// Questions of one viewer in a second: a query that narrows as somebody types, and no more.
const MAX_PER_SECOND: u32 = 20;

const SECOND_NS: u64 = 1_000_000_000;

/// A question that a service was asked.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) viewer: ConnectionId,
    /// The viewer's number for it.
    pub(super) number: u64,
    pub(super) instance: InstanceId,
    pub(super) question: Question,
    asked_mono_ns: u64,
}

/// How many questions a viewer has asked lately.
#[derive(Debug, Default)]
struct Rate {
    since_mono_ns: u64,
    count: u32,
}

/// See the module. At most one is open for each viewer: a new one takes the place of the one before.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// By the number that the service was told.
    open: HashMap<u64, Open>,
    rates: HashMap<ConnectionId, Rate>,
    asked: u64,
}

impl Questions {
    /// Whether a viewer may ask one more now.
    pub(super) fn admit(&mut self, viewer: ConnectionId, now: Now) -> bool {
        let rate = self.rates.entry(viewer).or_default();
        if now.mono_ns.saturating_sub(rate.since_mono_ns) >= SECOND_NS {
            *rate = Rate {
                since_mono_ns: now.mono_ns,
                count: 0,
            };
        }
        rate.count += 1;
        rate.count <= MAX_PER_SECOND
    }

    /// The number that the service is to be told.
    pub(super) fn open(
        &mut self,
        (viewer, number): (ConnectionId, u64),
        instance: InstanceId,
        question: Question,
        now: Now,
    ) -> u64 {
        self.close(viewer);
        self.asked += 1;
        let open = Open {
            viewer,
            number,
            instance,
            question,
            asked_mono_ns: now.mono_ns,
        };
        self.open.insert(self.asked, open);
        self.asked
    }

    /// The open question of a viewer, if it has one, is not waited for any more.
    pub(super) fn close(&mut self, viewer: ConnectionId) {
        self.open.retain(|_, open| open.viewer != viewer);
    }

    /// A viewer is gone.
    pub(super) fn forget(&mut self, viewer: ConnectionId) {
        self.close(viewer);
        self.rates.remove(&viewer);
    }

    /// The question that this service has answered; none for one that nobody waits for any more.
    pub(super) fn answered(&mut self, instance: InstanceId, number: u64) -> Option<Open> {
        let open = self.open.remove(&number)?;
        if open.instance == instance {
            return Some(open);
        }
        // Somebody guesses the numbers of others.
        self.open.insert(number, open);
        None
    }

    /// The questions that wait too long, or for a service that is gone.
    pub(super) fn time_out(&mut self, now: Now, gone: impl Fn(InstanceId) -> bool) -> Vec<Open> {
        let late = |open: &Open| now.mono_ns.saturating_sub(open.asked_mono_ns) >= ANSWER_NS;
        let late = self
            .open
            .extract_if(|_, open| late(open) || gone(open.instance));
        late.map(|(_, open)| open).collect()
    }

    /// When the next question has waited too long.
    pub(super) fn next_timeout_mono_ns(&self) -> Option<u64> {
        let asked = self.open.values().map(|open| open.asked_mono_ns);
        asked.min().map(|asked| asked.saturating_add(ANSWER_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Now {
        Now {
            mono_ns: ms * 1_000_000,
            unix_ns: ms * 1_000_000,
        }
    }

    #[test]
    fn a_viewer_has_one_question_open_and_others_cannot_answer_it() {
        let mut questions = Questions::default();
        let (viewer, service, other) = (
            ConnectionId::next(),
            InstanceId::new_now(),
            InstanceId::new_now(),
        );
        let first = questions.open((viewer, 1), service, Question::Traces, at(0));
        let second = questions.open((viewer, 2), service, Question::Traces, at(100));
        assert!(questions.answered(service, first).is_none(), "replaced");
        assert!(questions.answered(other, second).is_none(), "not asked");
        assert_eq!(questions.next_timeout_mono_ns(), Some(2_100 * 1_000_000));
        assert!(questions.time_out(at(2_099), |_| false).is_empty());
        assert_eq!(questions.time_out(at(2_100), |_| false).len(), 1);
        assert!(questions.answered(service, second).is_none(), "too late");
        questions.open((viewer, 3), service, Question::Traces, at(3_000));
        assert_eq!(questions.time_out(at(3_001), |of| of == service).len(), 1);
    }

    #[test]
    fn a_viewer_that_asks_in_a_flood_is_held_back_for_the_rest_of_the_second() {
        let mut questions = Questions::default();
        let viewer = ConnectionId::next();
        let admitted = |questions: &mut Questions, ms| {
            (0..100).filter(|_| questions.admit(viewer, at(ms))).count()
        };
        assert_eq!(admitted(&mut questions, 5_000), MAX_PER_SECOND as usize);
        assert_eq!(admitted(&mut questions, 5_900), 0);
        assert_eq!(admitted(&mut questions, 6_000), MAX_PER_SECOND as usize);
    }
}
