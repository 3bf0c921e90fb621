//! How a session ends, and what must be known to believe its figures.

use ax_wire::session::{CommandRun, Driver, End, EndKind, Errors, Session};

use super::text;

/// The service, as the generator sees it.
pub fn gone() -> End {
    let why = "it takes no connections any more and answers nothing".to_owned();
    end(EndKind::ServiceGone, why)
}

/// An end with its reason.
pub fn end(kind: EndKind, why: String) -> End {
    End {
        kind,
        why: Some(why),
    }
}

/// Somebody ended it.
pub fn interrupted() -> End {
    end(EndKind::Interrupted, "a signal ended it".to_owned())
}

/// A command that failed ends the session: its figures are not what was asked for.
pub fn failure_of(run: &CommandRun) -> Option<End> {
    let how = match (run.exit_code, run.signal) {
        (Some(0), _) => return None,
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "it did not exit by itself".to_owned(),
    };
    let program = run.arguments.first().map_or("", String::as_str);
    let said = run.stderr.trim().lines().next_back().unwrap_or_default();
    Some(end(
        EndKind::CommandFailed,
        if said.is_empty() {
            format!("`{program}` failed: {how}")
        } else {
            format!("`{program}` failed with {how}: {said}")
        },
    ))
}

/// What must be known to believe the figures.
pub fn warnings(session: &Session) -> Vec<String> {
    const STARVED_SHARE: f64 = 0.05;
    const LATE_NS: u64 = 5_000_000;
    let mut warnings = Vec::new();
    let clients = || session.steps.iter().filter_map(|step| step.client.as_ref());
    let of = session.steps.len();
    let waited = clients().filter(|client| client.starved_share > Some(STARVED_SHARE));
    let starved = waited.count();
    if starved > 0 {
        warnings.push(format!(
            "in {starved} of {of} steps the generator waited for a CPU for more than 5 % of the time: it shares its cores \
             with the service or others; pin them apart (taskset), or load from another host"
        ));
    }
    let late = clients().filter(|client| client.send_error.quantile_ns(0.99) > Some(LATE_NS));
    let late = late.count();
    if late > 0 {
        warnings.push(format!(
            "in {late} of {of} steps the generator could not keep up: 1 request in 100 was sent more than 5 ms late, which \
             is part of the latency shown; try --threads 2"
        ));
    }
    let dropped: u64 = clients().map(|client| client.dropped_total).sum();
    if dropped > 0 {
        warnings.push(format!(
            "{dropped} requests of the schedule were not sent, since --max-in-flight were under way; they are not made up for"
        ));
    }
    let missed: u64 = session.steps.iter().map(|step| step.missed_seconds).sum();
    if missed > 0 {
        warnings.push(format!("{missed} samples of the service were missed"));
    }
    if matches!(session.driver, Driver::Command { .. })
        && session.background.is_empty()
        && session.service.is_some()
    {
        warnings.push(
            "the service's other traffic was not measured, so it is part of what was achieved; say --background 5s".to_owned(),
        );
    }
    let failures = clients().fold(Errors::default(), |mut sum, client| {
        sum.merge(&client.errors);
        sum
    });
    if failures.total() > 0 {
        warnings.push(text::failures(&failures));
    }
    warnings
}
