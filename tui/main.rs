//! The `ax-top` program.

fn main() -> std::process::ExitCode {
    ax_tui::main(ax_tui::Hooks {
        #[cfg(feature = "demo")]
        demo: Some(ax_demo::serve),
        #[cfg(not(feature = "demo"))]
        demo: None,
    })
}
