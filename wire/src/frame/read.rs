//! How frames are read: by their name, which stands first, the rest goes straight into what it names.
//!
//! What serde derives for an internally tagged enum first puts the whole line into a tree and then makes the frame of that,
//! which takes three times as long. A frame of another writer whose name stands elsewhere is read by way of a tree here too.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{
        self, DeserializeSeed, EnumAccess, Error as _, IgnoredAny, IntoDeserializer, MapAccess,
        VariantAccess, Visitor,
        value::{EnumAccessDeserializer, MapAccessDeserializer, MapDeserializer},
    },
};
use serde_json::{Map, Value};

use super::{
    Ack, Answer, Ask, Backfill, Capture, Captured, Control, Controlled, Events, Hello, Incident,
    Refused, RulesReport, Sample, ServiceView, Services, SilenceAnswer, SilenceRequest, Subscribe,
    ToAgent, ToViewer,
};

/// The field with the name of a frame.
const NAME: &str = "frame";

/// Reads a frame by way of the enum that has its names and no tag.
macro_rules! read_by_name {
    ($frame:ident, $named:ident) => {
        impl<'de> Deserialize<'de> for $frame {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Read;
                impl<'de> FromNamed<'de> for Read {
                    type Frame = $frame;

                    fn from<A: EnumAccess<'de>>(named: A) -> Result<$frame, A::Error> {
                        $named::deserialize(EnumAccessDeserializer::new(named))
                    }
                }
                deserializer.deserialize_map(FrameVisitor::<Read>(PhantomData))
            }
        }
    };
}

/// [`ToAgent`] once its name is known. A test holds it to the schema.
#[derive(Deserialize)]
#[serde(remote = "ToAgent", rename_all = "snake_case")]
enum NamedToAgent {
    Hello(Box<Hello>),
    Backfill(Backfill),
    Sample(Box<Sample>),
    Events(Events),
    Incident(Box<Incident>),
    Goodbye,
    Subscribe(Subscribe),
    Capture(Capture),
    Ask(Ask),
    Answer(Box<Answer>),
    Control(Control),
    Controlled(Controlled),
    Rules,
    Silence(SilenceRequest),
    #[serde(other)]
    Unknown,
}

read_by_name!(ToAgent, NamedToAgent);

/// [`ToViewer`] once its name is known. A test holds it to the schema.
#[derive(Deserialize)]
#[serde(remote = "ToViewer", rename_all = "snake_case")]
enum NamedToViewer {
    Ack(Ack),
    Refused(Refused),
    Services(Services),
    Backfill(Backfill),
    View(Box<ServiceView>),
    Captured(Captured),
    Rules(Box<RulesReport>),
    Silenced(SilenceAnswer),
    Answer(Box<Answer>),
    Controlled(Controlled),
    #[serde(other)]
    Unknown,
}

read_by_name!(ToViewer, NamedToViewer);

/// A frame made of its name and what follows it.
trait FromNamed<'de> {
    type Frame;

    fn from<A: EnumAccess<'de>>(named: A) -> Result<Self::Frame, A::Error>;
}

/// Reads the fields of a frame up to its name.
struct FrameVisitor<F>(PhantomData<F>);

impl<'de, F: FromNamed<'de>> Visitor<'de> for FrameVisitor<F> {
    type Value = F::Frame;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a frame: an object with its name in the field `frame`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<F::Frame, A::Error> {
        let mut before = Map::new();
        while let Some(field) = fields.next_key::<String>()? {
            if field != NAME {
                before.insert(field, fields.next_value()?);
                continue;
            }
            let name = fields.next_value()?;
            if before.is_empty() {
                return F::from(Named { name, fields });
            }
            while let Some((field, value)) = fields.next_entry::<String, Value>()? {
                before.insert(field, value);
            }
            let fields = MapDeserializer::<_, serde_json::Error>::new(before.into_iter());
            return F::from(Named { name, fields }).map_err(A::Error::custom);
        }
        Err(A::Error::missing_field(NAME))
    }
}

/// The name of a frame and the fields behind it, in the form in which serde reads an enum.
struct Named<A> {
    name: String,
    fields: A,
}

