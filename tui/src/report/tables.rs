//! The tables of a report. Each says when it is cut and when there is nothing to show.

use ax_wire::{
    event::ObserverGap,
    incident::{QueueFacts, RunningJob},
    sample::{TaskKind, TaskRef, WorkerState},
    view::{LaneView, Quantiles, TypeView, WorkerView},
};
use maud::{Markup, html};

use crate::{
    format::{UNKNOWN, count, duration, maybe_duration, megabytes, ms, percent, printable, rate},
    opened::Opened,
    words::{self, alert_name, figure, state_word},
};

/// Most rows of a table: a page of thousands is no report, and the file has them all.
const MAX_ROWS: usize = 200;

/// A table whose first `texts` columns are text and whose others are figures, in a box that scrolls by itself.
pub fn table(
    headings: &[&str],
    texts: usize,
    rows: impl ExactSizeIterator<Item = Vec<String>>,
) -> Markup {
    let left_out = rows.len().saturating_sub(MAX_ROWS);
    let class = |column: usize| (column >= texts).then_some("num");
    html! {
        // The box can be reached by key, to scroll it.
        div.scroll tabindex="0" {
            table {
                thead { tr {
                    @for (column, heading) in headings.iter().enumerate() {
                        th class=[class(column)] { (heading) }
                    }
                } }
                tbody {
                    @for row in rows.take(MAX_ROWS) {
                        tr {
                            @for (column, cell) in row.iter().enumerate() {
                                td class=[class(column)] { (printable(cell)) }
                            }
                        }
                    }
                }
            }
        }
        @if left_out > 0 {
            p.quiet { "and " (left_out) " more, in the snapshot" }
        }
    }
}

/// What is known of one thing: a word and a text a row.
pub fn facts<const N: usize>(rows: [(&str, Option<String>); N]) -> Markup {
    html! {
        div.scroll { table.facts { tbody {
            @for (what, value) in rows {
                tr { td { (what) } td { (printable(value.as_deref().unwrap_or(UNKNOWN))) } }
            }
        } } }
    }
}

/// A section with a table, or a sentence where there are no rows.
fn section(
    title: &str,
    empty: &str,
    headings: &[&str],
    texts: usize,
    rows: impl ExactSizeIterator<Item = Vec<String>>,
) -> Markup {
    html! {
        h2 { (title) }
        @if rows.len() == 0 {
            p.quiet { (empty) }
        } @else {
            (table(headings, texts, rows))
        }
    }
}

/// A text, `-` where it is not known.
pub fn maybe(text: Option<&str>) -> String {
    text.unwrap_or(UNKNOWN).to_owned()
}

/// Each worker, and what it was polling.
pub fn workers(opened: &Opened) -> Markup {
    let many = opened.view.runtimes.len() > 1;
    let rows: Vec<_> = opened
        .view
        .runtimes
        .iter()
        .flat_map(|runtime| {
            let workers = runtime.workers.iter();
            workers.map(move |worker| worker_row(worker, many.then_some(runtime.info.id.0)))
        })
        .collect();
    section(
        "Workers",
        "none is known",
        &[
            "worker",
            "state",
            "polls",
            "started",
            "poll so far, ms",
            "busy %",
            "on CPU %",
            "waits for CPU %",
            "thread",
        ],
        4,
        rows.into_iter(),
    )
}

fn worker_row(worker: &WorkerView, runtime: Option<u32>) -> Vec<String> {
    let state = match worker.state {
        WorkerState::Parked => "parked",
        WorkerState::Busy => "busy",
        WorkerState::Stalled => "STALLED",
        WorkerState::Other => "unknown",
    };
    let runtime = runtime.map_or_else(String::new, |runtime| format!("r{runtime} "));
    let poll = worker.poll.as_ref();
    let task = poll.map(|poll| &poll.task);
    vec![
        format!("{runtime}w{}", worker.index),
        state.to_owned(),
        task.map_or_else(|| UNKNOWN.to_owned(), named),
        maybe(task.and_then(|task| task.place.as_deref())),
        ms(poll.map(|poll| poll.age_ns)),
        percent(worker.busy_share),
        percent(worker.on_cpu_share),
        percent(worker.run_queue_share),
        count(worker.tid.map(u64::from)),
    ]
}

/// `render_pdf #7`.
fn named(task: &TaskRef) -> String {
    let job = task.job.map_or_else(String::new, |job| format!(" #{job}"));
    format!("{}{job}", task.name)
}

