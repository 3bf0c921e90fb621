//! Keys and mouse as people know them, and the time that the charts show.

use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Rect;

use super::*;
use crate::{
    drawn::Target,
    glyphs::Glyphs,
    keys::TimeStep,
    theme::Theme,
    view::{Screen, tests::drawn},
};

const S: u64 = 1_000_000_000;

/// Presses keys one after the other.
fn press(app: &mut App, keys: &str) -> Option<Request> {
    let mut request = None;
    for key in keys.split(' ') {
        let key: Key = key.parse().expect(key);
        request = app.press(&key.event(), fixture::NOW_UNIX_NS);
    }
    request
}

/// Draws a frame, so that things can be pointed at.
fn draw(app: &mut App, width: u16, height: u16) {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = ratatui::buffer::Buffer::empty(area);
    let screen = Screen::new(app, Theme::with_colour(true), Glyphs::Unicode);
    ratatui::widgets::Widget::render(&screen, area, &mut buffer);
    let drawn = screen.into_drawn();
    app.drawn = drawn;
}

fn mouse(app: &mut App, kind: MouseEventKind, column: u16, row: u16) {
    let event = MouseEvent {
        kind,
        column,
        row,
        modifiers: KeyModifiers::NONE,
    };
    app.point(event, fixture::NOW_UNIX_NS);
}

fn click(app: &mut App, column: u16, row: u16) {
    mouse(app, MouseEventKind::Down(MouseButton::Left), column, row);
    mouse(app, MouseEventKind::Up(MouseButton::Left), column, row);
}

/// Where a target stands: the first place that hits it.
fn place(app: &App, wanted: impl Fn(&Target) -> bool) -> (u16, u16) {
    let places = (0..40).flat_map(|y| (0..120).map(move |x| (x, y)));
    let mut hits = places.filter(|(x, y)| {
        app.drawn
            .at(*x, *y)
            .next()
            .is_some_and(|target| wanted(&target))
    });
    hits.next().expect("is on the screen")
}

#[test]
fn keys_that_begin_a_sequence_wait_for_its_end() {
    let mut app = app();
    press(&mut app, "j");
    assert_eq!(app.table(Panel::Lanes).selected_index(), 1);
    press(&mut app, "g");
    assert_eq!(app.table(Panel::Lanes).selected_index(), 1);
    press(&mut app, "g");
    assert_eq!(app.table(Panel::Lanes).selected_index(), 0);
    press(&mut app, "g j");
    assert_eq!(
        app.table(Panel::Lanes).selected_index(),
        1,
        "what was begun is forgotten"
    );
}

#[test]
fn a_filter_narrows_while_it_is_typed_and_esc_takes_it_away() {
    let mut app = app();
    press(&mut app, "/ a p");
    assert_eq!(app.table(Panel::Lanes).count(), 1);
    assert!(drawn(&app, 120, 40).contains("/ap 1 of 2"));
    press(&mut app, "enter");
    assert_eq!(
        app.table(Panel::Lanes).selected().map(String::as_str),
        Some("1/api")
    );
    assert!(app.prompt.is_none());
    press(&mut app, "esc");
    assert_eq!(app.table(Panel::Lanes).count(), 2);
    assert_eq!(app.mode, Mode::Overview);
    press(&mut app, "/ z z esc");
    assert_eq!(app.table(Panel::Lanes).count(), 2, "as it was before");
}

#[test]
fn commands_are_completed_and_say_what_they_lack() {
    let mut app = app();
    press(&mut app, ": z o o tab");
    assert_eq!(
        app.prompt.as_ref().map(|prompt| prompt.text.as_str()),
        Some("zoom-in")
    );
    press(&mut app, "tab enter");
    assert_eq!(app.span(60).step_ns, 2 * S, "zoom-out");
    let note = |app: &App| {
        app.note
            .as_ref()
            .map_or(String::new(), |note| note.text.clone())
    };
    for (command, told) in [
        ("nonsense", "no command `nonsense`"),
        ("theme", "theme needs dark, light"),
        ("theme purple", "no theme `purple`"),
        ("sort nothing", "no column `nothing`; there are: lane, fill"),
        ("service nobody", "no service `nobody`"),
        ("seek yesterday", "no time of day"),
        ("speed 10", "only a replay has a speed"),
        ("go x", "no number of a row"),
    ] {
        app.command(command, fixture::NOW_UNIX_NS);
        assert!(note(&app).contains(told), "{command}: {}", note(&app));
        app.note = None;
    }
    for command in [
        "sort pending",
        "theme light",
        "service invoices",
        "go 2",
        "lanes",
        "help",
    ] {
        app.command(command, fixture::NOW_UNIX_NS);
        assert_eq!(app.note, None, "{command}");
    }
    assert_eq!(app.shown, Some(fixture::instance(2)));
    assert_eq!(app.palette, Some(crate::theme::Palette::Light));
    assert_eq!(app.mode, Mode::Help);
}

