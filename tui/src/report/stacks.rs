//! Stacks: each as a list with the function to look at marked, and all as a flame graph.

use ax_agent::symbol::fold::{Line, fold};
use ax_wire::stack::{Function, Module, StackEnd, StackProof, ThreadStack};
use maud::{Markup, html};

use crate::{
    export::collapsed::{SEEN, outermost_first, thread},
    format::{duration, printable},
    opened::Opened,
};

/// The section; nothing where no stack was taken.
pub fn section(opened: &Opened) -> Markup {
    let stacks = opened.stacks();
    html! {
        @if !stacks.is_empty() {
            h2 { "Stacks" }
            @for stack in stacks {
                (block(stack))
            }
            h3 { "Flame graph" }
            (flame_graph(stacks))
        }
    }
}

fn block(stack: &ThreadStack) -> Markup {
    let proof = match stack.proof {
        StackProof::SamePoll => "",
        StackProof::CountersStoodStill | StackProof::Other => {
            " It may have been another poll of the same busy time."
        }
    };
    let end = match stack.end {
        StackEnd::Root => "",
        StackEnd::Cut => " The copy of the stack ends before its beginning.",
        StackEnd::Lost | StackEnd::Other => " There was no way on from its last line.",
    };
    html! {
        h3 { (thread(stack)) ", " (duration(stack.stall_age_ns)) " into its stall" }
        @if !proof.is_empty() || !end.is_empty() {
            p.quiet { (proof) (end) }
        }
        ol.stack {
            @for line in fold(stack) {
                (one(&line))
            }
        }
        @for (module, why) in stack.modules.iter().filter_map(|module| Some((module, module.unnamed.as_ref()?))) {
            p.quiet { (printable(module.name())) ": " (printable(why)) }
        }
    }
}

fn one(line: &Line<'_>) -> Markup {
    match line {
        Line::Function {
            function, culprit, ..
        } => html! {
            li.culprit[*culprit] { code { (printable(&function.name)) } " " span.quiet { (place(function)) } }
        },
        Line::Unnamed { module, offset } => {
            let module = module.map_or("outside any file", Module::name);
            html! { li { code { (printable(module)) " + " (format!("{offset:#x}")) } } }
        }
        Line::Runtime {
            functions,
            innermost,
        } => html! {
            li.quiet { code { (printable(&innermost.name)) } " (" (functions) " frames of the runtime)" }
        },
    }
}

fn place(function: &Function) -> String {
    let line = function
        .line
        .map_or_else(String::new, |line| format!(":{line}"));
    let file = function.file.as_deref();
    file.map_or_else(String::new, |file| printable(&format!("{file}{line}")))
}

/// Deepest level that is drawn.
const MAX_LEVELS: usize = 200;

/// A function, and those that it called.
#[derive(Default)]
struct Called {
    name: String,
    seen: u64,
    calls: Vec<Self>,
}

impl Called {
    fn add(&mut self, names: impl Iterator<Item = String>) {
        let mut at = self;
        at.seen += SEEN;
        for name in names.take(MAX_LEVELS) {
            let known = at.calls.iter().position(|called| called.name == name);
            let next = known.unwrap_or_else(|| {
                at.calls.push(Self {
                    name,
                    ..Self::default()
                });
                at.calls.len() - 1
            });
            at = &mut at.calls[next];
            at.seen += SEEN;
        }
    }

    fn draw(&self) -> Markup {
        html! {
            @for called in &self.calls {
                div.box style={ "flex-grow:" (called.seen) } {
                    span title={ (called.name) " (" (called.seen) ")" } { (called.name) }
                    div.level { (called.draw()) }
                }
            }
        }
    }
}

/// All stacks, the thread on top; each box as wide as it was often seen.
fn flame_graph(stacks: &[ThreadStack]) -> Markup {
    let mut root = Called::default();
    for stack in stacks {
        let functions = outermost_first(stack).map(|(name, _)| name);
        root.add(std::iter::once(thread(stack)).chain(functions));
    }
    html! { div.level { (root.draw()) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opened::tests::{fixture, with_stacks};

    #[test]
    fn the_function_to_look_at_is_marked_and_drawn() {
        let section = section(&with_stacks()).into_string();
        let marked = r#"<li class="culprit"><code>demo::inlined&lt;[u8; 4]&gt;</code>"#;
        assert!(section.contains(marked), "{section}");
        assert!(
            section.contains(r#"title="demo::fault::block (2)""#),
            "{section}"
        );
        for wrong in ["<script", "<!DOCTYPE", "onload", "href="] {
            assert!(!section.contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn without_stacks_there_is_no_section() {
        assert_eq!(section(&fixture()).into_string(), "");
    }

    #[test]
    fn a_hostile_name_stays_text() {
        let mut opened = with_stacks();
        let incident = opened.snapshot.incident.as_mut().expect("has one");
        for function in incident
            .stacks
            .iter_mut()
            .flat_map(|stack| &mut stack.frames)
            .flat_map(|frame| &mut frame.functions)
        {
            function.name = "</text></svg><script>alert(1)</script>\u{1b}".to_owned();
        }
        let section = section(&opened).into_string();
        assert!(section.contains("&lt;script&gt;"));
        assert!(
            !section.contains("<script") && !section.contains('\u{1b}'),
            "{section}"
        );
    }
}
