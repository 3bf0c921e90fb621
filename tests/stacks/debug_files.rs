//! Debug information that is in a file of its own, where the usual tools put it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use ax_agent::symbol::fold::culprit;
use ax_wire::stack::ThreadStack;

use crate::{
    fake_agent::{Connection, FakeAgent, Told},
    own_binary,
    service::Mode,
    start_service,
    support::{find_program, run_to_end},
    symbolizer,
};

/// The next stack that shows one of the two functions, or their address.
fn next_stack(connection: &mut Connection) -> ThreadStack {
    loop {
        let told = connection.next().expect("the service goes on");
        if let Told::Stack { stack, .. } = told {
            return *stack;
        }
    }
}

/// The file and the line that the stack's function has, if it has one.
fn line_of(stack: &ThreadStack) -> Option<u32> {
    culprit(stack)
        .filter(|function| function.name.contains("kinds::"))
        .and_then(|function| function.line)
}

/// A stripped service, whose debug information lies beside it, in `.debug`, or under the name that the link in the program
/// says; and a file of another build in its place, which gives nothing.
#[test]
fn separate_debug_files_give_the_lines() {
    let Some(objcopy) = find_program("objcopy") else {
        return;
    };
    let agent = FakeAgent::start();
    let program = agent.folder().join("shop");
    let full = own_binary();
    let copy = |arguments: &[&Path]| {
        run_to_end(Command::new(&objcopy).args(arguments), 0);
    };
    let debug = agent.folder().join("information");
    copy(&[Path::new("--only-keep-debug"), &full, &debug]);
    // The name that the link says is that of a file that is there when the link is made.
    let linked = agent.folder().join("linked.debug");
    fs::copy(&debug, &linked).expect("copies");
    let add_link = PathBuf::from(format!("--add-gnu-debuglink={}", linked.display()));
    copy(&[Path::new("--strip-all"), &add_link, &full, &program]);
    fs::remove_file(&linked).expect("removes");

    let _service = start_service(&program, Mode::Churn, &agent.socket(), agent.folder());
    let mut connection = agent.accept();
    let pid = connection.pid();
    let read_line = |stack: &ThreadStack| {
        // A new one each time: it remembers what it has read.
        let mut named = [stack.clone()];
        symbolizer().name(pid, &mut named);
        line_of(&named[0])
    };
    let beside = |name: &str| agent.folder().join(name);
    fs::create_dir(beside(".debug")).expect("creates");
    let with_line = loop {
        // In the first and last microseconds of its poll a job is outside its function.
        fs::copy(&debug, beside("linked.debug")).expect("copies");
        let stack = next_stack(&mut connection);
        let found = read_line(&stack);
        fs::remove_file(beside("linked.debug")).expect("removes");
        if found.is_some() {
            break stack;
        }
    };
    assert_eq!(read_line(&with_line), None, "stripped");
    fs::copy(&debug, beside(".debug/linked.debug")).expect("copies");
    assert!(read_line(&with_line).is_some(), "in .debug");
    fs::remove_file(beside(".debug/linked.debug")).expect("removes");
    copy(&[
        Path::new("--only-keep-debug"),
        Path::new(env!("CARGO_BIN_EXE_ax-agent")),
        &beside("linked.debug"),
    ]);
    assert_eq!(read_line(&with_line), None, "of another build");
    fs::write(beside("linked.debug"), b"\x7fELF garbage").expect("writes");
    assert_eq!(read_line(&with_line), None, "damaged");
}
