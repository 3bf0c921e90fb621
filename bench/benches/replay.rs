//! `F94`: a recording of 24 hours played at 1000x in frames of a tenth of a second: what it holds in memory does not grow
//! with its length, and a seek to any instant is soon done.

use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use ax_bench::{
    Budget::{AtMost, None as Told},
    Table, resident_bytes,
};
use ax_tui::stage::{self, Tape};
use ax_wire::{
    ToViewer,
    view::{AgentDropped, Services},
};

const HOUR: u64 = 3_600;
const S: u64 = 1_000_000_000;
/// Seconds of the recording in a tenth of a second.
const STEP: u64 = 100;

fn main() -> ExitCode {
    let mut table = Table::new("replay");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("day.axrec");
    let bytes = record(&path, 24 * HOUR);
    table.row(
        "a recording of 24 h of one service, MB",
        bytes as f64 / 1e6,
        Told,
    );

    let before = resident_bytes();
    let mut tape = Tape::open(&path);
    table.row(
        "its index and an empty world, MB",
        (resident_bytes() - before) / 1e6,
        AtMost(8.0),
    );
    let mut hours = Vec::new();
    let mut longest = Duration::ZERO;
    for second in (0..24 * HOUR).step_by(STEP as usize) {
        let began = Instant::now();
        tape.go_to(stage::now_unix_ns() + second * S);
        longest = longest.max(began.elapsed());
        if second % HOUR < STEP {
            hours.push(resident_bytes());
        }
    }
    let at = |hour: usize| (hours[hour] - before) / 1e6;
    table.row("held after an hour of it, MB", at(1), AtMost(64.0));
    table.row("held after 23 hours of it, MB", at(23), AtMost(64.0));
    table.row(
        "grown from the first hour to the last, MB",
        at(23) - at(1),
        AtMost(8.0),
    );
    table.row(
        "longest step of 100 s, ms",
        longest.as_secs_f64() * 1e3,
        AtMost(100.0),
    );
    let mut seeks = Duration::ZERO;
    for hour in [20, 3, 11, 0, 23] {
        let began = Instant::now();
        tape.go_to(stage::now_unix_ns() + hour * HOUR * S + 30 * 60 * S);
        seeks = seeks.max(began.elapsed());
    }
    table.row(
        "longest seek, ms",
        seeks.as_secs_f64() * 1e3,
        AtMost(1_000.0),
    );
    table.finish()
}

/// One view a second, as an agent tells it.
fn record(path: &Path, seconds: u64) -> u64 {
    let mut view = stage::troubled();
    let services = Services {
        services: vec![view.summary.clone()],
        agent_dropped: AgentDropped::default(),
        file_problem: None,
    };
    let first = std::iter::once((stage::now_unix_ns(), ToViewer::Services(services)));
    let views = (0..seconds).map(move |second| {
        let at_unix_ns = stage::now_unix_ns() + second * S;
        view.at_unix_ns = at_unix_ns;
        for (lane, pending) in view.lanes.iter_mut().zip([7, 13]) {
            lane.pending = second * pending % 1_000;
        }
        if let Some(point) = &mut view.point {
            point.at_unix_ns = at_unix_ns;
            point.lag_max_ns = Some(1_000_000 + second * 7_919 % 400_000_000);
        }
        (at_unix_ns, ToViewer::View(Box::new(view.clone())))
    });
    stage::record(path, first.chain(views))
}
