//! `ax-top snapshots`: the snapshot files there are, and fewer of them. Needs no agent: it reads the folder, and where an
//! agent runs, adds what that one knows of elsewhere.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use ax_wire::{
    incident::{IncidentId, SnapshotSummary},
    snapshot_file::{default_folder, incident_of, summary},
};
use serde::Serialize;
use tokio::time::timeout;

use super::{Failure, print, print_json, session::Session, span};
use crate::{
    client::Sockets,
    event::now_unix_ns,
    format::{UNKNOWN, age, middle_cut, printable},
    words::{kilobytes, reason},
    world::{Link, World},
};

/// How long an agent may take to tell of its services: each second it sends a view of each.
const AGENT_TELLS_WITHIN: Duration = Duration::from_millis(1_500);

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only those of the service with this name
    service: Option<String>,
    /// The folder to look in; by default `ax/snapshots` in `$XDG_STATE_HOME`, else in `~/.local/state`
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// Remove those that --keep and --older-than name, then list the rest
    #[arg(long, requires = "which")]
    prune: bool,
    #[command(flatten)]
    which: Which,
    /// Print one JSON object, `{"folder", "snapshots", "removed", "problems"}`
    #[arg(long)]
    json: bool,
}

/// What to remove: with both, whatever either names.
#[derive(Clone, Copy, Debug, clap::Args)]
#[group(id = "which", multiple = true)]
struct Which {
    /// All but the newest N
    #[arg(long, value_name = "N", requires = "prune")]
    keep: Option<usize>,
    /// Those older than so long (12h, 7d)
    #[arg(long, value_name = "SPAN", value_parser = span::parse, requires = "prune")]
    older_than: Option<Duration>,
}

/// What is told. Keys are only ever added.
#[derive(Debug, Default, Serialize)]
struct Listing {
    folder: PathBuf,
    /// Newest first.
    snapshots: Vec<SnapshotSummary>,
    /// Removed just now.
    removed: Vec<PathBuf>,
    /// Files that bear the name of a snapshot and are none, or cannot be read or removed.
    problems: Vec<Problem>,
}

#[derive(Debug, Serialize)]
struct Problem {
    path: PathBuf,
    problem: String,
}

/// Runs the command.
pub async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let folder = match &arguments.dir {
        Some(folder) => folder.clone(),
        None => default_folder().map_err(|error| Failure::Usage(error.to_string()))?,
    };
    let mut listing = list(folder)?;
    if arguments.dir.is_none() {
        let known = from_agent().await?;
        listing.add(known);
    }
    if let Some(wanted) = &arguments.service {
        let wanted = |snapshot: &SnapshotSummary| snapshot.service == *wanted;
        listing.snapshots.retain(wanted);
    }
    if arguments.prune {
        listing.prune(arguments.which, now_unix_ns());
    }
    for Problem { problem, .. } in &listing.problems {
        eprintln!("ax-top: {}", printable(problem));
    }
    if arguments.json {
        print_json(&listing)
    } else {
        print(&text(&listing, now_unix_ns()))
    }
}

