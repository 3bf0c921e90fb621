//! What the diagnosis says: the banner above the overview, and the verdicts with their evidence.

use super::*;

fn showing(view: ax_wire::view::ServiceView, mode: Mode) -> App {
    let mut app = app(fixture::world(vec![view]));
    app.mode = mode;
    app
}

#[test]
fn a_cause_on_the_overview() {
    let app = showing(fixture::diagnosed(), Mode::Overview);
    insta::assert_snapshot!(in_colour(&app, &[(80, 24), (120, 40)]));
}

#[test]
fn a_healthy_service_has_one_quiet_line() {
    let app = showing(fixture::diagnosed_healthy(), Mode::Overview);
    let text = drawn(&app, 120, 40);
    let banner: Vec<_> = text.lines().skip(1).take(2).map(str::trim).collect();
    assert!(banner[0].starts_with("healthy  lag p99 "), "{banner:?}");
    assert_eq!(banner[1], "");
}

#[test]
fn verdicts_with_their_evidence() {
    let app = showing(fixture::diagnosed(), Mode::Alerts);
    insta::assert_snapshot!(in_colour(&app, &[(80, 24), (120, 40)]));
}
