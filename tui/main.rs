//! The `ax-top` program.

fn main() -> std::process::ExitCode {
    #[cfg(feature = "demo")]
    let demo = Some(ax_demo::serve as fn(_) -> _);
    #[cfg(not(feature = "demo"))]
    let demo = None;
    ax_tui::main(ax_tui::Hooks { demo })
}
