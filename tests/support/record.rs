//! What a long test measured, printed, and under `AX_BLESS=1` kept in `tests/results/` below a line that says machine, how
//! busy it was with other things, date and commit.

use std::{
    env,
    fmt::Display,
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

/// One file of results.
pub struct Record {
    path: PathBuf,
    text: String,
}

impl Record {
    /// An empty one. `how` is the command that fills it.
    pub fn new(name: &str, how: &str) -> Self {
        Self {
            path: workspace().join("tests/results").join(name),
            text: format!("# {}\n# {how}\n", circumstances()),
        }
    }

    /// Adds a line, and prints it.
    pub fn line(&mut self, line: impl Display) {
        let line = line.to_string();
        println!("{line}");
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Writes the file, where that was asked for.
    pub fn finish(self) {
        if env::var_os("AX_BLESS").is_some_and(|value| value == "1") {
            fs::write(&self.path, self.text).expect("writes into the workspace");
        }
    }
}

/// The folder of the workspace, of which some tests are in a member.
fn workspace() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = package.ancestors();
    let found = folders.find(|folder| folder.join("tests/results").is_dir());
    found.expect("tests/results is in the repository")
}

fn circumstances() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    let build = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    let says = |program: &str, arguments: &[&str]| {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(workspace())
            .output();
        output.map_or_else(
            |_| "unknown".to_owned(),
            |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        )
    };
    format!(
        "{cores} cores (load {load} before), {}, Linux {}, {build} build, {}, commit {}",
        env::consts::ARCH,
        kernel.trim(),
        says("date", &["-u", "+%F"]),
        says("git", &["rev-parse", "--short=9", "HEAD"]),
    )
}
