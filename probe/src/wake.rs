//! How long it takes from the wake of a task to the poll that follows: measured for one poll in [`SAMPLED_ONE_IN`], by a
//! waker that notes when it was called.
//!
//! A poll that is not measured costs a look at a thread-local counter, about a nanosecond; one that is, an allocation of
//! 40 bytes and a clock.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Wake, Waker},
};

use crate::{clock::now_ns, task_type::TaskType};

/// One poll in so many is measured.
pub const SAMPLED_ONE_IN: u32 = 64;

thread_local! {
    static POLLS: Cell<u32> = const { Cell::new(0) };
}

/// A waker that notes when it was first called.
struct Noting {
    inner: Waker,
    /// 0 before that. A measure and no lock: any ordering will do.
    woken_ns: AtomicU64,
}

impl Wake for Noting {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // An error says that it has been woken before.
        let _ = self
            .woken_ns
            .compare_exchange(0, now_ns(), Relaxed, Relaxed);
        self.inner.wake_by_ref();
    }
}

/// The measure of one task or job: of its last poll, if that was one of those measured.
#[derive(Default)]
pub struct WakeDelay(Option<Arc<Noting>>);

impl WakeDelay {
    /// Runs one poll, which begins at `now_ns`, and records for `task` how long after the last wake that is.
    #[inline]
    pub fn poll<R>(
        &mut self,
        task: &TaskType,
        now_ns: u64,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> R,
    ) -> R {
        if let Some(noted) = self.0.take() {
            let woken_ns = noted.woken_ns.load(Relaxed);
            // Something else may have polled it meanwhile.
            if woken_ns > 0 {
                task.delayed(now_ns.saturating_sub(woken_ns));
            }
        }
        // A thread that ends measures nothing more.
        let measured = POLLS.try_with(|polls| {
            let count = polls.get().wrapping_add(1);
            polls.set(count);
            count.is_multiple_of(SAMPLED_ONE_IN)
        });
        if measured != Ok(true) {
            return poll(cx);
        }
        let noting = Arc::new(Noting {
            inner: cx.waker().clone(),
            woken_ns: AtomicU64::new(0),
        });
        self.0 = Some(Arc::clone(&noting));
        let waker = Waker::from(noting);
        poll(&mut Context::from_waker(&waker))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use ax_wire::sample::TaskKind;

    use super::*;
    use crate::task_type;

    #[test]
    fn one_poll_in_some_is_measured_from_its_wake_on() {
        let place = Location::caller();
        let task = task_type::task_type(TaskKind::Task, None, "t-delayed", place);
        let mut delay = WakeDelay::default();
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..10 * SAMPLED_ONE_IN {
            delay.poll(task, now_ns(), &mut cx, |cx| {
                cx.waker().wake_by_ref();
                cx.waker().wake_by_ref();
            });
        }
        let recorded = task.sample().schedule_delay.expect("recorded");
        assert!((9..=10).contains(&recorded.count()), "{}", recorded.count());
    }
}
