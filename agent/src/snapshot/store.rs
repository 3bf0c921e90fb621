//! The thread that writes, lists and prunes snapshot files.

use std::{
    collections::HashMap,
    fs, io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use ax_wire::{
    incident::{IncidentId, Reason, Snapshot, SnapshotSummary},
    snapshot_file::{self, SnapshotFileError},
    stack::ThreadStack,
};

use super::{
    Settings,
    naming::{Naming, Unnamed},
};
use crate::text::{clean, clean_some};

/// Orders that wait for the disk. A snapshot takes about a megabyte; when the disk is slower than that, one that cannot
/// wait is counted as failed.
const ORDERS: usize = 8;

/// File in the folder of snapshots that carries firing alerts over a restart of the agent.
const ALERTS_NAME: &str = "alerts.state";

/// Longest such file that is read: 100 alerts of 64 services at 300 bytes.
const MAX_ALERTS_BYTES: u64 = 4 << 20;

/// What the thread is told to do.
pub(crate) enum Order {
    /// Write a snapshot of a service of this user.
    Write {
        uid: u32,
        id: IncidentId,
        snapshot: Box<Snapshot>,
    },
    /// Put the stacks of a snapshot that was written into its file, with their names.
    Stacks {
        uid: u32,
        id: IncidentId,
        stacks: Vec<ThreadStack>,
    },
    /// Look for files that others have written: probes without an agent.
    Look,
    /// Keep the alerts that fire, as JSON.
    Alerts(Vec<u8>),
}

/// What the thread has to say.
#[derive(Debug)]
pub(crate) enum Report {
    /// Files that were found or written.
    Found(Vec<(u32, SnapshotSummary)>),
    /// A snapshot that was ordered is there.
    Written(SnapshotSummary),
    /// A snapshot that was ordered could not be written.
    Failed { id: IncidentId, why: String },
    /// Files that are no longer there.
    Gone(Vec<IncidentId>),
    /// The stacks of an incident, with names where they have any.
    Named {
        id: IncidentId,
        stacks: Vec<ThreadStack>,
    },
}

/// The thread. Dropping it without [`Self::finish`] lets it end by itself.
#[derive(Debug)]
pub(crate) struct Store {
    orders: SyncSender<Order>,
    thread: thread::JoinHandle<()>,
    /// `None`: stacks stay addresses.
    naming: Option<Naming>,
}

impl Store {
    /// Starts the thread, which lists what is there first.
    ///
    /// # Errors
    ///
    /// What the system says where it has no thread to give.
    pub(crate) fn start(
        folder: PathBuf,
        settings: Settings,
        report: impl Fn(Report) + Send + 'static,
    ) -> io::Result<Self> {
        let (orders, inbox) = sync_channel(ORDERS);
        let naming = settings.symbolizer.clone();
        let naming = naming.map(|program| Naming::start(program, orders.clone()));
        let naming = naming.transpose()?;
        let thread = thread::Builder::new().name("ax-snapshots".to_owned());
        let thread = thread.spawn(move || {
            let shelf = Shelf {
                folder,
                settings,
                files: HashMap::new(),
                report: Box::new(report),
            };
            shelf.run(&inbox);
        })?;
        Ok(Self {
            orders,
            thread,
            naming,
        })
    }

    /// Gives an order.
    ///
    /// # Errors
    ///
    /// When the disk does not keep up.
    pub(crate) fn order(&self, order: Order) -> Result<(), &'static str> {
        self.orders.try_send(order).map_err(|error| match error {
            TrySendError::Full(_) => "the disk does not keep up with the snapshots before it",
            TrySendError::Disconnected(_) => "the thread that writes snapshots has ended",
        })
    }

    /// Names stacks of a snapshot whose writing has been ordered, and puts them into its file. They stay addresses where
    /// that cannot be done.
    pub(crate) fn name(&self, unnamed: Unnamed) {
        if let Some(naming) = &self.naming {
            naming.order(unnamed);
        }
    }

    /// Waits until all orders are done. Blocks.
    pub(crate) fn finish(self) {
        // First: it has orders for the other.
        if let Some(naming) = self.naming {
            naming.finish();
        }
        drop(self.orders);
        if self.thread.join().is_err() {
            tracing::error!("the thread that writes snapshots panicked");
        }
    }
}