/// `F97`: what the cursor stands at is what every chart says.
#[test]
fn the_cursor_tells_what_every_chart_says_of_an_instant() {
    let mut app = app();
    draw(&mut app, 120, 40);
    press(&mut app, ",");
    let screen = drawn(&app, 120, 40);
    assert!(
        screen.contains("Lag ms at 14:03:26") || screen.contains("lag ms at 14:03:26"),
        "{screen}"
    );
    // The fixture's lag was largest nine seconds ago.
    app.command("seek 14:03:18", fixture::NOW_UNIX_NS);
    let screen = drawn(&app, 120, 40);
    assert!(
        screen.contains("at 14:03:18  p50 0.1  max 412.0"),
        "{screen}"
    );
    assert!(
        screen.contains("CPU     10 % of 2"),
        "what it was then: {screen}"
    );
    press(&mut app, "esc");
    assert_eq!(app.timeline.cursor_unix_ns, None);
}

#[test]
fn charts_go_back_in_time_as_far_as_is_known_and_return() {
    let mut app = app();
    draw(&mut app, 120, 40);
    let columns = app.drawn.chart_columns;
    assert!(columns > 20, "{columns}");
    press(&mut app, "b");
    assert!(!app.timeline.follows());
    let back = app.span(columns);
    for _ in 0..50 {
        press(&mut app, "b");
    }
    let oldest = app.span(columns);
    assert!(oldest.end_unix_ns < back.end_unix_ns);
    let first = app
        .feed()
        .and_then(|feed| feed.points.front())
        .map(|point| point.at_unix_ns);
    assert_eq!(
        Some(oldest.end_unix_ns - oldest.length_ns()),
        first,
        "full of what is known"
    );
    assert!(
        drawn(&app, 120, 40).contains("14:0"),
        "times of day on the axis"
    );
    press(&mut app, "r");
    assert!(app.timeline.follows());
    press(&mut app, "- -");
    assert_eq!(app.span(columns).step_ns, 5 * S);
    press(&mut app, "=");
    assert_eq!(app.span(columns).step_ns, S);
}

#[test]
fn the_cursor_goes_from_mark_to_mark() {
    let mut view = fixture::firing();
    let at = |ago: u64| fixture::NOW_UNIX_NS - ago * S;
    view.marks = vec![ax_wire::mark::Mark {
        at_unix_ns: at(30),
        kind: ax_wire::mark::MarkKind::Limit,
        text: "db: limit 40 -> 20".to_owned(),
    }];
    let mut app = App::new(None, TimeZone::UTC);
    app.take(fixture::world(vec![view]));
    draw(&mut app, 160, 40);
    let mut seen = Vec::new();
    for _ in 0..6 {
        press(&mut app, "N");
        seen.extend(app.timeline.cursor_unix_ns);
    }
    assert!(seen.contains(&at(9)) && seen.contains(&at(30)), "{seen:?}");
    assert!(seen.is_sorted_by(|a, b| a >= b), "{seen:?}");
    app.time(TimeStep::ZoomReset);
    app.cursor_to(|_| at(30));
    assert!(
        drawn(&app, 160, 40).contains("db: limit 40 -> 20"),
        "{}",
        drawn(&app, 160, 40)
    );
}

#[test]
fn the_mouse_opens_sorts_selects_and_zooms() {
    let mut app = app();
    draw(&mut app, 120, 40);
    let heading = place(&app, |target| *target == Target::Heading(Panel::Lanes, 3));
    click(&mut app, heading.0, heading.1);
    assert_eq!(app.table(Panel::Lanes).sorting(), Some((3, true)));
    click(&mut app, heading.0, heading.1);
    assert_eq!(app.table(Panel::Lanes).sorting(), Some((3, false)));
    draw(&mut app, 120, 40);
    let row = place(&app, |target| *target == Target::Row(Panel::Types, 1));
    click(&mut app, row.0, row.1);
    assert_eq!(app.focused(), Some(Panel::Types));
    let tab = place(&app, |target| *target == Target::Tab(Mode::Lanes));
    click(&mut app, tab.0, tab.1);
    assert_eq!(app.mode, Mode::Lanes);
    draw(&mut app, 120, 40);
    let row = place(&app, |target| *target == Target::Row(Panel::LanesInFull, 1));
    click(&mut app, row.0, row.1);
    assert_eq!(app.mode, Mode::Lanes);
    click(&mut app, row.0, row.1);
    assert_eq!(app.mode, Mode::Lane, "once more opens it");
    app.update(Action::Open(Mode::Overview), 0);
    draw(&mut app, 120, 40);
    let chart = place(&app, |target| matches!(target, Target::Chart(..)));
    let (x, y) = (chart.0 + 20, chart.1 + 3);
    click(&mut app, x, y);
    assert!(
        app.timeline.cursor_unix_ns.is_some(),
        "a click is the cursor"
    );
    mouse(&mut app, MouseEventKind::Down(MouseButton::Left), x, y);
    mouse(&mut app, MouseEventKind::Drag(MouseButton::Left), x + 9, y);
    assert!(app.drag.is_some());
    mouse(&mut app, MouseEventKind::Up(MouseButton::Left), x + 9, y);
    assert!(
        app.span(60).step_ns < S,
        "ten seconds find room in more detail"
    );
    assert!(!app.timeline.follows());
    mouse(&mut app, MouseEventKind::ScrollDown, x, y);
    assert!(app.span(60).step_ns >= S / 2, "the wheel zooms out");
    let row = place(&app, |target| {
        matches!(target, Target::Row(Panel::Types, 0))
    });
    app.table(Panel::Types);
    mouse(&mut app, MouseEventKind::ScrollDown, row.0, row.1);
    assert_eq!(app.focused(), Some(Panel::Types), "the wheel goes by rows");
}

