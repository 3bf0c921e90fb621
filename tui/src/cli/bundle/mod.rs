//! `ax-top bundle FILE|SERVICE`: what a colleague needs to look at an incident elsewhere, in one archive, redacted.

mod redact;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use flate2::{Compression, write::GzEncoder};
use serde_json::Value;

use self::redact::{Redacted, Redactor};
use super::{Failure, capture, file, print, until_interrupted};
use crate::{
    export::{Format, export},
    opened::Opened,
    report,
};

/// What every archive says of itself; what was redacted in it follows.
const ABOUT: &str = "\
An incident of a service that is watched by ax (ax-top), redacted.

snapshot.json   the evidence: `ax-top open snapshot.json`, or jq
report.html     the same as a page; open it in a browser, it loads nothing
trace.json      the same for https://ui.perfetto.dev

Five minutes before the incident, a point a second, are `history` in snapshot.json, where the agent had them.
The service's alert rules are not in it: this version of ax has no rules of a service's own.
";

#[derive(Debug, clap::Args)]
#[command(after_help = redact::HELP)]
pub struct Arguments {
    /// A snapshot, or the name or pid of a service, of which one is taken now
    what: String,
    /// The archive; by default `ax-bundle-NAME.tar.gz` in the current folder, after the snapshot
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = snapshot_path(&arguments.what)?;
    let opened = file::open(&path)?;
    let name = format!("ax-bundle-{}", stem(&path));
    let output = arguments.output.clone();
    let output = output.unwrap_or_else(|| PathBuf::from(format!("{name}.tar.gz")));
    let (archive, redacted) = archive(&opened, &name, &Redactor::of_this_host())
        .map_err(|error| Failure::Internal(format!("{error:#}")))?;
    file::create(&output, &archive)?;
    print(&format!("{}\n{redacted}", output.display()))
}

/// The file that was named, or one that is taken now of the service of that name.
fn snapshot_path(what: &str) -> Result<PathBuf, Failure> {
    let path = Path::new(what);
    // A folder may be called like a service, and often is: that of its sources.
    if what.contains('/') || (path.exists() && !path.is_dir()) {
        return Ok(path.to_owned());
    }
    let mut taken = None;
    until_interrupted(async {
        taken = Some(capture::take(what).await?.path);
        Ok(())
    })?;
    taken
        .map(PathBuf::from)
        .ok_or_else(|| Failure::Internal("no snapshot and no error".to_owned()))
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    stem.chars()
        .map(|c| if plain(c) { c } else { '-' })
        .collect()
}

/// A gzipped tar of one folder, the same for the same snapshot.
fn archive(
    opened: &Opened,
    folder: &str,
    redactor: &Redactor,
) -> anyhow::Result<(Vec<u8>, Redacted)> {
    let mut json = serde_json::to_value(&opened.snapshot).context("encode the snapshot")?;
    let redacted = redactor.redact(&mut json);
    let snapshot = serde_json::to_vec(&json).context("encode the snapshot")?;
    // Report and trace are made of what is redacted, so that neither can tell more.
    let safe = from_redacted(json, opened)?;
    let about = format!("{ABOUT}\n{redacted}");
    let files = [
        ("README.txt", about.into_bytes()),
        ("snapshot.json", snapshot),
        ("report.html", report::page(&safe).into_bytes()),
        ("trace.json", export(&safe, Format::Perfetto)?.into_bytes()),
    ];
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(opened.at_unix_ns() / 1_000_000_000);
        let path = format!("{folder}/{name}");
        tar.append_data(&mut header, &path, bytes.as_slice())
            .with_context(|| format!("pack {name}"))?;
    }
    let archive = tar.into_inner().and_then(GzEncoder::finish);
    Ok((archive.context("pack the archive")?, redacted))
}

fn from_redacted(json: Value, opened: &Opened) -> anyhow::Result<Opened> {
    let snapshot = serde_json::from_value(json).context("read the redacted snapshot")?;
    Ok(Opened::new(snapshot, opened.name.clone()))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::opened::tests::fixture;

    fn unpacked(archive: &[u8]) -> Vec<(String, String)> {
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(archive));
        let entries = tar.entries().expect("is a tar");
        entries
            .map(|entry| {
                let mut entry = entry.expect("an entry");
                assert_eq!(entry.header().mode().expect("a mode"), 0o600);
                let path = entry.path().expect("a path").display().to_string();
                let mut text = String::new();
                entry.read_to_string(&mut text).expect("is text");
                (path, text)
            })
            .collect()
    }

    #[test]
    fn the_archive_holds_what_it_says_and_no_place_outside_the_project() {
        let mut opened = fixture();
        let incident = opened.snapshot.incident.as_mut().expect("has one");
        let stuck = incident.stalls[0].task.as_mut().expect("is named");
        stuck.place = Some("/Users/ana/code/shop/src/pay.rs:7".to_owned());
        incident
            .unknown
            .push("cannot read /Users/ana/x on box7".to_owned());
        let redactor = Redactor::new(Some("box7"), Some("ana"));
        let (packed, redacted) = archive(&opened, "b", &redactor).expect("packs");
        let files = unpacked(&packed);
        let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "b/README.txt",
                "b/snapshot.json",
                "b/report.html",
                "b/trace.json"
            ]
        );
        for (name, text) in &files {
            for secret in ["ana", "box7", "/Users", "code/shop"] {
                assert!(!text.contains(secret), "{secret} in {name}");
            }
        }
        assert!(files[2].1.contains("shop/src/pay.rs:7") || files[2].1.contains("src/pay.rs:7"));
        let again: ax_wire::incident::Snapshot = serde_json::from_str(&files[1].1).expect("reads");
        assert_eq!(again.history, opened.snapshot.history, "the five minutes");
        assert!(redacted.any());
        let (same, _) = archive(&opened, "b", &redactor).expect("packs");
        assert_eq!(packed, same);
    }

    #[test]
    fn a_name_is_a_plain_one() {
        assert_eq!(stem(Path::new("/x/demo-1.json")), "demo-1");
        assert_eq!(stem(Path::new("/x/a b\u{1b};c.json")), "a-b--c");
    }
}
