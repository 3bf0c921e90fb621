//! What is asked of the agent beyond what it sends by itself, and what it answered. One question is open at a time; what
//! the open screen wants to know is asked again as it gets old.

use std::{mem::discriminant, sync::Arc, time::Duration};

use ax_wire::{
    InstanceId,
    query::{Answer, Answered, Ask, Question},
};

/// An answer that takes longer does not come: the agent has answered for a silent service by then.
const TIMEOUT_NS: u64 = 4_000_000_000;

/// The shortest time between two questions. Somebody who types a query, or pastes one, changes the question with each
/// character, and an agent answers no more than 20 questions of one viewer in a second.
const APART_NS: u64 = 100_000_000;

/// What became of the newest question of its kind.
#[derive(Clone, Debug)]
pub struct Known {
    pub instance: InstanceId,
    pub question: Question,
    /// The answer, or why there is none.
    pub outcome: Result<Answered, String>,
    pub at_unix_ns: u64,
}

/// A question on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Open {
    ask: Ask,
    asked_unix_ns: u64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// One of each kind.
    known: Vec<Arc<Known>>,
    open: Option<Open>,
    asked: u64,
    last_asked_unix_ns: u64,
    /// Whether a question waits for its turn.
    waits: bool,
}

impl Answers {
    /// The question to be sent now, where there is one: of those wanted, the one that was never answered, else the one
    /// whose answer is oldest. None within [`APART_NS`] of the one before: who wants to know asks again then.
    pub fn ask(
        &mut self,
        instance: InstanceId,
        wanted: &[Question],
        now_unix_ns: u64,
    ) -> Option<Ask> {
        self.waits = false;
        if let Some(open) = &self.open {
            let ask = &open.ask;
            let late = now_unix_ns.saturating_sub(open.asked_unix_ns) >= TIMEOUT_NS;
            let still_wanted = ask.instance == instance && wanted.contains(&ask.question);
            if late {
                let why = "no answer for 4 s: the agent is busy, or older than this ax-top";
                let answer = Answer {
                    number: ask.number,
                    outcome: Err(why.to_owned()),
                };
                self.take(answer, now_unix_ns);
            } else if still_wanted {
                return None;
            }
        }
        let age = |question: &Question| {
            let known = self.find(instance, question);
            known.map_or(u64::MAX, |known| {
                now_unix_ns.saturating_sub(known.at_unix_ns)
            })
        };
        let stale = wanted
            .iter()
            .filter(|question| age(question) >= fresh_for_ns(question));
        // The first of equals.
        let question = stale.rev().max_by_key(|question| age(question))?.clone();
        self.waits = self.turn_in_ns(now_unix_ns) > 0;
        if self.waits {
            return None;
        }
        self.asked += 1;
        self.last_asked_unix_ns = now_unix_ns;
        let ask = Ask {
            number: self.asked,
            instance,
            question,
        };
        self.open = Some(Open {
            ask: ask.clone(),
            asked_unix_ns: now_unix_ns,
        });
        Some(ask)
    }

    /// How long a question that waits for its turn has to wait on, where there is one.
    pub fn next_turn_in(&self, now_unix_ns: u64) -> Option<Duration> {
        let left = Duration::from_nanos(self.turn_in_ns(now_unix_ns));
        self.waits.then_some(left)
    }

    fn turn_in_ns(&self, now_unix_ns: u64) -> u64 {
        // A clock that was set back holds nothing up.
        let since = now_unix_ns.checked_sub(self.last_asked_unix_ns);
        since.map_or(0, |since| APART_NS.saturating_sub(since))
    }

    /// Takes an answer. One to a question that is not open any more is of no use.
    pub fn take(&mut self, answer: Answer, now_unix_ns: u64) {
        let Some(open) = self.open.take_if(|open| open.ask.number == answer.number) else {
            return;
        };
        let Ask {
            instance, question, ..
        } = open.ask;
        self.learn(instance, question, answer.outcome, now_unix_ns);
    }

    /// Keeps an answer, in the place of the one of its kind.
    pub fn learn(
        &mut self,
        instance: InstanceId,
        question: Question,
        outcome: Result<Answered, String>,
        now_unix_ns: u64,
    ) {
        let kind = discriminant(&question);
        self.known
            .retain(|known| discriminant(&known.question) != kind);
        self.known.push(Arc::new(Known {
            instance,
            question,
            outcome,
            at_unix_ns: now_unix_ns,
        }));
    }

    /// The agent is gone, or does not read, and with it what was asked of it.
    pub fn forget_open(&mut self) {
        self.open = None;
    }

    /// What is known of exactly this question.
    pub fn find(&self, instance: InstanceId, question: &Question) -> Option<&Known> {
        self.of_kind(instance, question)
            .filter(|known| known.question == *question)
    }