#[test]
fn pages_go_by_what_finds_room() {
    let mut view = fixture::healthy();
    view.lanes = (0..100)
        .map(|at| fixture::lane(&format!("lane_{at:03}"), 0, 10, 0))
        .collect();
    let mut app = App::new(None, TimeZone::UTC);
    app.take(fixture::world(vec![view]));
    app.update(Action::Open(Mode::Lanes), 0);
    draw(&mut app, 80, 24);
    let page = usize::from(app.drawn.page(Panel::LanesInFull));
    let at = |app: &App| app.table(Panel::LanesInFull).selected_index();
    press(&mut app, "ctrl-d");
    assert_eq!(at(&app), page / 2);
    press(&mut app, "pagedown");
    assert_eq!(at(&app), page / 2 * 3);
    press(&mut app, "ctrl-u ctrl-b");
    assert_eq!(at(&app), 0);
    press(&mut app, "G");
    assert_eq!(at(&app), 99);
}

#[test]
fn a_recording_is_paused_sought_and_sped_up_by_the_same_keys() {
    let mut app = app();
    let begin = fixture::NOW_UNIX_NS - 3_600 * S;
    app.playback = Some(crate::app::time::Playback {
        name: "day.axrec".to_owned(),
        paused: false,
        speed: 1.0,
        at_unix_ns: begin + 600 * S,
        begin_unix_ns: begin,
        end_unix_ns: fixture::NOW_UNIX_NS,
    });
    let playback = |app: &App| app.playback.clone().expect("plays");
    press(&mut app, ") ) )");
    assert!((playback(&app).speed - 8.0).abs() < f64::EPSILON);
    press(&mut app, "space");
    assert!(playback(&app).paused);
    assert!(!app.playback.as_mut().expect("plays").go_on(S), "paused");
    assert!(drawn(&app, 120, 40).contains("PAUSED 8x at"));
    press(&mut app, "b");
    assert!(playback(&app).at_unix_ns < begin + 600 * S);
    press(&mut app, "r");
    let before = playback(&app).at_unix_ns;
    assert!(app.playback.as_mut().expect("plays").go_on(S));
    assert_eq!(playback(&app).at_unix_ns, before + 8 * S);
    app.command("seek 10m", 0);
    app.command("speed 1000x", 0);
    for _ in 0..60 {
        app.playback.as_mut().expect("plays").go_on(S);
    }
    assert_eq!(
        playback(&app).at_unix_ns,
        fixture::NOW_UNIX_NS,
        "no further than its end"
    );
    let screen = drawn(&app, 120, 40);
    assert!(
        screen.contains("END OF REPLAY") && !screen.contains("  live  "),
        "{screen}"
    );
    assert_eq!(press(&mut app, "c"), None);
    let note = app.note.take().expect("says why");
    assert!(note.text.contains("a recording is over"), "{}", note.text);
}

/// What is of the cursor's instant and what is of now is said.
#[test]
fn a_cursor_is_said_in_the_header_and_beside_the_figures_of_now() {
    let mut app = app();
    press(&mut app, ", ,");
    let screen = drawn(&app, 120, 40);
    for said in [
        "CURSOR at 14:03:2",
        "CPU and RSS at 14:03:2",
        "busy at 14:03:2",
    ] {
        assert!(screen.contains(said), "{said}: {screen}");
    }
    assert!(
        screen.contains("rest now") && !screen.contains("STALL "),
        "{screen}"
    );
    press(&mut app, "esc b");
    assert!(!drawn(&app, 120, 40).contains("CURSOR"));
}

#[test]
fn a_trace_is_copied_by_its_id() {
    use crate::fixture::asked;
    let mut app = app();
    press(&mut app, "4");
    asked::answer_all(&mut app, asked::answer);
    let Some(Request::Copy(listed)) = press(&mut app, "y") else {
        panic!("copies nothing");
    };
    assert_eq!(listed.len(), 32, "{listed}");
    press(&mut app, "enter");
    assert_eq!(press(&mut app, "y"), Some(Request::Copy(listed)));
}
