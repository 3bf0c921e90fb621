//! The `ax-agent` program.

fn main() -> std::process::ExitCode {
    ax_agent::main()
}
