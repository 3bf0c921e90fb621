//! What the service calls and waits for: databases, APIs, other services.
//!
//! A full lane over an idle event loop means that something else is slow. [`downstream`] says what: calls under way and
//! waiting, how long they take, how many fail, and which jobs make them.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), std::io::Error> {
//! # async fn recognize(page: u32) -> Result<u32, std::io::Error> { Ok(page) }
//! let ocr = ax_scheduler::downstream("ocr");
//! let text = ocr.call(recognize(7)).await?;
//! assert_eq!((text, ocr.counts().calls_total), (7, 1));
//! # Ok(()) }
//! ```

mod calls;
mod registry;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use ax_wire::sample::{DownstreamSample, PoolSample};

use self::{calls::Flight, registry::State};
use crate::{
    time,
    waits::{Kind, Waits},
};

pub use self::{
    calls::{MAX_CALLERS, MAX_OLDEST},
    registry::MAX_DOWNSTREAMS,
};

/// Something that the service calls, by name: the same name is the same downstream everywhere in the process. Cheap to
/// clone.
#[derive(Clone, Copy)]
pub struct Downstream {
    state: &'static State,
}

/// The downstream of this name, made on first use. At most [`MAX_DOWNSTREAMS`] are told apart; later ones are counted
/// together as `other`. Each takes about 30 KiB.
///
/// Cost: a look-up under a read lock, some 50 ns. Keep what it returns.
#[must_use]
pub fn downstream(name: &str) -> Downstream {
    Downstream {
        state: registry::find(name),
    }
}

/// The service has not allowed that its calls be delayed on purpose.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "downstream `{name}` does not allow a delay on purpose: call `Downstream::allow_injection` first"
)]
pub struct InjectionNotAllowed {
    name: Box<str>,
}

fn not_allowed(state: &State) -> InjectionNotAllowed {
    InjectionNotAllowed {
        name: state.name.clone(),
    }
}

impl Downstream {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Makes one call, and counts and times it. The call is charged to the job, request or named task that awaits it,
    /// and is a span of its trace: what [`trace::inject`](ax_probe::trace) writes inside names the call as the caller.
    ///
    /// A call that panics counts as an error, one that is dropped as cancelled. Cancel safe where `call` is. Costs about
    /// 0.3 us.
    ///
    /// # Errors
    ///
    /// Those of the call.
    pub async fn call<F, T, E>(&self, call: F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        let mut call = pin!(call);
        let flight = Flight::begin(self.state);
        let waits = Waits::begin(Kind::Downstream, self.name());
        let delay_ns = self.state.injected_delay_ns();
        if delay_ns != 0 {
            tokio::time::sleep(Duration::from_nanos(delay_ns)).await;
        }
        let outcome = poll_fn(|cx| flight.scope(|| call.as_mut().poll(cx))).await;
        drop(waits);
        flight.end(outcome.is_ok());
        outcome
    }

    /// Waits for what a call needs first, such as a connection of a pool or a permit: seen as *waiting*, with its own
    /// histogram, and apart from the call itself. So a pool that is too small is told from a downstream that is slow.
    ///
    /// Cancel safe where `acquire` is.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let pool = tokio::sync::Semaphore::new(1);
    /// # async fn query() -> Result<u32, std::io::Error> { Ok(1) }
    /// let db = ax_scheduler::downstream("db");
    /// let connection = db.wait(pool.acquire()).await;
    /// let rows = db.call(query()).await;
    /// # drop((connection, rows)); }
    /// ```
    pub async fn wait<F: Future>(&self, acquire: F) -> F::Output {
        let waiting = Waiting::begin(self.state);
        let waits = Waits::begin(Kind::Pool, self.name());
        let acquired = acquire.await;
        drop((waits, waiting));
        acquired
    }

    /// Shows a pool of clients as a gauge: `gauge` is asked once a second, on a thread of the probe. It must not block;
    /// `None` says that the pool is gone or cannot tell. It lives as long as the process, or until the next one takes
    /// its place: let it hold the pool by a `Weak`.
    pub fn show_pool(&self, gauge: impl Fn() -> Option<PoolSample> + Send + Sync + 'static) {
        self.state.show_pool(Arc::new(gauge));
    }

    /// Allows that calls be delayed on purpose, to see what a slow downstream does to the service. Off unless called.
    pub fn allow_injection(&self) {
        self.state.injection_allowed.store(true, Relaxed);
    }

    /// Adds `delay` to each call that begins from now on, as part of its latency; zero ends it. The dashboard can do so
    /// too, for a while, where the service [allows control](ax_probe::Builder::allow_control) besides.
    ///
    /// # Errors
    ///
    /// [`InjectionNotAllowed`] unless [`allow_injection`](Self::allow_injection) was called.
    pub fn inject_delay(&self, delay: Duration) -> Result<(), InjectionNotAllowed> {
        if !self.state.injection_allowed.load(Relaxed) {
            return Err(not_allowed(self.state));
        }
        self.state.set_delay(delay, None);
        Ok(())
    }

    /// Its counts now, without the histograms, which go to the agent.
    #[must_use]
    pub fn counts(&self) -> DownstreamSample {
        self.state.counts(time::now_ns())
    }
}

impl fmt::Debug for Downstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Downstream")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// A caller that waits, until it is dropped.
struct Waiting {
    state: &'static State,
    began_ns: u64,
}

impl Waiting {
    fn begin(state: &'static State) -> Self {
        state.waiting.fetch_add(1, Relaxed);
        Self {
            state,
            began_ns: time::now_ns(),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.state.waiting.fetch_sub(1, Relaxed);
        let waited_ns = time::now_ns().saturating_sub(self.began_ns);
        self.state.wait.record_ns(waited_ns);
    }
}
