//! Looks at a part of what is held, while recording goes on: the newest events, or those of some traces.

use std::{collections::HashMap, sync::atomic::Ordering::Acquire};

use ax_wire::{
    TraceId,
    recorder::{RecordedEvent, RecordedName},
    trace::{MAX_TRACE_EVENTS, RecordedTrace},
};

use super::{RECORDER, Recorder, decode, names};
use crate::clock;

/// The recorder, where it is on.
fn recorder() -> Option<&'static Recorder> {
    RECORDER.get().filter(|recorder| recorder.on.load(Acquire))
}

/// The events from `since_ns` on and before `until_ns`, oldest first; empty without a recorder.
pub(crate) fn between(since_ns: u64, until_ns: u64) -> Vec<RecordedEvent> {
    let Some(recorder) = recorder() else {
        return Vec::new();
    };
    let span = since_ns..until_ns;
    let mut events = recorder
        .usual
        .select(since_ns, |words| span.contains(&words[0]));
    events.extend(
        recorder
            .notable
            .select(since_ns, |words| span.contains(&words[0])),
    );
    events.sort_unstable_by_key(|words| words[0]);
    events.into_iter().map(decode).collect()
}

/// What is held of these traces, in their order; each has the first [`MAX_TRACE_EVENTS`] of its events. Some hundred
/// microseconds to look through it all; empty without a recorder.
pub(crate) fn traces(of: &[TraceId]) -> Vec<RecordedTrace> {
    let (Some(recorder), false) = (recorder(), of.is_empty()) else {
        return Vec::new();
    };
    let at_mono_ns = clock::now_ns();
    let places: HashMap<u128, usize> = of.iter().map(|trace| trace.get()).zip(0..).collect();
    let trace = |[_, _, high, low, _]: &[u64; 5]| u128::from(*high) << 64 | u128::from(*low);
    let wanted = |words: &[u64; 5]| places.contains_key(&trace(words));
    let mut events = recorder.usual.select(0, wanted);
    events.extend(recorder.notable.select(0, wanted));
    events.sort_unstable_by_key(|words| words[0]);
    let complete_since_mono_ns = recorder.usual.forgotten_ns().max(recorder.began_ns);
    let all_names = names();
    let mut found: Vec<_> = of
        .iter()
        .map(|trace| RecordedTrace {
            complete_since_mono_ns,
            ..nothing_of(*trace, at_mono_ns)
        })
        .collect();
    for words in events {
        let Some(found) = places.get(&trace(&words)).and_then(|at| found.get_mut(*at)) else {
            continue;
        };
        if found.events.len() < MAX_TRACE_EVENTS {
            let mut event = decode(words);
            event.of = event.of.and_then(|of| named(found, &all_names, of));
            found.events.push(event);
        } else {
            found.left_out += 1;
        }
    }
    found
}

/// A trace of which nothing is recorded.
pub(crate) fn nothing_of(trace: TraceId, at_mono_ns: u64) -> RecordedTrace {
    RecordedTrace {
        trace,
        events: Vec::new(),
        names: Vec::new(),
        left_out: 0,
        complete_since_mono_ns: at_mono_ns,
        at_mono_ns,
    }
}

/// The place of a name among those of this trace alone, which are few.
fn named(trace: &mut RecordedTrace, all: &[RecordedName], of: u32) -> Option<u32> {
    let name = all.get(of as usize)?;
    let known = trace.names.iter().position(|known| known == name);
    Some(known.unwrap_or_else(|| {
        trace.names.push(name.clone());
        trace.names.len() - 1
    }) as u32)
}
