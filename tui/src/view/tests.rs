//! What each screen looks like, at the sizes that it is made for.

use ratatui::{Terminal, backend::TestBackend, style::Color};

use super::*;
use crate::{
    app::DemoNote,
    fixture,
    keys::{Action, BINDINGS},
    widget::table::{SortBy, Step},
    world::{Link, Update, World},
};

fn terminal(app: &App, width: u16, height: u16, colour: bool) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("draws in memory");
    let screen = Screen {
        app,
        theme: Theme::with_colour(colour),
        zone: &TimeZone::UTC,
    };
    terminal
        .draw(|frame| frame.render_widget(&screen, frame.area()))
        .expect("draws in memory");
    terminal
}

fn drawn(app: &App, width: u16, height: u16) -> String {
    terminal(app, width, height, false).backend().to_string()
}

fn app(world: World) -> App {
    let mut app = App::new(None);
    app.take(world);
    app
}

fn healthy() -> App {
    app(fixture::world(vec![fixture::healthy()]))
}

fn stalled() -> App {
    app(fixture::world(vec![fixture::stalled()]))
}

#[test]
fn healthy_at_80x24() {
    insta::assert_snapshot!(drawn(&healthy(), 80, 24));
}

#[test]
fn stalled_at_80x24() {
    insta::assert_snapshot!(drawn(&stalled(), 80, 24));
}

#[test]
fn stalled_at_120x40() {
    insta::assert_snapshot!(drawn(&stalled(), 120, 40));
}

#[test]
fn stalled_at_60x15() {
    insta::assert_snapshot!(drawn(&stalled(), 60, 15));
}

#[test]
fn stalled_at_30x8() {
    insta::assert_snapshot!(drawn(&stalled(), 30, 8));
}

#[test]
fn types_at_80x24() {
    let mut app = stalled();
    app.update(Action::FocusNext);
    app.update(Action::Sort(SortBy::NextColumn));
    insta::assert_snapshot!(drawn(&app, 80, 24));
}

#[test]
fn without_a_service_it_says_what_to_do() {
    let mut world = fixture::world(Vec::new());
    world.apply(Update::Link(Link::Embedded {
        socket: "/tmp/ax-1000/agent.sock".into(),
    }));
    insta::assert_snapshot!(drawn(&app(world), 80, 24));
}

#[test]
fn the_first_frame_says_that_it_looks_for_an_agent() {
    let text = drawn(&app(World::new()), 80, 24);
    assert!(text.contains("looking for an agent"), "{text}");
    assert!(text.contains("no agent"), "{text}");
}

#[test]
fn loading_names_the_service() {
    let mut world = fixture::world(Vec::new());
    world.services.push(fixture::healthy().summary);
    let text = drawn(&app(world), 80, 24);
    assert!(
        text.contains("waiting for the first sample of checkout"),
        "{text}"
    );
}

#[test]
fn frozen_says_since_when() {
    let mut app = stalled();
    app.update(Action::Freeze);
    let text = drawn(&app, 80, 24);
    assert!(text.contains("FROZEN since 14:03:27"), "{text}");
    assert!(
        drawn(&app, 30, 8).contains("FROZEN"),
        "the banner alone says it too"
    );
}

#[test]
fn a_lost_service_keeps_its_last_figures_on_screen() {
    let mut world = fixture::world(vec![fixture::healthy()]);
    world.services[0].state = ax_wire::view::ServiceState::Lost;
    world.now_unix_ns += 5_000_000_000;
    insta::assert_snapshot!(drawn(&app(world), 80, 24));
}

#[test]
fn a_lost_agent_is_said_and_the_figures_stay() {
    let mut world = fixture::world(vec![fixture::healthy()]);
    world.apply(Update::Link(Link::Connecting {
        problem: Some("the agent closed the connection".to_owned()),
    }));
    let text = drawn(&app(world), 80, 24);
    assert!(
        text.contains("the agent is gone; looking for the next one"),
        "{text}"
    );
    assert!(text.contains("run/limit"), "{text}");
}

#[test]
fn help_lists_every_binding() {
    let mut app = healthy();
    app.update(Action::Help);
    let text = drawn(&app, 80, 24);
    for binding in BINDINGS {
        assert!(text.contains(binding.label), "{} in\n{text}", binding.label);
        assert!(text.contains(binding.help), "{} in\n{text}", binding.help);
    }
}

#[test]
fn services_at_80x24() {
    let mut app = app(fixture::world(vec![fixture::healthy(), fixture::other()]));
    app.update(Action::Services);
    app.update(Action::Step(Step::Down));
    insta::assert_snapshot!(drawn(&app, 80, 24));
}

#[test]
fn the_demo_says_where_it_is() {
    let mut app = App::new(Some(DemoNote {
        url: "http://127.0.0.1:4321".to_owned(),
        ended: None,
    }));
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
}

#[test]
fn colour_repeats_what_is_said_and_can_be_left_out() {
    let app = stalled();
    let colours = |colour| {
        let terminal = terminal(&app, 120, 40, colour);
        let cells = terminal.backend().buffer().content().iter();
        cells.filter(|cell| cell.fg != Color::Reset).count()
    };
    assert!(colours(true) > 0);
    assert_eq!(colours(false), 0);
}

#[test]
fn no_size_is_too_small() {
    let mut app = stalled();
    for mode in [Mode::Overview, Mode::Help, Mode::Services] {
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
