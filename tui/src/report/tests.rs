//! The page of the fixture, character by character, and that nothing in a snapshot gets out of its place.

use super::*;
use crate::opened::tests::{by_probe, fixture};

#[test]
fn the_page_of_the_fixture() {
    insta::assert_snapshot!(page(&fixture()));
}

#[test]
fn a_snapshot_of_a_probe_says_what_is_missing() {
    let page = page(&by_probe());
    assert!(
        page.contains("CRITICAL  stall 252 ms on all 2 workers"),
        "{page}"
    );
    assert!(page.contains("the agent keeps them, and none answered"));
    assert!(page.contains("Event-loop lag just before, ms"));
}

#[test]
fn one_that_was_last_seen_does_not_pretend_to_know() {
    let mut opened = fixture();
    opened.snapshot.incident = None;
    opened.snapshot.reason = ax_wire::incident::Reason::LastSeen;
    let page = page(&opened);
    assert!(page.contains("the service could not be asked"), "{page}");
}

/// Every string of the file replaced by an attack.
fn hostile(value: &mut serde_json::Value) {
    use serde_json::Value;
    const ATTACK: &str = "</td></style><script>alert(1)</script><img src=http://x.test/ onerror=\"a\">'\u{1b}[2J\u{202e}";
    match value {
        Value::Array(all) => all.iter_mut().for_each(hostile),
        Value::Object(all) => {
            for (key, value) in all.iter_mut() {
                let free = [
                    "name",
                    "service",
                    "lane",
                    "place",
                    "sentence",
                    "rule",
                    "service_version",
                    "probe_version",
                    "build_id",
                ];
                match value {
                    Value::String(text) if free.contains(&key.as_str()) => ATTACK.clone_into(text),
                    Value::Array(all) if key == "unknown" => all.push(ATTACK.into()),
                    value => hostile(value),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn what_a_snapshot_says_never_becomes_markup() {
    let mut json = serde_json::to_value(fixture().snapshot).expect("encodes");
    hostile(&mut json);
    let snapshot = serde_json::from_value(json).expect("is still a snapshot");
    let page = page(&Opened::new(snapshot, "<b>.json".to_owned()));
    assert!(page.matches("&lt;script&gt;").count() > 20, "it was shown");
    for wrong in ["<script", "<img", "<b>", "\u{1b}", "\u{202e}"] {
        assert!(!page.contains(wrong), "{wrong:?} got through");
    }
    assert_eq!(page.matches("</style>").count(), 1);
}

#[test]
fn the_page_loads_nothing() {
    let page = page(&fixture());
    assert!(page.contains("default-src 'none'"));
    for reference in [
        "src=",
        "url(",
        "@import",
        "http://",
        "https://",
        "<script",
        "javascript:",
    ] {
        assert!(!page.contains(reference), "{reference}");
    }
    assert_eq!(page.matches("href=").count(), 1, "the empty icon");
}

#[test]
fn a_long_table_is_cut_and_says_so() {
    let mut opened = fixture();
    let incident = opened.snapshot.incident.as_mut().expect("has one");
    incident.running = vec![incident.running[0].clone(); 1_000];
    incident.running_total = 5_000;
    let page = page(&opened);
    assert!(page.contains("and 800 more, in the snapshot"));
    assert!(page.contains("5000 ran; the snapshot lists the longest 1000"));
    assert!(page.len() < 400_000, "{} bytes", page.len());
}
