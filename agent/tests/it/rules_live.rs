//! Rules of an agent that runs: its file, its actions, what it tells viewers. F82.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use ax_agent::config::file;
use ax_wire::{
    ToAgent, ToService, ToViewer,
    alert::AlertState,
    incident::Reason,
    mark::MarkKind,
    rules::{RulesReport, SilenceAnswer, SilenceRequest, Standing},
    view::ServiceView,
};

use tokio::time::{Instant, timeout};

use crate::common::{MS, Peer, SECOND, TestAgent, hello, lag_point, sample};

/// For what is waited for on a loaded machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// An agent that goes by a file with this text, which judges a service at once.
fn agent(text: &str) -> TestAgent {
    TestAgent::with(|config| {
        let path = config.socket.with_file_name("agent.toml");
        write(&path, &format!("quiet = '0s'\n{text}"));
        config.apply(file::read(&path).expect("is right"));
        config.file = Some(path);
    })
}

fn write(path: &Path, text: &str) {
    let part = path.with_extension("part");
    fs::write(&part, text).expect("is written");
    fs::set_permissions(&part, fs::Permissions::from_mode(0o600)).expect("is ours");
    fs::rename(&part, path).expect("is put in place");
}

async fn report(viewer: &mut Peer) -> RulesReport {
    viewer.send(&ToAgent::Rules).await;
    viewer
        .wait_for(|frame| match frame {
            ToViewer::Rules(report) => Some(*report),
            _ => None,
        })
        .await
}

