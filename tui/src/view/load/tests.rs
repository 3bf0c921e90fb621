//! What the screen looks like, of a session of the demo over its knee.

use jiff::tz::TimeZone;
use ratatui::{Terminal, backend::TestBackend};

use super::*;
use crate::{
    app::App,
    glyphs::Glyphs,
    keys::Action,
    load::{page::tests::fixture, shown::Shown},
    screens::Mode,
    theme::Theme,
};

fn drawn(app: &App, width: u16, height: u16, glyphs: Glyphs) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("draws in memory");
    let screen = Screen::new(app, Theme::with_colour(false), glyphs);
    terminal
        .draw(|frame| frame.render_widget(&screen, frame.area()))
        .expect("draws in memory");
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(width));
    let lines = rows.map(|row| {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

/// F83: a point a step, the knee in brackets, the limit as a line, what filled first.
#[test]
fn a_session_at_each_size() {
    let app = App::of_session(Shown::of(fixture()), TimeZone::UTC);
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        let name = format!("load_{width}x{height}");
        insta::assert_snapshot!(name, drawn(&app, width, height, Glyphs::Unicode));
    }
    let unicode = drawn(&app, 120, 40, Glyphs::Unicode);
    let ascii = drawn(&app, 120, 40, Glyphs::Ascii);
    let unknown = |text: &str| text.matches('?').count();
    assert!(
        ascii.is_ascii() && unknown(&ascii) == unknown(&unicode),
        "{ascii}"
    );
}

#[test]
fn no_size_is_too_small() {
    let app = App::of_session(Shown::of(fixture()), TimeZone::UTC);
    for width in [1, 7, 20, 39, 60] {
        for height in [1, 3, 5, 9, 15] {
            drawn(&app, width, height, Glyphs::Unicode);
        }
    }
}

/// Without a session the screen says how to make one; a key leads there from the live screens.
#[test]
fn without_a_session_it_says_how_to_make_one() {
    let mut app = App::new(None, TimeZone::UTC);
    app.update(Action::Open(Mode::Load), 0);
    let text = drawn(&app, 120, 40, Glyphs::Unicode);
    assert!(
        text.contains("ax-top load --url") && text.contains("[9 Load]"),
        "{text}"
    );
}

/// A session alone has one screen: no other one has anything to show.
#[test]
fn a_session_alone_has_one_screen() {
    let mut app = App::of_session(Shown::of(fixture()), TimeZone::UTC);
    for action in [
        Action::Open(Mode::Overview),
        Action::NextScreen,
        Action::Back,
        Action::Capture,
    ] {
        app.update(action, 0);
        assert_eq!(app.mode, Mode::Load, "{action:?}");
    }
    app.update(Action::Quit, 0);
    assert!(app.quit);
}
