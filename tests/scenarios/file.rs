//! What a scenario file says. Keys that are not known are refused, so that a word that is spelled wrongly is no test that
//! cannot fail.

use std::{collections::BTreeMap, fs, path::Path};

use ax_wire::verdict::VerdictId;
use fastrand::Rng;
use serde::Deserialize;

/// One file: a fault under a load, and what must be said of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its file's name without the ending.
    #[serde(skip)]
    pub name: String,
    /// The switch of the demo; without one, all goes well.
    pub fault: Option<String>,
    /// The first verdict must be one of these.
    pub expect: Vec<VerdictId>,
    /// These follow from the cause, and may stand below it.
    #[serde(default)]
    pub beside: Vec<VerdictId>,
    /// These are true as well, and may stand first until the cause can be told.
    #[serde(default)]
    pub before: Vec<VerdictId>,
    /// These must not be there at all, in the short version either: what people take it for. (In the long version every
    /// verdict that is neither expected nor beside is a miss.)
    #[serde(default)]
    pub forbid: Vec<VerdictId>,
    /// Seconds from the beginning of the fault to the right first verdict.
    #[serde(default = "five")]
    pub within_s: u64,
    /// The short version of the tests runs it too.
    #[serde(default)]
    pub short: bool,
    /// It is about the CPUs, so nothing else may use them meanwhile.
    #[serde(default)]
    pub alone: bool,
    /// Which of the four pictures of the board it is.
    pub quadrant: Option<Quadrant>,
    /// What it runs under.
    #[serde(default)]
    pub load: Load,
    /// Numbers of the fault, each from a range.
    #[serde(default)]
    pub numbers: BTreeMap<String, Range>,
}

fn five() -> u64 {
    5
}

/// Event-loop lag, CPU, blocking pool, memory: which of them is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quadrant {
    LagHighCpuLow,
    CpuHighLagNormal,
    PoolBusy,
    MemoryUp,
}

/// From and to, both included.
pub type Range = (u64, u64);

/// What the service does and runs on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    /// Requests a second.
    pub rate: Range,
    /// In place of it: percent of what the service can do, which is measured before.
    pub percent_of_capacity: Option<u64>,
    /// Worker threads of the multi-thread runtime.
    pub workers: Range,
    /// The runtimes that it is run on.
    pub flavors: Vec<Flavor>,
    /// Seconds in which all goes well, before the fault.
    pub quiet_s: Range,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            rate: (40, 90),
            percent_of_capacity: None,
            workers: (2, 3),
            flavors: vec![Flavor::MultiThread, Flavor::CurrentThread],
            quiet_s: (13, 16),
        }
    }
}

/// A runtime of tokio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flavor {
    MultiThread,
    CurrentThread,
}

impl Flavor {
    pub fn name(self) -> &'static str {
        match self {
            Self::MultiThread => "multi-thread",
            Self::CurrentThread => "current-thread",
        }
    }
}

/// What chance made of the ranges.
#[derive(Clone, Debug)]
pub struct Drawn {
    pub seed: u64,
    pub flavor: Flavor,
    pub rate: u64,
    pub workers: u64,
    pub quiet_s: u64,
    pub numbers: BTreeMap<String, u64>,
}

impl Scenario {
    /// Reads one.
    ///
    /// # Errors
    ///
    /// What is wrong, and where.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut scenario: Self =
            toml::from_str(text).map_err(|error| format!("{name}: {error}"))?;
        name.clone_into(&mut scenario.name);
        let load = &scenario.load;
        let ranges = [load.rate, load.workers, load.quiet_s];
        let ranges = ranges.iter().chain(scenario.numbers.values());
        if let Some((from, to)) = ranges.into_iter().find(|(from, to)| from > to) {
            return Err(format!("{name}: {from} to {to} is no range"));
        }
        if scenario.expect.is_empty() || scenario.load.flavors.is_empty() {
            return Err(format!("{name}: nothing is expected, or nothing is run"));
        }
        let Self {
            expect,
            beside,
            before,
            forbid,
            ..
        } = &scenario;
        let known = [expect, beside, before, forbid];
        if known
            .into_iter()
            .flatten()
            .any(|id| *id == VerdictId::Other)
        {
            return Err(format!("{name}: a verdict that there is not"));
        }
        Ok(scenario)
    }

    /// All that lie in a folder, by name.
    pub fn all(folder: &Path) -> Vec<Self> {
        let files = fs::read_dir(folder).expect("the folder of the scenarios");
        let files = files.map(|file| file.expect("can be listed").path());
        let mut all: Vec<_> = files
            .filter(|file| file.extension().is_some_and(|ending| ending == "toml"))
            .map(|file| {
                let name = file.file_stem().and_then(|name| name.to_str());
                let text = fs::read_to_string(&file).expect("can be read");
                Self::parse(name.expect("a name"), &text).unwrap_or_else(|error| panic!("{error}"))
            })
            .collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// Draws the numbers of one run.
    pub fn draw(&self, flavor: Flavor, seed: u64) -> Drawn {
        let mut random = Rng::with_seed(seed);
        let mut within = |(from, to): Range| random.u64(from..=to);
        Drawn {
            seed,
            flavor,
            rate: within(self.load.rate),
            workers: match flavor {
                Flavor::MultiThread => within(self.load.workers),
                Flavor::CurrentThread => 1,
            },
            quiet_s: within(self.load.quiet_s),
            numbers: self
                .numbers
                .iter()
                .map(|(name, range)| (name.clone(), within(*range)))
                .collect(),
        }
    }
}
