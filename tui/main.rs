//! The `ax-top` program.

use std::process::ExitCode;

use ax_tui::Hooks;

fn main() -> ExitCode {
    ax_tui::main(Hooks {
        #[cfg(feature = "demo")]
        demo: Some(ax_demo::serve),
        #[cfg(not(feature = "demo"))]
        demo: None,
    })
}
