//! What was stuck: each stall with the poll that did not return, and its stacks with the function to look at marked.

use ax_agent::symbol::{
    fold::{Line, culprit, fold},
    progress::{Progress, progress},
};
use ax_wire::{
    event::Stall,
    sample::TaskRef,
    stack::{Function, Module, StackEnd, StackProof, ThreadStack},
};
use maud::{Markup, html};

use super::tables::facts;
use crate::{
    export::collapsed::thread,
    format::{duration, maybe_duration, printable},
    headline::task_words,
    opened::Opened,
};

/// The section.
pub fn section(opened: &Opened) -> Markup {
    let incident = opened.snapshot.incident.as_ref();
    let stalls = incident.map_or(&[][..], |incident| &incident.stalls);
    let of = |id: u64| -> Vec<&ThreadStack> {
        let stacks = opened.stacks().iter();
        stacks.filter(|stack| stack.stall == id).collect()
    };
    let known = |stack: &&ThreadStack| stalls.iter().any(|stall| stall.id == stack.stall);
    let others: Vec<_> = opened
        .stacks()
        .iter()
        .filter(|stack| !known(stack))
        .collect();
    html! {
        h2 { "What was stuck" }
        @if incident.is_none() {
            p { "Unknown: the service could not be asked. These are the last figures that it sent." }
        } @else if stalls.is_empty() {
            p { "No worker was stuck at that moment." }
        }
        @for stall in stalls {
            (stall_block(stall, &of(stall.id)))
        }
        @for stack in others {
            h3 { (thread(stack)) ", " (duration(stack.stall_age_ns)) " into a stall before" }
            (listed(stack))
        }
    }
}

fn stall_block(stall: &Stall, stacks: &[&ThreadStack]) -> Markup {
    let place = stall.worker.map_or_else(
        || "A thread outside the workers".to_owned(),
        |worker| format!("Worker {worker}"),
    );
    let function = stacks.iter().rev().find_map(|stack| culprit(stack));
    let rows = [
        ("runs", stall.task.as_ref().map(task_words)),
        (
            "in function",
            function.map(|function| format!("{}  {}", function.name, place_of(function))),
        ),
        ("trace", stall.task.as_ref().and_then(trace)),
        ("on a CPU", Some(maybe_duration(stall.on_cpu_ns))),
        ("waited for a CPU", Some(maybe_duration(stall.run_queue_ns))),
        ("thread", stall.tid.map(|tid| tid.to_string())),
        (
            "state",
            stall.thread.and_then(|thread| Some(state(thread.state?))),
        ),
    ];
    html! {
        h3 { (place) ": " (stall.kind.label()) ", " (duration(stall.length_ns)) " so far" }
        (facts(rows))
        (stacks_of(stacks))
    }
}

fn trace(task: &TaskRef) -> Option<String> {
    Some(task.trace?.to_string())
}

/// The letter that the kernel has for what a thread does, with its meaning.
fn state(letter: char) -> String {
    let meaning = match letter {
        'R' => "running, or waiting for a CPU",
        'S' => "asleep in the kernel",
        'D' => "asleep in the kernel, on a disk or the like",
        'T' | 't' => "stopped",
        'Z' => "ended",
        _ => "unknown",
    };
    format!("{letter}: {meaning}")
}

/// The stacks of one stall, one that shows the same as the one before only named.
fn stacks_of(stacks: &[&ThreadStack]) -> Markup {
    let when = |stack: &ThreadStack| duration(stack.stall_age_ns);
    html! {
        @for (index, stack) in stacks.iter().enumerate() {
            @let before = index.checked_sub(1).and_then(|before| stacks.get(before));
            @match before.and_then(|before| progress(before, stack)) {
                Some(Progress::None) => {
                    p { "After " (when(stack)) " its stack was the same: it does not move." }
                }
                moved => {
                    p {
                        "Its stack after " (when(stack))
                        @match moved {
                            Some(Progress::Within(function)) => {
                                "; it moved meanwhile, within " code { (printable(&function.name)) }
                            }
                            Some(_) => { "; it moved meanwhile" }
                            None => {}
                        }
                        ":"
                    }
                    (listed(stack))
                }
            }
        }
    }
}

