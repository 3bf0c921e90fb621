//! `ax-top symbolize`: names for the stacks of a snapshot that was written by the service itself, or where the service's
//! build had none, or its file was gone. Needs no agent.

use std::{collections::BTreeSet, fmt::Write as _, path::PathBuf};

use ax_agent::symbol::{
    OWN_PROGRAM, Symbolizer,
    fold::{Line, fold},
};
use ax_wire::{
    incident::Incident,
    snapshot_file,
    stack::{Function, Module, StackEnd, StackProof, ThreadStack},
};

use super::{Failure, file, print};
use crate::format::printable;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The snapshot
    file: PathBuf,
    /// The executable or library as it was built, or its separate debug file: of the same build id. Without it, the files
    /// that this host has under the paths that they had where the service ran
    #[arg(long, value_name = "BINARY")]
    with: Option<PathBuf>,
    /// Also write the snapshot with these names to a new file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut snapshot = snapshot_file::read(&arguments.file)
        .map_err(|error| Failure::BadData(printable(&error.to_string())))?;
    let stacks = snapshot
        .incident
        .as_mut()
        .map_or(&mut [][..], |incident| &mut incident.stacks);
    if stacks.is_empty() {
        let file = printable(&arguments.file.display().to_string());
        return Err(Failure::BadData(format!(
            "{file} holds no stacks: no worker was stuck, or the service takes none"
        )));
    }
    let symbolizer = Symbolizer::new(OWN_PROGRAM);
    let told = if let Some(binary) = &arguments.with {
        let (named, of) = symbolizer
            .name_with(binary, stacks)
            .map_err(|why| Failure::BadData(printable(&format!("{}: {why}", binary.display()))))?;
        format!("{named} of {of} frames of that file have a name\n")
    } else {
        symbolizer.name_here(stacks);
        names_here(stacks)
    };
    let mut text = snapshot
        .incident
        .as_ref()
        .map_or_else(String::new, stacks_text);
    text.push_str(&told);
    print(&text)?;
    if let Some(output) = &arguments.output {
        let json =
            serde_json::to_vec(&snapshot).map_err(|error| Failure::Internal(error.to_string()))?;
        file::create(output, &json)?;
    }
    Ok(())
}

/// How many frames have a name, and which files gave none, each once.
fn names_here(stacks: &[ThreadStack]) -> String {
    let frames = || stacks.iter().flat_map(|stack| &stack.frames);
    let named = frames().filter(|frame| !frame.functions.is_empty());
    let mut text = format!(
        "{} of {} frames have a name\n",
        named.count(),
        frames().count()
    );
    let modules = stacks.iter().flat_map(|stack| &stack.modules);
    let without: BTreeSet<_> = modules
        .filter_map(|module| Some((&module.path, module.unnamed.as_ref()?)))
        .collect();
    for (path, why) in without {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}: {}", printable(path), printable(why));
    }
    text
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
