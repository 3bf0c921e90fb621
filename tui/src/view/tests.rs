//! What each screen looks like, at the sizes that it is made for.
//!
//! A snapshot holds the text of a screen and below it every run of cells that is coloured, bold or reversed, with its row
//! and column. Dim cells (headings, rules, axes) are left out of that list to keep it readable.

mod asked;
mod matrix;
mod verdicts;

use std::fmt::Write as _;

use jiff::tz::TimeZone;
use ratatui::{
    Terminal,
    backend::TestBackend,
    buffer::{Buffer, Cell},
    style::{Color, Modifier},
};

use super::*;
use crate::{
    app::DemoNote,
    fixture,
    keys::{Action, bindings},
    widget::table::{SortBy, Step},
    world::{Link, Update, World},
};

/// Every page that there is of a service; those of a snapshot file have tests of their own.
const MODES: [Mode; 13] = [
    Mode::Overview,
    Mode::Lanes,
    Mode::Lane,
    Mode::Jobs,
    Mode::JobList,
    Mode::Traces,
    Mode::Trace,
    Mode::Workers,
    Mode::Dependencies,
    Mode::Alerts,
    Mode::Snapshots,
    Mode::Help,
    Mode::Services,
];

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];

fn buffer(app: &App, width: u16, height: u16, colour: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("draws in memory");
    let screen = Screen::new(app, Theme::with_colour(colour), Glyphs::Unicode);
    terminal
        .draw(|frame| frame.render_widget(&screen, frame.area()))
        .expect("draws in memory");
    terminal.backend().buffer().clone()
}

fn rows(buffer: &Buffer) -> impl Iterator<Item = &[Cell]> {
    buffer.content().chunks(usize::from(buffer.area.width))
}

fn text(cells: &[Cell]) -> String {
    cells.iter().map(Cell::symbol).collect()
}

pub fn drawn(app: &App, width: u16, height: u16) -> String {
    let buffer = buffer(app, width, height, false);
    let lines: Vec<_> = rows(&buffer)
        .map(|row| text(row).trim_end().to_owned())
        .collect();
    lines.join("\n")
}

/// Nothing for what is plain or dim.
fn style(cell: &Cell) -> String {
    let mut words = Vec::new();
    for (modifier, word) in [(Modifier::BOLD, "bold"), (Modifier::REVERSED, "reversed")] {
        if cell.modifier.contains(modifier) {
            words.push(word.to_owned());
        }
    }
    if cell.fg != Color::Reset {
        words.push(cell.fg.to_string().to_lowercase());
    }
    words.join(" ")
}

/// The text at each of the sizes, and below it the styles.
fn in_colour(app: &App, sizes: &[(u16, u16)]) -> String {
    let mut all = String::new();
    for (width, height) in sizes {
        let buffer = buffer(app, *width, *height, true);
        let _ = writeln!(all, "== {width}x{height}");
        for row in rows(&buffer) {
            let _ = writeln!(all, "{}", text(row).trim_end());
        }
        let _ = writeln!(all, "-- styles");
        for (y, row) in rows(&buffer).enumerate() {
            let mut x = 0;
            for run in row.chunk_by(|a, b| style(a) == style(b)) {
                let (style, text) = (style(&run[0]), text(run));
                if !style.is_empty() && !text.trim().is_empty() {
                    let _ = writeln!(all, "{y:>2},{x:<3} {style:<14} {}", text.trim());
                }
                x += run.len();
            }
        }
    }
    all
}

fn app(world: World) -> App {
    let mut app = App::new(None, TimeZone::UTC);
    app.take(world);
    app
}

fn healthy() -> App {
    app(fixture::world(vec![fixture::healthy()]))
}

fn stalled() -> App {
    app(fixture::world(vec![fixture::stalled()]))
}

fn firing() -> App {
    app(fixture::world(vec![fixture::firing(), fixture::other()]))
}

fn on(mode: Mode) -> App {
    let mut app = firing();
    app.mode = mode;
    app.lane = Some("1/api".to_owned());
    app
}

fn press(app: &mut App, action: Action) {
    app.update(action, fixture::NOW_UNIX_NS);
}

