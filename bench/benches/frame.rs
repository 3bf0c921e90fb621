//! `F97`: what a frame of the dashboard costs at 200x60, with 50 services, 200 job types and 100,000 live jobs, from reading
//! the line of the socket to the last byte for the terminal. And what a screen at rest costs where it is drawn four times a
//! second, each time of newer figures. What is kept to is the CPU time of the thread, which a busy machine leaves as it is; the time on the wall is told
//! beside it.

use std::{
    io,
    process::ExitCode,
    time::{Duration, Instant},
};

use ax_bench::{
    Budget::{AtMost, None as Told},
    Table,
};
use ax_tui::stage::{self, Stage};
use ax_wire::{ToViewer, frame::encode};
use ratatui::{Terminal, TerminalOptions, Viewport, backend::CrosstermBackend, layout::Rect};
use rustix::time::{ClockId, clock_gettime};

const SERVICES: u128 = 50;
const TYPES: u64 = 200;
const LANES: u64 = 20;
const JOBS: u64 = 100_000;
const FRAMES: usize = 400;
const SCREENS: [(&str, &str); 8] = [
    ("overview", "1"),
    ("lanes", "2"),
    ("jobs", "3"),
    ("traces", "4"),
    ("workers", "5"),
    ("dependencies", "6"),
    ("alerts", "7"),
    ("services", "p"),
];

fn main() -> ExitCode {
    let mut table = Table::new("frame");
    let mut views = vec![stage::large(LANES, TYPES, JOBS)];
    views.extend((2..=SERVICES).map(stage::healthy));
    let mut stage = Stage::new(views);
    let options = TerminalOptions {
        viewport: Viewport::Fixed(Rect::new(0, 0, 200, 60)),
    };
    let backend = CrosstermBackend::new(io::sink());
    let mut terminal =
        Terminal::with_options(backend, options).expect("nothing is written anywhere");
    let mut second = 0;
    for (name, key) in SCREENS {
        stage.press(key);
        let mut costs = Vec::with_capacity(FRAMES);
        let mut walls = Vec::with_capacity(FRAMES);
        for _ in 0..FRAMES {
            second += 1;
            let line = news(second);
            let (cpu, began) = (cpu_time(), Instant::now());
            assert!(stage.tell(&line), "is a frame");
            terminal
                .draw(|frame| stage.draw(frame))
                .expect("nothing is written anywhere");
            costs.push(cpu_time().saturating_sub(cpu));
            walls.push(began.elapsed());
        }
        table.row(
            &format!("{name}, p50 ms"),
            quantile(&mut costs, 50),
            AtMost(5.0),
        );
        table.row(
            &format!("{name}, p99 ms"),
            quantile(&mut costs, 99),
            AtMost(5.0),
        );
        table.row(
            &format!("{name}, p50 on the wall, ms"),
            quantile(&mut walls, 50),
            Told,
        );
        table.row(
            &format!("{name}, p99 on the wall, ms"),
            quantile(&mut walls, 99),
            Told,
        );
    }
    stage.press("1");
    let cpu = cpu_time();
    let frames: u32 = 100;
    for _ in 0..frames {
        second += 1;
        assert!(stage.tell(&news(second)), "is a frame");
        terminal
            .draw(|frame| stage.draw(frame))
            .expect("nothing is written anywhere");
    }
    let each = cpu_time().saturating_sub(cpu).as_secs_f64() / f64::from(frames);
    table.row(
        "overview of such a service at 4 frames/s, % of a core",
        each * 4.0 * 100.0,
        AtMost(1.0),
    );
    let mut usual = Stage::new(vec![stage::troubled()]);
    let cpu = cpu_time();
    for second in 0..frames {
        let mut view = stage::troubled();
        advance(&mut view, u64::from(second));
        assert!(usual.tell(&line(view)), "is a frame");
        terminal
            .draw(|frame| usual.draw(frame))
            .expect("nothing is written anywhere");
    }
    let each = cpu_time().saturating_sub(cpu).as_secs_f64() / f64::from(frames);
    table.row(
        "overview of a usual service at 4 frames/s, % of a core",
        each * 4.0 * 100.0,
        AtMost(1.0),
    );
    table.finish()
}

/// The view of the large service a second later, as it comes from the socket.
fn news(second: u64) -> Vec<u8> {
    let mut view = stage::large(LANES, TYPES, JOBS);
    advance(&mut view, second);
    line(view)
}

fn advance(view: &mut ax_wire::view::ServiceView, second: u64) {
    view.at_unix_ns += second * 1_000_000_000;
    for lane in &mut view.lanes {
        lane.pending += second;
    }
    if let Some(point) = &mut view.point {
        point.at_unix_ns += second * 1_000_000_000;
        point.lag_max_ns = Some(1_000_000 * (second % 50));
    }
}

fn line(view: ax_wire::view::ServiceView) -> Vec<u8> {
    let mut line = Vec::new();
    encode(&ToViewer::View(Box::new(view)), &mut line).expect("is no larger than a frame may be");
    line
}

/// The cost in ms that so many of a hundred frames do not exceed.
fn quantile(costs: &mut [Duration], share: usize) -> f64 {
    costs.sort_unstable();
    let at = (costs.len() * share / 100).min(costs.len() - 1);
    costs[at].as_secs_f64() * 1e3
}

/// What this thread has used of the CPU.
fn cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec as u32)
}
