//! Which file a module is.
//!
//! The agent may be root, and the service says what its modules are called. So a file is opened only where the kernel
//! says that the service has mapped it, it must be a regular file, no link is followed at its end, and its build id is
//! compared before anything of it is passed on.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use ax_wire::stack::Module;
use rustix::fs::{Mode, OFlags};

/// The largest file that is read. A debug build of a large service has 500 MB.
pub(super) const MAX_FILE_BYTES: u64 = 4 << 30;

/// The longest list of mappings that is read: some 100,000.
const MAX_MAPS_BYTES: u64 = 16 << 20;

/// What the kernel adds to the name of a file that has been replaced since it was mapped, as an update does.
const DELETED: &str = " (deleted)";

/// Where distributions put debug information.
const DEBUG_FOLDER: &str = "/usr/lib/debug";

/// Why a module has no file.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("it is the kernel's own code")]
    Kernel,
    #[error(
        "the service has gone, or its mappings cannot be read ({0}); name its frames later with `ax-top symbolize`"
    )]
    Maps(io::Error),
    #[error("the service has not mapped it")]
    NotMapped,
    #[error(
        "it has been replaced since the service started; name its frames with `ax-top symbolize` and the old file"
    )]
    Replaced,
    #[error("it cannot be opened ({0})")]
    Open(io::Error),
    #[error("{0}; name its frames with `ax-top symbolize` and the file as it was built")]
    NotHere(Box<FileError>),
    #[error("it is no regular file")]
    NotRegular,
    #[error("it has {0} bytes, more than the {MAX_FILE_BYTES} that are read")]
    TooLarge(u64),
    #[error("it has no build id to compare, and is not the executable; link it with `--build-id`")]
    NoBuildId,
}

/// Opens the file of a module of the process `pid`.
pub(super) fn open_mapped(pid: u32, module: &Module) -> Result<File, FileError> {
    if module.path.starts_with('[') {
        return Err(FileError::Kernel);
    }
    let inode = mapped_inode(pid, &module.path)?.ok_or(FileError::NotMapped)?;
    let executable = PathBuf::from(format!("/proc/{pid}/exe"));
    if fs::read_link(&executable).is_ok_and(|path| path == Path::new(&module.path)) {
        // The kernel's own link, which leads to the file that runs even where it was replaced.
        let file = File::open(executable).map_err(FileError::Open)?;
        return checked(file);
    }
    if module.path.ends_with(DELETED) {
        return Err(FileError::Replaced);
    }
    if module.build_id.is_none() {
        return Err(FileError::NoBuildId);
    }
    let file = checked(open_plain(&inside(pid, Path::new(&module.path)))?)?;
    // The number of the device may differ: some file systems show another one in the list of mappings.
    let metadata = file.metadata().map_err(FileError::Open)?;
    if metadata.ino() == inode {
        Ok(file)
    } else {
        Err(FileError::Replaced)
    }
}

/// Opens the file that has a module's path on this host, which may be another one than the service's. Whether it is the
/// module, its build id tells.
pub(super) fn open_here(module: &Module) -> Result<File, FileError> {
    if module.path.starts_with('[') {
        return Err(FileError::Kernel);
    }
    if module.path.ends_with(DELETED) {
        return Err(FileError::Replaced);
    }
    if module.build_id.is_none() {
        return Err(FileError::NoBuildId);
    }
    let path = Path::new(&module.path);
    if !path.is_absolute() {
        return Err(FileError::NotMapped);
    }
    let file = open_plain(path).and_then(checked);
    file.map_err(|error| FileError::NotHere(Box::new(error)))
}

/// The files that may hold a module's debug information. Whether one does, its build id tells.
pub(super) fn debug_files(
    pid: Option<u32>,
    module: &Module,
    named: Option<&str>,
) -> impl Iterator<Item = File> {
    let path = Path::new(&module.path);
    let mut candidates = Vec::new();
    if let Some((first, rest)) = module
        .build_id
        .as_deref()
        .and_then(|id| id.split_at_checked(2))
    {
        // It is a path now, so it must be what it is said to be.
        let hexadecimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if hexadecimal(first) && hexadecimal(rest) {
            candidates.push(PathBuf::from(format!(
                "{DEBUG_FOLDER}/.build-id/{first}/{rest}.debug"
            )));
        }
    }
    let usual = format!("{}.debug", module.name());
    let name = named
        .filter(|name| !name.is_empty() && !name.contains('/'))
        .unwrap_or(&usual);
    if let Some(folder) = path.parent().filter(|folder| folder.is_absolute()) {
        let beside = |path: PathBuf| pid.map_or(path.clone(), |pid| inside(pid, &path));
        candidates.push(beside(folder.join(name)));
        candidates.push(beside(folder.join(".debug").join(name)));
        let below = folder.strip_prefix("/").unwrap_or(folder);
        candidates.push(Path::new(DEBUG_FOLDER).join(below).join(name));
    }
    candidates
        .into_iter()
        .filter_map(|path| checked(open_plain(&path).ok()?).ok())
}

/// A path as the service sees it, which may live in another root.
fn inside(pid: u32, path: &Path) -> PathBuf {
    let below = path.strip_prefix("/").unwrap_or(path);
    Path::new(&format!("/proc/{pid}/root")).join(below)
}

/// Opens a file that a person named, who may name a link.
pub(super) fn open_named(path: &Path) -> Result<File, FileError> {
    checked(open_at_once(path, OFlags::empty())?)
}

