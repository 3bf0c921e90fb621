//! OpenTelemetry in its JSON form: 64-bit numbers and times are strings, ids hexadecimal, enumerations numbers.
//!
//! A job that has a trace joins it. What has none shares one trace, made of the incident's id.

use ax_wire::{
    LatencyHistogram, SpanId, TraceId,
    alert::AlertState,
    event::Stall,
    incident::RunningJob,
    sample::{TaskRef, TypeSample},
    view::Point,
};
use serde_json::{Value, json};

use crate::{format::printable, opened::Opened};

/// Upper bounds of the histograms, in seconds; the last bucket holds what is above.
const BOUNDS_S: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// `SPAN_KIND_INTERNAL`.
const INTERNAL: u8 = 1;

/// `AGGREGATION_TEMPORALITY_DELTA`: a snapshot's histograms hold its last minute.
const DELTA: u8 = 1;

/// Running jobs and stalls as spans that end with the snapshot.
pub fn traces(opened: &Opened) -> Value {
    let incident = opened.snapshot.incident.as_ref();
    let jobs = incident.into_iter().flat_map(|incident| &incident.running);
    let stalls = incident.into_iter().flat_map(|incident| &incident.stalls);
    let jobs = jobs
        .zip(1..)
        .map(|(job, number)| job_span(opened, job, number));
    let spans: Vec<_> = jobs
        .chain(stalls.map(|stall| stall_span(opened, stall)))
        .collect();
    json!({"resourceSpans": [{
        "resource": resource(opened),
        "scopeSpans": [{"scope": scope(), "spans": spans}],
    }]})
}

/// The charts as gauges, and the histograms of the last minute.
pub fn metrics(opened: &Opened) -> Value {
    let history = &opened.snapshot.history;
    let gauge = |name: &str, unit: &str, value: fn(&Point) -> Option<f64>| {
        let points = history.iter().filter_map(|point| {
            let value = value(point)?;
            Some(json!({"timeUnixNano": point.at_unix_ns.to_string(), "asDouble": value}))
        });
        json!({"name": name, "unit": unit, "gauge": {"dataPoints": points.collect::<Vec<_>>()}})
    };
    let mut metrics = vec![
        gauge("ax.lag.max", "s", |point| {
            point.lag_max_ns.map(|ns| ns as f64 / 1e9)
        }),
        gauge("ax.lag.median", "s", |point| {
            point.lag_p50_ns.map(|ns| ns as f64 / 1e9)
        }),
        gauge("ax.jobs.running", "{job}", |point| {
            Some(point.running as f64)
        }),
        gauge("ax.jobs.pending", "{job}", |point| {
            Some(point.pending as f64)
        }),
        gauge("ax.process.cpus", "{cpu}", |point| point.cpus_used),
        gauge("ax.process.memory", "By", |point| {
            point.rss_bytes.map(|bytes| bytes as f64)
        }),
    ];
    metrics.extend([
        histogram(opened, "ax.type.queue_wait", |of| of.queue_wait.as_ref()),
        histogram(opened, "ax.type.run", |of| of.run.as_ref()),
        histogram(opened, "ax.type.poll", |of| of.poll.as_ref()),
    ]);
    // A collector refuses a metric without points.
    metrics.retain(|metric| {
        let data = metric.get("gauge").or_else(|| metric.get("histogram"));
        data.is_some_and(|data| data["dataPoints"] != json!([]))
    });
    json!({"resourceMetrics": [{
        "resource": resource(opened),
        "scopeMetrics": [{"scope": scope(), "metrics": metrics}],
    }]})
}

fn resource(opened: &Opened) -> Value {
    let hello = &opened.snapshot.hello;
    let firing = opened.snapshot.alerts.iter();
    let firing = firing
        .filter(|alert| alert.state == AlertState::Firing)
        .count();
    json!({"attributes": attributes([
        ("service.name", Some(text(&hello.service))),
        ("service.instance.id", Some(text(&hello.instance.to_string()))),
        ("service.version", hello.service_version.as_deref().map(text)),
        ("process.pid", Some(whole(u64::from(hello.pid)))),
        ("ax.alerts.firing", Some(whole(firing as u64))),
    ])})
}

fn scope() -> Value {
    json!({"name": "ax-top", "version": env!("CARGO_PKG_VERSION")})
}

