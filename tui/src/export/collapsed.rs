//! Collapsed stacks, the input of flame graphs: a line a stack, its functions from the thread's first to the innermost one,
//! then how often it was seen.

use ax_wire::stack::{Frame, Function, ThreadStack};

use crate::{format::printable, opened::Opened};

/// Every stack counts once: at most two of each stall were taken.
pub const SEEN: u64 = 1;

/// The lines; none where the snapshot holds no stacks.
pub fn lines(opened: &Opened) -> Vec<String> {
    let stacks = opened.stacks().iter();
    stacks
        .map(|stack| {
            let mut functions = vec![thread(stack)];
            functions.extend(outermost_first(stack).map(|(name, _)| name));
            let functions: Vec<_> = functions.iter().map(|name| plain(name)).collect();
            format!("{} {SEEN}", functions.join(";"))
        })
        .collect()
}

/// `worker 1`, with its runtime where that is not the first.
pub fn thread(stack: &ThreadStack) -> String {
    let of = match stack.runtime.0 {
        1 => String::new(),
        runtime => format!(" of runtime {runtime}"),
    };
    match stack.worker {
        Some(worker) => format!("worker {worker}{of}"),
        None => format!("outside the workers{of}"),
    }
}

/// The names of a stack's functions, each with the function where it is known.
pub fn outermost_first(stack: &ThreadStack) -> impl Iterator<Item = (String, Option<&Function>)> {
    stack.frames.iter().rev().flat_map(|frame| {
        let unnamed = frame
            .functions
            .is_empty()
            .then(|| (address(stack, frame), None));
        let named = frame.functions.iter().rev();
        let named = named.map(|function| (printable(&function.name), Some(function)));
        unnamed.into_iter().chain(named)
    })
}

/// `checkout+0x1234`, which can be named later.
fn address(stack: &ThreadStack, frame: &Frame) -> String {
    let module = stack.module_of(frame);
    let module = module.map_or("unknown", |module| module.name());
    printable(&format!("{module}+{:#x}", frame.offset))
}

/// A name without what ends one: a semicolon, which generic types of arrays have.
fn plain(name: &str) -> String {
    name.replace(';', ",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opened::tests::{fixture, with_stacks};

    #[test]
    fn a_line_reads_from_the_thread_to_the_innermost_function() {
        let lines = lines(&with_stacks());
        assert_eq!(lines.len(), 2);
        assert_eq!(
            lines[0],
            "worker 1;demo+0x500;tokio::run;demo::fault::block;demo::inlined<[u8, 4]>;std::thread::sleep 1"
        );
    }

    #[test]
    fn inferno_draws_them() {
        let lines = lines(&with_stacks());
        let mut options = inferno::flamegraph::Options::default();
        let mut svg = Vec::new();
        inferno::flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
            .expect("every line is one of its format");
        let svg = String::from_utf8(svg).expect("is text");
        assert!(svg.contains("demo::fault::block (2 samples"), "{svg}");
    }

    #[test]
    fn without_stacks_there_are_no_lines() {
        assert!(lines(&fixture()).is_empty());
    }
}