/// Opens without following a link at the end.
pub(super) fn open_plain(path: &Path) -> Result<File, FileError> {
    open_at_once(path, OFlags::NOFOLLOW)
}

/// Opens without waiting for whatever it is: a pipe has perhaps nobody at its other end.
fn open_at_once(path: &Path, more: OFlags) -> Result<File, FileError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags | more, Mode::empty());
    file.map(File::from)
        .map_err(|error| FileError::Open(error.into()))
}

pub(super) fn checked(file: File) -> Result<File, FileError> {
    let metadata = file.metadata().map_err(FileError::Open)?;
    if !metadata.is_file() {
        return Err(FileError::NotRegular);
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(FileError::TooLarge(metadata.len()));
    }
    Ok(file)
}

/// The inode that the process has mapped under this name.
fn mapped_inode(pid: u32, path: &str) -> Result<Option<u64>, FileError> {
    let maps = File::open(format!("/proc/{pid}/maps")).map_err(FileError::Maps)?;
    for line in BufReader::new(maps.take(MAX_MAPS_BYTES)).split(b'\n') {
        let line = line.map_err(FileError::Maps)?;
        if let Some((inode, mapped)) = inode_and_path(&line)
            && mapped == path.as_bytes()
        {
            return Ok(Some(inode));
        }
    }
    Ok(None)
}

/// Of a line `addresses permissions offset device inode   path`.
fn inode_and_path(line: &[u8]) -> Option<(u64, &[u8])> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let inode = std::str::from_utf8(fields.nth(4)?).ok()?.parse().ok()?;
    let path = fields.next()?.trim_ascii_start();
    (inode != 0 && path.starts_with(b"/")).then_some((inode, path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn module(path: &Path) -> Module {
        Module {
            path: path.to_str().expect("plain").to_owned(),
            build_id: Some("ab12".to_owned()),
            unnamed: None,
        }
    }

    #[test]
    fn only_what_the_service_has_mapped_is_opened() {
        let own = std::process::id();
        let executable = std::env::current_exe().expect("known");
        assert!(open_mapped(own, &module(&executable)).is_ok());
        for (path, wanted) in [
            ("/etc/passwd", "not mapped"),
            ("[vdso]", "kernel"),
            ("/proc/self/status", "not mapped"),
        ] {
            let error = open_mapped(own, &module(Path::new(path))).expect_err(path);
            assert!(error.to_string().contains(wanted), "{path}: {error}");
        }
        let gone = open_mapped(u32::MAX, &module(&executable)).expect_err("no such process");
        assert!(matches!(gone, FileError::Maps(_)), "{gone}");
    }

    #[test]
    fn links_folders_and_pipes_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link");
        symlink("/etc/passwd", &link).expect("links");
        assert!(matches!(open_plain(&link), Err(FileError::Open(_))));
        let opened = open_plain(folder.path()).and_then(checked);
        assert!(matches!(opened, Err(FileError::NotRegular)));
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR).expect("makes a pipe");
        let opened = open_plain(&pipe).and_then(checked);
        assert!(matches!(opened, Err(FileError::NotRegular)));
        // Where a person names it: a link is followed, and nobody waits for a writer.
        assert!(open_named(&link).is_ok());
        assert!(matches!(open_named(&pipe), Err(FileError::NotRegular)));
    }

    #[test]
    fn on_another_host_a_file_is_opened_only_where_it_can_be_compared() {
        let executable = std::env::current_exe().expect("known");
        assert!(open_here(&module(&executable)).is_ok());
        let mut unknown = module(&executable);
        unknown.build_id = None;
        let refused = open_here(&unknown).expect_err("nothing to compare");
        assert!(matches!(refused, FileError::NoBuildId), "{refused}");
        for (path, wanted) in [
            ("/nonexistent/shop", "ax-top symbolize"),
            ("/dev/null", "no regular file"),
            ("shop", "not mapped"),
            ("[vdso]", "kernel"),
            ("/srv/shop (deleted)", "replaced"),
        ] {
            let error = open_here(&module(Path::new(path))).expect_err(path);
            assert!(error.to_string().contains(wanted), "{path}: {error}");
        }
    }

    #[test]
    fn debug_files_are_looked_for_beside_and_below_and_never_outside() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("shop");
        fs::create_dir(folder.path().join(".debug")).expect("makes");
        let count = |named: Option<&str>| debug_files(None, &module(&program), named).count();
        assert_eq!(count(None), 0);
        fs::write(folder.path().join("shop.debug"), b"x").expect("writes");
        assert_eq!(count(None), 1);
        fs::write(folder.path().join(".debug/other"), b"x").expect("writes");
        assert_eq!(count(Some("other")), 1);
        assert_eq!(count(Some("../../../../etc/passwd")), 1, "the usual name");
        let mut hostile = module(Path::new("shop"));
        hostile.build_id = Some("../../../../etc/passwd".to_owned());
        assert_eq!(debug_files(None, &hostile, None).count(), 0);
    }

    #[test]
    fn a_line_of_the_mappings_gives_its_file() {
        let line = b"7f00-7f01 r-xp 00001000 fd:01 42                         /srv/a file";
        assert_eq!(inode_and_path(line), Some((42, &b"/srv/a file"[..])));
        for other in [
            &b"7f00-7f01 rw-p 00000000 00:00 0 "[..],
            b"7f00-7f01 rw-p 00000000 00:00 0                          [heap]",
            b"",
            b"x",
        ] {
            assert_eq!(inode_and_path(other), None);
        }
    }
}
