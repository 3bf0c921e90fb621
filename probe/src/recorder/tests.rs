use std::{hint::black_box, panic::Location, thread, time::Duration};

use ax_wire::{frame, recorder::MAX_RECORDED_EVENTS, sample::TaskKind};

use super::*;

fn recorder(bytes: usize) -> &'static Recorder {
    Box::leak(Box::new(Recorder::new(bytes)))
}

fn job(number: u64) -> Subject {
    let place = Location::caller();
    Subject {
        task: task_type::task_type(TaskKind::Job, Some("recorded"), "recorded", place),
        job: Some(JobId(number)),
        trace: TraceId::new(u128::from(number) << 64 | 7),
        place,
    }
}

fn event(kind: RecordedKind, of: &Subject, at_ns: u64, length_ns: Option<u64>) -> Words {
    let index = Some(of.task.index());
    encode(kind, index, of.job, of.trace, at_ns, length_ns)
}

/// The recorder of the process: one test at a time begins it, and what others record is of other traces.
#[test]
fn a_trace_is_found_with_its_parents_and_its_polls() {
    start(DEFAULT_RECORDER_BYTES);
    let sampled = (1..10_000)
        .filter_map(TraceId::new)
        .find(|trace| is_sampled(*trace));
    let other = (1..10_000)
        .filter_map(TraceId::new)
        .find(|trace| !is_sampled(*trace));
    for trace in [sampled, other] {
        let child = Subject { trace, ..job(71) };
        let begin_ns = clock::now_ns();
        record_begin(RecordedKind::Ready, &child, begin_ns, Some(JobId(70)));
        record_begin(RecordedKind::Submitted, &child, begin_ns, None);
        record_begin(
            RecordedKind::Submitted,
            &child,
            begin_ns,
            Some(JobId(u64::MAX)),
        );
        polled(&child, 1_000_000, begin_ns + 1);
        polled(&child, LONG_POLL_NS, begin_ns + 2);
    }
    let found = look::traces(&[other.expect("most"), sampled.expect("some")]);
    let kinds = |trace: &ax_wire::trace::RecordedTrace| {
        let mut kinds: Vec<_> = trace.events.iter().map(|event| event.kind).collect();
        kinds.drain(..3);
        kinds
    };
    assert_eq!(kinds(&found[0]), [RecordedKind::LongPoll]);
    assert_eq!(
        kinds(&found[1]),
        [RecordedKind::Poll, RecordedKind::LongPoll]
    );
    for trace in &found {
        let parents: Vec<_> = trace
            .events
            .iter()
            .filter_map(|event| event.parent)
            .collect();
        assert_eq!(parents, [JobId(70)], "a parent too large has no room");
        assert_eq!(trace.names.len(), 1, "only the names that it needs");
        assert!(trace.events.iter().all(|event| event.of == Some(0)));
    }
    let first = found[1].events[0].at_mono_ns;
    let polls = look::between(first + 1, first + 2);
    let poll = polls.iter().filter(|event| event.trace == sampled);
    assert_eq!(
        poll.map(|event| event.kind).collect::<Vec<_>>(),
        [RecordedKind::Poll]
    );
}

/// What 10,000 jobs a second leave behind, until the job of this number.
fn happy_traffic(recorder: &'static Recorder, jobs: u64) {
    for number in 1..=jobs {
        let (job, at_ns) = (job(number), recorder.began_ns + number * 100_000);
        for kind in [
            RecordedKind::Ready,
            RecordedKind::Started,
            RecordedKind::Succeeded,
        ] {
            recorder.push(kind, event(kind, &job, at_ns, None));
        }
    }
}

#[test]
fn each_kind_comes_back_as_it_was_recorded() {
    let recorder = recorder(1 << 20);
    let job = job(u64::MAX);
    for (number, kind) in KINDS.into_iter().enumerate() {
        assert_eq!(kind as usize, number);
        recorder.push(kind, event(kind, &job, u64::MAX - 1, Some(1_234_567)));
    }
    let nameless = encode(RecordedKind::StallBegan, None, None, None, 5, None);
    recorder.push(RecordedKind::StallBegan, nameless);
    let dump = recorder.dump(usize::MAX).expect("nobody else reads");
    assert_eq!(dump.events.len(), KINDS.len() + 1);
    let first = &dump.events[0];
    assert_eq!((first.of, first.job, first.trace), (None, None, None));
    assert_eq!((first.at_mono_ns, first.length_ns), (5, None));
    for event in &dump.events[1..] {
        assert_eq!((event.job, event.trace), (job.job, job.trace));
        let length_ns = (!has_parent(event.kind)).then_some(1_234_000);
        assert_eq!(
            (event.length_ns, event.parent),
            (length_ns, None),
            "whole microseconds"
        );
        let name = &dump.names[event.of.expect("a type") as usize];
        assert_eq!(
            (name.name.as_str(), name.lane.as_deref()),
            ("recorded", Some("recorded"))
        );
    }
    let mut kinds: Vec<_> = dump.events[1..]
        .iter()
        .map(|event| event.kind as u8)
        .collect();
    kinds.sort_unstable();
    assert!(kinds.into_iter().eq(0..KINDS.len() as u8));
}