fn job_span(opened: &Opened, job: &RunningJob, number: u64) -> Value {
    let at = opened.at_unix_ns();
    let mut more = task_attributes(&job.task);
    more.extend([
        ("ax.queue_wait_ns", Some(whole(job.queue_wait_ns))),
        ("ax.poll_age_ns", job.poll_age_ns.map(whole)),
        ("ax.attempt", Some(whole(u64::from(job.attempt)))),
        ("ax.priority", Some(whole(u64::from(job.priority)))),
        ("ax.unfinished", Some(json!({"boolValue": true}))),
    ]);
    let began = at.saturating_sub(job.elapsed_ns);
    let name = printable(&job.task.name);
    span(opened, job.task.trace, number, &name, began, at, more)
}

fn stall_span(opened: &Opened, stall: &Stall) -> Value {
    /// Sets the numbers of stalls apart from those of jobs.
    const STALLS: u64 = 1 << 32;
    let began = opened.unix_ns(stall.began_mono_ns);
    let task = stall.task.as_ref();
    let mut more = task.map_or_else(Vec::new, task_attributes);
    more.extend([
        ("ax.stall.kind", Some(text(stall.kind.label()))),
        (
            "ax.worker",
            stall.worker.map(|worker| whole(u64::from(worker))),
        ),
        ("thread.id", stall.tid.map(|tid| whole(u64::from(tid)))),
        ("ax.on_cpu_ns", stall.on_cpu_ns.map(whole)),
        ("ax.run_queue_ns", stall.run_queue_ns.map(whole)),
        ("ax.unfinished", Some(json!({"boolValue": true}))),
    ]);
    let trace = task.and_then(|task| task.trace);
    let end = began.saturating_add(stall.length_ns);
    span(opened, trace, STALLS | stall.id, "stall", began, end, more)
}

fn span(
    opened: &Opened,
    trace: Option<TraceId>,
    number: u64,
    name: &str,
    began_unix_ns: u64,
    end_unix_ns: u64,
    more: Vec<Attribute>,
) -> Value {
    json!({
        "traceId": trace.unwrap_or_else(|| trace_of(opened)).to_string(),
        "spanId": span_id(opened, number).to_string(),
        "name": name,
        "kind": INTERNAL,
        "startTimeUnixNano": began_unix_ns.to_string(),
        "endTimeUnixNano": end_unix_ns.to_string(),
        "attributes": attributes(more),
    })
}

/// The trace of what has none.
fn trace_of(opened: &Opened) -> TraceId {
    let instance = opened.snapshot.hello.instance.0;
    let id = opened.id().map_or(instance, |id| id.0).as_u128();
    TraceId::new(id.max(1)).expect("at least one")
}

/// The same for the same snapshot, another one for another: the incident's random half and the span's number.
fn span_id(opened: &Opened, number: u64) -> SpanId {
    let incident = opened.id().map_or(0, |id| id.0.as_u128() as u64);
    let mixed = incident.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    SpanId::new(mixed.max(1)).expect("at least one")
}

fn histogram(
    opened: &Opened,
    name: &str,
    of: fn(&TypeSample) -> Option<&LatencyHistogram>,
) -> Value {
    let at = opened.at_unix_ns();
    let points = opened.snapshot.types.iter().filter_map(|sample| {
        let recorded = of(sample)?;
        let mut counts = [0_u64; BOUNDS_S.len() + 1];
        for (us, count) in recorded.buckets_us() {
            let seconds = us as f64 / 1e6;
            counts[BOUNDS_S.partition_point(|bound| *bound < seconds)] += u64::from(count);
        }
        let count = recorded.count();
        (count > 0).then(|| {
            let mean_s = recorded.mean_ns().unwrap_or_default() / 1e9;
            json!({
                "startTimeUnixNano": at.saturating_sub(opened.view.window_ns).to_string(),
                "timeUnixNano": at.to_string(),
                "count": count.to_string(),
                "sum": mean_s * count as f64,
                "max": recorded.max_ns().unwrap_or_default() as f64 / 1e9,
                "explicitBounds": BOUNDS_S,
                "bucketCounts": counts.map(|count| count.to_string()),
                "attributes": attributes([
                    ("ax.type", Some(text(&sample.name))),
                    ("ax.lane", sample.lane.as_deref().map(text)),
                ]),
            })
        })
    });
    let points: Vec<_> = points.collect();
    json!({
        "name": name,
        "unit": "s",
        "histogram": {"aggregationTemporality": DELTA, "dataPoints": points},
    })
}