/// Each lane.
pub fn lanes(opened: &Opened) -> Markup {
    let row = |lane: &LaneView| {
        vec![
            lane.name.clone(),
            format!("{}/{}", lane.running, lane.limit),
            format!("{}/{}", lane.pending, lane.capacity),
            lane.waiting.to_string(),
            ms(lane.head_age_ns),
            ms(lane.queue_wait.p50_ns),
            ms(lane.queue_wait.p99_ns),
            ms(lane.run.p50_ns),
            ms(lane.run.p99_ns),
            rate(lane.rates.finished_per_s),
            rate(lane.rates.unsuccessful_per_s),
            rate(lane.rates.rejected_per_s),
        ]
    };
    section(
        "Lanes",
        "the service has none",
        &[
            "lane",
            "run/limit",
            "pending/room",
            "waiting",
            "head, ms",
            "wait p50, ms",
            "wait p99, ms",
            "run p50, ms",
            "run p99, ms",
            "done/s",
            "fail/s",
            "reject/s",
        ],
        1,
        opened.view.lanes.iter().map(row),
    )
}

/// The jobs that had begun, longest first.
pub fn running(opened: &Opened) -> Markup {
    let Some(incident) = &opened.snapshot.incident else {
        return html! {};
    };
    let row = |job: &RunningJob| {
        vec![
            named(&job.task),
            maybe(job.task.lane.as_deref()),
            job.waits_for.as_ref().map_or_else(
                || UNKNOWN.to_owned(),
                |waits| format!("{}, {}", waits.label, duration(waits.since_ns)),
            ),
            maybe(job.task.place.as_deref()),
            job.task
                .trace
                .map_or_else(|| UNKNOWN.to_owned(), |trace| trace.to_string()),
            ms(Some(job.elapsed_ns)),
            ms(Some(job.queue_wait_ns)),
            ms(job.poll_age_ns),
            job.attempt.to_string(),
            job.priority.to_string(),
        ]
    };
    let cut = incident.running_total > incident.running.len() as u64;
    html! {
            (section(
                "Running jobs",
                "no job was running",
                &["job", "lane", "waits for", "started", "trace", "for, ms", "waited, ms", "in poll, ms", "attempt", "priority"],
    5,
                incident.running.iter().map(row),
            ))
            @if cut {
                p.quiet { (incident.running_total) " ran; the snapshot lists the longest " (incident.running.len()) }
            }
        }
}

/// What was queued, lane by lane.
pub fn queues(opened: &Opened) -> Markup {
    let Some(incident) = &opened.snapshot.incident else {
        return html! {};
    };
    let waiting = || incident.queues.iter().filter(|queue| queue.pending > 0);
    html! {
        h2 { "Queue" }
        @if waiting().next().is_none() {
            p.quiet { "nothing was queued" }
        }
        @for queue in waiting() {
            (queue_block(queue))
        }
    }
}

fn queue_block(queue: &QueueFacts) -> Markup {
    let types = queue.by_type.as_ref().map(|types| {
        let types = types.iter().map(|of| format!("{} {}", of.count, of.name));
        types.collect::<Vec<_>>().join(", ")
    });
    let bands = queue.by_priority.as_ref().map(|bands| {
        let bands = bands.iter().map(|band| {
            let oldest = maybe_duration(band.oldest_ns);
            format!("{} at {} (oldest {oldest})", band.count, band.priority)
        });
        bands.collect::<Vec<_>>().join(", ")
    });
    let said = |text: Option<String>| {
        text.map_or_else(
            || "unknown, the lane was locked".to_owned(),
            |text| printable(&text),
        )
    };
    // One that is both stands once.
    let rest = queue.oldest.iter().filter(|job| !queue.next.contains(job));
    let jobs: Vec<_> = queue
        .next
        .iter()
        .chain(rest)
        .map(|job| {
            let oldest = queue.oldest.contains(job);
            let end = match (queue.next.contains(job), oldest) {
                (true, true) => "next, oldest",
                (true, false) => "next",
                (false, _) => "oldest",
            };
            vec![
                format!("{} #{}", job.name, job.job),
                end.to_owned(),
                job.priority.to_string(),
                ms(Some(job.age_ns)),
            ]
        })
        .collect();
    html! {
        h3 { (printable(&queue.lane)) ": " (queue.pending) " pending" }
        p { "By type: " (said(types)) ". By priority: " (said(bands)) "." }
        @if !jobs.is_empty() {
            (table(&["job", "of these", "priority", "waits, ms"], 2, jobs.into_iter()))
        }
    }
}

/// Each job type, named task and route.
pub fn types(opened: &Opened) -> Markup {
    let row = |of: &TypeView| {
        let p50_p99 = |quantiles: &Quantiles| [ms(quantiles.p50_ns), ms(quantiles.p99_ns)];
        let home = of.lane.clone().unwrap_or_else(|| kind(of.kind).to_owned());
        let mut row = vec![of.name.clone(), home, maybe(of.place.as_deref())];
        row.extend([of.running.to_string(), of.pending.to_string()]);
        row.extend(p50_p99(&of.queue_wait));
        row.extend(p50_p99(&of.run));
        row.extend([ms(of.run.max_ns), ms(of.poll.max_ns)]);
        row.push(rate(of.rates.finished_per_s));
        row.push(of.counters.unsuccessful_total().to_string());
        row
    };
    section(
        "Job types, tasks and routes",
        "none is known",
        &[
            "type",
            "lane",
            "started",
            "running",
            "pending",
            "wait p50, ms",
            "wait p99, ms",
            "run p50, ms",
            "run p99, ms",
            "run max, ms",
            "poll max, ms",
            "done/s",
            "failed",
        ],
        3,
        opened.view.types.iter().map(row),
    )
}

