//! What a runtime's builder can tell the probe.

use tokio::runtime::Builder;

use crate::slot;

type Hook = Box<dyn Fn() + Send + Sync>;

/// Prepares a runtime for the probe: its hooks tell the probe which thread is which worker from the first park on, and
/// at once after `block_in_place`. Without it the probe learns that at its first wrapped poll or injected task on the
/// thread, up to some 100 ms later; nothing else is lost.
///
/// tokio keeps one closure for each hook and a second registration replaces the first. So a service with closures of
/// its own for `on_thread_start`, `on_thread_park` or `on_thread_unpark` gives them to [`Hooks`] instead.
///
/// # Examples
///
/// ```
/// let mut builder = tokio::runtime::Builder::new_multi_thread();
/// let runtime = ax_probe::configure(builder.enable_all()).build()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn configure(builder: &mut Builder) -> &mut Builder {
    Hooks::new().configure(builder)
}

/// The closures of a service for the hooks that the probe uses too: each runs as often as tokio says, after the
/// probe's own part. The other hooks, such as `on_thread_stop`, are the builder's as ever.
///
/// # Examples
///
/// ```
/// let mut builder = tokio::runtime::Builder::new_multi_thread();
/// ax_probe::Hooks::new()
///     .on_thread_start(|| println!("a thread starts"))
///     .configure(builder.enable_all());
/// let runtime = builder.build()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Default)]
#[must_use = "hooks do nothing until a builder is configured with them"]
pub struct Hooks {
    start: Option<Hook>,
    park: Option<Hook>,
    unpark: Option<Hook>,
}

impl Hooks {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// For [`Builder::on_thread_start`].
    pub fn on_thread_start(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.start = Some(Box::new(hook));
        self
    }

    /// For [`Builder::on_thread_park`].
    pub fn on_thread_park(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.park = Some(Box::new(hook));
        self
    }

    /// For [`Builder::on_thread_unpark`].
    pub fn on_thread_unpark(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.unpark = Some(Box::new(hook));
        self
    }

    /// Registers the probe's hooks and these. Each costs some 50 ns.
    pub fn configure(self, builder: &mut Builder) -> &mut Builder {
        builder
            .on_thread_start(with(self.start))
            .on_thread_park(with(self.park))
            .on_thread_unpark(with(self.unpark))
    }
}

/// The probe's part of each hook, then the service's.
fn with(hook: Option<Hook>) -> impl Fn() + Send + Sync + 'static {
    move || {
        slot::refresh_worker();
        if let Some(hook) = &hook {
            hook();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use super::*;

    #[test]
    fn the_hooks_of_the_service_run_too() {
        let calls: Arc<[AtomicUsize; 3]> = Arc::default();
        let count = |index: usize| {
            let calls = Arc::clone(&calls);
            move || {
                calls[index].fetch_add(1, Relaxed);
            }
        };
        let mut builder = Builder::new_multi_thread();
        Hooks::new()
            .on_thread_start(count(0))
            .on_thread_park(count(1))
            .on_thread_unpark(count(2))
            .configure(builder.worker_threads(1));
        let runtime = builder.build().expect("builds");
        for _ in 0..10 {
            let task = runtime.spawn(async {});
            runtime.block_on(task).expect("runs");
        }
        drop(runtime);
        for calls in calls.iter() {
            assert!(calls.load(Relaxed) > 0);
        }
    }
}