#[test]
fn happy_traffic_does_not_push_out_what_is_notable() {
    let recorder = recorder(DEFAULT_RECORDER_BYTES);
    let failed = job(1);
    let at_ns = recorder.began_ns + 1;
    recorder.push(
        RecordedKind::Failed,
        event(RecordedKind::Failed, &failed, at_ns, Some(0)),
    );
    happy_traffic(recorder, 200_000);
    let dump = recorder.dump(usize::MAX).expect("nobody else reads");
    assert_eq!(dump.notable_since_mono_ns, recorder.began_ns);
    assert_eq!(dump.events[0].kind, RecordedKind::Failed);
    let last_ns = dump.events.last().expect("many").at_mono_ns;
    let covered_ns = last_ns - dump.complete_since_mono_ns;
    println!(
        "{} events, the last {:.2} s at 10,000 jobs a second",
        dump.events.len(),
        covered_ns as f64 / 1e9
    );
    assert!((2_900_000_000..3_200_000_000).contains(&covered_ns));
    // As many as the receipt says: three for each job since then.
    let held = dump
        .events
        .iter()
        .filter(|of| of.at_mono_ns > dump.complete_since_mono_ns);
    assert_eq!(held.count() as u64, covered_ns / 100_000 * 3);
    assert_eq!((dump.left_out, dump.unrecorded_total), (0, 0));
}

#[test]
fn a_small_dump_holds_the_newest_and_says_so() {
    let recorder = recorder(DEFAULT_RECORDER_BYTES);
    happy_traffic(recorder, 1_000);
    for number in 1..=100 {
        let at_ns = recorder.began_ns + number;
        recorder.push(
            RecordedKind::Failed,
            event(RecordedKind::Failed, &job(number), at_ns, Some(0)),
        );
    }
    let dump = recorder.dump(120).expect("nobody else reads");
    let notable: Vec<_> = dump
        .events
        .iter()
        .filter(|of| of.kind.is_notable())
        .collect();
    assert_eq!((dump.events.len(), notable.len()), (120, 60));
    assert_eq!(dump.left_out, 3_000 + 100 - 120);
    assert_eq!(notable[0].job, Some(JobId(41)));
    assert_eq!(dump.notable_since_mono_ns, recorder.began_ns + 40);
    let last_ns = recorder.began_ns + 1_000 * 100_000;
    assert_eq!(dump.events[119].at_mono_ns, last_ns);
    assert_eq!(dump.complete_since_mono_ns, last_ns - 20 * 100_000);

    let reading = recorder.reading.lock();
    assert_eq!(recorder.dump(1), Err(DumpError::Busy));
    drop(reading);
}

#[test]
fn ended_threads_leave_room_for_others() {
    let recorder = recorder(1 << 20);
    for number in 1..=1_000 {
        let record = move || {
            let job = job(number);
            recorder.push(
                RecordedKind::Ready,
                event(RecordedKind::Ready, &job, number, None),
            );
        };
        thread::spawn(record).join().expect("no panic");
    }
    let dump = recorder.dump(usize::MAX).expect("nobody else reads");
    assert_eq!(dump.unrecorded_total, 0);
    assert_eq!(
        dump.events.last().map(|last| last.job),
        Some(Some(JobId(1_000)))
    );
}

/// A class, not the figure: the machine may be busy, and the build unoptimised.
#[test]
fn recording_costs_nanoseconds() {
    const EVENTS: u64 = 1_000_000;
    let recorder = recorder(DEFAULT_RECORDER_BYTES);
    let job = job(1);
    let mut best_ns = u64::MAX;
    for _ in 0..10 {
        let began_ns = clock::now_ns();
        for at_ns in 0..EVENTS / 10 {
            let kind = black_box(RecordedKind::Started);
            recorder.push(kind, event(kind, black_box(&job), at_ns, Some(at_ns)));
        }
        best_ns = best_ns.min((clock::now_ns() - began_ns) * 10 / EVENTS);
    }
    println!("{best_ns} ns an event");
    for most in [MAX_RECORDED_EVENTS, 8 * MAX_RECORDED_EVENTS] {
        let began_ns = clock::now_ns();
        let dump = recorder.dump(most).expect("nobody else reads");
        let took = Duration::from_nanos(clock::now_ns() - began_ns);
        let mut line = Vec::new();
        frame::encode(&dump, &mut line).expect("fits");
        let json = line.len();
        println!(
            "a dump of {} events: {took:?}, {json} bytes",
            dump.events.len()
        );
    }
    let most = if cfg!(debug_assertions) { 10_000 } else { 60 };
    assert!(best_ns < most, "{best_ns} ns");
}
