//! What the actions do to the state.

mod habits;
mod monkey;

use ax_wire::view::ServiceState;

use super::*;
use crate::{fixture, keys::Action, widget::table::Step};

fn app() -> App {
    let mut app = App::new(None, TimeZone::UTC);
    app.take(fixture::world(vec![fixture::stalled(), fixture::other()]));
    app
}

#[test]
fn a_frozen_screen_takes_no_newer_world_until_resumed() {
    let mut app = app();
    app.update(Action::Freeze, fixture::NOW_UNIX_NS);
    assert_eq!(
        app.pace,
        Pace::Frozen {
            since_unix_ns: fixture::NOW_UNIX_NS
        }
    );
    let mut newer = fixture::world(vec![fixture::healthy()]);
    newer.now_unix_ns += 1_000_000_000;
    assert!(!app.take(newer.clone()));
    assert_eq!(app.view().map(|view| view.stalls.len()), Some(1));
    app.update(Action::Resume, fixture::NOW_UNIX_NS);
    assert!(app.take(newer));
    assert_eq!(app.view().map(|view| view.stalls.len()), Some(0));
    app.update(Action::Freeze, fixture::NOW_UNIX_NS);
    app.update(Action::Freeze, fixture::NOW_UNIX_NS);
    assert_eq!(app.pace, Pace::Live, "space lets it go on as well");
}

#[test]
fn pages_open_and_close() {
    let mut app = app();
    app.update(Action::Toggle(Mode::Help), fixture::NOW_UNIX_NS);
    assert_eq!(app.mode, Mode::Help);
    app.update(Action::Toggle(Mode::Services), fixture::NOW_UNIX_NS);
    assert_eq!(app.mode, Mode::Services);
    app.update(Action::Toggle(Mode::Services), fixture::NOW_UNIX_NS);
    assert_eq!(app.mode, Mode::Overview);
    app.update(Action::Toggle(Mode::Help), fixture::NOW_UNIX_NS);
    app.update(Action::Back, fixture::NOW_UNIX_NS);
    assert_eq!(app.mode, Mode::Overview);
    app.update(Action::Quit, fixture::NOW_UNIX_NS);
    assert!(app.quit);
}

#[test]
fn tab_goes_round_the_screens_and_a_number_opens_one() {
    let mut app = app();
    let screens: Vec<Mode> = app.screens().map(|(_, page)| page.mode).collect();
    assert!(
        screens.len() > 3 && !screens.contains(&Mode::Evidence),
        "{screens:?}"
    );
    for mode in screens.iter().skip(1).chain(&screens[..1]) {
        app.update(Action::NextScreen, fixture::NOW_UNIX_NS);
        assert_eq!(app.mode, *mode);
    }
    app.update(Action::PreviousScreen, fixture::NOW_UNIX_NS);
    assert_eq!(app.mode, Mode::Load);
    app.update(Action::Toggle(Mode::Help), fixture::NOW_UNIX_NS);
    app.update(Action::NextScreen, fixture::NOW_UNIX_NS);
    assert_eq!(app.mode, Mode::Overview, "from a page over the screens");
    app.update(Action::Open(Mode::Alerts), fixture::NOW_UNIX_NS);
    assert_eq!(app.mode, Mode::Alerts);
}

#[test]
fn a_capture_is_asked_of_the_agent_and_its_outcome_told_for_a_while() {
    let mut app = app();
    let asked = app.update(Action::Capture, fixture::NOW_UNIX_NS);
    let instance = fixture::instance(1);
    assert_eq!(asked, Some(Request::Capture(Capture { instance })));
    let note = |app: &App| app.note.as_ref().map(|note| note.text.clone());
    assert_eq!(note(&app).as_deref(), Some("taking a snapshot .."));
    let mut captured = Captured {
        instance,
        outcome: Err("one was taken 2 s ago".to_owned()),
    };
    app.captured(captured.clone(), fixture::NOW_UNIX_NS);
    assert_eq!(
        note(&app).as_deref(),
        Some("no snapshot: one was taken 2 s ago")
    );
    captured.outcome = Ok(fixture::firing().snapshots[0].clone());
    app.captured(captured, fixture::NOW_UNIX_NS);
    assert!(note(&app).is_some_and(|note| note.starts_with("snapshot written: /")));
    assert!(!app.expire_note(fixture::NOW_UNIX_NS + NOTE_NS - 1));
    assert!(app.expire_note(fixture::NOW_UNIX_NS + NOTE_NS));
    assert_eq!(app.note, None);
    app.update(Action::Capture, fixture::NOW_UNIX_NS);
    app.update(Action::NextScreen, fixture::NOW_UNIX_NS);
    assert_eq!(app.note, None, "a key takes it away");
}

#[test]
fn without_an_agent_no_capture_is_asked_for() {
    let mut app = app();
    app.world
        .apply(crate::world::Update::Link(Link::CONNECTING));
    assert_eq!(app.update(Action::Capture, fixture::NOW_UNIX_NS), None);
    assert!(app.note.is_some_and(|note| note.text.contains("no agent")));
}

#[test]
fn focus_goes_round_both_ways() {
    let mut app = app();
    for panel in [Panel::Types, Panel::Workers, Panel::Lanes] {
        app.update(Action::FocusNext, fixture::NOW_UNIX_NS);
        assert_eq!(app.focused(), Some(panel));
    }
    app.update(Action::FocusPrevious, fixture::NOW_UNIX_NS);
    assert_eq!(app.focused(), Some(Panel::Workers));
}

