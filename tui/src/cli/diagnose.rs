//! `ax-top diagnose SERVICE|FILE`: why it is slow, with the figures behind each verdict and what to do.

use std::{fmt::Write as _, path::Path};

use ax_wire::{
    verdict::{Diagnosis, Verdict},
    view::{ServiceState, ServiceView},
};
use serde::Serialize;

use super::{Failure, file, print, print_json, session::Session};
use crate::{
    client::Sockets,
    format::{age, printable, service_name},
    headline::{self, Severity},
    opened::Opened,
    verdict,
    world::World,
};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Its name or pid, or the file of a snapshot
    #[arg(value_name = "SERVICE|FILE")]
    of: String,
    /// Print one JSON object, `{"service": .., "verdicts": [..], "unsure": [..]}`
    #[arg(long)]
    json: bool,
}

/// Keys are only ever added.
#[derive(Serialize)]
struct Report<'a> {
    service: &'a str,
    pid: u32,
    /// Whether it speaks: of one that is silent or lost these are the last words.
    state: ServiceState,
    /// When it was so.
    at_unix_ns: u64,
    #[serde(flatten)]
    diagnosis: &'a Diagnosis,
}

/// What the words are made of: of a file nothing more will be known.
#[derive(Clone, Copy)]
enum Source {
    Agent,
    File,
}

/// Runs the command.
pub async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let not_taken = match of_file(&arguments.of)? {
        Of::Snapshot(opened) => return tell_file(&opened, arguments.json),
        Of::Service { not_taken } => not_taken,
    };
    let mut session = Session::start(Sockets::from_env());
    let wanted = Some(arguments.of.as_str());
    session.wait(|world| diagnosed(world, wanted)).await?;
    let found = match session.current(wanted) {
        Ok(found) => found,
        Err(failure) => {
            return Err(match (not_taken, failure) {
                (Some(why), _) => why,
                (None, Failure::Unknown(text)) if is_path(&arguments.of) => Failure::Unknown(
                    format!("there is no file {}, and {text}", printable(&arguments.of)),
                ),
                (None, other) => other,
            });
        }
    };
    let world = &session.world;
    let views = || {
        found
            .iter()
            .filter_map(|service| world.newest_view(service.instance))
    };
    let mut any = false;
    for view in views() {
        any = true;
        tell(view, world.now_unix_ns, Source::Agent, arguments.json)?;
    }
    if any {
        Ok(())
    } else {
        Err(Failure::Unknown(format!(
            "no sample of {} has come yet; try again in a second",
            printable(&arguments.of)
        )))
    }
}

/// What is to be diagnosed.
enum Of {
    Snapshot(Box<Opened>),
    Service {
        /// A file has that name and is no snapshot, such as the program of the service.
        not_taken: Option<Failure>,
    },
}

/// Whether it can hardly be the name of a service.
fn is_path(of: &str) -> bool {
    of.contains('/') || Path::new(of).extension().is_some_and(|end| end == "json")
}

/// The snapshot in the file of this name, if there is one.
///
/// # Errors
///
/// It is the path of something else.
fn of_file(of: &str) -> Result<Of, Failure> {
    let path = Path::new(of);
    if path.is_file() {
        return match file::open(path) {
            Ok(opened) => Ok(Of::Snapshot(Box::new(opened))),
            Err(why) if is_path(of) => Err(why),
            why => Ok(Of::Service {
                not_taken: why.err(),
            }),
        };
    }
    if is_path(of) && path.exists() {
        return Err(Failure::BadData(format!(
            "{} is no regular file; name the file of a snapshot (ax-top snapshots lists them)",
            printable(of)
        )));
    }
    Ok(Of::Service { not_taken: None })
}

fn tell_file(opened: &Opened, json: bool) -> Result<(), Failure> {
    let mut view = opened.view.clone();
    view.diagnosis = ax_agent::diagnosis::of_snapshot(&opened.snapshot);
    if opened.snapshot.view.is_none() {
        eprintln!(
            "ax-top: the service wrote this file itself, of one instant: what needs a history to tell is not told"
        );
    }
    tell(&view, view.at_unix_ns, Source::File, json)
}

fn diagnosed(world: &World, wanted: Option<&str>) -> bool {
    let mut services = world.services.iter();
    services.any(|service| {
        let view = world.newest_view(service.instance);
        super::session::matches(service, wanted)
            && view.is_some_and(|view| {
                let live = view.summary.state == ServiceState::Live;
                !live || !view.diagnosis.verdicts.is_empty()
            })
    })
}

fn tell(view: &ServiceView, now_unix_ns: u64, source: Source, json: bool) -> Result<(), Failure> {
    if json {
        print_json(&Report {
            service: &view.summary.service,
            pid: view.summary.pid,
            state: view.summary.state,
            at_unix_ns: view.at_unix_ns,
            diagnosis: &view.diagnosis,
        })
    } else {
        print(&text(view, now_unix_ns, source))
    }
}