impl<'de, A: MapAccess<'de>> EnumAccess<'de> for Named<A> {
    type Error = A::Error;
    type Variant = Fields<A>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Fields<A>), A::Error> {
        let variant = seed.deserialize(self.name.into_deserializer())?;
        Ok((variant, Fields(self.fields)))
    }
}

/// The fields of a frame whose name has been read.
struct Fields<A>(A);

impl<'de, A: MapAccess<'de>> VariantAccess<'de> for Fields<A> {
    type Error = A::Error;

    /// A frame without fields, or one that nobody here knows: whatever it has is passed over.
    fn unit_variant(mut self) -> Result<(), A::Error> {
        while self.0.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, A::Error> {
        seed.deserialize(MapAccessDeserializer::new(self.0))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, A::Error> {
        Err(no_list())
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        visitor.visit_map(self.0)
    }
}

fn no_list<E: de::Error>() -> E {
    E::custom("a frame has fields with names")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::frame::{FrameError, decode, encode};

    /// The names of the frames in a schema.
    fn names(schema: &str) -> BTreeSet<String> {
        let schema: Value = serde_json::from_str(schema).expect("is JSON");
        let variants = schema["oneOf"].as_array().expect("is one of several");
        let name = |variant: &Value| {
            let name = variant["properties"][NAME]["const"].as_str();
            name.expect("has a name").to_owned()
        };
        variants.iter().map(name).collect()
    }

    #[test]
    fn every_frame_of_the_schema_is_known() {
        let agent = names(include_str!("../../schema/to-agent.json"));
        let viewer = names(include_str!("../../schema/to-viewer.json"));
        assert!(agent.len() > 10 && viewer.len() > 8);
        let line = |name: &str| format!("{{\"frame\":\"{name}\"}}");
        for name in agent.iter().filter(|name| *name != "unknown") {
            // Without the fields that it must have it is an error, and only a stranger is unknown.
            let read = decode::<ToAgent>(line(name).as_bytes());
            assert!(!matches!(read, Ok(ToAgent::Unknown)), "{name}");
        }
        for name in viewer.iter().filter(|name| *name != "unknown") {
            let read = decode::<ToViewer>(line(name).as_bytes());
            assert!(!matches!(read, Ok(ToViewer::Unknown)), "{name}");
        }
    }

    #[test]
    fn a_name_may_stand_anywhere() {
        let protocol = crate::hello::PROTOCOL;
        let reason = "no".to_owned();
        let frame = ToViewer::Refused(Refused { reason, protocol });
        let mut line = Vec::new();
        encode(&frame, &mut line).expect("encodes");
        let mut fields: Map<String, Value> = serde_json::from_slice(&line).expect("reads");
        let name = fields.remove(NAME).expect("has one");
        let fields: Vec<_> = fields.into_iter().collect();
        for place in 0..=fields.len() {
            let mut all: Vec<_> = fields
                .iter()
                .map(|(field, value)| format!("{field:?}:{value}"))
                .collect();
            all.insert(place, format!("{NAME:?}:{name}"));
            let moved = format!("{{{}}}", all.join(","));
            let read = decode::<ToViewer>(moved.as_bytes());
            assert_eq!(read.expect("decodes"), frame, "{moved}");
        }
        let stranger = br#"{"strength":[9,{"a":1}],"frame":"telepathy","b":2}"#;
        let read = decode::<ToViewer>(stranger).expect("decodes");
        assert_eq!(read, ToViewer::Unknown);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (line, what) in [
            (&br#"{"reason":"no"}"#[..], "missing field `frame`"),
            (br#"{"frame":"refused"}"#, "missing field `reason`"),
            (br#"{"frame":"refused","reason":7}"#, "expected a string"),
            (br#""refused""#, "expected a frame"),
        ] {
            let error = decode::<ToViewer>(line).expect_err("is wrong");
            assert!(matches!(error, FrameError::Malformed(_)));
            let text = error.to_string();
            assert!(text.contains(what) && text.contains("column"), "{text}");
        }
    }
}