/// Asks until the answer is what is waited for.
async fn report_until(viewer: &mut Peer, ready: impl Fn(&RulesReport) -> bool) -> RulesReport {
    let start = Instant::now();
    loop {
        let report = report(viewer).await;
        if ready(&report) {
            return report;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain: {report:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn view(viewer: &mut Peer, ready: impl Fn(&ServiceView) -> bool) -> ServiceView {
    let shown = viewer.wait_for(|frame| match frame {
        ToViewer::View(view) if ready(&view) => Some(*view),
        _ => None,
    });
    timeout(PATIENCE, shown).await.expect("is shown")
}

/// Sends samples, late or not, as fast as the agent judges, until it is told to stop by being dropped.
fn keep_sending(mut service: Peer, late_ms: u64) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        for at in 1.. {
            let mut sample = sample(at);
            sample.lag = (0..10)
                .map(|i| lag_point(at * SECOND - (9 - i) * 100 * MS, late_ms * MS))
                .collect();
            service.send_sample(sample).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
}

#[tokio::test]
async fn a_rule_runs_its_program_and_the_failure_of_another_is_told() {
    let agent = agent(
        "[actions]\npage = [{ exec = ['false'] }, { exec = ['sh', '-c', 'cat > \"$0.part\"; mv \"$0.part\" \"$0\"', 'OUT'] }]\n\
         critical = ['bell']\nwarning = ['bell']\n",
    );
    // The folder is known only now: the file is changed, which the agent notices by itself.
    let path = agent.folder().join("agent.toml");
    let out = agent.folder().join("out.json");
    let text = fs::read_to_string(&path).expect("is there");
    let mut viewer = agent.viewer().await;
    let before = report(&mut viewer).await.read_unix_ns;
    write(&path, &text.replace("OUT", &out.display().to_string()));
    report_until(&mut viewer, |report| report.read_unix_ns > before).await;
    let service = agent.service(&hello("checkout")).await;
    let sending = keep_sending(service, 6_000);
    let report = report_until(&mut viewer, |report| report.actions.len() >= 2).await;
    let mut done: Vec<_> = report
        .actions
        .iter()
        .map(|taken| (taken.done, &*taken.action))
        .collect();
    done.sort_unstable();
    assert_eq!(done, [(false, "exec false"), (true, "exec sh")]);
    let start = Instant::now();
    while !out.exists() {
        assert!(start.elapsed() < PATIENCE, "it has written nothing");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(&out).expect("was written")).expect("is JSON");
    assert_eq!(json["alert"]["rule"], "lag-page");
    assert_eq!(json["service"]["name"], "checkout");
    let shown = view(&mut viewer, |view| {
        view.alerts.iter().any(|alert| alert.bell)
    })
    .await;
    let bells: Vec<_> = shown.alerts.iter().filter(|alert| alert.bell).collect();
    assert!(
        bells.iter().all(|alert| alert.state == AlertState::Firing),
        "{bells:?}"
    );
    let states = &report.services[0].states;
    let page = states
        .iter()
        .find(|state| state.rule == "lag-page")
        .expect("is told");
    assert_eq!(page.standing, Standing::Firing);
    sending.abort();
    agent.stop().await;
}

/// Whoever was told that an alert began is told that it is over, also where its rule goes with the next version of the
/// file: a page would stay open for ever.
#[tokio::test]
async fn a_rule_that_is_taken_out_of_the_file_ends_what_it_began() {
    const RULE: &str = "[[rule]]\nname = 'own'\nmetric = 'lag-spike'\nop = '>'\nthreshold = '1s'\nseverity = 'warning'\n\
         actions = [{ exec = ['sh', '-c', 'echo \"$AX_STATE\" >> \"$0\"', 'OUT'] }]\n";
    let agent = agent("");
    let path = agent.folder().join("agent.toml");
    let out = agent.folder().join("told.txt");
    let rule = RULE.replace("OUT", &out.display().to_string());
    let mut viewer = agent.viewer().await;
    let before = report(&mut viewer).await.read_unix_ns;
    write(&path, &format!("quiet = '0s'\n{rule}"));
    report_until(&mut viewer, |report| report.read_unix_ns > before).await;
    let sending = keep_sending(agent.service(&hello("checkout")).await, 6_000);
    let told = async |last: &str| {
        let start = Instant::now();
        loop {
            let text = fs::read_to_string(&out).unwrap_or_default();
            if text.lines().last() == Some(last) {
                return text;
            }
            assert!(start.elapsed() < PATIENCE, "{last} is not told: {text}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    told("firing").await;
    write(&path, "quiet = '0s'\n");
    assert_eq!(told("resolved").await, "firing\nresolved\n");
    let shown = view(&mut viewer, |view| {
        let mut alerts = view.alerts.iter();
        !alerts.any(|alert| alert.rule == "own" && alert.state == AlertState::Firing)
    });
    shown.await;
    sending.abort();
    agent.stop().await;
}

/// What was wrong may be in a file that the configuration names: mended there, it is taken without another word.
#[tokio::test]
async fn a_body_that_is_mended_is_noticed() {
    let agent = agent("");
    let path = agent.folder().join("agent.toml");
    let body = agent.folder().join("body.json");
    write(&body, "{\"what\": \"{{nonsense}}\"}");
    write(
        &path,
        "quiet = '0s'\n[actions]\npage = [{ exec = ['true'], body = 'body.json' }]\n",
    );
    let mut viewer = agent.viewer().await;
    let wrong = report_until(&mut viewer, |report| report.problem.is_some()).await;
    let problem = wrong.problem.expect("is told");
    assert!(problem.contains("nonsense"), "{problem}");
    write(&body, "{\"what\": \"{{rule}}\"}");
    report_until(&mut viewer, |report| report.problem.is_none()).await;
    agent.stop().await;
}

/// A bad file keeps the old rules and says where it is wrong; a right one is taken, and marked. By itself and on request.
#[tokio::test]
async fn a_file_is_read_again_and_a_wrong_one_changes_nothing() {
    let agent = agent("[[rule]]\nname = 'lag-high'\nthreshold = '70ms'\n");
    let path = agent.folder().join("agent.toml");
    let mut viewer = agent.viewer().await;
    let mut service = agent.service(&hello("checkout")).await;
    service.send_sample(sample(1)).await;
    let condition = |report: &RulesReport| report.rules[0].condition.clone();
    let first = report(&mut viewer).await;
    assert_eq!(condition(&first), "lag-p99 > 70ms for 10s");
    assert_eq!(first.problem, None);
    assert_eq!(first.warnings.len(), 1, "a page goes nowhere");

    write(&path, "[[rule]]\nname = 'lag-high'\nthreshold = '70MiB'\n");
    let wrong = report_until(&mut viewer, |report| report.problem.is_some()).await;
    let problem = wrong.problem.clone().expect("is told");
    assert!(
        problem.contains("agent.toml:3:13: `threshold`: `70MiB` is a size"),
        "{problem}"
    );
    assert_eq!(condition(&wrong), "lag-p99 > 70ms for 10s");

    write(&path, "[[rule]]\nname = 'lag-high'\nthreshold = '90ms'\n");
    let right = report_until(&mut viewer, |report| report.problem.is_none()).await;
    assert_eq!(condition(&right), "lag-p99 > 90ms for 10s");
    service.send_sample(sample(2)).await;
    let marked = view(&mut viewer, |view| view.marks.len() == 2).await;
    let texts: Vec<_> = marked
        .marks
        .iter()
        .map(|mark| (mark.kind, &*mark.text))
        .collect();
    assert!(texts[0].1.starts_with("rules not read: "), "{texts:?}");
    assert_eq!(texts[1], (MarkKind::Rules, "rules read again: 13 are on"));

    fs::remove_file(&path).expect("is there");
    let gone = report_until(&mut viewer, |report| condition(report).contains("50ms")).await;
    assert_eq!(
        gone.problem, None,
        "without a file there is what is built in"
    );
    agent.stop().await;
}

#[tokio::test]
async fn a_silence_is_asked_for_shown_kept_over_a_restart_and_ended() {
    let agent = agent("");
    let mut viewer = agent.viewer().await;
    let ask = |rule: &str, for_ns| {
        ToAgent::Silence(SilenceRequest {
            rule: Some(rule.to_owned()),
            service: None,
            subject: None,
            for_ns,
            reason: "nightly\u{1b} import".to_owned(),
        })
    };
    let answer = async |viewer: &mut Peer, request: &ToAgent| -> SilenceAnswer {
        viewer.send(request).await;
        let told = |frame| match frame {
            ToViewer::Silenced(answer) => Some(answer),
            _ => None,
        };
        viewer.wait_for(told).await
    };
    let unknown = answer(&mut viewer, &ask("lag-hig", SECOND)).await;
    assert_eq!(
        unknown.outcome,
        Err("unknown rule `lag-hig`; did you mean `lag-high`?".to_owned())
    );
    let none = answer(&mut viewer, &ask("lag-high", 0)).await;
    assert!(
        none.outcome
            .is_err_and(|why| why.contains("no silence was asked for"))
    );
    let long = answer(&mut viewer, &ask("lag-high", u64::MAX)).await;
    assert!(
        long.outcome
            .is_err_and(|why| why.contains("longer than 31 days"))
    );
    let silenced = answer(&mut viewer, &ask("lag-high", 3_600 * SECOND)).await;
    assert_eq!(silenced.outcome.as_ref().map(Vec::len), Ok(1));
    let shown = report(&mut viewer).await.silences;
    assert_eq!(shown.len(), 1);
    assert!(!shown[0].reason.contains('\u{1b}'), "{shown:?}");
    assert_eq!(Ok(&shown), silenced.outcome.as_ref());

    let next = TestAgent::again(agent.restart_in().await);
    let mut viewer = next.viewer().await;
    assert_eq!(
        report(&mut viewer).await.silences,
        shown,
        "kept over a restart"
    );
    let ended = answer(&mut viewer, &ask("lag-high", 0)).await;
    assert_eq!(ended.outcome, Ok(shown));
    assert_eq!(report(&mut viewer).await.silences, []);
    next.stop().await;
}

/// The snapshot of a rule says so; a service that does not answer has one all the same.
#[tokio::test]
async fn a_rule_takes_a_snapshot_also_of_a_service_that_does_not_answer() {
    let agent = agent("[[rule]]\nname = 'lag-page'\nactions = ['snapshot']\n");
    let mut viewer = agent.viewer().await;
    let mut service = agent.service(&hello("checkout")).await;
    let mut asked = false;
    for at in 1..200 {
        let mut sample = sample(at);
        sample.lag = vec![lag_point(at * SECOND, 6_000 * MS)];
        service.send_sample(sample).await;
        let heard = timeout(Duration::from_millis(100), service.next::<ToService>());
        asked |= heard.await.is_ok_and(|frame| frame == ToService::Capture);
        if asked {
            break;
        }
    }
    assert!(asked, "the service is asked for evidence");
    // It says nothing more.
    let told = report_until(&mut viewer, |report| !report.actions.is_empty()).await;
    let taken = &told.actions[0];
    assert!(taken.done, "{taken:?}");
    assert!(taken.outcome.starts_with("written: "), "{taken:?}");
    let path = Path::new(taken.outcome.trim_start_matches("written: "));
    let snapshot = ax_wire::snapshot_file::read(path).expect("is a snapshot");
    assert_eq!(
        snapshot.reason,
        Reason::Alert {
            rule: "lag-page".to_owned()
        }
    );
    assert!(
        snapshot
            .unknown
            .iter()
            .any(|what| what.contains("did not answer")),
        "{:?}",
        snapshot.unknown
    );
    agent.stop().await;
}

/// Several live instances of one name have evidence and alerts of their own; one that dies hands nothing to the others.
#[tokio::test]
async fn live_instances_of_one_name_share_neither_alerts_nor_snapshots() {
    let agent = agent("");
    let mut viewer = agent.viewer().await;
    let (first, second) = (hello("checkout"), hello("checkout"));
    let mut one = agent.service(&first).await;
    let mut two = agent.service(&second).await;
    one.send_sample(sample(1)).await;
    two.send_sample(sample(1)).await;
    drop(one);
    let lost = view(&mut viewer, |view| {
        view.summary.instance == first.instance && !view.alerts.is_empty()
    });
    let lost = lost.await;
    assert_eq!(lost.alerts[0].rule, "service-lost");
    // The other one goes on without it, and a third that takes the place of the first ends its loss.
    two.send_sample(sample(2)).await;
    let other = view(&mut viewer, |view| view.summary.instance == second.instance).await;
    assert_eq!(other.alerts, []);
    let third = hello("checkout");
    let mut three = agent.service(&third).await;
    three.send_sample(sample(1)).await;
    let ended = view(&mut viewer, |view| {
        view.summary.instance == first.instance
            && view
                .alerts
                .iter()
                .all(|alert| alert.state == AlertState::Resolved)
    });
    assert_eq!(ended.await.alerts.len(), 1);
    agent.stop().await;
}

/// An agent in a dashboard goes by what is built in where the file is wrong: every viewer is told, until it is right.
#[tokio::test]
async fn viewers_are_told_that_the_file_is_not_in_force_without_asking() {
    let agent = TestAgent::with(|config| {
        let path = config.socket.with_file_name("agent.toml");
        write(&path, "[[rule]]\nname = 'lag-high'\ntreshold = '70ms'\n");
        let wrong = file::read(&path).expect_err("is wrong");
        config.stamp = file::Stamp::of(&path);
        config.problem = Some(wrong.to_string());
        config.file = Some(path);
    });
    let mut viewer = agent.viewer().await;
    let told = async |viewer: &mut Peer, is_wrong: bool| {
        let services = viewer.wait_for(|frame| match frame {
            ToViewer::Services(services) => Some(services.file_problem),
            _ => None,
        });
        let mut problem = timeout(PATIENCE, services).await.expect("is told");
        while problem.is_some() != is_wrong {
            let next = viewer.wait_for(|frame| match frame {
                ToViewer::Services(services) => Some(services.file_problem),
                _ => None,
            });
            problem = timeout(PATIENCE, next).await.expect("is told");
        }
        problem
    };
    let problem = told(&mut viewer, true).await.expect("is wrong");
    assert!(
        problem.contains("agent.toml:3:1: unknown key `treshold`"),
        "{problem}"
    );
    let path = agent.folder().join("agent.toml");
    write(&path, "[[rule]]\nname = 'lag-high'\nthreshold = '70ms'\n");
    told(&mut viewer, false).await;
    let mut service = agent.service(&hello("checkout")).await;
    service.send_sample(sample(1)).await;
    let marked = view(&mut viewer, |view| view.marks.len() == 2).await;
    assert!(marked.marks[0].text.contains("unknown key `treshold`"));
    agent.stop().await;
}

/// What a changed file says of snapshots and only the next start makes true is said, and no more once it is taken back.
#[tokio::test]
async fn a_changed_folder_of_snapshots_is_said_to_wait_for_a_start() {
    let agent = agent("[snapshots]\ndir = '/var/lib/ax/one'\nper_hour = 3\n");
    let path = agent.folder().join("agent.toml");
    let mut viewer = agent.viewer().await;
    let waits = |report: &RulesReport| -> Option<String> {
        let mut warnings = report.warnings.iter();
        warnings
            .find(|warning| warning.starts_with("[snapshots]"))
            .cloned()
    };
    assert_eq!(waits(&report(&mut viewer).await), None);
    write(
        &path,
        "[snapshots]\ndir = '/var/lib/ax/two'\nper_hour = 4\nmax_files = 9\n",
    );
    let changed = report_until(&mut viewer, |report| waits(report).is_some()).await;
    assert_eq!(
        waits(&changed).as_deref(),
        Some(
            "[snapshots] dir, max_files changed, which takes effect when the agent is started again"
        )
    );
    write(
        &path,
        "[snapshots]\ndir = '/var/lib/ax/one'\nper_hour = 5\n",
    );
    report_until(&mut viewer, |report| waits(report).is_none()).await;
    agent.stop().await;
}