#[test]
fn a_lane_is_opened_and_left_again() {
    let mut app = app();
    app.update(Action::Step(Step::Down), fixture::NOW_UNIX_NS);
    app.update(Action::Enter, fixture::NOW_UNIX_NS);
    assert_eq!((app.mode, app.lane.as_deref()), (Mode::Lane, Some("1/api")));
    app.update(Action::Back, fixture::NOW_UNIX_NS);
    assert_eq!(app.mode, Mode::Lanes);
    app.update(Action::Enter, fixture::NOW_UNIX_NS);
    assert_eq!((app.mode, app.lane.as_deref()), (Mode::Lane, Some("1/db")));
    app.update(Action::NextScreen, fixture::NOW_UNIX_NS);
    assert_eq!(app.mode, Mode::Jobs, "a lane belongs to the lanes");
    app.update(Action::Open(Mode::Lanes), fixture::NOW_UNIX_NS);
    for panel in [Panel::Routes, Panel::Downstreams, Panel::LanesInFull] {
        app.update(Action::FocusNext, fixture::NOW_UNIX_NS);
        assert_eq!(app.focused(), Some(panel));
    }
    app.update(Action::Open(Mode::Overview), fixture::NOW_UNIX_NS);
    assert_eq!(app.focused(), Some(Panel::Lanes), "each screen has its own");
}

#[test]
fn services_are_turned_over_and_picked() {
    let mut app = app();
    assert_eq!(app.shown, Some(fixture::instance(1)));
    app.update(Action::NextService, fixture::NOW_UNIX_NS);
    assert_eq!(app.shown, Some(fixture::instance(2)));
    app.update(Action::NextService, fixture::NOW_UNIX_NS);
    assert_eq!(app.shown, Some(fixture::instance(1)), "round the end");
    app.update(Action::PreviousService, fixture::NOW_UNIX_NS);
    assert_eq!(app.shown, Some(fixture::instance(2)));
    app.update(Action::Toggle(Mode::Services), fixture::NOW_UNIX_NS);
    app.update(Action::Step(Step::Top), fixture::NOW_UNIX_NS);
    app.update(Action::Enter, fixture::NOW_UNIX_NS);
    assert_eq!(app.shown, Some(fixture::instance(1)));
    assert_eq!(app.mode, Mode::Overview);
}

#[test]
fn no_service_is_no_trouble() {
    let mut app = App::new(None, TimeZone::UTC);
    for binding in crate::keys::bindings() {
        app.update(binding.action, fixture::NOW_UNIX_NS);
    }
    app.take(World::new());
    assert_eq!(app.shown, None);
}

#[test]
fn a_restarted_service_is_followed() {
    let mut app = app();
    let mut old = fixture::stalled();
    old.summary.state = ServiceState::Ended;
    let mut new = fixture::healthy();
    new.summary.instance = fixture::instance(3);
    app.take(fixture::world(vec![fixture::other(), old.clone()]));
    assert_eq!(
        app.shown,
        Some(fixture::instance(1)),
        "stays with what was shown"
    );
    app.take(fixture::world(vec![fixture::other(), new, old]));
    assert_eq!(app.shown, Some(fixture::instance(3)));
}

#[test]
fn the_workers_panel_scrolls_no_further_than_its_last() {
    let mut app = app();
    app.focus.insert(Mode::Overview, Panel::Workers);
    for _ in 0..5 {
        app.update(Action::Step(Step::Down), fixture::NOW_UNIX_NS);
    }
    assert_eq!(app.first_line(Panel::Workers, 1), 1);
}

/// A service that is gone can be looked at, although a newer one of its name lives.
#[test]
fn a_service_that_was_picked_stays_where_it_is_gone() {
    let mut app = app();
    let mut gone = fixture::other().summary;
    gone.state = ServiceState::Lost;
    let mut next = gone.clone();
    next.instance = fixture::instance(77);
    next.state = ServiceState::Live;
    let mut world = app.world.clone();
    world
        .services
        .retain(|service| service.instance != gone.instance);
    world.services.extend([gone.clone(), next.clone()]);
    app.take(world.clone());
    app.pick(gone.instance);
    app.take(world.clone());
    assert_eq!(app.shown, Some(gone.instance));
    world
        .services
        .retain(|service| service.instance != gone.instance);
    app.take(world.clone());
    assert_ne!(app.picked, Some(gone.instance), "forgotten by the agent");
    // One that was live when it was picked leads on to its next start.
    world.services.push(ServiceSummary {
        state: ServiceState::Live,
        ..gone.clone()
    });
    app.take(world.clone());
    app.pick(gone.instance);
    if let Some(service) = world.services.last_mut() {
        service.state = ServiceState::Ended;
    }
    app.take(world);
    assert_eq!(app.shown, Some(next.instance));
}

/// Enter on an alert, or a verdict, leads to its moment.
#[test]
fn an_alert_puts_the_cursor_where_it_began() {
    let mut app = App::new(None, TimeZone::UTC);
    let mut view = fixture::firing();
    let began = fixture::NOW_UNIX_NS - 5_000_000_000;
    view.alerts[0].began_unix_ns = began;
    app.take(fixture::world(vec![view]));
    app.mode = Mode::Alerts;
    while app.focused() != Some(Panel::Alerts) {
        app.update(Action::FocusNext, 0);
    }
    app.update(Action::Step(Step::Top), 0);
    app.update(Action::Enter, 0);
    assert_eq!(app.mode, Mode::Overview);
    assert_eq!(app.timeline.cursor_unix_ns, Some(began));
    let note = app.note.take().expect("says where");
    assert!(note.text.contains("began, at 14:03:2"), "{}", note.text);
    app.mode = Mode::Alerts;
    app.update(Action::Step(Step::Bottom), 0);
    app.update(Action::Enter, 0);
    let note = app.note.take().expect("says where");
    assert!(note.text.contains("do not show"), "{}", note.text);
    assert!(app.timeline.cursor_unix_ns.is_some());
}
