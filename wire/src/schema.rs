//! The JSON Schema of what crosses a socket or reaches disk, for readers and writers in other languages.
//!
//! Committed in `wire/schema`; a test keeps it true. Fields that a schema does not name are ignored by every reader.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema, schema_for};

use crate::{
    ToAgent, ToService, ToViewer,
    id::{SpanId, TraceId},
    incident::Snapshot,
    session::Session,
};

/// Each schema with the name of its file.
#[must_use]
pub fn all() -> [(&'static str, Schema); 5] {
    [
        ("to-agent.json", schema_for!(ToAgent)),
        ("to-service.json", schema_for!(ToService)),
        ("to-viewer.json", schema_for!(ToViewer)),
        ("snapshot.json", schema_for!(Snapshot)),
        ("session.json", schema_for!(Session)),
    ]
}

impl JsonSchema for TraceId {
    fn schema_name() -> Cow<'static, str> {
        "TraceId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A W3C trace id, not all zero.",
            "type": "string",
            "pattern": "^[0-9a-f]{32}$",
        })
    }
}

impl JsonSchema for SpanId {
    fn schema_name() -> Cow<'static, str> {
        "SpanId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A W3C span id, not all zero.",
            "type": "string",
            "pattern": "^[0-9a-f]{16}$",
        })
    }
}
