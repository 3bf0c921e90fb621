//! Files that are opened and never closed, until there are no descriptors left. The limit is lowered first, so that it does
//! not take a million files.

use std::{fs::File, time::Duration};

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Fault, Scene, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "fd-exhausted",
    expect: "fd-exhausted",
    what: "files are opened and not closed, until no descriptor is left",
    numbers: &[
        Number::new("limit", 256, 128, 4_096),
        Number::new("files_per_s", 200, 10, 10_000),
    ],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    let interval = Duration::from_secs(1) / u32::try_from(scene.number("files_per_s"))?;
    let usual = getrlimit(Resource::Nofile);
    let lowered = Rlimit {
        current: Some(scene.number("limit")),
        ..usual
    };
    scene.quiet()?;
    setrlimit(Resource::Nofile, lowered).context("cannot lower the limit on open files")?;
    let mut open = Vec::new();
    while scene.pause(interval) {
        // Once there are none left, it takes those that others give back.
        open.extend(File::open("/dev/null"));
    }
    drop(open);
    setrlimit(Resource::Nofile, usual).context("cannot raise the limit on open files again")
}
