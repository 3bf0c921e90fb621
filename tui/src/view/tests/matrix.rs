//! Every screen in every state at every size, in colour, without colour and in ASCII: what a picture of each would show,
//! asserted cell by cell, so that the kept pictures in colour stand for all of them.

use ax_wire::view::ServiceView;

use super::*;
use crate::{fixture::asked, screens::PAGES};

const STATES: [State; 5] = [
    State::Empty,
    State::Loading,
    State::Disconnected,
    State::Frozen,
    State::Overflowing,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A service that has told of nothing yet.
    Empty,
    /// No sample of it has come.
    Loading,
    /// The agent is gone.
    Disconnected,
    Frozen,
    /// More rows, and longer names, than find room.
    Overflowing,
}

/// The pages of a service that an agent tells of; those of a file have tests beside what they show.
fn pages() -> impl Iterator<Item = Mode> {
    let modes = PAGES.iter().map(|page| page.mode);
    modes.filter(|mode| !matches!(mode, Mode::Stacks | Mode::Evidence))
}

fn bare() -> ServiceView {
    let mut view = fixture::healthy();
    (view.lanes, view.types) = (Vec::new(), Vec::new());
    (view.routes, view.downstreams) = (Vec::new(), Vec::new());
    (view.alerts, view.snapshots) = (Vec::new(), Vec::new());
    view.diagnosis.verdicts.clear();
    view
}

fn in_state(mode: Mode, state: State) -> App {
    let mut app = match state {
        State::Empty => app(fixture::world(vec![bare()])),
        State::Loading => {
            let mut world = fixture::world(Vec::new());
            world.services.push(fixture::healthy().summary);
            app(world)
        }
        State::Disconnected | State::Frozen => firing(),
        State::Overflowing => overflowing(),
    };
    app.lane = Some("1/api".to_owned());
    app.mode = if mode == Mode::Trace {
        Mode::Traces
    } else {
        mode
    };
    if state == State::Empty {
        asked::answer_all(&mut app, asked::nothing);
    } else if state != State::Loading {
        asked::answer_all(&mut app, asked::answer);
    }
    if mode == Mode::Trace {
        press(&mut app, Action::Enter);
        app.mode = mode;
    }
    match state {
        State::Disconnected => {
            let mut world = app.world.clone();
            world.apply(Update::Link(Link::CONNECTING));
            app.take(world);
        }
        State::Frozen => press(&mut app, Action::Freeze),
        State::Empty | State::Loading | State::Overflowing => {}
    }
    app
}

fn in_ascii(app: &App, width: u16, height: u16) -> Buffer {
    let area = Rect::new(0, 0, width, height);
    let mut ascii = Buffer::empty(area);
    let screen = Screen::new(app, Theme::with_colour(false), Glyphs::Ascii);
    (&screen).render(area, &mut ascii);
    ascii
}

fn each(mut check: impl FnMut(Mode, State, (u16, u16), &App)) {
    for mode in pages() {
        for state in STATES {
            let app = in_state(mode, state);
            for size in SIZES {
                check(mode, state, size, &app);
            }
        }
    }
}

/// Colour repeats what is said: without it, the same characters stand there as bold, dim and reversed as with it.
#[test]
fn without_colour_nothing_is_missing() {
    each(|mode, state, (width, height), app| {
        let colour = buffer(app, width, height, true);
        let plain = buffer(app, width, height, false);
        for (with, without) in colour.content().iter().zip(plain.content()) {
            let at = format!("{mode:?} {state:?} at {width}x{height}");
            assert_eq!(with.symbol(), without.symbol(), "{at}");
            assert_eq!(with.modifier, without.modifier, "{at}");
            assert_eq!(
                (without.fg, without.bg),
                (Color::Reset, Color::Reset),
                "{at}"
            );
        }
    });
}

#[test]
fn in_ascii_every_screen_keeps_its_shape() {
    each(|mode, state, (width, height), app| {
        let unicode = buffer(app, width, height, false);
        let ascii = in_ascii(app, width, height);
        for (plain, drawn) in ascii.content().iter().zip(unicode.content()) {
            let at = format!("{mode:?} {state:?} at {width}x{height}: {}", drawn.symbol());
            assert!(plain.symbol().is_ascii(), "{at}");
            assert!(plain.symbol() != "?" || drawn.symbol() == "?", "{at}");
            assert_eq!(plain.symbol() == " ", drawn.symbol() == " ", "{at}");
            assert_eq!(plain.modifier, drawn.modifier, "{at}");
        }
    });
}

/// Each state is said in words on each screen, and severity and selection are seen without colour.
#[test]
fn every_state_is_told_and_the_selection_seen_without_colour() {
    each(|mode, state, (width, height), app| {
        let drawn = in_ascii(app, width, height);
        let text: String = rows(&drawn).map(|row| text(row) + "\n").collect();
        let at = format!("{mode:?} {state:?} at {width}x{height}:\n{text}");
        let said = match state {
            State::Empty => "healthy",
            State::Loading => "waiting for the first sample",
            State::Disconnected => "no agent",
            State::Frozen => "FROZEN since",
            State::Overflowing => "CRITICAL",
        };
        // Help, the load session and the list of services are not about one service: the header stands over them.
        let of_service = matches!(mode.page().draw, Draw::Service(_));
        if of_service || matches!(state, State::Disconnected | State::Frozen) {
            assert!(text.contains(said), "{at}");
        }
        if of_service && state == State::Frozen {
            assert!(text.contains("CRITICAL"), "{at}");
        }
        let focused = app.focused().map(|panel| (panel, panel.row().content));
        let lists_rows = matches!(focused, Some((panel, Content::List(_)))
            if app.table(panel).count() > 0);
        let figures = app.view().is_some() || mode == Mode::Services;
        if lists_rows && figures {
            let is_marked = |row: &[Cell]| row[1].modifier.contains(Modifier::REVERSED);
            assert!(rows(&drawn).any(is_marked), "nothing is selected: {at}");
        }
    });
}