/// Each verdict in a paragraph.
fn text(view: &ServiceView, now_unix_ns: u64, source: Source) -> String {
    let summary = &view.summary;
    let mut text = format!(
        "{}  pid {}\n",
        printable(service_name(&summary.service)),
        summary.pid
    );
    if summary.state != ServiceState::Live {
        let silence = headline::of_silence(summary, now_unix_ns);
        let _ = writeln!(text, "  {}; what was last said of it:", silence.sentence);
    }
    for verdict in &view.diagnosis.verdicts {
        paragraph(verdict, view, now_unix_ns, &mut text);
    }
    if view.diagnosis.verdicts.is_empty() {
        text.push_str(match source {
            Source::Agent => "  Too little is known yet to say anything.\n",
            Source::File => "  Too little is in the file to say anything.\n",
        });
    }
    if !view.diagnosis.unsure.is_empty() {
        text.push_str(match source {
            Source::Agent => "not to be told yet\n",
            Source::File => "not to be told from this file\n",
        });
    }
    for rule in &view.diagnosis.unsure {
        let _ = writeln!(text, "  {}", verdict::unsure(rule));
    }
    text
}

fn paragraph(verdict: &Verdict, view: &ServiceView, now_unix_ns: u64, text: &mut String) {
    let severity = Severity::from(verdict.severity);
    let explained = verdict::causes(view).all(|cause| !std::ptr::eq(cause, verdict));
    let healthy = verdict.id == ax_wire::verdict::VerdictId::Healthy;
    let label = match (healthy, explained) {
        (true, _) => Severity::Healthy.label(),
        (false, true) => "follows",
        (false, false) => severity.label(),
    };
    // Healthy is its own label.
    let named = if healthy {
        String::new()
    } else {
        format!("{}  ", verdict::name(verdict))
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{label}  {}{}  ({})\n  {}",
        named,
        age(verdict::lasted_ns(verdict, now_unix_ns)),
        verdict::confidence(verdict),
        printable(&verdict.sentence)
    );
    let mut line = |what: &str, said: String| {
        if !said.is_empty() {
            let _ = writeln!(text, "  {what:<9}{said}");
        }
    };
    for evidence in &verdict.evidence {
        line("because", verdict::because(evidence));
    }
    if let Some(culprit) = &verdict.culprit {
        line("who", verdict::culprit(culprit));
    }
    for hurt in &verdict.who_is_hurt {
        line("hurts", verdict::hurt(hurt));
    }
    for step in &verdict.next_steps {
        line("next", printable(step));
    }
    for explained in &verdict.explains {
        line("explains", verdict::explained(explained));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn each_verdict_has_its_figures_and_what_to_do() {
        insta::assert_snapshot!(text(
            &fixture::diagnosed(),
            fixture::NOW_UNIX_NS,
            Source::Agent
        ));
    }

    #[test]
    fn a_healthy_service_is_said_to_be_so_once() {
        let view = fixture::diagnosed_healthy();
        let text = text(&view, fixture::NOW_UNIX_NS, Source::Agent);
        assert_eq!(text.matches("healthy").count(), 1, "{text}");
    }

    /// The program of a service has its name, and may lie in the folder where somebody asks for the service.
    #[test]
    fn a_file_that_is_no_snapshot_may_have_the_name_of_a_service() {
        let folder = tempfile::tempdir().expect("a folder");
        let named = |name: &str| folder.path().join(name).display().to_string();
        let refused = |of: &str| match of_file(of) {
            Err(Failure::BadData(why)) => why,
            _ => panic!("{of} is taken"),
        };
        let path = named("checkout");
        std::fs::write(&path, "ELF").expect("is written");
        let why = refused(&path);
        assert!(why.contains("is not a snapshot of ax"), "{why}");
        let why = refused(&named("."));
        assert!(why.contains("is no regular file"), "{why}");
        // Without a path it is a service that is asked for; this one lies in the folder that tests run in.
        let bare = of_file("Cargo.toml").expect("may be a service");
        assert!(matches!(bare, Of::Service { not_taken: Some(_) }));
        let bare = of_file("checkout").expect("may be a service");
        assert!(matches!(bare, Of::Service { not_taken: None }));
        let missing = of_file(&named("none.json")).expect("is looked for among services");
        assert!(matches!(missing, Of::Service { not_taken: None }));
    }

    #[test]
    fn the_json_is_the_diagnosis_with_whose_it_is() {
        let view = fixture::diagnosed();
        let json = serde_json::to_value(&Report {
            service: &view.summary.service,
            pid: view.summary.pid,
            state: view.summary.state,
            at_unix_ns: view.at_unix_ns,
            diagnosis: &view.diagnosis,
        })
        .expect("is JSON");
        assert_eq!(json["service"], "checkout");
        assert_eq!(
            (&json["pid"], &json["state"]),
            (&4121.into(), &"live".into())
        );
        assert_eq!(json["verdicts"][0]["id"], "blocking-call");
        assert_eq!(json["unsure"][0]["id"], "memory-growth");
    }
}
