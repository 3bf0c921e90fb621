//! What can be made to go wrong.

use std::{thread, time::Duration};

use serde::{Deserialize, Serialize};

/// The longest block that is accepted, in milliseconds: a demo that hangs for longer looks broken, not ill.
const MAX_BLOCK_MS: u64 = 60_000;

/// Polls that sleep in the kernel instead of returning.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Block {
    ms: u64,
    #[serde(default)]
    workers: Workers,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Workers {
    #[default]
    One,
    All,
}

/// The answer to a fault that has begun.
#[derive(Serialize)]
pub(crate) struct Started {
    blocked_workers: usize,
    ms: u64,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum BlockError {
    #[error("ms={asked} is more than the {MAX_BLOCK_MS} that the demo accepts")]
    TooLong { asked: u64 },
}

impl Block {
    /// Begins the fault and returns while it goes on.
    pub(crate) fn start(&self, workers: usize) -> Result<Started, BlockError> {
        if self.ms > MAX_BLOCK_MS {
            return Err(BlockError::TooLong { asked: self.ms });
        }
        let blocked_workers = match self.workers {
            Workers::One => 1,
            Workers::All => workers,
        };
        let length = Duration::from_millis(self.ms);
        // A worker that sleeps cannot take a second of these, so the idle ones steal the rest.
        for _ in 0..blocked_workers {
            ax_probe::spawn("fault_block", async move { thread::sleep(length) });
        }
        Ok(Started {
            blocked_workers,
            ms: self.ms,
        })
    }
}
