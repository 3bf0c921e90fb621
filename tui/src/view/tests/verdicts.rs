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

/// Alerts of rules that are not those of the file are shown with that, whatever the banner says.
#[test]
fn beside_the_alerts_stands_that_the_file_is_not_in_force() {
    // On a small screen the alerts have the room where no verdict needs it.
    let undiagnosed = fixture::firing();
    for (view, (width, height)) in [(undiagnosed, (80, 24)), (fixture::diagnosed(), (120, 40))] {
        let mut world = fixture::world(vec![view]);
        world.file_problem = Some("agent.toml:3:1: unknown key `treshold`".to_owned());
        let mut app = app(world);
        app.mode = Mode::Alerts;
        let text = drawn(&app, width, height);
        let told = text
            .lines()
            .filter(|line| line.contains("are not those of its file"));
        assert_eq!(told.count(), 1, "{text}");
    }
}