/// The alerts that were firing when the agent ended last, as JSON; `None` where there are none to be had.
pub(crate) fn read_alerts(folder: &Path) -> Option<Vec<u8>> {
    let path = folder.join(ALERTS_NAME);
    let meta = fs::symlink_metadata(&path).ok()?;
    let ours = meta.is_file() && meta.uid() == rustix::process::geteuid().as_raw();
    (ours && meta.len() <= MAX_ALERTS_BYTES)
        .then(|| fs::read(&path).ok())
        .flatten()
}

/// Only root may give a file away, and only root has services of other users.
fn owner_for(uid: u32) -> Option<u32> {
    (uid != rustix::process::geteuid().as_raw()).then_some(uid)
}

/// What the thread owns.
struct Shelf {
    folder: PathBuf,
    settings: Settings,
    files: HashMap<IncidentId, (u32, SnapshotSummary)>,
    report: Box<dyn Fn(Report) + Send>,
}

impl Shelf {
    fn run(mut self, inbox: &Receiver<Order>) {
        if let Err(error) = snapshot_file::prepare(&self.folder, self.settings.access) {
            tracing::warn!("no snapshot can be written: {error}");
        } else {
            if let Err(error) = snapshot_file::remove_unfinished(&self.folder) {
                tracing::warn!("{error}");
            }
            self.look();
            self.prune();
        }
        while let Ok(order) = inbox.recv() {
            match order {
                Order::Write { uid, id, snapshot } => self.write(uid, id, &snapshot),
                Order::Stacks { uid, id, stacks } => {
                    (self.report)(Report::Named {
                        id,
                        stacks: stacks.clone(),
                    });
                    if let Err(error) = self.add_stacks(uid, id, stacks) {
                        tracing::warn!("stacks stay without names: {error}");
                    }
                }
                Order::Look => self.look(),
                Order::Alerts(json) => {
                    if let Err(error) = self.write_alerts(&json) {
                        tracing::warn!("alerts will begin anew after a restart: {error}");
                    }
                }
            }
        }
    }

    fn write(&mut self, uid: u32, id: IncidentId, snapshot: &Snapshot) {
        let access = self.settings.access;
        let written = snapshot_file::write(&self.folder, access, id, snapshot, owner_for(uid));
        let written = match written {
            // The probe has written it meanwhile: one file an incident is what we want.
            Err(SnapshotFileError::Exists { path }) => {
                summary(&path).map_err(|_| SnapshotFileError::Exists { path })
            }
            written => written,
        };
        match written {
            Ok(summary) => {
                tracing::info!(
                    service = summary.service,
                    "snapshot written: {}",
                    summary.path
                );
                self.files.insert(id, (uid, summary.clone()));
                (self.report)(Report::Written(summary));
                self.prune();
            }
            Err(error) => {
                let why = error.to_string();
                tracing::warn!(service = snapshot.hello.service, "no snapshot: {why}");
                (self.report)(Report::Failed { id, why });
            }
        }
    }

    /// Writes a snapshot anew with these stacks. Of one that could not be written, or has been removed, there is nothing
    /// to add to.
    fn add_stacks(
        &mut self,
        uid: u32,
        id: IncidentId,
        stacks: Vec<ThreadStack>,
    ) -> Result<(), SnapshotFileError> {
        let Some((_, known)) = self.files.get(&id) else {
            return Ok(());
        };
        let mut snapshot = snapshot_file::read(Path::new(&known.path))?;
        if let Some(incident) = &mut snapshot.incident {
            incident.stacks = stacks;
        }
        let summary = snapshot_file::replace(
            &self.folder,
            self.settings.access,
            id,
            &snapshot,
            owner_for(uid),
        )?;
        self.files.insert(id, (uid, summary));
        Ok(())
    }

