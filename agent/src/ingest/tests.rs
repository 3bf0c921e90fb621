//! Frames of a hostile service, made from the committed schema of what an agent reads, so that a field which is added
//! later is in them by itself: every text is an attack on a terminal, every list is far too long, every number extreme.

use std::{collections::BTreeSet, fs, path::Path, slice};

use ax_wire::{LatencyHistogram, ToAgent, frame, recorder::MAX_RECORDED_EVENTS};
use serde_json::{Map, Value, json};

use super::{
    CleanSample, clean_action, clean_answer, clean_backfill, clean_controlled, clean_events,
    clean_hello, clean_incident, clean_question, clean_silence,
};
use crate::{
    alert::{Book, Judging, Quiet, RuleSet},
    clock::Now,
    config::MAX_TEXT_CHARS,
    history::ServiceHistory,
    view::{Extras, view},
    window::Tallies,
};

/// No list but the recorder's events is kept longer.
const LONGEST_LIST: usize = 1_024;

/// A list that is flooded has as many entries as find room in a frame, up to this. Reading them takes an unoptimized
/// build a minute.
const FLOOD: usize = if cfg!(debug_assertions) {
    20_000
} else {
    100_000
};

/// Variants of enums: each frame takes one of each, so that so many frames have them all.
const VARIANTS: usize = 8;

/// What no screen may be shown.
const ATTACK: &str = "\u{1b}]0;pwned\u{7}\u{1b}[2J\r\n\u{9b}31m\u{202e}";

const PLACEHOLDER: &str = "the flood goes here";

/// Makes a frame that keeps to a schema and to nothing else.
struct Hostile<'a> {
    definitions: &'a Value,
    text: &'a str,
    variant: usize,
    /// Where in the frame the value being made is.
    path: String,
    /// Where its lists are.
    lists: Vec<String>,
    /// The list that is flooded, and an entry of it once that is made.
    flooded: Option<&'a str>,
    entry: Option<Value>,
}

impl<'a> Hostile<'a> {
    fn new(
        definitions: &'a Value,
        text: &'a str,
        variant: usize,
        flooded: Option<&'a str>,
    ) -> Self {
        Self {
            definitions,
            text,
            variant,
            path: String::new(),
            lists: Vec::new(),
            flooded,
            entry: None,
        }
    }

    fn value(&mut self, schema: &Value) -> Value {
        for choice in ["oneOf", "anyOf"] {
            if let Some(choices) = schema[choice].as_array() {
                let choices: Vec<_> = choices.iter().filter(|c| c["type"] != "null").collect();
                return self.value(choices[self.variant % choices.len()]);
            }
        }
        if !schema["const"].is_null() {
            return schema["const"].clone();
        }
        if let Some(values) = schema["enum"].as_array() {
            return values[self.variant % values.len()].clone();
        }
        let referred = schema["$ref"].as_str().map(|path| self.referred(path));
        if let Some(own) = schema["properties"].as_object() {
            let mut object: Map<_, _> = own
                .iter()
                .map(|(name, schema)| (name.clone(), self.within(name, schema)))
                .collect();
            // A variant of an enum that is tagged from inside has its tag beside the reference to its content.
            if let Some(Value::Object(referred)) = referred {
                object.extend(referred);
            }
            return Value::Object(object);
        }
        referred.unwrap_or_else(|| self.plain(schema))
    }

    fn within(&mut self, name: &str, schema: &Value) -> Value {
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(name);
        let value = self.value(schema);
        self.path.truncate(length);
        value
    }

    fn referred(&mut self, path: &str) -> Value {
        match path.rsplit('/').next().expect("a path") {
            "LatencyHistogram" => {
                let mut histogram = LatencyHistogram::new();
                histogram.record_ns(u64::MAX);
                serde_json::to_value(histogram).expect("serializes")
            }
            "TraceId" => json!("f".repeat(32)),
            "SpanId" => json!("f".repeat(16)),
            name => {
                let definitions = self.definitions;
                self.value(&definitions[name])
            }
        }
    }