    /// What is known of the newest question of this kind.
    pub fn of_kind(&self, instance: InstanceId, question: &Question) -> Option<&Known> {
        let kind = discriminant(question);
        let known = self
            .known
            .iter()
            .find(|known| known.instance == instance && discriminant(&known.question) == kind)?;
        Some(known)
    }
}

/// From which age on an answer is asked for again.
fn fresh_for_ns(question: &Question) -> u64 {
    match question {
        Question::Jobs(_) => 900_000_000,
        Question::Traces | Question::Trace { .. } | Question::Graph(_) | Question::Unknown => {
            1_900_000_000
        }
        Question::Histograms(_) => 4_900_000_000,
    }
}

#[cfg(test)]
mod tests {
    use ax_wire::{TraceId, job::JobsQuery, trace::TraceList};

    use super::*;

    const S: u64 = 1_000_000_000;

    fn trace(number: u128) -> Question {
        Question::Trace {
            trace: TraceId::new(number).expect("not zero"),
        }
    }

    fn jobs(limit: u32) -> Question {
        Question::Jobs(JobsQuery {
            limit,
            ..JobsQuery::default()
        })
    }

    fn answered(answers: &mut Answers, ask: &Ask, now: u64) {
        let answer = Answer {
            number: ask.number,
            outcome: Ok(Answered::Traces(TraceList::default())),
        };
        answers.take(answer, now);
    }

    #[test]
    fn what_is_wanted_is_asked_in_turn_and_again_when_it_is_old() {
        let of = InstanceId::new_now();
        let wanted = [jobs(1), trace(1)];
        let mut answers = Answers::default();
        let first = answers.ask(of, &wanted, S).expect("asks");
        assert_eq!(first.question, jobs(1));
        assert_eq!(answers.ask(of, &wanted, S), None, "one at a time");
        answered(&mut answers, &first, S);
        let second = answers.ask(of, &wanted, S + APART_NS).expect("asks");
        assert_eq!(second.question, trace(1));
        answered(&mut answers, &second, S + APART_NS);
        assert_eq!(answers.ask(of, &wanted, S + S / 2), None, "all is fresh");
        let third = answers.ask(of, &wanted, 2 * S).expect("asks");
        assert_eq!(third.question, jobs(1), "it gets old sooner");
    }

    #[test]
    fn a_question_that_is_not_wanted_any_more_makes_room_and_its_answer_is_dropped() {
        let of = InstanceId::new_now();
        let mut answers = Answers::default();
        let typed = answers.ask(of, &[jobs(1)], S).expect("asks");
        assert_eq!(answers.ask(of, &[jobs(2)], S + APART_NS - 1), None);
        let next = S + APART_NS;
        let further = answers.ask(of, &[jobs(2)], next).expect("does not wait");
        answered(&mut answers, &typed, next);
        assert!(answers.of_kind(of, &jobs(2)).is_none());
        answered(&mut answers, &further, next);
        assert!(answers.find(of, &jobs(2)).is_some());
        assert!(answers.find(of, &jobs(1)).is_none());
        assert!(
            answers.of_kind(of, &jobs(1)).is_some(),
            "shown until the next comes"
        );
    }

    #[test]
    fn a_query_that_is_pasted_asks_at_its_beginning_and_at_its_end() {
        let of = InstanceId::new_now();
        let mut answers = Answers::default();
        let typed = (1..=40).filter_map(|length| {
            let at = S + u64::from(length) * 1_000_000;
            answers.ask(of, &[jobs(length)], at)
        });
        assert_eq!(typed.count(), 1, "of forty characters in as many ms");
        let waits = answers.next_turn_in(S + 50_000_000);
        assert_eq!(waits, Some(Duration::from_millis(51)), "since the first");
        let last = answers.ask(of, &[jobs(40)], S + 2 * APART_NS);
        assert_eq!(answers.next_turn_in(S + 2 * APART_NS), None);
        assert_eq!(last.expect("asks").question, jobs(40));
        let back = answers.ask(of, &[jobs(41)], S / 2);
        assert!(back.is_some(), "the clock was set back");
    }

    #[test]
    fn an_agent_that_never_answers_is_busy_or_too_old() {
        let of = InstanceId::new_now();
        let mut answers = Answers::default();
        answers.ask(of, &[jobs(1)], S).expect("asks");
        assert_eq!(answers.ask(of, &[jobs(1)], S + TIMEOUT_NS - 1), None);
        answers.ask(of, &[jobs(1)], S + TIMEOUT_NS);
        let known = answers.find(of, &jobs(1)).expect("known by now");
        assert!(
            known
                .outcome
                .as_ref()
                .is_err_and(|why| why.contains("older"))
        );
    }
}