/// The folder's files whose names are those of snapshots. One that is missing holds none.
fn list(folder: PathBuf) -> Result<Listing, Failure> {
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries.collect::<io::Result<Vec<_>>>(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    let entries = entries.map_err(|source| {
        Failure::Unavailable(format!("cannot list {}: {source}", folder.display()))
    })?;
    let mut listing = Listing {
        folder,
        ..Listing::default()
    };
    for entry in entries {
        if incident_of(&entry.file_name()).is_none() {
            continue;
        }
        match summary(&entry.path()) {
            Ok(snapshot) => listing.snapshots.push(snapshot),
            Err(error) => listing.problem(entry.path(), &error),
        }
    }
    listing.sort();
    Ok(listing)
}

/// The snapshots that a running agent knows of; none where none runs.
async fn from_agent() -> Result<Vec<SnapshotSummary>, Failure> {
    let mut session = Session::start(Sockets::from_env().without_embedding());
    let told = async {
        loop {
            session.next().await?;
            let world = &session.world;
            let nobody = matches!(world.link, Link::Connecting { .. });
            if nobody || (world.listed && all_views(world)) {
                return Ok::<_, Failure>(());
            }
        }
    };
    // What has not been told by then is left out: the folder is what counts.
    if let Ok(failed) = timeout(AGENT_TELLS_WITHIN, told).await {
        failed?;
    }
    let world = &session.world;
    let views = world
        .services
        .iter()
        .filter_map(|service| world.newest_view(service.instance));
    Ok(views.flat_map(|view| view.snapshots.clone()).collect())
}

fn all_views(world: &World) -> bool {
    let mut services = world.services.iter();
    services.all(|service| world.newest_view(service.instance).is_some())
}

impl Listing {
    /// Adds those that the folder does not hold and that are there. A system agent's folder may be closed to us, but a
    /// file of our own service can be opened by its name.
    fn add(&mut self, known: Vec<SnapshotSummary>) {
        let mut have: BTreeSet<IncidentId> =
            self.snapshots.iter().map(|snapshot| snapshot.id).collect();
        let new = known
            .into_iter()
            .filter(|snapshot| Path::new(&snapshot.path).exists() && have.insert(snapshot.id));
        self.snapshots.extend(new);
        self.sort();
    }

    /// Newest first; the id decides where two are of one moment.
    fn sort(&mut self) {
        self.snapshots
            .sort_by_key(|snapshot| std::cmp::Reverse((snapshot.at_unix_ns, snapshot.id)));
        self.problems.sort_by(|a, b| a.path.cmp(&b.path));
    }

    fn prune(&mut self, which: Which, now_unix_ns: u64) {
        let oldest = which
            .older_than
            .map_or(0, |span| now_unix_ns.saturating_sub(span.as_nanos() as u64));
        let keep = which.keep.unwrap_or(usize::MAX);
        let mut kept = Vec::new();
        for (position, snapshot) in std::mem::take(&mut self.snapshots).into_iter().enumerate() {
            if position < keep && snapshot.at_unix_ns >= oldest {
                kept.push(snapshot);
                continue;
            }
            let path = PathBuf::from(&snapshot.path);
            match fs::remove_file(&path) {
                Ok(()) => self.removed.push(path),
                Err(error) => {
                    self.problem(
                        path.clone(),
                        &format!("cannot remove {}: {error}", path.display()),
                    );
                    kept.push(snapshot);
                }
            }
        }
        self.snapshots = kept;
    }

    fn problem(&mut self, path: PathBuf, problem: &impl ToString) {
        let problem = problem.to_string();
        self.problems.push(Problem { path, problem });
    }
}

fn text(listing: &Listing, now_unix_ns: u64) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    if !listing.removed.is_empty() {
        let _ = writeln!(text, "removed {}", listing.removed.len());
    }
    if listing.snapshots.is_empty() {
        let _ = writeln!(text, "no snapshots in {}", listing.folder.display());
        return text;
    }
    let _ = writeln!(
        text,
        "{:>9}  {:<16} {:<14} {:<20} {:>7}  path",
        "age", "service", "reason", "culprit", "kB"
    );
    for snapshot in &listing.snapshots {
        let _ = writeln!(
            text,
            "{:>9}  {:<16} {:<14} {:<20} {:>7}  {}",
            age(now_unix_ns.saturating_sub(snapshot.at_unix_ns)),
            middle_cut(&snapshot.service, 16),
            middle_cut(&reason(&snapshot.reason), 14),
            middle_cut(snapshot.culprit.as_deref().unwrap_or(UNKNOWN), 20),
            kilobytes(snapshot),
            printable(&snapshot.path)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use ax_wire::{
        incident::{Reason, SNAPSHOT_VERSION, Snapshot, Writer},
        snapshot_file::{Access, file_name, write},
        view::AgentDropped,
    };

    use super::*;
    use crate::fixture;

    const HOUR_NS: u64 = 3_600_000_000_000;

    /// A folder with a snapshot an hour, newest first.
    fn folder(snapshots: u64) -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("snapshots");
        for hours in 0..snapshots {
            let snapshot = Snapshot {
                version: SNAPSHOT_VERSION,
                written_unix_ns: fixture::NOW_UNIX_NS - hours * HOUR_NS,
                writer: Writer::Agent,
                hello: fixture::healthy().hello,
                incident: None,
                reason: Reason::Capture,
                alerts: Vec::new(),
                view: None,
                types: Vec::new(),
                history: Vec::new(),
                observer_gaps: Vec::new(),
                agent_dropped: AgentDropped::default(),
                unknown: Vec::new(),
            };
            let id = IncidentId(uuid::Uuid::from_u128(u128::from(hours)));
            write(&folder, Access::Private, id, &snapshot, None).expect("is written");
        }
        (root, folder)
    }

    #[test]
    fn a_missing_folder_holds_none() {
        let listing = list(PathBuf::from("/nonexistent/ax")).expect("is no error");
        assert_eq!(text(&listing, 0), "no snapshots in /nonexistent/ax\n");
    }

    #[test]
    fn hostile_files_are_named_and_the_others_listed() {
        let (_root, folder) = folder(2);
        let bad = |number: u128| {
            let id = IncidentId(uuid::Uuid::from_u128(number));
            folder.join(file_name("bad", id))
        };
        let good = list(folder.clone())
            .expect("lists")
            .snapshots
            .remove(0)
            .path;
        let whole = fs::read(&good).expect("reads");
        fs::write(bad(0x100), &whole[..whole.len() / 2]).expect("writes");
        fs::write(bad(0x101), b"\x1b[2J").expect("writes");
        fs::write(bad(0x102), "[".repeat(1 << 20)).expect("writes");
        fs::create_dir(bad(0x103)).expect("makes");
        symlink("/dev/zero", bad(0x104)).expect("links");
        fs::write(folder.join("notes.txt"), "mine").expect("writes");
        let listing = list(folder.clone()).expect("lists");
        assert_eq!(listing.snapshots.len(), 2);
        let named: Vec<_> = listing
            .problems
            .iter()
            .map(|problem| &problem.path)
            .collect();
        let expected: Vec<_> = (0x100..=0x104).map(bad).collect();
        assert_eq!(named, expected.iter().collect::<Vec<_>>());
        for problem in &listing.problems {
            let path = problem.path.to_string_lossy();
            assert!(problem.problem.contains(&*path), "{problem:?}");
        }
    }

    #[test]
    fn pruning_keeps_the_newest_and_what_is_no_snapshot() {
        let (_root, folder) = folder(5);
        fs::write(folder.join("notes.txt"), "mine").expect("writes");
        let prune = |keep, hours: Option<u64>| {
            let mut listing = list(folder.clone()).expect("lists");
            let older_than = hours.map(|hours| Duration::from_nanos(hours * HOUR_NS));
            let which = Which { keep, older_than };
            listing.prune(which, fixture::NOW_UNIX_NS);
            assert!(listing.problems.is_empty(), "{listing:?}");
            (listing.removed.len(), list(folder.clone()).expect("lists"))
        };
        let (removed, left) = prune(Some(4), None);
        assert_eq!((removed, left.snapshots.len()), (1, 4));
        let (removed, left) = prune(None, Some(2));
        assert_eq!(
            (removed, left.snapshots.len()),
            (1, 3),
            "two hours old is not older"
        );
        let (removed, left) = prune(Some(1), Some(24));
        assert_eq!((removed, left.snapshots.len()), (2, 1));
        assert_eq!(left.snapshots[0].at_unix_ns, fixture::NOW_UNIX_NS);
        assert!(folder.join("notes.txt").exists());
    }

    #[test]
    fn what_only_the_agent_knows_is_added_once() {
        let (_root, folder) = folder(1);
        let mut listing = list(folder.clone()).expect("lists");
        let mut elsewhere = listing.snapshots[0].clone();
        elsewhere.id = IncidentId(uuid::Uuid::from_u128(9));
        let mut gone = elsewhere.clone();
        gone.id = IncidentId(uuid::Uuid::from_u128(10));
        gone.path = "/nonexistent".to_owned();
        let same = listing.snapshots[0].clone();
        listing.add(vec![same, elsewhere.clone(), elsewhere, gone]);
        assert_eq!(listing.snapshots.len(), 2);
    }
}
