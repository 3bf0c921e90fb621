//! The order of the queue against a list that is looked through from the start each time.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

impl Queued for usize {
    fn ready_ns(&self) -> u64 {
        *self as u64
    }
}

fn plain() -> Buckets<usize> {
    Buckets::new(None, None)
}

fn drain(buckets: &mut Buckets<usize>) -> Vec<usize> {
    std::iter::from_fn(|| buckets.pop(0, |_| true)).collect()
}

#[test]
fn the_highest_first_and_fifo_among_equals_across_chunks() {
    let mut buckets = plain();
    let count = 5 * CHUNK;
    for number in 0..count {
        buckets.push([1, 50, 100][number % 3], number);
    }
    let order: Vec<_> = buckets.iter().copied().collect();
    let mut expected: Vec<_> = (0..count).collect();
    expected.sort_by_key(|number| (2 - number % 3, *number));
    assert_eq!(order, expected);
    assert_eq!(drain(&mut buckets), expected);
    assert_eq!(buckets.len(), 0);
}

#[test]
fn what_is_not_kept_leaves_no_trace() {
    let mut buckets = plain();
    for number in 0..3 * CHUNK {
        buckets.push(if number < 10 { 90 } else { 10 }, number);
    }
    buckets.retain(|number| number % CHUNK == 11);
    assert_eq!(buckets.len(), 3);
    let levels = buckets.levels().map(|(priority, len, _)| (priority, len));
    assert_eq!(levels.collect::<Vec<_>>(), [(10, 3)]);
    assert_eq!(drain(&mut buckets), [11, CHUNK + 11, 2 * CHUNK + 11]);
}

/// F10: the newest of the lowest priority goes, and nothing of the newcomer's own.
#[test]
fn the_newest_of_the_lowest_is_shed() {
    let mut buckets = plain();
    for number in 0..2 * CHUNK {
        buckets.push(20, number);
    }
    buckets.push(10, 9_000);
    let mut shed = || buckets.pop_lowest_below(20, |_| true);
    assert_eq!((shed(), shed()), (Some(9_000), None));
    let odd = buckets.pop_lowest_below(21, |number| number % 2 == 0);
    assert_eq!(odd, Some(2 * CHUNK - 2));
    assert_eq!(buckets.len(), 2 * CHUNK - 2);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push { priority: u8, after_ns: usize },
    Pop { after_ns: usize },
    Shed { below: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Item {
    ready_ns: usize,
    priority: u8,
    number: usize,
}

impl Queued for Item {
    fn ready_ns(&self) -> u64 {
        self.ready_ns as u64
    }
}

/// The obvious queue: every rule is one look at all items.
#[derive(Default)]
struct Model {
    items: Vec<Item>,
    passed: u32,
}

impl Model {
    fn pop(&mut self, now_ns: usize, ageing: Option<Ageing>, turn: Option<u32>) -> Option<Item> {
        let front = self.items.iter().map(|item| item.priority).max()?;
        let lower = self.items.iter().any(|item| item.priority < front);
        let rank = |item: &Item| match ageing {
            Some(ageing) => ageing.rank(item.priority, (now_ns - item.ready_ns) as u64),
            None => f64::from(item.priority),
        };
        let mut order: Vec<Item> = self.items.clone();
        if lower && turn.is_some_and(|every| self.passed + 1 >= every) {
            order.retain(|item| item.priority < front);
            order.sort_by_key(|item| (item.ready_ns, 100 - item.priority, item.number));
        } else {
            order.sort_by(|a, b| {
                let by_rank = rank(b).total_cmp(&rank(a));
                let by_age = a.ready_ns.cmp(&b.ready_ns);
                let by_priority = b.priority.cmp(&a.priority);
                by_rank
                    .then(by_age)
                    .then(by_priority)
                    .then(a.number.cmp(&b.number))
            });
        }
        let chosen = order[0];
        self.passed = match (chosen.priority == front, lower) {
            (true, true) => self.passed + 1,
            (true, false) => self.passed,
            (false, _) => 0,
        };
        self.items.retain(|item| item.number != chosen.number);
        Some(chosen)
    }

    fn shed(&mut self, below: u8) -> Option<Item> {
        let lower = self.items.iter().filter(|item| item.priority < below);
        let chosen = *lower.min_by_key(|item| (item.priority, usize::MAX - item.number))?;
        self.items.retain(|item| item.number != chosen.number);
        Some(chosen)
    }
}

fn step() -> impl Strategy<Value = Step> {
    // Few priorities and coarse times, so that equals are common.
    let priority = prop::sample::select(vec![1_u8, 10, 11, 50, 90, 100]);
    let after_ns = prop::sample::select(vec![0_usize, 1, 40, 100, 1_000]);
    prop_oneof![
        5 => (priority.clone(), after_ns.clone()).prop_map(|(priority, after_ns)| Step::Push { priority, after_ns }),
        4 => after_ns.prop_map(|after_ns| Step::Pop { after_ns }),
        1 => priority.prop_map(|below| Step::Shed { below }),
    ]
}

fn ageing() -> impl Strategy<Value = Option<Ageing>> {
    let per = Duration::from_nanos(100);
    prop::sample::select(vec![
        None,
        Some(Ageing::step(per)),
        Some(Ageing::slope(1, per)),
        Some(Ageing::slope(7, per).ceiling(60)),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    /// F10, F29 to F33: priority, age, turns and shedding, in any mixture.
    #[test]
    fn the_order_is_the_models(
        ageing in ageing(),
        turn in prop::option::of(1_u32..6),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut buckets = Buckets::new(ageing, turn);
        let mut model = Model::default();
        let mut now_ns = 0;
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push { priority, after_ns } => {
                    now_ns += after_ns;
                    let item = Item { ready_ns: now_ns, priority, number };
                    buckets.push(priority, item);
                    model.items.push(item);
                }
                Step::Pop { after_ns } => {
                    now_ns += after_ns;
                    let popped = buckets.pop(now_ns as u64, |_| true);
                    prop_assert_eq!(popped, model.pop(now_ns, ageing, turn));
                }
                Step::Shed { below } => {
                    prop_assert_eq!(buckets.pop_lowest_below(below, |_| true), model.shed(below));
                }
            }
            prop_assert_eq!(buckets.len(), model.items.len());
        }
    }

    /// F33: of any `every` starts in a row at which a lower priority was queued, one is not of the highest.
    #[test]
    fn a_low_priority_never_waits_longer_than_its_turn(every in 1_u32..20, high in 1_usize..300) {
        let mut buckets = Buckets::new(None, Some(every));
        for number in 0..high {
            buckets.push(90, Item { ready_ns: number, priority: 90, number });
        }
        buckets.push(5, Item { ready_ns: high, priority: 5, number: high });
        let starts = std::iter::from_fn(|| buckets.pop(0, |_| true));
        let place = starts.map(|item| item.priority).position(|priority| priority == 5);
        prop_assert_eq!(place, Some(high.min(every as usize - 1)));
    }
}
