//! The committed JSON Schema is that of the types, and their values keep to it in the two places where it is written by
//! hand.

use std::{env, fs, path::PathBuf};

use ax_wire::{LatencyHistogram, TraceId, schema};

#[test]
fn the_committed_schema_is_that_of_the_types() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("schema");
    for (name, schema) in schema::all() {
        let path = folder.join(name);
        let current = serde_json::to_string_pretty(&schema).expect("serializes") + "\n";
        if env::var_os("AX_BLESS").is_some() {
            fs::create_dir_all(&folder).expect("makes");
            fs::write(&path, &current).expect("writes");
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        let advice = "is not that of the types; `AX_BLESS=1 cargo test -p ax-wire schema`, and look at the difference";
        assert!(committed == current, "{} {advice}", path.display());
    }
}

#[test]
fn what_is_described_by_hand_is_described_as_it_is_written() {
    let [(_, schema), ..] = schema::all();
    let definitions = &schema.as_value()["$defs"];
    let trace = serde_json::to_value(TraceId::new(7)).expect("serializes");
    assert!(trace.is_string() && definitions["TraceId"]["type"] == "string");
    let histogram = serde_json::to_value(LatencyHistogram::new()).expect("serializes");
    let described = definitions["LatencyHistogram"]["properties"].as_object();
    let written = histogram.as_object().expect("an object");
    assert!(written.keys().eq(described.expect("an object").keys()));
}
