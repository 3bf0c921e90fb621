//! Every figure that ax claims of itself, one bench per table.
//!
//! `cargo bench -p ax-bench --bench scale` prints one row for each case, tab-separated: `case value budget`. It writes
//! them to `bench/results/scale.tsv`, below a line that says machine, date and commit, and ends with 1 where a budget
//! is missed. A budget reads `<= 1.5` or `>= 99.7`; a case without one is a figure to be told, not to be kept.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, ExitCode},
    thread,
};

/// What a value must keep to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// At most.
    AtMost(f64),
    /// At least.
    AtLeast(f64),
    /// Told only.
    None,
}

impl Budget {
    fn keeps(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
            Self::None => true,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtMost(most) => format!("<= {most}"),
            Self::AtLeast(least) => format!(">= {least}"),
            Self::None => "-".to_owned(),
        }
    }
}

/// The rows of one bench.
#[derive(Debug)]
pub struct Table {
    name: &'static str,
    rows: String,
    missed: bool,
}

impl Table {
    /// An empty one.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        println!("case\tvalue\tbudget");
        Self {
            name,
            rows: String::new(),
            missed: false,
        }
    }

    /// Adds a row, and prints it.
    pub fn row(&mut self, case: &str, value: f64, budget: Budget) {
        let keeps = budget.keeps(value);
        self.missed |= !keeps;
        let mark = if keeps { "" } else { "\tMISSED" };
        let row = format!("{case}\t{value:.2}\t{}{mark}", budget.text());
        println!("{row}");
        writeln!(self.rows, "{row}").expect("a String takes all");
    }

    /// Writes the file, and says whether every budget was kept.
    ///
    /// # Panics
    ///
    /// Where the file cannot be written.
    #[must_use]
    pub fn finish(self) -> ExitCode {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
        let text = format!("# {}\ncase\tvalue\tbudget\n{}", circumstances(), self.rows);
        let path = folder.join(self.name).with_extension("tsv");
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&path, text))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if self.missed {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }
}

/// Machine, date and commit.
fn circumstances() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    let commit = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=9"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let commit = commit.unwrap_or_default();
    format!(
        "{cores} cores, Linux {}, {date}, commit {commit}",
        kernel.trim()
    )
}

/// The middle one.
///
/// # Panics
///
/// Where there is none.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Bytes of memory that the process has now.
///
/// # Panics
///
/// Where the system does not say so.
#[must_use]
pub fn resident_bytes() -> f64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split(' ').nth(1).expect("the second field");
    pages.parse::<f64>().expect("a number") * 4096.0
}
