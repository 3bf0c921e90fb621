//! What is wrong with a file of rules, said with its line: F82's bad input.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use ax_agent::config::file::{self, FileError};

use crate::rules::written;

/// What is wrong with a file, each as `LINE:COLUMN: what`.
fn wrong(text: &str) -> Vec<String> {
    let (_folder, path) = written(text);
    match file::read(&path) {
        Err(FileError::Wrong { problems, .. }) => {
            problems.iter().map(ToString::to_string).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "a table: what is written, and what is said of it"
)]
fn what_is_wrong_with_a_rule_is_said_with_its_line() {
    for (text, expected) in [
        (
            "[[rule]]\nname = 'x'\nmetric = 'lag-p9'\nthreshold = '1s'",
            "3:10: `metric`: unknown metric `lag-p9`; did you mean `lag-p99`?",
        ),
        (
            "[[rule]]\nname = 'lag-high'\ntreshold = '1s'",
            "3:1: unknown key `treshold` of a rule; did you mean `threshold`?",
        ),
        (
            "[[rule]]\nname = 'lag-high'\nthreshold = 50",
            "3:13: `threshold`: `50` is a count, and the metric is a time, such as `50ms`",
        ),
        (
            "[[rule]]\nname = 'lag-high'\nthreshold = '64MiB'",
            "3:13: `threshold`: `64MiB` is a size, and the metric is a time, such as `50ms`",
        ),
        (
            "[[rule]]\nname = 'retry-storm'\nthreshold = '1s'",
            "3:13: `threshold`: `1s` is a time, and the metric is a share, such as `80%`",
        ),
        (
            "[[rule]]\nname = 'lag-high'\nfor = '0s'",
            "3:7: `for`: rules are judged once a second: write `1s` or more, or leave it out to fire at once",
        ),
        (
            "[[rule]]\nname = 'lag-high'\nfor = 10",
            "3:7: `for`: expected text in quotes, found integer",
        ),
        (
            "[[rule]]\nname = 'lag-high'\nop = '=='",
            "3:6: `op`: unknown word `==`; there are: <, <=, >, >=",
        ),
        (
            "[[rule]]\nname = 'lag-high'\nseverity = 'warn'",
            "3:12: `severity`: unknown word `warn`; did you mean `warning`?",
        ),
        (
            "[[rule]]\nname = 'lag-high'\nclear = '60ms'",
            "3:9: `clear` must be at or below the threshold",
        ),
        (
            "[[rule]]\nname = 'lag-hgh'",
            "1:1: a new rule needs a `metric`, and `lag-hgh` is not built in; did you mean `lag-high`?",
        ),
        (
            "[[rule]]\nname = 'x'\nmetric = 'cpu-share'\nthreshold = '180%'",
            "4:13: `threshold`: `180%`: a share is at most 100%",
        ),
        (
            "[[rule]]\nname = 'x'\nmetric = 'throughput'\nop = '<'\nthreshold = '0/s'",
            "5:13: `threshold`: nothing is below 0, so this would never fire; `<=` fires at 0",
        ),
        (
            "[[rule]]\nname = 'x'\nmetric = 'rss'\nthreshold = '1GiB'\nsubjects = ['db']",
            "5:12: `subjects`: `rss` is one figure of the whole service; leave this out",
        ),
        (
            "[[rule]]\nname = 'x'\nmetric = 'rss'",
            "1:1: rule `x` needs a `threshold`: a size, such as `64MiB`",
        ),
        (
            "[[rule]]\nname = 'lag-high'\nmetric = 'rss'",
            "1:1: rule `lag-high` needs a `threshold`: a size, such as `64MiB`",
        ),
        ("[[rule]]\nmetric = 'rss'", "1:1: a rule without a `name`"),
        (
            "[[rule]]\nname = 'stall'\n[[rule]]\nname = 'stall'",
            "3:1: rule `stall` stands in line 1 already",
        ),
        (
            "[[rules]]\nname = 'stall'",
            "1:3: unknown key `rules` of the file; did you mean `rule`?",
        ),
        (
            "[rule]\nname = 'stall'",
            "1:1: `rule` is a list: write `[[rule]]`",
        ),
        (
            "quiet = '10'",
            "1:9: `quiet`: `10` is no span of time; write one as `500ms`, `10s` or `2m`",
        ),
        (
            "[snapshots]\ncooldown = '0s'",
            "2:12: `cooldown`: that is no time at all; write a span such as `10s`",
        ),
        (
            "[snapshots]\ndir = 'here'",
            "2:7: `dir`: expected a folder that begins with `/`",
        ),
        (
            "[actions]\npage = ['ring']",
            "2:9: expected \"snapshot\", \"bell\", `{ exec = [\"program\"] }` or `{ webhook = \"http://..\" }`",
        ),
        (
            "[actions]\npage = [{ exec = 'rm -rf /' }]",
            "2:18: `exec`: expected a list: the program, then its arguments; no shell reads it",
        ),
        (
            "[actions]\npage = [{ exec = ['a'], timeout = '0s' }]",
            "2:35: `timeout`: that is no time at all; write a span such as `10s`",
        ),
        (
            "[actions]\npage = [{ webhook = 'ftp://x' }]",
            "2:21: `webhook`: `ftp://x` is no URL that begins with http://",
        ),
        (
            "[actions]\npage = [{ webhook = 'http://x', retries = 9 }]",
            "2:43: `retries`: expected a whole number from 0 to 5",
        ),
        (
            "[actions]\npage = [{ webhook = 'http://x', exec = ['a'] }]",
            "2:9: an action has either `exec` or `webhook`",
        ),
        (
            "[[silence]]\nrule = 'stall'\nreason = 'x'",
            "1:1: a silence without `until`",
        ),
        (
            "[[silence]]\nreason = 'x'\nuntil = 2026-12-01T08:00:00Z",
            "1:1: a silence of everything: name a `rule`, a `service` or a `subject`",
        ),
        (
            "[[silence]]\nrule = 'stal'\nreason = 'x'\nuntil = 2026-12-01T08:00:00Z",
            "2:8: `rule`: unknown rule `stal`; did you mean `stall`?",
        ),
        (
            "[[silence]]\nrule = 'stall'\nreason = 'x'\nuntil = 2026-12-01T08:00:00",
            "4:9: `until`: `2026-12-01T08:00:00` is no instant: write date, time and offset as `2026-12-01T08:00:00Z`",
        ),
    ] {
        assert_eq!(wrong(text), [expected], "{text}");
    }
    let https = wrong("[actions]\npage = [{ webhook = 'https://x' }]");
    assert!(https[0].contains("call it with a program"), "{https:?}");
    let unknown = wrong("[[rule]]\nname = 'x'\nmetric = 'zzz'\nthreshold = '1s'");
    assert!(
        unknown[0].contains("there are: backlog-growth, blocking-pool-lag,"),
        "{unknown:?}"
    );
}

#[test]
fn all_that_is_wrong_is_said_at_once_in_order() {
    let problems = wrong("[[rule]]\nname = 'a b'\n[[rule]]\nname = 'stall'\nfor = 'soon'\nx = 1\n");
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(problems[0].starts_with("2:8: `name`"), "{problems:?}");
    assert!(problems[1].starts_with("5:7: `for`"), "{problems:?}");
    assert!(
        problems[2].starts_with("6:1: unknown key `x`"),
        "{problems:?}"
    );
}

#[test]
fn a_file_that_others_may_write_is_not_taken() {
    let (folder, path) = written("quiet = '1s'\n");
    for mode in [0o620, 0o602] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("is ours");
        let told = file::read(&path).expect_err("is not safe").to_string();
        assert!(told.contains("`chmod go-w` it"), "{told}");
    }
    let missing = file::read(&folder.path().join("none.toml")).expect_err("is not there");
    assert!(missing.is_missing(), "{missing}");
    let told = file::read(folder.path())
        .expect_err("is a folder")
        .to_string();
    assert!(told.ends_with("it is no file"), "{told}");
}

#[test]
fn templates_are_found_beside_the_file_and_what_is_wrong_with_them_is_said() {
    let (folder, path) = written("[actions]\npage = [{ exec = ['p'], body = 'pager.json' }]\n");
    let told = file::read(&path).expect_err("no template").to_string();
    assert!(told.contains("pager.json: No such file"), "{told}");
    fs::write(folder.path().join("pager.json"), r#"{"a": "{{sentense}}"}"#).expect("is written");
    let told = file::read(&path).expect_err("no template").to_string();
    assert!(
        told.contains("unknown placeholder `{{sentense}}`; did you mean `sentence`?"),
        "{told}"
    );
    for shipped in ["pager.json", "chat.json"] {
        let shipped = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../packaging")
            .join(shipped);
        fs::copy(&shipped, folder.path().join("pager.json")).expect("ships");
        file::read(&path).unwrap_or_else(|error| panic!("{}: {error}", shipped.display()));
    }
}