fn kind(kind: TaskKind) -> &'static str {
    match kind {
        TaskKind::Job => "(job)",
        TaskKind::Task => "(task)",
        TaskKind::Blocking => "(blocking)",
        TaskKind::Request => "(request)",
        TaskKind::Other => UNKNOWN,
    }
}

/// Alerts at that time.
pub fn alerts(opened: &Opened) -> Markup {
    let rows = opened.snapshot.alerts.iter().map(|alert| {
        let lasted = words::lasted_ns(alert, opened.at_unix_ns());
        vec![
            alert_name(alert),
            state_word(alert).0.to_owned(),
            alert.severity.to_string(),
            alert.sentence.clone(),
            duration(lasted),
            figure(alert.peak, alert.unit),
            figure(alert.threshold, alert.unit),
        ]
    });
    section(
        "Alerts",
        "none fired in the minutes before",
        &[
            "rule",
            "state",
            "severity",
            "what",
            "for",
            "peak",
            "threshold",
        ],
        4,
        rows,
    )
}

/// The process.
pub fn process(opened: &Opened) -> Markup {
    let (process, hello) = (&opened.view.process, &opened.snapshot.hello);
    let of = |used: Option<u64>, limit: Option<u64>| format!("{} of {}", count(used), count(limit));
    let rows = [
        (
            "CPUs used",
            process
                .cpus_used
                .map(|cpus| format!("{cpus:.2} of {}", hello.cpus)),
        ),
        (
            "of these the probe",
            process.probe_cpus_used.map(|cpus| format!("{cpus:.3}")),
        ),
        ("memory, MB", Some(megabytes(process.rss_bytes))),
        ("threads", Some(count(process.threads))),
        (
            "open files",
            Some(of(process.open_files, process.open_files_limit)),
        ),
        ("build", hello.build_id.clone()),
        ("probe", Some(hello.probe_version.clone())),
    ];
    html! {
        h2 { "Process" }
        (facts(rows))
    }
}

/// What was lost or could not be known: without it, what is absent above might be taken for nothing.
pub fn missing(opened: &Opened) -> Markup {
    let snapshot = &opened.snapshot;
    let incident = snapshot.incident.as_ref();
    let dropped = opened.view.dropped;
    let agent = snapshot.agent_dropped;
    let lost = [
        ("frames that the socket did not take", dropped.frames_total),
        ("events", dropped.events_total),
        ("lag points", dropped.lag_points_total),
        ("job types counted in `other`", dropped.types_folded_total),
        ("threads without a slot", dropped.threads_unseen_total),
        ("baggage entries", dropped.baggage_entries_total),
        (
            "snapshots that could not be written",
            dropped.snapshots_failed_total,
        ),
        (
            "frames that the agent could not read",
            agent.bad_frames_total + agent.oversized_frames_total,
        ),
        (
            "connections refused by the agent",
            agent.refused_connections_total,
        ),
        (
            "types, lanes and the like that the agent folded",
            agent.folded_total,
        ),
        (
            "incidents not taken down (cooldown, rate)",
            incident.map_or(0, |incident| incident.suppressed_total),
        ),
    ];
    let lost = lost.iter().filter(|(_, total)| *total > 0);
    let lost: Vec<_> = lost
        .map(|(what, total)| format!("{total} {what}"))
        .collect();
    let gaps = snapshot.observer_gaps.iter().map(|gap: &ObserverGap| {
        let before = opened
            .at_unix_ns()
            .saturating_sub(opened.unix_ns(gap.due_mono_ns));
        format!(
            "the whole process got no CPU for {}, {} before",
            duration(gap.late_ns),
            duration(before)
        )
    });
    let unknown = incident.map_or(&[][..], |incident| &incident.unknown);
    let unknown = unknown.iter().chain(&snapshot.unknown).cloned();
    let unknown: Vec<_> = unknown.chain(gaps).collect();
    html! {
        h2 { "Lost or unknown" }
        @if lost.is_empty() && unknown.is_empty() {
            p.quiet { "nothing was dropped, and nothing was out of sight" }
        }
        ul {
            @for line in lost.iter().chain(&unknown).take(MAX_ROWS) {
                li { (printable(line)) }
            }
        }
    }
}
