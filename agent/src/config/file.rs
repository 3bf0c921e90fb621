//! The agent's configuration file.
//!
//! ```toml
//! quiet = "10s"                    # a service that has just come is not judged for so long
//!
//! [snapshots]
//! dir = "/var/lib/ax/snapshots"
//! cooldown = "60s"
//!
//! [actions]                        # what rules without actions of their own do
//! page = [{ webhook = "http://relay.internal:9000/page", body = "pager.json" }]
//! warning = ["bell"]
//!
//! [[rule]]                         # changes the built-in rule of this name
//! name = "lag-high"
//! threshold = "100ms"
//!
//! [[silence]]
//! rule = "backlog-growing"
//! until = 2026-12-01T08:00:00Z
//! reason = "nightly import"
//! ```

use std::{
    env, fmt, fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    Config, DEFAULT_QUIET,
    table::{Fields, Problem, Source},
};
use crate::{
    alert::{RuleSet, language},
    snapshot::Settings,
};

/// Longest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// The file of the system agent.
pub const SYSTEM_FILE: &str = "/etc/ax/agent.toml";

/// Name of a user's file, in `ax` in the folder of configurations.
const NAME: &str = "agent.toml";

/// Where the file is that nobody has named: [`SYSTEM_FILE`] for a system agent, else `ax/agent.toml` in
/// `$XDG_CONFIG_HOME` or `~/.config`. `None` where no home is known.
#[must_use]
pub fn default_file(system: bool) -> Option<PathBuf> {
    if system {
        return Some(SYSTEM_FILE.into());
    }
    let absolute = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(folder.join("ax").join(NAME))
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileConfig {
    /// Rules with what is built in, actions, silences.
    pub rules: RuleSet,
    /// See [`Config::quiet`].
    pub quiet: Option<Duration>,
    /// Of `[snapshots]`.
    pub snapshots: SnapshotKeys,
    /// The state of the file that says it.
    pub stamp: Stamp,
}

/// What tells one state of a file from another: device, inode, length, time of change. Of one that is not there, none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamp(Option<(u64, u64, u64, i64, i64)>);

impl Stamp {
    /// Looks at a file. Blocks.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        Self(fs::metadata(path).ok().map(|meta| {
            (
                meta.dev(),
                meta.ino(),
                meta.len(),
                meta.mtime(),
                meta.mtime_nsec(),
            )
        }))
    }
}

/// The keys of `[snapshots]`, each left out where the file leaves it out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotKeys {
    /// The folder.
    pub dir: Option<PathBuf>,
    /// See [`Settings::cooldown`](crate::snapshot::Settings::cooldown).
    pub cooldown: Option<Duration>,
    /// See [`Settings::per_hour`](crate::snapshot::Settings::per_hour).
    pub per_hour: Option<u64>,
    /// See [`Settings::all_per_hour`](crate::snapshot::Settings::all_per_hour).
    pub all_per_hour: Option<u64>,
    /// See [`Settings::max_files_of_service`](crate::snapshot::Settings::max_files_of_service).
    pub max_files_of_service: Option<u64>,
    /// See [`Settings::max_files`](crate::snapshot::Settings::max_files).
    pub max_files: Option<u64>,
    /// See [`Settings::max_bytes`](crate::snapshot::Settings::max_bytes).
    pub max_bytes: Option<u64>,
    /// See [`Settings::max_age`](crate::snapshot::Settings::max_age).
    pub max_age: Option<Duration>,
}

impl SnapshotKeys {
    /// What of it is not in force before the agent is started again, for a person; it was started with `at_start`.
    pub(crate) fn wait_for_a_start(&self, at_start: &Self) -> Option<String> {
        let changed = [
            ("dir", self.dir != at_start.dir),
            (
                "max_files_of_service",
                self.max_files_of_service != at_start.max_files_of_service,
            ),
            ("max_files", self.max_files != at_start.max_files),
            ("max_bytes", self.max_bytes != at_start.max_bytes),
            ("max_age", self.max_age != at_start.max_age),
        ];
        let names = changed.into_iter().filter(|(_, changed)| *changed);
        let names: Vec<_> = names.map(|(name, _)| name).collect();
        (!names.is_empty()).then(|| {
            format!(
                "[snapshots] {} changed, which takes effect when the agent is started again",
                names.join(", ")
            )
        })
    }
}

/// Why a file is not taken.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else could write into it what this agent then does.
    #[error("{} {why}: rules may run programs, so only its owner may write it", path.display())]
    Unsafe {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// Something in it is wrong.
    #[error("{}", Lines { path, problems })]
    Wrong {
        /// The file.
        path: PathBuf,
        /// All that is, in the order of the file.
        problems: Vec<Problem>,
    },
}

impl FileError {
    /// Whether there is no such file.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// `FILE:LINE:COLUMN: what`, a line each.
struct Lines<'a> {
    path: &'a Path,
    problems: &'a [Problem],
}

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.problems.iter().enumerate() {
            let newline = if at == 0 { "" } else { "\n" };
            write!(f, "{newline}{}:{problem}", self.path.display())?;
        }
        Ok(())
    }
}

