//! `ax-top bundle FILE|SERVICE`: what a colleague needs to look at an incident elsewhere, in one archive, redacted.

mod redact;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use ax_wire::rules::RulesReport;
use flate2::{Compression, write::GzEncoder};
use serde_json::Value;

use self::redact::{Redacted, Redactor};
use super::{Failure, capture, file, print, rules, until_interrupted};
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
";

/// Said where the agent could be asked.
const WITH_RULES: &str =
    "rules.json: the alert rules, and what each said of the service (ax-top rules --json)\n";

/// Said where it could not.
const WITHOUT_RULES: &str = "The alert rules are not in it: it was made of a snapshot file, or the agent did not say them.\n";

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
    let Source { path, rules } = source(&arguments.what)?;
    let opened = file::open(&path)?;
    let name = format!("ax-bundle-{}", stem(&path));
    let output = arguments.output.clone();
    let output = output.unwrap_or_else(|| PathBuf::from(format!("{name}.tar.gz")));
    let (archive, redacted) = archive(&opened, rules.as_ref(), &name, &Redactor::of_this_host())
        .map_err(|error| Failure::Internal(format!("{error:#}")))?;
    file::create(&output, &archive)?;
    print(&format!("{}\n{redacted}", output.display()))
}

/// What an archive is made of.
struct Source {
    path: PathBuf,
    /// Of a service that is there, where its agent says them.
    rules: Option<RulesReport>,
}

/// The file that was named, or one that is taken now of the service of that name.
fn source(what: &str) -> Result<Source, Failure> {
    let path = Path::new(what);
    // A folder may be called like a service, and often is: that of its sources.
    if what.contains('/') || (path.exists() && !path.is_dir()) {
        return Ok(Source {
            path: path.to_owned(),
            rules: None,
        });
    }
    let mut taken = None;
    until_interrupted(async {
        let path = PathBuf::from(capture::take(what).await?.path);
        // The evidence is there: an agent that does not say its rules is no reason to hand on none.
        let rules = rules::ask(Some(what)).await.ok();
        taken = Some(Source { path, rules });
        Ok(())
    })?;
    taken.ok_or_else(|| Failure::Internal("no snapshot and no error".to_owned()))
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
    rules: Option<&RulesReport>,
    folder: &str,
    redactor: &Redactor,
) -> anyhow::Result<(Vec<u8>, Redacted)> {
    let mut json = serde_json::to_value(&opened.snapshot).context("encode the snapshot")?;
    let mut redacted = redactor.redact(&mut json);
    let snapshot = serde_json::to_vec(&json).context("encode the snapshot")?;
    // Report and trace are made of what is redacted, so that neither can tell more.
    let safe = from_redacted(json, opened)?;
    let rules = rules.map(serde_json::to_value).transpose();
    let rules = rules.context("encode the rules")?.map(|mut rules| {
        redacted += redactor.redact(&mut rules);
        rules.to_string().into_bytes()
    });
    let of_rules = rules.as_ref().map_or(WITHOUT_RULES, |_| WITH_RULES);
    let about = format!("{ABOUT}\n{of_rules}\n{redacted}");
    let mut files = vec![
        ("README.txt", about.into_bytes()),
        ("snapshot.json", snapshot),
        ("report.html", report::page(&safe).into_bytes()),
        ("trace.json", export(&safe, Format::Perfetto)?.into_bytes()),
    ];
    files.extend(rules.map(|rules| ("rules.json", rules)));
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
        let (packed, redacted) = archive(&opened, None, "b", &redactor).expect("packs");
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
        let (same, _) = archive(&opened, None, "b", &redactor).expect("packs");
        assert_eq!(packed, same);
    }

    #[test]
    fn a_name_is_a_plain_one() {
        assert_eq!(stem(Path::new("/x/demo-1.json")), "demo-1");
        assert_eq!(stem(Path::new("/x/a b\u{1b};c.json")), "a-b--c");
    }
}
