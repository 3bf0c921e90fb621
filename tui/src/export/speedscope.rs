//! The file format of <https://www.speedscope.app>: a profile a thread, a sample a stack.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::collapsed::{SEEN, outermost_first, thread};
use crate::{format::printable, opened::Opened, words};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// The whole file.
pub fn profile(opened: &Opened) -> Value {
    let mut frames = Vec::new();
    let mut threads: BTreeMap<String, Vec<Vec<usize>>> = BTreeMap::new();
    for stack in opened.stacks() {
        let sample = outermost_first(stack).map(|(name, function)| {
            let mut frame = json!({"name": name});
            if let Some(file) = function.and_then(|function| function.file.as_deref()) {
                frame["file"] = printable(file).into();
            }
            if let Some(line) = function.and_then(|function| function.line) {
                frame["line"] = line.into();
            }
            let known = frames.iter().position(|known| *known == frame);
            known.unwrap_or_else(|| {
                frames.push(frame);
                frames.len() - 1
            })
        });
        let sample = sample.collect();
        threads.entry(thread(stack)).or_default().push(sample);
    }
    let profiles = threads.into_iter().map(|(name, samples)| {
        let weights = vec![SEEN; samples.len()];
        json!({
            "type": "sampled",
            "name": name,
            "unit": "none",
            "startValue": 0,
            "endValue": samples.len() as u64 * SEEN,
            "samples": samples,
            "weights": weights,
        })
    });
    let service = printable(&opened.snapshot.hello.service);
    json!({
        "$schema": SCHEMA,
        "exporter": concat!("ax-top ", env!("CARGO_PKG_VERSION")),
        "name": format!("{service}: {}", words::reason(&opened.snapshot.reason)),
        "profiles": profiles.collect::<Vec<_>>(),
        "shared": {"frames": frames},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opened::tests::with_stacks;

    #[test]
    fn every_sample_names_frames_that_are_there() {
        let file = profile(&with_stacks());
        let frames = file["shared"]["frames"].as_array().expect("frames");
        assert!(frames.iter().all(|frame| frame["name"].is_string()));
        let at = frames
            .iter()
            .find(|frame| frame["name"] == "demo::fault::block");
        assert_eq!(at.map(|frame| &frame["line"]), Some(&json!(53)));
        let profiles = file["profiles"].as_array().expect("profiles");
        assert_eq!(profiles.len(), 1, "both are of one worker");
        let samples = profiles[0]["samples"].as_array().expect("samples");
        assert_eq!(profiles[0]["endValue"], samples.len());
        assert_eq!(
            profiles[0]["weights"].as_array().map(Vec::len),
            Some(samples.len())
        );
        for index in samples
            .iter()
            .flat_map(|sample| sample.as_array().expect("a list"))
        {
            let index = index.as_u64().expect("a number") as usize;
            assert!(index < frames.len());
        }
        assert_eq!(frames.len(), 5, "the two stacks share them");
    }
}
