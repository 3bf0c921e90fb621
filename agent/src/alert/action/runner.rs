//! Programs and calls, so many at once; what hangs or fails holds up nothing else.

use std::sync::Arc;

use ax_wire::{alert::AlertState, rules::ActionTaken};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Action, exec,
    facts::{Facts, Subject},
    webhook,
};
use crate::clock::Now;

/// Programs and calls at once. A hanging one holds a place until its timeout.
const AT_ONCE: usize = 4;

/// Those that run and those that wait; more is told as not done, so that nothing heaps up behind a pager that is down.
const MOST: usize = 64;

/// Runs actions that reach out.
#[derive(Debug)]
pub(crate) struct Runner {
    places: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// What an action was done for.
#[derive(Clone, Debug)]
pub(crate) struct Occasion {
    pub(crate) subject: Subject,
    pub(crate) alert: ax_wire::alert::Alert,
}

impl Occasion {
    /// What came of an action, now.
    pub(crate) fn taken(&self, action: &Action, outcome: Result<String, String>) -> ActionTaken {
        let ended = self.alert.state == AlertState::Resolved;
        ActionTaken {
            at_unix_ns: Now::read().unix_ns,
            service: self.subject.service.clone(),
            rule: self.alert.rule.clone(),
            subject: self.alert.subject.clone(),
            action: format!("{action}{}", if ended { ", alert ended" } else { "" }),
            done: outcome.is_ok(),
            outcome: outcome.unwrap_or_else(|why| why),
        }
    }
}

impl Runner {
    pub(crate) fn new() -> Self {
        Self {
            places: Arc::new(Semaphore::new(AT_ONCE)),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Does an action that reaches out, some time soon; `told` hears what came of it. Others are not this one's to do.
    pub(crate) fn run<F>(
        &self,
        action: &Action,
        occasion: Occasion,
        told: impl FnOnce(ActionTaken) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send,
    {
        let full = self.tasks.len() >= MOST;
        let (places, stop) = (Arc::clone(&self.places), self.stop.clone());
        let action = action.clone();
        self.tasks.spawn(async move {
            let outcome = async {
                if full {
                    return Err(format!("not done: {MOST} others run or wait"));
                }
                let _place = places.acquire().await;
                let facts = Facts::new(&occasion.subject, &occasion.alert);
                match &action {
                    Action::Exec(exec) => exec::run(exec, &facts).await,
                    Action::Webhook(webhook) => webhook::call(webhook, &facts).await,
                    Action::Snapshot | Action::Bell => Ok(String::new()),
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                outcome = outcome => told(occasion.taken(&action, outcome)).await,
            }
        });
    }

    /// Ends what runs and waits for it.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