    fn plain(&mut self, schema: &Value) -> Value {
        let kinds = match &schema["type"] {
            Value::Array(kinds) => kinds.as_slice(),
            kind => slice::from_ref(kind),
        };
        let kind = kinds
            .iter()
            .find(|kind| *kind != "null")
            .and_then(Value::as_str);
        match kind.unwrap_or_else(|| panic!("no type in {schema}")) {
            "boolean" => json!(true),
            "number" => json!(f64::MAX),
            "integer" if self.variant.is_multiple_of(2) => json!(self.variant + 1),
            "integer" => {
                let bits: u32 = match schema["format"].as_str() {
                    Some("uint8") => 8,
                    Some("uint16") => 16,
                    Some("uint32") => 32,
                    Some("uint64" | "uint") => 64,
                    other => panic!("no integer of format {other:?}"),
                };
                json!(u64::MAX >> (64 - bits))
            }
            "string" if schema["format"] == "uuid" => json!(uuid()),
            "string" if schema["maxLength"] == 1 => json!("\u{1b}"),
            "string" => json!(self.text),
            "array" => {
                self.lists.push(self.path.clone());
                let entry = self.within("*", &schema["items"]);
                if self.flooded == Some(&self.path) {
                    self.entry = Some(entry);
                    json!([PLACEHOLDER])
                } else {
                    json!([entry])
                }
            }
            other => panic!("no value of type {other}"),
        }
    }
}

fn uuid() -> String {
    ax_wire::InstanceId::new_now().to_string()
}

/// The schema of all frames.
fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/schema/to-agent.json");
    let text = fs::read_to_string(path).expect("is committed");
    serde_json::from_str(&text).expect("is JSON")
}

/// Reads a frame as an agent does, and returns what is left of it. `None` for one that is not read further.
fn ingested(line: &[u8]) -> Option<(ToAgent, Value)> {
    let frame = match frame::decode(line).expect("keeps to the schema") {
        ToAgent::Hello(mut hello) => {
            clean_hello(&mut hello);
            ToAgent::Hello(hello)
        }
        ToAgent::Sample(sample) => ToAgent::Sample(Box::new(CleanSample::from(*sample).sample)),
        ToAgent::Events(mut events) => {
            clean_events(&mut events);
            ToAgent::Events(events)
        }
        ToAgent::Incident(mut incident) => {
            clean_incident(&mut incident);
            ToAgent::Incident(incident)
        }
        ToAgent::Backfill(mut charts) => {
            clean_backfill(&mut charts);
            ToAgent::Backfill(charts)
        }
        // They have neither a text nor a list.
        ToAgent::Ask(mut ask) => {
            clean_question(&mut ask.question);
            ToAgent::Ask(ask)
        }
        ToAgent::Control(mut control) => {
            clean_action(&mut control.action);
            ToAgent::Control(control)
        }
        ToAgent::Controlled(mut controlled) => {
            clean_controlled(&mut controlled);
            ToAgent::Controlled(controlled)
        }
        ToAgent::Answer(mut answer) => {
            clean_answer(&mut answer);
            ToAgent::Answer(answer)
        }
        ToAgent::Silence(mut request) => {
            clean_silence(&mut request);
            ToAgent::Silence(request)
        }
        ToAgent::Goodbye
        | ToAgent::Subscribe(_)
        | ToAgent::Capture(_)
        | ToAgent::Rules
        | ToAgent::Unknown => {
            return None;
        }
    };
    let left = serde_json::to_value(&frame).expect("serializes");
    Some((frame, left))
}