/// 200 lanes and as many types, with names that are too long.
fn overflowing() -> App {
    let mut view = fixture::firing();
    let number = |number: usize| format!("a_lane_with_a_name_that_is_far_too_long_{number:03}");
    view.lanes = (0..200)
        .map(|at| fixture::lane(&number(at), at as u64, 1_000_000, at as u64 * 1_000_000))
        .collect();
    view.types = (0..200)
        .map(|at| fixture::job_type(&format!("type_{at:03}_{}", "x".repeat(200)), &number(at)))
        .collect();
    view.summary.service = "\x1b[2J".repeat(40);
    app(fixture::world(vec![view]))
}

#[test]
fn overview_firing() {
    insta::assert_snapshot!(in_colour(&firing(), &SIZES));
}

#[test]
fn overview_healthy() {
    insta::assert_snapshot!(in_colour(&healthy(), &SIZES));
}

#[test]
fn overview_small() {
    insta::assert_snapshot!(in_colour(&stalled(), &[(60, 15), (30, 8)]));
}

#[test]
fn overview_overflowing() {
    insta::assert_snapshot!(in_colour(&overflowing(), &SIZES[..2]));
}

#[test]
fn lanes() {
    insta::assert_snapshot!(in_colour(&on(Mode::Lanes), &SIZES));
}

#[test]
fn one_lane() {
    insta::assert_snapshot!(in_colour(&on(Mode::Lane), &SIZES));
}

#[test]
fn alerts() {
    insta::assert_snapshot!(in_colour(&on(Mode::Alerts), &SIZES));
}

#[test]
fn snapshots() {
    insta::assert_snapshot!(in_colour(&on(Mode::Snapshots), &SIZES));
}

#[test]
fn services() {
    let mut app = firing();
    app.world.services[1].state = ax_wire::view::ServiceState::Ended;
    app.mode = Mode::Services;
    press(&mut app, Action::Step(Step::Down));
    insta::assert_snapshot!(in_colour(&app, &SIZES));
}

#[test]
fn help() {
    insta::assert_snapshot!(in_colour(&on(Mode::Help), &SIZES));
}

#[test]
fn overview_types_sorted() {
    let mut app = stalled();
    press(&mut app, Action::FocusNext);
    press(&mut app, Action::Sort(SortBy::NextColumn));
    insta::assert_snapshot!(in_colour(&app, &SIZES[..1]));
}

/// Empty, loading, lost, frozen: what differs from the above are the first lines and what stands for figures.
#[test]
fn states() {
    let mut all = String::new();
    let mut add = |state: &str, app: &App| {
        let _ = writeln!(all, "# {state}\n{}", in_colour(app, &SIZES[..1]));
    };
    let mut empty = fixture::world(Vec::new());
    empty.apply(Update::Link(Link::Embedded {
        socket: "/tmp/ax-1000/agent.sock".into(),
    }));
    add("first frame", &app(World::new()));
    add("no service", &app(empty));
    let mut loading = fixture::world(Vec::new());
    loading.services.push(fixture::healthy().summary);
    add("loading", &app(loading));
    let mut gone = fixture::healthy();
    gone.summary.state = ax_wire::view::ServiceState::Lost;
    let mut lost = fixture::world(vec![gone]);
    lost.now_unix_ns += 5_000_000_000;
    add("lost", &app(lost));
    let mut frozen = firing();
    press(&mut frozen, Action::Freeze);
    add("frozen", &frozen);
    let mut quiet = healthy();
    press(&mut quiet, Action::Open(Mode::Alerts));
    add("no alerts", &quiet);
    press(&mut quiet, Action::Open(Mode::Snapshots));
    add("no snapshots", &quiet);
    insta::assert_snapshot!(all);
}

#[test]
fn the_smallest_screen_says_that_it_is_frozen() {
    let mut app = stalled();
    press(&mut app, Action::Freeze);
    assert!(drawn(&app, 30, 8).contains("FROZEN"));
}

#[test]
fn a_lost_agent_is_said_and_the_figures_stay() {
    let mut world = fixture::world(vec![fixture::healthy()]);
    world.apply(Update::Link(Link::Connecting {
        problem: Some("the agent closed the connection".to_owned()),
        own_agent_in: None,
    }));
    let text = drawn(&app(world), 80, 24);
    assert!(
        text.contains("the agent is gone; looking for the next one"),
        "{text}"
    );
    assert!(text.contains("run/limit"), "{text}");
}

