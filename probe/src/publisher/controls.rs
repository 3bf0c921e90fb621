//! Orders of the agent: carried out on a thread of their own, because a waker, a listener or the destructor of a
//! cancelled job is the service's code, for which the publisher does not wait.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel},
    thread,
    time::Duration,
};

use ax_wire::control::{Action, Controlled, Order};

use crate::source;

/// Orders that wait for the one that is carried out.
const MAX_WAITING: usize = 16;

/// Orders that are taken in a second: a person's hands, or a load session's steps.
const MAX_PER_SECOND: u32 = 20;

const SECOND_NS: u64 = 1_000_000_000;

/// What the thread gets and gives.
struct Worker {
    orders: SyncSender<Order>,
    outcomes: Receiver<Controlled>,
}

/// The publisher's side of it. One for each connection to an agent: another one numbers its orders anew.
pub(super) struct Controls {
    allowed: bool,
    /// Started by the first order.
    worker: Option<Worker>,
    /// Orders whose outcome has not come.
    open: usize,
    since_ns: u64,
    taken: u32,
}

impl Controls {
    pub(super) fn new(allowed: bool) -> Self {
        Self {
            allowed,
            worker: None,
            open: 0,
            since_ns: 0,
            taken: 0,
        }
    }

    /// Whether an outcome is to come.
    pub(super) fn is_busy(&self) -> bool {
        self.open > 0
    }

    /// Takes an order. Returns its outcome where that is known at once: it is refused.
    pub(super) fn take(&mut self, order: Order, now_ns: u64) -> Option<Controlled> {
        let id = order.id;
        let text = order.action.to_string();
        let why = self.start(order, now_ns).err()?;
        tracing::warn!("control refused: {text}: {why}");
        Some(Controlled {
            id,
            outcome: Err(why),
        })
    }

    fn start(&mut self, order: Order, now_ns: u64) -> Result<(), String> {
        if !self.allowed {
            return Err(
                "the service does not allow it: build its probe with `allow_control(true)`"
                    .to_owned(),
            );
        }
        if now_ns.saturating_sub(self.since_ns) >= SECOND_NS {
            (self.since_ns, self.taken) = (now_ns, 0);
        }
        self.taken += 1;
        if self.taken > MAX_PER_SECOND {
            return Err(format!(
                "more than {MAX_PER_SECOND} orders in a second: try again"
            ));
        }
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => Worker::start().map_err(|error| format!("no thread for it: {error}"))?,
        };
        let sent = worker.orders.try_send(order);
        // Also where it is full: it is busy with an order that takes long.
        self.worker = Some(worker);
        match sent {
            Ok(()) => {
                self.open += 1;
                Ok(())
            }
            Err(TrySendError::Full(_)) => {
                Err("orders before it are still being carried out".to_owned())
            }
            Err(TrySendError::Disconnected(_)) => {
                self.worker = None;
                self.open = 0;
                Err("the thread that carries out orders has ended".to_owned())
            }
        }
    }

    /// What became of orders since the last call.
    pub(super) fn outcomes(&mut self) -> Vec<Controlled> {
        let Some(worker) = &self.worker else {
            return Vec::new();
        };
        let outcomes: Vec<_> = worker.outcomes.try_iter().collect();
        self.open = self.open.saturating_sub(outcomes.len());
        outcomes
    }
}

impl Worker {
    fn start() -> io::Result<Self> {
        let (orders, taken) = sync_channel(MAX_WAITING);
        let (told, outcomes) = channel();
        thread::Builder::new()
            .name("ax-control".to_owned())
            .spawn(move || carry_out_all(&taken, &told))?;
        Ok(Self { orders, outcomes })
    }
}

/// Until the publisher is gone.
fn carry_out_all(orders: &Receiver<Order>, told: &Sender<Controlled>) {
    for Order { id, action } in orders {
        let outcome = catch_unwind(AssertUnwindSafe(|| carry_out(&action)))
            .unwrap_or_else(|_| Err("the service's own code panicked over it".to_owned()));
        match &outcome {
            Ok(done) => tracing::warn!("control: {done}"),
            Err(why) => tracing::warn!("control failed: {action}: {why}"),
        }
        if told.send(Controlled { id, outcome }).is_err() {
            return;
        }
    }
}

fn carry_out(action: &Action) -> Result<String, String> {
    match action {
        Action::Inject {
            downstream,
            delay_ns,
            lasting_ns,
        } => source::inject(
            downstream,
            Duration::from_nanos(*delay_ns),
            Duration::from_nanos(*lasting_ns),
        ),
        Action::Unknown => Err("this ax-probe does not know it: update it".to_owned()),
        Action::Pause { lane } | Action::Resume { lane } | Action::Resize { lane, .. } => {
            source::control(action)
                .unwrap_or_else(|| Err(format!("there is no lane {}", lane.name)))
        }
        Action::Cancel { job } | Action::Retry { job } => source::control(action)
            .unwrap_or_else(|| Err(format!("there is no job {job}, or it has ended"))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use ax_wire::{JobId, control::LaneRef};

    use super::*;

    fn pause(id: u64) -> Order {
        let lane = LaneRef::named("no-such-lane");
        Order {
            id,
            action: Action::Pause { lane },
        }
    }

    fn outcomes(controls: &mut Controls, count: usize) -> Vec<Controlled> {
        let began = Instant::now();
        let mut all = Vec::new();
        while all.len() < count {
            assert!(began.elapsed() < Duration::from_secs(30), "no outcome");
            all.extend(controls.outcomes());
            thread::sleep(Duration::from_millis(1));
        }
        all
    }

    /// F97: off unless allowed.
    #[test]
    fn nothing_is_changed_in_a_service_that_does_not_allow_it() {
        let mut controls = Controls::new(false);
        let refused = controls.take(pause(7), 0).expect("at once");
        assert_eq!(refused.id, 7);
        let why = refused.outcome.expect_err("refused");
        assert!(why.contains("allow_control(true)"), "{why}");
        assert!(controls.worker.is_none() && !controls.is_busy());
    }

    #[test]
    fn what_is_not_there_is_said_and_each_order_has_one_outcome() {
        let mut controls = Controls::new(true);
        assert_eq!(controls.take(pause(1), 0), None);
        let job = JobId(u64::MAX);
        let action = Action::Cancel { job };
        assert_eq!(controls.take(Order { id: 2, action }, 0), None);
        let action = Action::Unknown;
        assert_eq!(controls.take(Order { id: 3, action }, 0), None);
        assert!(controls.is_busy());
        let told = outcomes(&mut controls, 3);
        assert_eq!(
            told.iter().map(|told| told.id).collect::<Vec<_>>(),
            [1, 2, 3]
        );
        let why = |at: usize| told[at].outcome.clone().expect_err("not there");
        assert_eq!(why(0), "there is no lane no-such-lane");
        assert!(why(1).contains("there is no job"), "{}", why(1));
        assert!(why(2).contains("update it"), "{}", why(2));
        assert!(!controls.is_busy());
    }

    #[test]
    fn a_flood_is_refused_but_for_so_many_a_second() {
        let mut controls = Controls::new(true);
        let mut taken = 0;
        for id in 0..1_000 {
            taken += usize::from(controls.take(pause(id), SECOND_NS * 5).is_none());
        }
        assert!((1..=MAX_PER_SECOND as usize).contains(&taken), "{taken}");
        outcomes(&mut controls, taken);
        assert_eq!(controls.take(pause(0), SECOND_NS * 6), None);
    }
}