/// Fails for a text or list that a screen or the memory must not have. Names of fields are our own.
fn assert_harmless(path: &str, value: &Value) {
    match value {
        Value::String(text) => {
            assert!(
                !text.chars().any(|c| c.is_control() || c == '\u{202e}'),
                "{path}: {:?}",
                text.chars().take(40).collect::<String>()
            );
            let chars = text.chars().count();
            assert!(chars <= MAX_TEXT_CHARS + 1, "{path}: {chars} characters");
        }
        Value::Array(list) => {
            let most = if path.ends_with("/recorder/events") {
                MAX_RECORDED_EVENTS
            } else {
                LONGEST_LIST
            };
            assert!(list.len() <= most, "{path}: {} entries", list.len());
            for entry in list {
                assert_harmless(&format!("{path}/*"), entry);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                assert_harmless(&format!("{path}/{name}"), field);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[test]
fn no_text_of_a_hostile_frame_reaches_a_screen_as_it_is() {
    let schema = schema();
    let text = ATTACK.repeat(10_000 / ATTACK.len() + 1);
    for frame in schema["oneOf"].as_array().expect("frames") {
        for variant in 0..VARIANTS {
            let made = Hostile::new(&schema["$defs"], &text, variant, None).value(frame);
            let line = serde_json::to_vec(&made).expect("serializes");
            if let Some((_, left)) = ingested(&line) {
                assert_harmless("", &left);
            } else {
                assert!(!made.to_string().contains("pwned"), "{made}");
            }
        }
    }
}

#[test]
fn no_list_of_a_hostile_frame_is_kept_as_long_as_it_is() {
    let schema = schema();
    for frame in schema["oneOf"].as_array().expect("frames") {
        let mut flooded = BTreeSet::new();
        for variant in 0..VARIANTS {
            let mut plain = Hostile::new(&schema["$defs"], "x", variant, None);
            plain.value(frame);
            for list in plain.lists {
                if flooded.insert(list.clone()) {
                    flood(&schema, frame, variant, &list);
                }
            }
        }
    }
}

fn flood(schema: &Value, frame: &Value, variant: usize, list: &str) {
    let mut hostile = Hostile::new(&schema["$defs"], "\u{1b}", variant, Some(list));
    let made = hostile.value(frame).to_string();
    let entry = hostile.entry.expect("the list is there").to_string();
    let room = frame::MAX_FRAME_BYTES - made.len();
    let count = FLOOD.min(room / (entry.len() + 1));
    let entries = vec![entry; count].join(",");
    let line = made.replace(&format!("\"{PLACEHOLDER}\""), &entries);
    let (_, left) = ingested(line.as_bytes()).expect("a frame with a list is read");
    assert!(
        count > LONGEST_LIST,
        "{list}: {count} entries would prove nothing"
    );
    assert_harmless("", &left);
}

#[test]
fn a_hostile_service_is_judged_and_shown_like_any_other() {
    let schema = schema();
    let frames = schema["oneOf"].as_array().expect("frames");
    let now = |second| Now {
        mono_ns: second * 1_000_000_000,
        unix_ns: second * 1_000_000_000,
    };
    let made = |variant, kind: &str| {
        let mut of_kind = frames
            .iter()
            .filter(|f| f["properties"]["frame"]["const"] == kind);
        let frame = of_kind.next().expect("a frame");
        let made = Hostile::new(&schema["$defs"], ATTACK, variant, None).value(frame);
        frame::decode(made.to_string().as_bytes()).expect("keeps to the schema")
    };
    let ToAgent::Hello(mut hello) = made(1, "hello") else {
        panic!("no hello");
    };
    clean_hello(&mut hello);
    let mut history = ServiceHistory::new(*hello, 0, now(1));
    let mut book = Book::default();
    let mut taken = 0;
    // Small numbers first, then the largest: the greatest changes that there are.
    for variant in [0, 2, 4, 1] {
        let at = now(variant as u64 + 2);
        if let ToAgent::Sample(sample) = made(variant, "sample") {
            taken += u32::from(history.sample(CleanSample::from(*sample), at).is_ok());
        }
        if let ToAgent::Events(mut events) = made(variant, "events") {
            clean_events(&mut events);
            history.events(events, at);
        }
        let judging = Judging {
            rules: &RuleSet::default(),
            asked: &[],
            quiet: Quiet::No,
            now: at,
        };
        book.judge(judging, history.window());
        let extras = Extras {
            alerts: book.alerts(),
            ..Extras::default()
        };
        let shown = view(history.window(), at, extras, &mut Tallies::default());
        assert_harmless("", &serde_json::to_value(shown).expect("serializes"));
    }
    assert_eq!(taken, 4);
    assert!(!book.alerts().is_empty());
}
