//! What queries find, what is said of wrong ones, and how they are completed.

use ax_wire::{JobId, TraceId, job::JobRow, job::JobsQuery};
use proptest::prelude::*;

use super::*;

fn matches(text: &str, job: &JobRow) -> bool {
    let query = JobsQuery {
        terms: parse(text).unwrap_or_else(|error| panic!("{text}: {error}")),
        ..JobsQuery::default()
    };
    query.matches(job)
}

#[test]
fn a_query_finds_what_it_says() {
    let job = JobRow {
        id: JobId(17),
        job_type: "render pdf".to_owned(),
        lane: Some("db".to_owned()),
        state: JobState::TimedOut,
        queue_wait_ns: Some(150_000_000),
        priority: Some(90),
        trace: TraceId::new(0x0af7 << 112),
        error: Some("the disk is full".to_owned()),
        ..JobRow::default()
    };
    for text in [
        "",
        "pdf",
        "type~pdf lane=db wait>100ms state=failed",
        "type=\"render pdf\"",
        "state=running,timedout state!=live id=17 id=#17",
        "trace=0af7 priority>=90 wait<=0.2s wait=150 error~disk name!=x",
        "#17 !#18 !mail",
        "0af70000000000000000000000000000",
        "!0123456789abcdef",
    ] {
        assert!(matches(text, &job), "{text}");
    }
    for text in [
        "lane!=db",
        "wait>1s",
        "run>0",
        "mail",
        "state=live",
        "trace=1",
        "#18",
        "!#17",
        "!pdf",
        "!\"render pdf\"",
        "0123456789abcdef",
        "0af7",
    ] {
        assert!(!matches(text, &job), "{text}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (text, at, what) in [
        ("lane=db wiat>1s", 8, "did you mean `wait`?"),
        ("colour=red", 0, "there are type lane state"),
        ("wait>soon", 5, "no duration"),
        ("lane>db", 4, "= != ~ !~"),
        ("wait~1", 4, "compare it by"),
        ("state=gone", 6, "there is no state `gone`"),
        ("state=ready,gone", 12, "there is no state `gone`"),
        ("id=ten", 3, "no whole number"),
        ("lane=", 5, "wants a value"),
        ("type=\"a b", 5, "not closed"),
        ("trace=xyz", 6, "no trace id"),
        ("é ! x", 2, "stands before"),
        ("#seven", 0, "no job"),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!(error.at, at, "{text}: {error}");
        assert!(error.what.contains(what), "{text}: {error}");
    }
    let long = "a ".repeat(MAX_TERMS + 1);
    assert_eq!(parse(&long).expect_err("too long").at, 2 * MAX_TERMS);
}

#[test]
fn fields_and_values_are_completed_as_far_as_there_is_no_choice() {
    let complete = |text: &str| {
        let found = completions(text, &["query", "quote", "render pdf"], &["db", "api"]);
        completed(text, &found)
    };
    assert_eq!(complete("la").as_deref(), Some("lane="));
    assert_eq!(complete("lane=d").as_deref(), Some("lane=db "));
    assert_eq!(complete("x type=q").as_deref(), Some("x type=qu"));
    assert_eq!(complete("x type=qu"), None, "two go on from here");
    assert_eq!(complete("type=r").as_deref(), Some("type=\"render pdf\" "));
    assert_eq!(
        complete("state=ready,wa").as_deref(),
        Some("state=ready,waiting ")
    );
    assert_eq!(complete("wait>1"), None);
    assert_eq!(complete("zzz"), None);
    assert!(completions("", &[], &[]).len() == FIELDS.len());
}

proptest! {
    #[test]
    fn no_text_breaks_it(text in "[a-z =!~<>\",.0-9é]{0,40}") {
        if let Err(error) = parse(&text) {
            prop_assert!(error.at <= text.chars().count());
        }
        let found = completions(&text, &["é"], &["db"]);
        completed(&text, &found);
    }
}