#[test]
fn help_lists_every_binding_and_can_be_read_to_its_end() {
    let mut app = on(Mode::Help);
    let whole = drawn(&app, 80, 80);
    for binding in bindings() {
        assert!(
            whole.contains(&binding.label()),
            "{} in\n{whole}",
            binding.label()
        );
        assert!(whole.contains(binding.help), "{} in\n{whole}", binding.help);
    }
    let last = whole.lines().filter(|line| !line.is_empty()).nth_back(1);
    let last = last.expect("has lines");
    assert!(!drawn(&app, 80, 24).contains(last));
    press(&mut app, Action::Step(Step::Bottom));
    assert!(drawn(&app, 80, 24).contains(last));
}

#[test]
fn what_became_of_a_capture_is_said_in_the_footer() {
    let mut app = firing();
    press(&mut app, Action::Capture);
    let text = drawn(&app, 80, 24);
    let footer = text.lines().last().expect("has lines");
    assert!(footer.starts_with(" taking a snapshot .."), "{footer}");
}

#[test]
fn the_demo_says_where_it_is() {
    let note = DemoNote {
        url: "http://127.0.0.1:4321".to_owned(),
        ended: None,
    };
    let mut app = App::new(Some(note), TimeZone::UTC);
    assert!(drawn(&app, 80, 24).contains("demo http://127.0.0.1:4321"));
    if let Some(demo) = &mut app.demo {
        demo.ended = Some("exit status: 1: no port".to_owned());
    }
    let text = drawn(&app, 80, 24);
    assert!(
        text.contains("demo service ended: exit status: 1: no port"),
        "{text}"
    );
    if let Some(demo) = &mut app.demo {
        demo.ended = Some(format!("exit status: 1: {}", "words\n".repeat(20)));
    }
    let text = drawn(&app, 80, 24);
    assert!(
        text.contains("demo service ended: exit status: 1"),
        "{text}"
    );
    assert!(!text.contains("curl"), "nobody is there to be stalled");
    assert!(
        text.contains("CRITICAL  the demo service ended: exit status: 1: words; words"),
        "{text}"
    );
}

#[test]
fn the_way_to_help_is_never_crowded_out() {
    let mut app = firing();
    app.demo = Some(DemoNote {
        url: format!("http://127.0.0.1:{}", "4".repeat(100)),
        ended: None,
    });
    for width in [30, 40, 80, 120] {
        assert!(drawn(&app, width, 24).contains("? help") || width < 40);
        press(&mut app, Action::Capture);
        assert!(drawn(&app, width, 24).contains("? help") || width < 40);
    }
}

#[test]
fn a_small_screen_keeps_lanes_and_a_tiny_one_the_name() {
    let text = drawn(&stalled(), 40, 12);
    assert!(text.contains("api") && text.contains("10/10"), "{text}");
    let text = drawn(&stalled(), 30, 10);
    assert!(text.contains("running 41  pending 57"), "{text}");
    let text = drawn(&stalled(), 20, 5);
    assert!(
        text.contains("checkout") && text.contains("CRITICAL"),
        "{text}"
    );
}

#[test]
fn rows_that_find_no_room_are_counted() {
    let text = drawn(&overflowing(), 80, 24);
    assert!(text.contains(" of 200"), "{text}");
}

#[test]
fn figures_of_what_is_lost_do_not_look_current() {
    let mut view = fixture::stalled();
    view.summary.state = ax_wire::view::ServiceState::Lost;
    let buffer = buffer(&app(fixture::world(vec![view])), 120, 40, true);
    let all: Vec<_> = rows(&buffer).collect();
    assert!(text(all[0]).contains("LOST since 14:03:27"));
    for row in &all[3..39] {
        for cell in *row {
            assert_eq!(cell.fg, Color::Reset);
            assert!(
                cell.modifier.contains(Modifier::DIM) && !cell.modifier.contains(Modifier::BOLD)
            );
        }
    }
    let api = all
        .iter()
        .map(|row| text(row))
        .find(|row| row.starts_with(" api"));
    let api = api.expect("is shown");
    assert!(api.contains("431.0      -      -        -"), "{api}");
}

#[test]
fn no_size_is_too_small() {
    for mut app in [stalled(), overflowing()] {
        for mode in MODES {
            app.mode = mode;
            for (width, height) in [
                (1, 1),
                (5, 3),
                (40, 10),
                (79, 23),
                (80, 5),
                (10, 60),
                (300, 100),
            ] {
                drawn(&app, width, height);
            }
        }
    }
}
