//! The W3C header `baggage`: `key=value;property,key=value`, values percent-encoded.

use std::{
    borrow::Cow,
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// The key under which the id of the user travels.
pub const USER_ID: &str = "user.id";

/// The key under which the id of the request travels.
pub const REQUEST_ID: &str = "request.id";

/// Most bytes of baggage, as it stands in the header: what the W3C recommendation asks everyone to hand on. One request
/// holds at most this much, whatever it causes; what does not fit is dropped and counted.
pub const MAX_BAGGAGE_BYTES: usize = 8192;

/// Most entries, by the same recommendation.
pub const MAX_BAGGAGE_ENTRIES: usize = 64;

/// Entries that were malformed or beyond the caps, since the process started.
static DROPPED: AtomicU64 = AtomicU64::new(0);

pub(crate) fn dropped_total() -> u64 {
    DROPPED.load(Relaxed)
}

/// Names and values that travel with a trace, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baggage {
    entries: Vec<Entry>,
    /// Length of the header.
    bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    key: Box<str>,
    /// The value, percent-encoded, and its properties: as it stands in the header, so that it is handed on unchanged.
    rest: Box<str>,
}

/// Why an entry was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BaggageError {
    /// The key is empty or has characters that a header's key must not have.
    #[error("a key of baggage is made of letters, digits and !#$%&'*+-.^_`|~")]
    InvalidKey,
    /// It is longer, together with the others, than may travel.
    #[error(
        "the baggage is full: at most {MAX_BAGGAGE_ENTRIES} entries and {MAX_BAGGAGE_BYTES} bytes travel with a trace"
    )]
    Full,
}

impl Baggage {
    /// Nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
            bytes: 0,
        }
    }

    /// Reads the value of a header. Entries that are malformed or do not fit are left out and counted; the rest stays.
    #[must_use]
    pub fn parse(header: &str) -> Self {
        let mut baggage = Self::new();
        baggage.add_header(header);
        baggage
    }

    /// A message may have the header several times.
    pub(crate) fn add_header(&mut self, header: &str) {
        for member in header.split(',').map(|member| member.trim_matches(OWS)) {
            let taken = member.is_empty() || self.add_member(member).is_some();
            if !taken {
                DROPPED.fetch_add(1, Relaxed);
            }
        }
    }

    fn add_member(&mut self, member: &str) -> Option<()> {
        let (key, rest) = member.split_once('=')?;
        let (key, rest) = (key.trim_matches(OWS), rest.trim_matches(OWS));
        let (value, properties) = rest.split_once(';').unwrap_or((rest, ""));
        let well_formed = value.trim_matches(OWS).bytes().all(is_value_byte)
            && properties
                .bytes()
                .all(|byte| is_value_byte(byte) || matches!(byte, b';' | b' ' | b'\t'));
        if !well_formed {
            return None;
        }
        self.set(key, rest).ok()
    }

    /// Adds an entry, or changes the one of this key. The value may be any text.
    ///
    /// # Errors
    ///
    /// [`BaggageError`]: the baggage is then as it was.
    pub fn insert(&mut self, key: &str, value: &str) -> Result<(), BaggageError> {
        self.set(key, &encode(value))
    }

    pub(super) fn insert_or_count(&mut self, key: &str, value: &str) {
        if let Err(error) = self.insert(key, value) {
            DROPPED.fetch_add(1, Relaxed);
            tracing::debug!(key, %error, "an entry of the baggage was left out");
        }
    }

    /// Adds the entries of another, as they stand.
    pub(super) fn add_all(&mut self, other: &Self) {
        for Entry { key, rest } in &other.entries {
            if self.set(key, rest).is_err() {
                DROPPED.fetch_add(1, Relaxed);
            }
        }
    }

    fn set(&mut self, key: &str, rest: &str) -> Result<(), BaggageError> {
        if key.is_empty() || !key.bytes().all(is_key_byte) {
            return Err(BaggageError::InvalidKey);
        }
        let found = self.entries.iter().position(|entry| *entry.key == *key);
        let freed = found.map_or(0, |at| self.entries[at].header_bytes());
        let entry = Entry {
            key: Box::from(key),
            rest: Box::from(rest),
        };
        let bytes = self.bytes - freed + entry.header_bytes();
        // Each entry is counted with a comma, of which the header has one less.
        if bytes > MAX_BAGGAGE_BYTES + 1
            || (found.is_none() && self.entries.len() == MAX_BAGGAGE_ENTRIES)
        {
            return Err(BaggageError::Full);
        }
        self.bytes = bytes;
        match found {
            Some(at) => self.entries[at] = entry,
            None => self.entries.push(entry),
        }
        Ok(())
    }

    /// The value of this key. What is no UTF-8 in it shows as U+FFFD.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Cow<'_, str>> {
        let entry = self.entries.iter().find(|entry| *entry.key == *key)?;
        Some(decode(entry.value()))
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        let entries = self.entries.iter();
        entries.map(|entry| (&*entry.key, decode(entry.value())))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Entry {
    fn header_bytes(&self) -> usize {
        self.key.len() + 1 + self.rest.len() + 1
    }

    fn value(&self) -> &str {
        let value = self.rest.split(';').next().unwrap_or_default();
        value.trim_matches(OWS)
    }
}