/// Reads a file. Blocks.
///
/// # Errors
///
/// [`FileError`], whose text says where what is wrong.
pub fn read(path: &Path) -> Result<FileConfig, FileError> {
    let failed = |source| FileError::Io {
        path: path.to_owned(),
        source,
    };
    // Looked at before it is read: a change in between is seen the next time.
    let stamp = Stamp::of(path);
    let meta = fs::metadata(path).map_err(failed)?;
    if !meta.is_file() {
        return Err(failed(io::Error::other("it is no file")));
    }
    if meta.len() > MAX_BYTES {
        return Err(failed(io::Error::other("it is longer than 1 MiB")));
    }
    let us = rustix::process::geteuid().as_raw();
    let why = match (meta.uid(), meta.mode() & 0o022) {
        (owner, _) if owner != us && owner != 0 => {
            format!("belongs to user {owner}, not to us (user {us}) or root; `chown {us}` it")
        }
        (_, 0) => String::new(),
        _ => "can be written by others; `chmod go-w` it".to_owned(),
    };
    if !why.is_empty() {
        let path = path.to_owned();
        return Err(FileError::Unsafe { path, why });
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    match read_text(&text, path.parent()) {
        Ok(read) => Ok(FileConfig { stamp, ..read }),
        Err(problems) => Err(FileError::Wrong {
            path: path.to_owned(),
            problems,
        }),
    }
}

/// Reads the text of a file whose templates are in `folder`.
pub(crate) fn read_text(text: &str, folder: Option<&Path>) -> Result<FileConfig, Vec<Problem>> {
    let source = Source::new(text);
    let table = source.parse();
    let mut file = Fields::new(&source, table.span(), table.get_ref());
    let rules = language::read(&mut file, folder);
    let quiet = file.duration("quiet");
    let snapshots = file.fields("snapshots").map(read_snapshots);
    file.finish("the file");
    let problems = source.into_problems();
    if problems.is_empty() {
        Ok(FileConfig {
            rules,
            quiet,
            snapshots: snapshots.unwrap_or_default(),
            stamp: Stamp::default(),
        })
    } else {
        Err(problems)
    }
}

fn read_snapshots(mut fields: Fields<'_, '_>) -> SnapshotKeys {
    let dir = fields.read("dir", |value| {
        let dir = PathBuf::from(super::table::text(value)?);
        if dir.is_absolute() {
            Ok(dir)
        } else {
            Err("expected a folder that begins with `/`".to_owned())
        }
    });
    let keys = SnapshotKeys {
        dir,
        cooldown: fields.some_time("cooldown"),
        per_hour: fields.count("per_hour", 1..1_001),
        all_per_hour: fields.count("all_per_hour", 1..10_001),
        max_files_of_service: fields.count("max_files_of_service", 1..10_001),
        max_files: fields.count("max_files", 1..10_001),
        max_bytes: fields.read("max_bytes", |value| {
            let text = super::table::text(value)?;
            let bytes = super::units::figure(&text, ax_wire::alert::Unit::Bytes)?;
            if bytes < 1.0 {
                return Err("that is no room at all".to_owned());
            }
            Ok(bytes as u64)
        }),
        max_age: fields.some_time("max_age"),
    };
    fields.finish("[snapshots]");
    keys
}

impl Config {
    /// Takes over what a file says of rules and limits. What it leaves out is at its default, however it was before; the
    /// folder of snapshots is taken only by [`Self::apply`].
    pub(crate) fn take_rules(&mut self, file: FileConfig) {
        let FileConfig {
            rules,
            quiet,
            snapshots: keys,
            stamp,
        } = file;
        self.stamp = stamp;
        self.rules = rules;
        self.quiet = quiet.unwrap_or(DEFAULT_QUIET);
        let count = |key: Option<u64>, default| key.map_or(default, |count| count as usize);
        let default = Settings::in_folder(self.snapshots.folder.take());
        self.snapshots = Settings {
            cooldown: keys.cooldown.unwrap_or(default.cooldown),
            per_hour: count(keys.per_hour, default.per_hour),
            all_per_hour: count(keys.all_per_hour, default.all_per_hour),
            max_files_of_service: count(keys.max_files_of_service, default.max_files_of_service),
            max_files: count(keys.max_files, default.max_files),
            max_bytes: keys.max_bytes.unwrap_or(default.max_bytes),
            max_age: keys.max_age.unwrap_or(default.max_age),
            access: self.snapshots.access,
            symbolizer: self.snapshots.symbolizer.take(),
            ..default
        };
    }

    /// Looks for the file that nobody has named, and takes over what it says. One that is wrong leaves the rules that are
    /// built in, and is told to viewers. Blocks on the file system.
    pub fn take_default_file(&mut self) {
        self.file = default_file(self.system);
        match self.file.as_deref().map(read) {
            Some(Ok(file)) => self.apply(file),
            Some(Err(error)) if !error.is_missing() => {
                self.stamp = self.file.as_deref().map(Stamp::of).unwrap_or_default();
                self.problem = Some(error.to_string());
            }
            Some(Err(_)) | None => {}
        }
    }

    /// Takes over what a file says.
    pub fn apply(&mut self, file: FileConfig) {
        if let Some(dir) = &file.snapshots.dir {
            self.snapshots.folder = Some(dir.clone());
        }
        self.file_keys = file.snapshots.clone();
        self.take_rules(file);
    }
}