fn listed(stack: &ThreadStack) -> Markup {
    let proof = match stack.proof {
        StackProof::SamePoll => "",
        StackProof::CountersStoodStill | StackProof::Other => {
            "It may have been another poll of the same busy time. "
        }
    };
    let end = match stack.end {
        StackEnd::Root => "",
        StackEnd::Cut => "The copy of the stack ends before its beginning.",
        StackEnd::Lost | StackEnd::Other => "There was no way on from its last line.",
    };
    let unnamed = stack
        .modules
        .iter()
        .filter_map(|module| Some((module, module.unnamed.as_ref()?)));
    html! {
        ul.stack {
            @for line in fold(stack) {
                (one(&line))
            }
        }
        @if !proof.is_empty() || !end.is_empty() {
            p.quiet { (proof) (end) }
        }
        @for (module, why) in unnamed {
            p.quiet { "No names for " (printable(module.name())) ": " (printable(why)) }
        }
    }
}

fn one(line: &Line<'_>) -> Markup {
    match line {
        Line::Function {
            function, culprit, ..
        } => html! {
            li.culprit[*culprit] { code { (printable(&function.name)) } " " span.quiet { (place_of(function)) } }
        },
        Line::Unnamed { module, offset } => {
            let module = module.map_or("outside any file", Module::name);
            html! { li { code { (printable(module)) " + " (format!("{offset:#x}")) } } }
        }
        Line::Runtime {
            functions,
            innermost,
        } => html! {
            li.quiet { code { (printable(&innermost.name)) } (of_runtime(*functions)) }
        },
    }
}

fn of_runtime(functions: usize) -> String {
    match functions {
        1 => String::new(),
        functions => format!(" and {} more of the runtime", functions - 1),
    }
}

fn place_of(function: &Function) -> String {
    let line = function
        .line
        .map_or_else(String::new, |line| format!(":{line}"));
    let file = function.file.as_deref();
    file.map_or_else(String::new, |file| printable(&format!("{file}{line}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opened::tests::{fixture, with_stacks};

    #[test]
    fn the_function_to_look_at_is_marked_and_a_second_stack_that_is_the_same_only_named() {
        let section = section(&with_stacks()).into_string();
        let marked = r#"<li class="culprit"><code>demo::inlined&lt;[u8; 4]&gt;</code>"#;
        assert_eq!(section.matches(marked).count(), 1, "{section}");
        assert!(section.contains("<td>demo::inlined&lt;[u8; 4]&gt;  demo/src/fault.rs:53</td>"));
        assert!(section.contains("its stack was the same: it does not move"));
        for wrong in ["<script", "<!DOCTYPE", "onload", "href="] {
            assert!(!section.contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_thread_that_moved_is_said_to() {
        let mut opened = with_stacks();
        let incident = opened.snapshot.incident.as_mut().expect("has one");
        incident.stacks[1].frames[0].offset += 1;
        let section = section(&opened).into_string();
        let moved = "it moved meanwhile, within <code>demo::inlined";
        assert!(section.contains(moved), "{section}");
        assert_eq!(section.matches(r#"class="culprit""#).count(), 2);
    }

    #[test]
    fn without_stacks_the_stall_stands_alone() {
        let section = section(&fixture()).into_string();
        assert!(
            section.contains("Worker 1: stall, 252 ms so far"),
            "{section}"
        );
        assert!(!section.contains("stack"), "{section}");
    }

    #[test]
    fn a_stack_whose_stall_is_not_in_the_snapshot_is_shown() {
        let mut opened = with_stacks();
        let incident = opened.snapshot.incident.as_mut().expect("has one");
        incident.stalls.clear();
        let section = section(&opened).into_string();
        assert_eq!(
            section.matches("into a stall before").count(),
            2,
            "{section}"
        );
    }

    #[test]
    fn a_hostile_name_stays_text() {
        let mut opened = with_stacks();
        let incident = opened.snapshot.incident.as_mut().expect("has one");
        let attack = "</text></svg><script>alert(1)</script>\u{1b}";
        for stack in &mut incident.stacks {
            let functions = stack
                .frames
                .iter_mut()
                .flat_map(|frame| &mut frame.functions);
            for function in functions {
                attack.clone_into(&mut function.name);
                function.file = Some(attack.to_owned());
            }
            for module in &mut stack.modules {
                attack.clone_into(&mut module.path);
                module.unnamed = Some(attack.to_owned());
            }
        }
        let section = section(&opened).into_string();
        assert!(section.contains("&lt;script&gt;"));
        assert!(
            !section.contains("<script") && !section.contains('\u{1b}'),
            "{section}"
        );
    }
}