/// The value of the header.
impl fmt::Display for Baggage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Entry { key, rest }) in self.entries.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{key}={rest}")?;
        }
        Ok(())
    }
}

const OWS: [char; 2] = [' ', '\t'];

/// Of an HTTP token.
fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Printable, and none of `"`, `,`, `;`, `\`.
fn is_value_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\",;\\".contains(&byte)
}

fn encode(value: &str) -> Cow<'_, str> {
    let plain = |byte: u8| is_value_byte(byte) && byte != b'%';
    if value.bytes().all(plain) {
        return Cow::Borrowed(value);
    }
    let digit = |nibble: u8| char::from(b"0123456789ABCDEF"[usize::from(nibble)]);
    let mut encoded = String::with_capacity(value.len() + 8);
    for byte in value.bytes() {
        if plain(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    Cow::Owned(encoded)
}

/// A percent sign that is followed by no two digits stands for itself.
fn decode(value: &str) -> Cow<'_, str> {
    if !value.contains('%') {
        return Cow::Borrowed(value);
    }
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let mut rest = value.as_bytes();
    let mut decoded = Vec::with_capacity(rest.len());
    while let [first, tail @ ..] = rest {
        rest = tail;
        let pair = tail.first_chunk::<2>().filter(|_| *first == b'%');
        if let Some([high, low]) = pair
            && let (Some(high), Some(low)) = (digit(high), digit(low))
        {
            decoded.push(high << 4 | low);
            rest = &tail[2..];
        } else {
            decoded.push(*first);
        }
    }
    Cow::Owned(String::from_utf8_lossy(&decoded).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_header_is_handed_on_as_it_came() {
        let header = "user.id=Am%C3%A9lie,server=DF28;prop=1;flag, request.id = 7f ;a= b";
        let baggage = Baggage::parse(header);
        assert_eq!(baggage.get(USER_ID).as_deref(), Some("Amélie"));
        assert_eq!(baggage.get("server").as_deref(), Some("DF28"));
        assert_eq!(baggage.get(REQUEST_ID).as_deref(), Some("7f"));
        assert_eq!(baggage.get("none"), None);
        let written = "user.id=Am%C3%A9lie,server=DF28;prop=1;flag,request.id=7f ;a= b";
        assert_eq!(baggage.to_string(), written);
        assert_eq!(baggage.iter().count(), 3);
    }

    #[test]
    fn what_is_malformed_is_dropped_and_counted_and_the_rest_stays() {
        let before = dropped_total();
        let baggage = Baggage::parse("good=1,,bad,=2,sp ace=3,q=\"x\",line=a\u{7}b,also=4");
        assert_eq!(baggage.to_string(), "good=1,also=4");
        assert!(dropped_total() >= before + 5);
    }

    #[test]
    fn the_caps_hold_for_bytes_and_for_entries() {
        let before = dropped_total();
        let many: Vec<_> = (0..100).map(|index| format!("k{index}=v")).collect();
        let baggage = Baggage::parse(&many.join(","));
        assert_eq!(baggage.iter().count(), MAX_BAGGAGE_ENTRIES);
        assert!(dropped_total() >= before + 36);

        let mut baggage = Baggage::new();
        baggage.insert("a", "1").expect("fits");
        let long = "x".repeat(MAX_BAGGAGE_BYTES);
        assert_eq!(baggage.insert("b", &long), Err(BaggageError::Full));
        let fits = "x".repeat(MAX_BAGGAGE_BYTES - "a=1,b=".len());
        baggage.insert("b", &fits).expect("fits exactly");
        assert_eq!(baggage.to_string().len(), MAX_BAGGAGE_BYTES);
        assert_eq!(baggage.insert("c", ""), Err(BaggageError::Full));
        baggage.insert("b", "short").expect("makes room");
        baggage.insert("c", "").expect("fits now");
        assert_eq!(baggage.to_string(), "a=1,b=short,c=");
    }

    #[test]
    fn keys_are_tokens() {
        for bad in ["", "a b", "a=b", "a,b", "a;b", "é", "a\n"] {
            let refused = Baggage::new().insert(bad, "1");
            assert_eq!(refused, Err(BaggageError::InvalidKey), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_value_comes_back(value in any::<String>()) {
            let mut baggage = Baggage::new();
            if baggage.insert("key", &value).is_ok() {
                let read = Baggage::parse(&baggage.to_string());
                let decoded = read.get("key").map(String::from);
                prop_assert_eq!(decoded, Some(value));
                prop_assert_eq!(read, baggage);
            }
        }

        #[test]
        fn a_hostile_header_stays_within_the_caps_and_in_the_form(
            header in "([a-z%=;, \t\"\\\\\u{0}-\u{20}é]{0,12}[=,]){0,400}"
        ) {
            let baggage = Baggage::parse(&header);
            let written = baggage.to_string();
            prop_assert!(written.len() <= MAX_BAGGAGE_BYTES);
            prop_assert!(written.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)));
            prop_assert_eq!(Baggage::parse(&written), baggage);
        }
    }
}