    /// Takes up files that are not known yet. At most as many as may be kept are read.
    fn look(&mut self) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        let new = names.filter_map(|name| Some((snapshot_file::incident_of(&name)?, name)));
        let mut new: Vec<_> = new.filter(|(id, _)| !self.files.contains_key(id)).collect();
        // Ids sort by time.
        new.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
        new.truncate(self.settings.max_files);
        let mut found = Vec::new();
        for (id, name) in new {
            let path = self.folder.join(name);
            let uid = fs::symlink_metadata(&path).map(|meta| meta.uid());
            match (uid, summary(&path)) {
                (Ok(uid), Ok(summary)) => {
                    self.files.insert(id, (uid, summary.clone()));
                    found.push((uid, summary));
                }
                (_, Err(error)) => tracing::warn!("{error}"),
                (Err(error), _) => tracing::warn!("cannot look at {}: {error}", path.display()),
            }
        }
        if !found.is_empty() {
            (self.report)(Report::Found(found));
        }
    }

    /// Removes files until age, counts and bytes are within their caps, the oldest first; over all services, those of the
    /// user who has the most bytes, so that nobody drives out another's.
    fn prune(&mut self) {
        let missing = self.files.iter().filter(|(_, (_, summary))| {
            let there = fs::symlink_metadata(&summary.path);
            there.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        });
        let mut gone: Vec<IncidentId> = missing.map(|(id, _)| *id).collect();
        for id in &gone {
            self.files.remove(id);
        }
        for id in self.surplus() {
            if let Some((_, summary)) = self.files.remove(&id) {
                match fs::remove_file(&summary.path) {
                    Ok(()) => tracing::info!("snapshot removed to make room: {}", summary.path),
                    Err(error) => tracing::warn!("cannot remove {}: {error}", summary.path),
                }
                gone.push(id);
            }
        }
        if !gone.is_empty() {
            (self.report)(Report::Gone(gone));
        }
    }

    fn surplus(&self) -> Vec<IncidentId> {
        let settings = &self.settings;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ns = now.map_or(0, |since| since.as_nanos() as u64);
        let oldest_ns = now_ns.saturating_sub(settings.max_age.as_nanos() as u64);
        let mut newest_first: Vec<_> = self.files.iter().collect();
        newest_first.sort_unstable_by_key(|(id, (_, summary))| {
            std::cmp::Reverse((summary.at_unix_ns, **id))
        });
        let mut of_service: HashMap<(u32, &str), (usize, u64)> = HashMap::new();
        let mut kept: Vec<(IncidentId, u32, u64)> = Vec::new();
        let mut surplus = Vec::new();
        for (id, (uid, summary)) in newest_first {
            let (files, bytes) = of_service.entry((*uid, &summary.service)).or_default();
            *files += 1;
            *bytes += summary.size_bytes;
            let too_many = *files > settings.max_files_of_service;
            // The newest one stays, however large it is.
            let too_large = *files > 1 && *bytes > settings.max_bytes_of_service;
            if too_many || too_large || summary.at_unix_ns < oldest_ns {
                surplus.push(*id);
            } else {
                kept.push((*id, *uid, summary.size_bytes));
            }
        }
        let mut of_user: HashMap<u32, u64> = HashMap::new();
        for (_, uid, bytes) in &kept {
            *of_user.entry(*uid).or_default() += bytes;
        }
        while kept.len() > settings.max_files
            || (kept.len() > 1 && of_user.values().sum::<u64>() > settings.max_bytes)
        {
            let most = of_user.iter().max_by_key(|(_, bytes)| **bytes);
            let Some(uid) = most.map(|(uid, _)| *uid) else {
                break;
            };
            let Some(oldest) = kept.iter().rposition(|(_, of, _)| *of == uid) else {
                break;
            };
            let (id, _, bytes) = kept.remove(oldest);
            *of_user.entry(uid).or_default() -= bytes;
            surplus.push(id);
        }
        surplus
    }

    fn write_alerts(&self, json: &[u8]) -> Result<(), String> {
        let told = |error: io::Error| format!("{}: {error}", self.folder.display());
        snapshot_file::prepare(&self.folder, self.settings.access).map_err(|e| e.to_string())?;
        let unfinished = self.folder.join(format!(".{ALERTS_NAME}"));
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(told(error)),
            _ => {}
        }
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600);
        let mut file = file.open(&unfinished).map_err(told)?;
        io::Write::write_all(&mut file, json).map_err(told)?;
        fs::rename(&unfinished, self.folder.join(ALERTS_NAME)).map_err(told)
    }
}

/// The summary of a file, its texts made safe: a probe or another program may have written it.
fn summary(path: &Path) -> Result<SnapshotSummary, SnapshotFileError> {
    let mut summary = snapshot_file::summary(path)?;
    clean(&mut summary.service);
    clean_some(&mut summary.culprit);
    if let Reason::Code { label } = &mut summary.reason {
        clean(label);
    }
    Ok(summary)
}