/// A key with its value; what is not known is left out.
type Attribute = (&'static str, Option<Value>);

fn task_attributes(task: &TaskRef) -> Vec<Attribute> {
    vec![
        ("ax.task", Some(text(&task.name))),
        ("ax.lane", task.lane.as_deref().map(text)),
        ("ax.job", task.job.map(|job| whole(job.0))),
        ("ax.started", task.place.as_deref().map(text)),
    ]
}

fn attributes(all: impl IntoIterator<Item = Attribute>) -> Value {
    let known = all.into_iter().filter_map(|(key, value)| {
        let value = value?;
        Some(json!({"key": key, "value": value}))
    });
    known.collect()
}

fn text(text: &str) -> Value {
    json!({"stringValue": printable(text)})
}

fn whole(number: u64) -> Value {
    json!({"intValue": number.to_string()})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opened::tests::{by_probe, fixture};

    fn nanos(value: &Value) -> u64 {
        let text = value.as_str().expect("64 bits are a string");
        text.parse().expect("a number")
    }

    fn check_attributes(of: &Value) {
        for attribute in of.as_array().expect("an array") {
            assert!(attribute["key"].is_string(), "{attribute}");
            let value = attribute["value"].as_object().expect("an object");
            assert_eq!(value.len(), 1, "{attribute}");
        }
    }

    #[test]
    fn spans_have_what_otlp_asks_for() {
        let opened = fixture();
        let traces = traces(&opened);
        let resource = &traces["resourceSpans"][0];
        check_attributes(&resource["resource"]["attributes"]);
        let spans = resource["scopeSpans"][0]["spans"]
            .as_array()
            .expect("spans");
        let incident = opened.snapshot.incident.as_ref().expect("has one");
        assert_eq!(spans.len(), incident.running.len() + incident.stalls.len());
        let mut ids: Vec<_> = spans
            .iter()
            .map(|span| span["spanId"].to_string())
            .collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), spans.len(), "no id twice");
        for span in spans {
            let id = |key: &str| span[key].as_str().expect("an id").to_owned();
            assert!(id("traceId").parse::<TraceId>().is_ok(), "{span}");
            assert!(id("spanId").parse::<SpanId>().is_ok(), "{span}");
            assert!(nanos(&span["startTimeUnixNano"]) <= nanos(&span["endTimeUnixNano"]));
            check_attributes(&span["attributes"]);
        }
        let trace = incident.running[0].task.trace.expect("is traced");
        assert_eq!(
            spans[0]["traceId"],
            trace.to_string(),
            "it joins its own trace"
        );
    }

    #[test]
    fn histograms_keep_every_recording() {
        let opened = fixture();
        let metrics = metrics(&opened);
        let metrics = &metrics["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        let metrics = metrics.as_array().expect("metrics");
        assert!(metrics.len() >= 8, "{}", metrics.len());
        let run = metrics
            .iter()
            .find(|metric| metric["name"] == "ax.type.run")
            .expect("has it");
        let points = run["histogram"]["dataPoints"].as_array().expect("points");
        for point in points {
            let counts = point["bucketCounts"].as_array().expect("counts");
            assert_eq!(counts.len(), BOUNDS_S.len() + 1);
            let total: u64 = counts.iter().map(nanos).sum();
            assert_eq!(total, nanos(&point["count"]));
            let sum = point["sum"].as_f64().expect("a sum");
            let max = point["max"].as_f64().expect("a maximum");
            assert!(sum > 0.0 && sum <= max * total as f64 * 1.01, "{point}");
        }
        let gauge = &metrics[0]["gauge"]["dataPoints"];
        assert_eq!(
            gauge.as_array().map(Vec::len),
            Some(opened.snapshot.history.len())
        );
    }

    #[test]
    fn without_a_history_there_are_no_empty_metrics() {
        let metrics = metrics(&by_probe());
        let metrics = &metrics["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        assert!(
            metrics
                .as_array()
                .is_some_and(|metrics| !metrics.is_empty())
        );
        for metric in metrics.as_array().into_iter().flatten() {
            assert!(metric.get("gauge").is_none(), "{metric}");
        }
    }
}
