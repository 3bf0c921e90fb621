//! Every frame and every file comes back as it was written. The values are made from the committed schema, so that a new
//! field is in them by itself, and a schema that does not describe its type shows.

use std::sync::LazyLock;

use ax_wire::{
    LatencyHistogram, ToAgent, ToService, ToViewer,
    frame::{decode, encode},
    incident::Snapshot,
    schema,
};
use proptest::prelude::*;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// Makes values that keep to a schema.
struct Maker<'a> {
    definitions: &'a Value,
    random: fastrand::Rng,
}

impl Maker<'_> {
    fn value(&mut self, schema: &Value) -> Value {
        for choice in ["oneOf", "anyOf"] {
            if let Some(choices) = schema[choice].as_array() {
                let chosen = self.random.usize(..choices.len());
                return self.value(&choices[chosen]);
            }
        }
        if !schema["const"].is_null() {
            return schema["const"].clone();
        }
        if let Some(values) = schema["enum"].as_array() {
            return values[self.random.usize(..values.len())].clone();
        }
        let referred = schema["$ref"].as_str().map(|path| self.referred(path));
        // A variant of an enum that is tagged from inside has its tag beside the reference to its content.
        if let Some(own) = schema["properties"].as_object() {
            let mut object = self.object(schema, own);
            if let Some(Value::Object(referred)) = referred {
                object.extend(referred);
            }
            return Value::Object(object);
        }
        referred.unwrap_or_else(|| self.plain(schema))
    }

    fn referred(&mut self, path: &str) -> Value {
        let name = path.rsplit('/').next().expect("a path");
        match name {
            "LatencyHistogram" => self.histogram(),
            "TraceId" => json!(format!("{:032x}", self.random.u128(1..))),
            "SpanId" => json!(format!("{:016x}", self.random.u64(1..))),
            _ => {
                let definitions = self.definitions;
                self.value(&definitions[name])
            }
        }
    }

    fn object(&mut self, schema: &Value, properties: &Map<String, Value>) -> Map<String, Value> {
        let required = schema["required"].as_array();
        let mut object = Map::new();
        for (name, schema) in properties {
            let required = required.is_some_and(|names| names.iter().any(|n| n == name));
            if required || self.random.bool() {
                object.insert(name.clone(), self.value(schema));
            }
        }
        object
    }

    fn plain(&mut self, schema: &Value) -> Value {
        let kinds = match &schema["type"] {
            Value::Array(kinds) => kinds.clone(),
            kind => vec![kind.clone()],
        };
        let kind = kinds[self.random.usize(..kinds.len())].as_str();
        match kind.unwrap_or_else(|| panic!("no type in {schema}")) {
            "null" => Value::Null,
            "boolean" => json!(self.random.bool()),
            // A number that JSON and a double both write exactly.
            "number" => json!(f64::from(self.random.i32(..)) / 8.0),
            "integer" => self.integer(schema),
            "string" if schema["format"] == "uuid" => {
                json!(uuid::Uuid::from_u128(self.random.u128(..)))
            }
            "string" if schema["maxLength"] == 1 => json!(self.random.char(..)),
            "string" => {
                let length = self.random.usize(..12);
                json!(
                    (0..length)
                        .map(|_| self.random.char(..))
                        .collect::<String>()
                )
            }
            "array" => {
                let length = self.random.usize(..3);
                (0..length).map(|_| self.value(&schema["items"])).collect()
            }
            "object" => Value::Object(Map::new()),
            other => panic!("no value of type {other}"),
        }
    }

    /// Small, huge, and anything.
    fn integer(&mut self, schema: &Value) -> Value {
        let bits = match schema["format"].as_str() {
            Some("uint8") => 8,
            Some("uint16") => 16,
            Some("uint32") => 32,
            Some("uint64" | "uint") => 64,
            other => panic!("no integer of format {other:?}"),
        };
        let most = u64::MAX >> (64 - bits);
        json!(match self.random.u8(..3) {
            0 => self.random.u64(..3),
            1 => most,
            _ => self.random.u64(..) & most,
        })
    }

    fn histogram(&mut self) -> Value {
        let mut histogram = LatencyHistogram::new();
        for _ in 0..self.random.usize(..5) {
            histogram.record_ns(self.random.u64(..) >> self.random.u32(..64));
        }
        serde_json::to_value(histogram).expect("serializes")
    }
}

fn comes_back<T>(name: &str, seed: u64) -> Result<(), TestCaseError>
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    static SCHEMAS: LazyLock<[(&str, schemars::Schema); 5]> = LazyLock::new(schema::all);
    let (_, schema) = SCHEMAS
        .iter()
        .find(|(file, _)| *file == name)
        .expect("is there");
    let schema = schema.as_value();
    let mut maker = Maker {
        definitions: &schema["$defs"],
        random: fastrand::Rng::with_seed(seed),
    };
    let made = maker.value(schema);
    let first: T = serde_json::from_value(made.clone())
        .map_err(|error| TestCaseError::fail(format!("{error}: {made}")))?;
    let mut line = Vec::new();
    encode(&first, &mut line).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(
        line.iter().position(|byte| *byte == b'\n'),
        Some(line.len() - 1)
    );
    let second: T = decode(&line).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(first, second);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn frames_to_an_agent_come_back(seed: u64) {
        comes_back::<ToAgent>("to-agent.json", seed)?;
    }

    #[test]
    fn frames_to_a_service_come_back(seed: u64) {
        comes_back::<ToService>("to-service.json", seed)?;
    }

    #[test]
    fn frames_to_a_viewer_come_back(seed: u64) {
        comes_back::<ToViewer>("to-viewer.json", seed)?;
    }

    #[test]
    fn snapshots_come_back(seed: u64) {
        comes_back::<Snapshot>("snapshot.json", seed)?;
    }
}
