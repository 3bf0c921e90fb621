//! The thread that names the stacks of snapshots which are on disk already.

use std::{
    io,
    path::PathBuf,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use ax_wire::{incident::IncidentId, stack::ThreadStack};

use super::store::Order;
use crate::symbol::Symbolizer;

/// Stacks that wait to be named. One takes some 100 ms; what finds no room stays without names, and can be named later
/// with `ax-top symbolize`.
const WAITING: usize = 16;

/// Stacks of one snapshot.
#[derive(Debug)]
pub(crate) struct Unnamed {
    pub(crate) uid: u32,
    pub(crate) id: IncidentId,
    /// The process that they are of, in our pid namespace.
    pub(crate) pid: u32,
    pub(crate) stacks: Vec<ThreadStack>,
}

/// The thread.
#[derive(Debug)]
pub(super) struct Naming {
    inbox: SyncSender<Unnamed>,
    thread: thread::JoinHandle<()>,
}

impl Naming {
    /// Starts the thread, which hands what it has named to the thread that writes.
    ///
    /// # Errors
    ///
    /// What the system says where it has no thread to give.
    pub(super) fn start(program: PathBuf, orders: SyncSender<Order>) -> io::Result<Self> {
        let (inbox, waiting) = sync_channel(WAITING);
        let thread = thread::Builder::new().name("ax-symbols".to_owned());
        let thread = thread.spawn(move || run(&Symbolizer::new(program), &waiting, &orders))?;
        Ok(Self { inbox, thread })
    }

    pub(super) fn order(&self, unnamed: Unnamed) {
        if let Err(error) = self.inbox.try_send(unnamed) {
            tracing::warn!("stacks of a snapshot stay without names: {error}");
        }
    }

    /// Waits until all are named. Blocks.
    pub(super) fn finish(self) {
        drop(self.inbox);
        if self.thread.join().is_err() {
            tracing::error!("the thread that names stacks panicked");
        }
    }
}

fn run(symbolizer: &Symbolizer, waiting: &Receiver<Unnamed>, orders: &SyncSender<Order>) {
    while let Ok(unnamed) = waiting.recv() {
        let Unnamed {
            uid,
            id,
            pid,
            mut stacks,
        } = unnamed;
        symbolizer.name(pid, &mut stacks);
        // The thread that writes ends after this one.
        let _ = orders.send(Order::Stacks { uid, id, stacks });
    }
}
