//! `ax-top symbolize`: names for the stacks of a snapshot that was written where the service's build had none, or its file
//! was gone. Needs no agent.

use std::{
    fmt::Write as _,
    fs::OpenOptions,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use ax_agent::symbol::{
    OWN_PROGRAM, Symbolizer,
    fold::{Line, fold},
};
use ax_wire::{
    incident::{Incident, Snapshot},
    snapshot_file,
    stack::{Function, Module, StackEnd, StackProof, ThreadStack},
};

use super::{Failure, print};
use crate::format::printable;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The snapshot
    file: PathBuf,
    /// The executable or library as it was built, or its separate debug file: of the same build id
    #[arg(long, value_name = "BINARY")]
    with: PathBuf,
    /// Also write the snapshot with these names to a new file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut snapshot = snapshot_file::read(&arguments.file)
        .map_err(|error| Failure::BadData(error.to_string()))?;
    let stacks = snapshot
        .incident
        .as_mut()
        .map_or(&mut [][..], |incident| &mut incident.stacks);
    if stacks.is_empty() {
        let file = arguments.file.display();
        return Err(Failure::BadData(format!("{file} holds no stacks")));
    }
    let (named, of) = Symbolizer::new(OWN_PROGRAM)
        .name_with(&arguments.with, stacks)
        .map_err(|why| Failure::BadData(format!("{}: {why}", arguments.with.display())))?;
    let mut text = snapshot
        .incident
        .as_ref()
        .map_or_else(String::new, stacks_text);
    let _ = writeln!(text, "{named} of {of} frames of that file have a name");
    print(&text)?;
    if let Some(output) = &arguments.output {
        write(output, &snapshot)?;
    }
    Ok(())
}

/// Like every snapshot: for its owner alone, and never over another file.
fn write(path: &Path, snapshot: &Snapshot) -> Result<(), Failure> {
    let json =
        serde_json::to_vec(snapshot).map_err(|error| Failure::Internal(error.to_string()))?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    Ok(file.write_all(&json)?)
}

/// The stacks of an incident, a block each, the runtime's frames folded.
fn stacks_text(incident: &Incident) -> String {
    let mut text = String::new();
    for stack in &incident.stacks {
        let stall = incident.stalls.iter().find(|stall| stall.id == stack.stall);
        let task = stall.and_then(|stall| stall.task.as_ref());
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{}, {} ms into the stall of {}{}",
            worker(stack),
            stack.stall_age_ns / 1_000_000,
            task.map_or_else(
                || "a task without a name".to_owned(),
                |task| printable(&task.name)
            ),
            match stack.proof {
                StackProof::SamePoll => "",
                _ => " (it may have been another poll of the same busy time)",
            },
        );
        for line in fold(stack) {
            line_text(&line, &mut text);
        }
        text.push_str(match stack.end {
            StackEnd::Root => "\n",
            StackEnd::Cut => "    (the copy of the stack ends here)\n\n",
            StackEnd::Lost | StackEnd::Other => "    (no way on from here)\n\n",
        });
    }
    text
}

fn worker(stack: &ThreadStack) -> String {
    let runtime = stack.runtime.0;
    match stack.worker {
        Some(worker) => format!(
            "worker {worker} of runtime {runtime} (thread {})",
            stack.tid
        ),
        None => format!(
            "a future outside the workers of runtime {runtime} (thread {})",
            stack.tid
        ),
    }
}

fn line_text(line: &Line<'_>, text: &mut String) {
    let _ = match line {
        Line::Function {
            function, culprit, ..
        } => {
            let mark = if *culprit { "->" } else { "  " };
            writeln!(
                text,
                "  {mark} {}{}",
                printable(&function.name),
                place(function)
            )
        }
        Line::Unnamed { module, offset } => {
            let name = module.map_or("outside any file", Module::name);
            writeln!(text, "     {} + {offset:#x}", printable(name))
        }
        Line::Runtime {
            functions,
            innermost,
        } => writeln!(
            text,
            "     {} ({functions} frames of the runtime)",
            printable(&innermost.name)
        ),
    };
}

fn place(function: &Function) -> String {
    match (&function.file, function.line) {
        (Some(file), Some(line)) => format!("  {}:{line}", printable(file)),
        (Some(file), None) => format!("  {}", printable(file)),
        _ => String::new(),
    }
}
