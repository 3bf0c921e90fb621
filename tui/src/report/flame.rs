//! All stacks as one flame graph: the thread on top, each box as wide as it was often seen, the runtime's functions between
//! two of the service's as one box.

use ax_agent::symbol::fold::{Line, fold};
use ax_wire::stack::{Module, ThreadStack};
use maud::{Markup, html};

use crate::{
    export::collapsed::{SEEN, thread},
    format::printable,
    opened::Opened,
};

/// Deepest level that is drawn.
const MAX_LEVELS: usize = 100;

/// The section; nothing where no stack was taken.
pub fn section(opened: &Opened) -> Markup {
    let stacks = opened.stacks();
    let mut root = Called::default();
    for stack in stacks {
        root.add(std::iter::once((Kind::Thread, thread(stack))).chain(boxes(stack)));
    }
    html! {
        @if !stacks.is_empty() {
            h2 { "Flame graph" }
            p.quiet {
                "Outermost first. Grey: the runtime, tokio and the standard library, folded. Framed: the function to look at. "
                "Every function: " code { "ax-top export --format collapsed" } ", or " code { "speedscope" } "."
            }
            div.level { (root.draw()) }
        }
    }
}

/// Whose a box is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Thread,
    Runtime,
    Code,
    Culprit,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Self::Thread | Self::Runtime => "box folded",
            Self::Code => "box",
            Self::Culprit => "box framed",
        }
    }
}

/// The boxes of a stack, outermost first.
fn boxes(stack: &ThreadStack) -> impl Iterator<Item = (Kind, String)> {
    let lines = fold(stack);
    lines.into_iter().rev().map(|line| match line {
        Line::Function {
            function, culprit, ..
        } => {
            let kind = if culprit { Kind::Culprit } else { Kind::Code };
            (kind, printable(&function.name))
        }
        Line::Unnamed { module, offset } => {
            let module = module.map_or("unknown", Module::name);
            (Kind::Code, printable(&format!("{module}+{offset:#x}")))
        }
        Line::Runtime {
            functions: 1,
            innermost,
        } => (Kind::Runtime, printable(&innermost.name)),
        Line::Runtime {
            functions,
            innermost,
        } => {
            let name = format!("{} and {} more", innermost.name, functions - 1);
            (Kind::Runtime, printable(&name))
        }
    })
}

/// A function, and those that it called.
#[derive(Default)]
struct Called {
    kind: Kind,
    name: String,
    seen: u64,
    calls: Vec<Self>,
}

impl Called {
    fn add(&mut self, boxes: impl Iterator<Item = (Kind, String)>) {
        let mut at = self;
        at.seen += SEEN;
        for (kind, name) in boxes.take(MAX_LEVELS) {
            let mut calls = at.calls.iter();
            let known = calls.position(|called| called.name == name && called.kind == kind);
            let next = known.unwrap_or_else(|| {
                at.calls.push(Self {
                    kind,
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
                div class=(called.kind.class()) style={ "flex-grow:" (called.seen) } {
                    span title={ (called.name) " (" (called.seen) ")" } { (called.name) }
                    div.level { (called.draw()) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opened::tests::{fixture, with_stacks};

    #[test]
    fn stacks_that_share_functions_share_boxes() {
        let mut opened = with_stacks();
        let incident = opened.snapshot.incident.as_mut().expect("has one");
        "demo::other".clone_into(&mut incident.stacks[1].frames[1].functions[0].name);
        let section = section(&opened).into_string();
        for wanted in [
            r#"<div class="box" style="flex-grow:2"><span title="demo::fault::block (2)">"#,
            r#"<div class="box framed" style="flex-grow:1"><span title="demo::other (1)">"#,
            r#"<div class="box folded" style="flex-grow:1"><span title="std::thread::sleep (1)">"#,
            r#"title="demo+0x500 (2)""#,
        ] {
            assert!(section.contains(wanted), "{wanted} in {section}");
        }
    }

    #[test]
    fn the_runtime_is_one_box() {
        let mut opened = with_stacks();
        let incident = opened.snapshot.incident.as_mut().expect("has one");
        for stack in &mut incident.stacks {
            let runtime = stack.frames[2].clone();
            stack.frames.splice(2..3, vec![runtime; 40]);
        }
        let section = section(&opened).into_string();
        assert!(section.contains("tokio::run and 39 more"), "{section}");
        assert_eq!(
            section.matches(r#"<div class="box"#).count(),
            6,
            "{section}"
        );
    }

    #[test]
    fn without_stacks_there_is_no_section() {
        assert_eq!(section(&fixture()).into_string(), "");
    }

    #[test]
    fn a_hostile_name_stays_text() {
        let mut opened = with_stacks();
        let incident = opened.snapshot.incident.as_mut().expect("has one");
        let frames = incident
            .stacks
            .iter_mut()
            .flat_map(|stack| &mut stack.frames);
        for function in frames.flat_map(|frame| &mut frame.functions) {
            function.name = "\"><script>alert(1)</script>\u{1b}".to_owned();
        }
        let section = section(&opened).into_string();
        assert!(section.contains("&quot;&gt;&lt;script&gt;"), "{section}");
        assert!(!section.contains("<script") && !section.contains('\u{1b}'));
    }
}
