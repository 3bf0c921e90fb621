//! The screens that ask: jobs, traces, workers, dependencies. F61: a failed branch is grey with its reason; F63: long
//! waits are marked; F81: worker and blocking-pool activity on a board.

use ax_wire::{
    event::StallKind,
    query::{Answered, Question},
    view::{Point, StallView},
};

use super::*;
use crate::fixture::asked;

const ASKING: [Mode; 6] = [
    Mode::Jobs,
    Mode::JobList,
    Mode::Traces,
    Mode::Trace,
    Mode::Workers,
    Mode::Dependencies,
];

/// A service in trouble, whose charts go back three minutes and show two stalls.
fn service() -> App {
    let mut view = fixture::firing();
    let mut past = view.stalls[0].clone();
    past.ongoing = false;
    past.stall.id += 100;
    past.stall.kind = StallKind::Stall;
    past.stall.length_ns = 20_000_000_000;
    past.began_unix_ns = fixture::NOW_UNIX_NS - 100_000_000_000;
    view.stalls.push(StallView { ..past });
    let mut world = fixture::world(vec![view.clone()]);
    let last = view.point.clone().expect("has one");
    let points = (0..180_u64).map(|second| Point {
        at_unix_ns: fixture::NOW_UNIX_NS - (180 - second) * 1_000_000_000,
        busy_shares: vec![
            Some((second % 60) as f64 / 60.0),
            (second > 90).then_some(0.1),
        ],
        ..last.clone()
    });
    world.apply(Update::Frame(ax_wire::ToViewer::Backfill(
        ax_wire::view::Backfill {
            instance: view.summary.instance,
            points: points.collect(),
        },
    )));
    app(world)
}

fn answered(mode: Mode, answer: impl Fn(&Question) -> Result<Answered, String>) -> App {
    let mut app = service();
    app.mode = if mode == Mode::Trace {
        Mode::Traces
    } else {
        mode
    };
    asked::answer_all(&mut app, &answer);
    if mode == Mode::Trace {
        press(&mut app, Action::Enter);
        asked::answer_all(&mut app, &answer);
    }
    app
}

#[test]
fn jobs() {
    let mut app = answered(Mode::Jobs, asked::answer);
    insta::assert_snapshot!("jobs_types", in_colour(&app, &SIZES));
    press(&mut app, Action::Enter);
    asked::answer_all(&mut app, asked::answer);
    assert_eq!(app.mode, Mode::JobList);
    insta::assert_snapshot!("jobs_list", in_colour(&app, &SIZES));
}

#[test]
fn traces() {
    let app = answered(Mode::Traces, asked::answer);
    insta::assert_snapshot!("traces", in_colour(&app, &SIZES));
    let app = answered(Mode::Trace, asked::answer);
    insta::assert_snapshot!("trace", in_colour(&app, &SIZES));
}

#[test]
fn workers() {
    insta::assert_snapshot!(
        "workers",
        in_colour(&answered(Mode::Workers, asked::answer), &SIZES)
    );
}

#[test]
fn dependencies() {
    let mut app = answered(Mode::Dependencies, asked::answer);
    insta::assert_snapshot!("dependencies", in_colour(&app, &SIZES));
    press(&mut app, Action::Step(Step::Bottom));
    let text = drawn(&app, 120, 40);
    assert!(
        text.contains(
            "load-sales #10 did not succeed: the disk is full → sum-sales #11 → mail-sales"
        ),
        "{text}"
    );
}

/// Empty, loading, not answered, gone, frozen: at the smallest of the sizes.
#[test]
fn states_of_the_screens_that_ask() {
    let mut all = String::new();
    let mut add = |state: &str, app: &App| {
        let _ = writeln!(all, "# {state} {:?}\n{}", app.mode, drawn(app, 80, 24));
    };
    for mode in ASKING.into_iter().filter(|mode| *mode != Mode::Trace) {
        add("empty", &answered(mode, asked::nothing));
        let mut loading = service();
        loading.mode = mode;
        add("loading", &loading);
        let old = |_: &Question| {
            Err("the service's ax-probe 0.1.0 cannot be asked: update it".to_owned())
        };
        add("not answered", &answered(mode, old));
        let mut gone = answered(mode, asked::answer);
        let mut world = gone.world.clone();
        world.apply(Update::Link(Link::Connecting {
            problem: None,
            own_agent_in: None,
        }));
        gone.take(world);
        add("disconnected", &gone);
    }
    insta::assert_snapshot!(all);
}

/// Nothing is asked while the screen is frozen: what is looked at stays.
#[test]
fn a_frozen_screen_asks_nothing() {
    for mode in ASKING {
        let mut app = answered(mode, asked::answer);
        press(&mut app, Action::Freeze);
        assert!(app.wanted().is_empty(), "{mode:?}");
    }
}

