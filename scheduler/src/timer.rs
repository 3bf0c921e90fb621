//! One task of the scheduler that knows when each waiting job is due. It sleeps until the next one.

use std::{
    collections::HashMap,
    future::poll_fn,
    sync::{Arc, Weak},
    task::Poll,
    time::Duration,
};

use ax_wire::JobId;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};
use tokio_util::time::{DelayQueue, delay_queue};

use crate::{JobError, backoff::MAX_DELAY, cell::Job, guard, hub::Hub, time};

/// What a job that waits for a time still has to pass when the time has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its lane's retry budget, then the scheduler's.
    LaneBudget,
    /// The scheduler's retry budget.
    Budget,
    /// Nothing.
    Ready,
}

pub(crate) struct Due {
    pub(crate) job: Arc<dyn Job>,
    pub(crate) stage: Stage,
}

pub(crate) enum Order {
    WakeAt(Due, u64),
    Forget(JobId),
}

pub(crate) struct Timer {
    orders: mpsc::UnboundedReceiver<Order>,
    queue: DelayQueue<Due>,
    keys: HashMap<JobId, delay_queue::Key>,
    /// Gone when all jobs of the scheduler are.
    hub: Weak<Hub>,
    left: bool,
    /// What tokio says where the runtime has no timers. Asked once: a queue that met it would be of no use afterwards.
    no_time: Option<Box<str>>,
}

impl Timer {
    /// The orders are as many as the waiting jobs, which the lanes bound.
    pub(crate) fn new(hub: Weak<Hub>) -> (mpsc::UnboundedSender<Order>, Self) {
        let (sender, orders) = mpsc::unbounded_channel();
        let timer = Self {
            orders,
            queue: DelayQueue::new(),
            keys: HashMap::new(),
            hub,
            left: false,
            no_time: None,
        };
        (sender, timer)
    }

    pub(crate) async fn run(mut self) {
        self.no_time = guard::catch(|| drop(sleep(Duration::ZERO))).err();
        loop {
            // The queue is asked only while it holds something: an empty one is always ready.
            let next = poll_fn(|cx| {
                if let Poll::Ready(order) = self.orders.poll_recv(cx) {
                    return Poll::Ready(Next::Order(order));
                }
                match self.queue.poll_expired(cx) {
                    Poll::Ready(Some(expired)) => Poll::Ready(Next::Due(expired.into_inner())),
                    Poll::Ready(None) | Poll::Pending => Poll::Pending,
                }
            });
            match next.await {
                Next::Order(Some(Order::WakeAt(due, at_ns))) => self.wake_at(due, at_ns),
                Next::Order(Some(Order::Forget(id))) => {
                    if let Some(key) = self.keys.remove(&id) {
                        self.queue.remove(&key);
                    }
                }
                // Every waiting job holds its scheduler, so none is left.
                Next::Order(None) => {
                    self.left = true;
                    return;
                }
                Next::Due(due) => {
                    self.keys.remove(&due.job.header().id);
                    if let Some((due, at_ns)) = Hub::due(due, time::now_ns()) {
                        self.wake_at(due, at_ns);
                    }
                }
            }
        }
    }

    fn wake_at(&mut self, due: Due, at_ns: u64) {
        if let Some(message) = &self.no_time {
            return Hub::withdraw(&*due.job, JobError::Panicked(message.clone()));
        }
        let id = due.job.header().id;
        let delay = time::between(time::now_ns(), at_ns).min(MAX_DELAY);
        let key = self.queue.insert_at(due, Instant::now() + delay);
        if let Some(before) = self.keys.insert(id, key) {
            self.queue.remove(&before);
        }
    }
}

enum Next {
    Order(Option<Order>),
    Due(Due),
}

impl Drop for Timer {
    fn drop(&mut self) {
        if !self.left
            && let Some(hub) = self.hub.upgrade()
        {
            self.orders.close();
            hub.cancel_waiting(|| JobError::RuntimeGone);
        }
    }
}
