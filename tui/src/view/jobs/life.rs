//! The life of a job in one line.

use ax_wire::job::JobRow;

use crate::{
    format::{duration, printable},
    lives::{End, Life},
    waterfall::never_began,
};

/// Steps of a life that are told one by one; of more, the first and the last.
const MAX_STEPS: usize = 24;

/// Its life in one line: `submitted -> waits for other jobs 3 ms -> ready -> +57 ms started -> poll 1 ...`.
pub fn life_line(life: &Life, job: &JobRow, now_unix_ns: u64) -> String {
    let mut steps = Vec::new();
    let first_ready = life.attempts.first().map(|attempt| attempt.ready_unix_ns);
    let ready = life.ready_unix_ns.or(first_ready);
    if let Some(submitted) = life.submitted_unix_ns {
        steps.push("submitted".to_owned());
        let waited = duration(ready.unwrap_or(now_unix_ns).saturating_sub(submitted));
        let on = job.wait.as_ref().filter(|_| ready.is_none());
        let on = on.map_or("its dependencies or its time", |wait| wait.kind.words());
        steps.push(format!("waits for {on} {waited}"));
    }
    if ready.is_some() {
        steps.push("ready".to_owned());
    }
    if let (Some(ready), true) = (ready, life.attempts.is_empty()) {
        let queued = duration(now_unix_ns.saturating_sub(ready));
        steps.push(format!("queued for {queued}"));
    }
    let several = life.attempts.len() > 1;
    let mut before = None;
    for (number, attempt) in (1..).zip(&life.attempts) {
        if let Some(before) = before {
            let backoff = attempt.ready_unix_ns.saturating_sub(before);
            steps.push(format!("backoff {}", duration(backoff)));
        }
        if never_began(attempt) {
            if let Some((_, End::Unsuccessful(how))) = attempt.ended {
                steps.push(how.to_owned());
            }
            continue;
        }
        let waited = duration(
            attempt
                .started_unix_ns
                .saturating_sub(attempt.ready_unix_ns),
        );
        let which = if several {
            format!(" (attempt {number})")
        } else {
            String::new()
        };
        steps.push(format!("+{waited} started{which}"));
        let end = attempt.ended.map_or(now_unix_ns, |(at, _)| at);
        polls_of(life, attempt.started_unix_ns, end, &mut steps);
        let ran = duration(end.saturating_sub(attempt.started_unix_ns));
        match attempt.ended {
            Some((_, End::Succeeded)) => steps.push(format!("succeeded after {ran}")),
            Some((_, End::Unsuccessful(how))) => steps.push(format!("{how} after {ran}")),
            None => steps.push(match (job.poll_age_ns, &job.waits_for) {
                (Some(poll), _) => format!("in a poll for {}", duration(poll)),
                (None, Some(waits)) => {
                    format!(
                        "awaits {} {}",
                        printable(&waits.label),
                        duration(waits.since_ns)
                    )
                }
                (None, None) => format!("runs for {ran}"),
            }),
        }
        before = attempt.ended.map(|(at, _)| at);
    }
    if steps.len() > MAX_STEPS {
        let left_out = steps.len() - MAX_STEPS;
        let half = MAX_STEPS / 2;
        steps.splice(half..half + left_out, [format!(".. {left_out} steps ..")]);
    }
    steps.join(" → ")
}

/// The polls between two instants, with the awaits between them.
fn polls_of(life: &Life, begin: u64, end: u64, steps: &mut Vec<String>) {
    let mut polls: Vec<_> = life.polls.iter().chain(&life.long_polls).copied().collect();
    polls.retain(|(at, _)| (begin.saturating_sub(1_000_000)..=end).contains(at));
    polls.sort_unstable();
    let all_known = !life.polls.is_empty();
    let mut before: Option<u64> = None;
    for (number, (at, until)) in (1..).zip(polls) {
        if let Some(before) = before.filter(|_| all_known) {
            steps.push(format!("await {}", duration(at.saturating_sub(before))));
        }
        let which = if all_known {
            format!("poll {number}")
        } else {
            "long poll".to_owned()
        };
        steps.push(format!("{which} {}", duration(until.saturating_sub(at))));
        before = Some(until);
    }
}

#[cfg(test)]
mod tests {
    use ax_wire::{incident::WaitsFor, job::JobState};

    use super::*;
    use crate::lives::Attempt;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_life_is_told_in_one_line() {
        let life = Life {
            submitted_unix_ns: Some(0),
            ready_unix_ns: Some(3 * MS),
            attempts: vec![
                Attempt {
                    ready_unix_ns: 3 * MS,
                    started_unix_ns: 60 * MS,
                    ended: Some((80 * MS, End::Unsuccessful("failed, to be tried again"))),
                },
                Attempt {
                    ready_unix_ns: 180 * MS,
                    started_unix_ns: 181 * MS,
                    ended: None,
                },
            ],
            polls: vec![(60 * MS, 61 * MS)],
            long_polls: vec![(70 * MS, 80 * MS)],
            ..Life::default()
        };
        let job = JobRow {
            state: JobState::Running,
            waits_for: Some(WaitsFor {
                label: "downstream ocr".to_owned(),
                since_ns: 12 * MS,
            }),
            ..JobRow::default()
        };
        assert_eq!(
            life_line(&life, &job, 200 * MS),
            "submitted → waits for its dependencies or its time 3.0 ms → ready → +57 ms started (attempt 1) → poll 1 1.0 ms \
             → await 9.0 ms → poll 2 10 ms → failed, to be tried again after 20 ms → backoff 100 ms → +1.0 ms started \
             (attempt 2) → awaits downstream ocr 12 ms"
        );
    }

    #[test]
    fn a_long_life_is_cut_in_its_middle() {
        let life = Life {
            attempts: vec![Attempt {
                ready_unix_ns: 0,
                started_unix_ns: 0,
                ended: None,
            }],
            polls: (0..100).map(|at| (at * MS, at * MS + 1_000)).collect(),
            ..Life::default()
        };
        let told = life_line(&life, &JobRow::default(), 200 * MS);
        assert_eq!(told.matches('→').count(), MAX_STEPS, "{told}");
        assert!(told.contains("steps .."), "{told}");
    }
}