/// 200 rows with names that are too long, at all sizes, in colour and without, in Unicode and ASCII.
#[test]
fn no_size_breaks_the_screens_that_ask() {
    let flood = |question: &Question| match question {
        Question::Jobs(_) => {
            let mut rows = Vec::new();
            for at in 0..200 {
                let mut job = asked::jobs()[at % 9].clone();
                job.id.0 += 10_000 * at as u64;
                job.job_type = "\u{1b}[2J very long name".repeat(20);
                job.error = Some("x\u{7}".repeat(300));
                rows.push(job);
            }
            Ok(Answered::Jobs(asked::jobs_page(rows, false)))
        }
        other => asked::answer(other),
    };
    for mode in ASKING {
        let app = answered(mode, flood);
        for (width, height) in [(1, 1), (20, 5), (40, 10), (80, 24), (120, 40), (200, 60)] {
            for colour in [false, true] {
                let buffer = buffer(&app, width, height, colour);
                let coloured = buffer.content().iter().any(|cell| cell.fg != Color::Reset);
                assert!(colour || !coloured, "{mode:?} at {width}x{height}");
                let controls = |cell: &Cell| cell.symbol().contains(|c: char| c.is_control());
                assert!(!buffer.content().iter().any(controls), "{mode:?}");
            }
            let area = ratatui::layout::Rect::new(0, 0, width, height);
            let mut ascii = Buffer::empty(area);
            let screen = Screen::new(&app, Theme::with_colour(false), Glyphs::Ascii);
            ratatui::widgets::Widget::render(&screen, area, &mut ascii);
            assert!(
                ascii.content().iter().all(|cell| cell.symbol().is_ascii()),
                "{mode:?}"
            );
        }
    }
}

/// What is typed narrows at once, and what is wrong with it is said where it is.
#[test]
fn a_query_is_typed_completed_and_corrected() {
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    let mut app = answered(Mode::JobList, asked::answer);
    app.begin_query();
    let key = |app: &mut App, code| {
        app.press(
            &KeyEvent::new(code, KeyModifiers::NONE),
            fixture::NOW_UNIX_NS,
        );
    };
    let typed = |app: &mut App, text: &str| text.chars().for_each(|c| key(app, KeyCode::Char(c)));
    typed(&mut app, "wiat>1s");
    let text = drawn(&app, 80, 24);
    assert!(
        text.contains("^ there is no field `wiat`; did you mean `wait`?"),
        "{text}"
    );
    (0..7).for_each(|_| key(&mut app, KeyCode::Backspace));
    typed(&mut app, "la");
    key(&mut app, KeyCode::Tab);
    typed(&mut app, "d");
    key(&mut app, KeyCode::Tab);
    typed(&mut app, "state=failed");
    let wanted = format!("{:?}", app.wanted());
    assert!(
        wanted.contains("\"db\"") && wanted.contains("TimedOut"),
        "{wanted}"
    );
    key(&mut app, KeyCode::Enter);
    assert_eq!(app.looks.jobs.text, "lane=db state=failed");
    app.begin_query();
    typed(&mut app, " x");
    key(&mut app, KeyCode::Esc);
    assert_eq!(app.looks.jobs.text, "lane=db state=failed", "as before");
}

/// A query that was dropped does not come back, and the rows of another query do not look as if they matched.
#[test]
fn a_new_query_begins_empty_and_fades_the_rows_of_the_one_before() {
    let mut app = answered(Mode::Jobs, asked::answer);
    press(&mut app, Action::Filter);
    app.look_for_jobs("lane=db".to_owned());
    for key in ["enter", "esc", "/"] {
        let key: crate::keys::Key = key.parse().expect(key);
        app.press(&key.event(), fixture::NOW_UNIX_NS);
    }
    assert_eq!(app.looks.jobs.text, "");
    let esc: crate::keys::Key = "esc".parse().expect("a key");
    app.press(&esc.event(), fixture::NOW_UNIX_NS);
    assert_eq!(app.mode, Mode::Jobs, "where it was begun");

    let mut app = answered(Mode::JobList, asked::answer);
    let faded = |app: &App| {
        let area = Rect::new(0, 0, 80, 24);
        let mut buffer = Buffer::empty(area);
        (&Screen::new(app, Theme::with_colour(true), Glyphs::Unicode)).render(area, &mut buffer);
        // Where the first row's type stands.
        buffer[(3, 7)].modifier.contains(Modifier::DIM)
    };
    assert!(!faded(&app));
    app.look_for_jobs("#710".to_owned());
    assert!(faded(&app));
    let text = drawn(&app, 80, 24);
    assert!(text.contains("what was looked for before"), "{text}");
    asked::answer_all(&mut app, asked::answer);
    assert!(!faded(&app));
}
