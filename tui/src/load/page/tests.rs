//! The page of a session of the demo, which must be read for ever.

use ax_agent::load::analyze;
use ax_wire::session::Session;

use super::page;

/// A session of the demo over its knee, with the agent's findings.
pub fn fixture() -> Session {
    let json = include_str!("../../../tests/fixtures/session-v1.json");
    serde_json::from_str(json).expect("reads for ever")
}

/// F83, F94: a point a step, the knee circled, the limit as a line, and nothing that a browser would load or run.
#[test]
fn the_page_shows_every_step_and_loads_nothing() {
    let session = fixture();
    let analysis = analyze(&session);
    let page = page(&session, &analysis);
    assert_eq!(page.matches("class=\"point ").count(), analysis.steps.len());
    assert_eq!(
        page.matches("<circle class=\"ring\"").count(),
        1,
        "one knee"
    );
    assert!(page.contains("line class=\"mark\""), "the limit");
    assert!(page.contains("filled first"));
    for forbidden in [
        "<script",
        "http-equiv=\"refresh\"",
        "src=",
        "@import",
        "url(",
    ] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn a_session_without_steps_has_a_page_too() {
    let mut session = fixture();
    session.steps.clear();
    let page = page(&session, &analyze(&session));
    assert!(page.contains("knee: unknown"), "{page}");
}

/// Names and outputs come from elsewhere.
#[test]
fn nothing_of_a_session_is_taken_for_markup() {
    let mut session = fixture();
    session.warnings = vec!["<b>\u{1b}[2J".to_owned()];
    session.end.why = Some("<script>alert(1)</script>".to_owned());
    let page = page(&session, &analyze(&session));
    assert!(!page.contains("<script>") && !page.contains("<b>") && !page.contains('\u{1b}'));
}
