//! What a bundle does not hand on.
//!
//! It works on JSON, so that what a newer snapshot has besides is gone through too.

use std::{fmt, ops::AddAssign};

use ax_agent::symbol::without_home;
use serde_json::{Map, Value};

/// Said by `--help`, exactly as it is done below.
pub const HELP: &str = "\
What is redacted in every file of the archive:
  - the value of any key that contains password, passwd, secret, token, apikey, api_key, authorization, cookie,
    credential, private_key or session, and of any {key|name, value} pair named so;
  - source places: what stands before the folder of the last `src/`, `tests/`, `examples/` or `benches/`; of the
    standard library and of fetched crates, what stands before the part that is the same on every machine;
  - other absolute paths (snapshots, sockets, modules): all but the file's name;
  - in sentences and paths: this host's name and your user name, as whole words.
What is not: names of services, lanes, job types, routes and functions, process and trace ids, uids, build ids, times
and figures. Payloads, environment and command lines are in no snapshot.";

const SECRET_KEYS: [&str; 11] = [
    "password",
    "passwd",
    "secret",
    "token",
    "apikey",
    "api_key",
    "authorization",
    "cookie",
    "credential",
    "private_key",
    "session",
];

/// Folders at which a crate's own part of a path begins.
const SOURCE_FOLDERS: [&str; 4] = ["src", "tests", "examples", "benches"];

/// Keys whose text is a name that the service gave, and no sentence: a user's name in it is part of it.
const NAME_KEYS: [&str; 7] = [
    "service", "name", "lane", "rule", "subject", "culprit", "label",
];

/// Stands for what was taken away.
const GONE: &str = "[redacted]";

/// Names as short as this are words.
const MIN_NAME_CHARS: usize = 3;

/// Takes away what should not leave.
pub struct Redactor {
    /// Names, and what to write in their place.
    names: Vec<(String, &'static str)>,
}

/// How much was taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Redacted {
    pub secrets: usize,
    pub paths: usize,
    pub names: usize,
}

impl Redacted {
    #[cfg(test)]
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

impl AddAssign for Redacted {
    fn add_assign(&mut self, more: Self) {
        self.secrets += more.secrets;
        self.paths += more.paths;
        self.names += more.names;
    }
}

impl fmt::Display for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            secrets,
            paths,
            names,
        } = self;
        writeln!(
            f,
            "redacted: {secrets} values of secret keys, {paths} paths, {names} host and user names \
             (ax-top bundle --help says which)"
        )
    }
}

impl Redactor {
    /// One that knows the host and the user of this process.
    pub fn of_this_host() -> Self {
        let host = rustix::system::uname();
        let user = std::env::var("USER").ok();
        Self::new(host.nodename().to_str().ok(), user.as_deref())
    }

    /// One that knows these names.
    pub fn new(host: Option<&str>, user: Option<&str>) -> Self {
        // `root` is no secret, and a word of many a path.
        let names = [
            (host, "[host]"),
            (user.filter(|user| *user != "root"), "[user]"),
        ];
        let names = names.into_iter().filter_map(|(name, instead)| {
            let name = name.filter(|name| name.chars().count() >= MIN_NAME_CHARS)?;
            Some((name.to_owned(), instead))
        });
        Self {
            names: names.collect(),
        }
    }

    /// Redacts a value, all that is in it included.
    pub fn redact(&self, value: &mut Value) -> Redacted {
        let mut redacted = Redacted::default();
        self.value("", value, &mut redacted);
        redacted
    }

    fn value(&self, key: &str, value: &mut Value, redacted: &mut Redacted) {
        match value {
            Value::Object(object) => self.object(object, redacted),
            Value::Array(values) => {
                for value in values {
                    self.value(key, value, redacted);
                }
            }
            Value::String(text) if !NAME_KEYS.contains(&key) => self.text(text, redacted),
            _ => {}
        }
    }

    fn object(&self, object: &mut Map<String, Value>, redacted: &mut Redacted) {
        let named = ["key", "name"].iter().any(|key| {
            let name = object.get(*key).and_then(Value::as_str);
            name.is_some_and(is_secret)
        });
        for (key, value) in object.iter_mut() {
            if is_secret(key) || (named && key == "value") {
                redacted.secrets += usize::from(hide(value));
            } else {
                self.value(key, value, redacted);
            }
        }
    }

    fn text(&self, text: &mut String, redacted: &mut Redacted) {
        let words: Vec<_> = text.split(' ').map(short_path).collect();
        let shortened = words.join(" ");
        redacted.paths += usize::from(shortened != *text);
        *text = shortened;
        for (name, instead) in &self.names {
            let (replaced, count) = replace_word(text, name, instead);
            *text = replaced;
            redacted.names += count;
        }
    }
}

fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase().replace('-', "_");
    SECRET_KEYS.iter().any(|secret| key.contains(secret))
}

/// Whether there was anything to hide: text. A number under such a name is a count.
fn hide(value: &mut Value) -> bool {
    match value {
        Value::String(text) => {
            GONE.clone_into(text);
            true
        }
        // Not `any`: each of them.
        Value::Array(values) => values.iter_mut().map(hide).fold(false, |a, b| a | b),
        Value::Object(object) => object.values_mut().map(hide).fold(false, |a, b| a | b),
        _ => false,
    }
}

/// An absolute path without what says where it lies on this machine; any other word as it is. Quotes and brackets around
/// it stay.
fn short_path(word: &str) -> String {
    let Some(begin) = word.find('/') else {
        return word.to_owned();
    };
    let (before, path) = word.split_at(begin);
    let is_open = |c: char| "('\"`[<=:".contains(c);
    // `GET`, `12/s` and `tokio/src/x.rs` have a slash and are no absolute path; `GET /a/b` is a route, and a name.
    let absolute = path.len() > 1 && before.chars().next_back().is_none_or(is_open);
    if !absolute {
        return word.to_owned();
    }
    if let Some(kept) = without_home(path) {
        return format!("{before}{kept}");
    }
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
    let source = parts.iter().rposition(|part| SOURCE_FOLDERS.contains(part));
    let kept = match source {
        // The folder of the crate stays: it tells which one.
        Some(at) => &parts[at.saturating_sub(1)..],
        None => &parts[parts.len().saturating_sub(1)..],
    };
    format!("{before}{}", kept.join("/"))
}

fn replace_word(text: &str, word: &str, instead: &str) -> (String, usize) {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::new();
    let (mut rest, mut count) = (text, 0);
    let mut last = None;
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let left = before.chars().next_back().or(last);
        let whole = !left.is_some_and(is_part) && !after.chars().next().is_some_and(is_part);
        out.push_str(before);
        out.push_str(if whole { instead } else { word });
        count += usize::from(whole);
        last = word.chars().next_back();
        rest = after;
    }
    out.push_str(rest);
    (out, count)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redacted(mut value: Value) -> (Value, Redacted) {
        let redactor = Redactor::new(Some("box7"), Some("ana"));
        let redacted = redactor.redact(&mut value);
        (value, redacted)
    }

    #[test]
    fn secrets_go_by_their_keys_however_deep() {
        let (value, redacted) = redacted(json!({
            "baggage": [{"key": "Api-Key", "value": "k"}, {"key": "tenant", "value": "t"}],
            "deep": {"auth_token": "x", "session_id": ["a", {"b": "c"}], "tokens_total": 7},
        }));
        assert_eq!(
            value,
            json!({
                "baggage": [{"key": "Api-Key", "value": GONE}, {"key": "tenant", "value": "t"}],
                "deep": {"auth_token": GONE, "session_id": [GONE, {"b": GONE}], "tokens_total": 7},
            })
        );
        assert_eq!(redacted.secrets, 3);
    }

    #[test]
    fn paths_lose_what_says_where_they_lie() {
        for (whole, short) in [
            ("/Users/ana/shop/src/pay.rs:7", "shop/src/pay.rs:7"),
            (
                "/opt/cargo/registry/src/index-1/tokio-1.54.1/src/time.rs",
                "tokio-1.54.1/src/time.rs",
            ),
            (
                "/rustc/abc/library/std/src/io.rs",
                "/rustc/abc/library/std/src/io.rs",
            ),
            (
                "/Users/ana/.cargo/git/checkouts/shop-1a/2b/shop/src/lib.rs",
                "/git/checkouts/shop-1a/2b/shop/src/lib.rs",
            ),
            ("src/pay.rs:7", "src/pay.rs:7"),
            ("/run/user/1000/ax/agent.sock", "agent.sock"),
            (
                "cannot write '/var/x/y.json': full",
                "cannot write 'y.json': full",
            ),
            ("12/s of a/b", "12/s of a/b"),
            ("/", "/"),
        ] {
            let (value, _) = redacted(json!({"path": whole}));
            assert_eq!(value["path"], short, "{whole}");
        }
    }

    #[test]
    fn host_and_user_go_from_sentences_and_names_stay() {
        let (value, redacted) = redacted(json!({
            "unknown": ["ana@box7 and banana, box70"],
            "service": "ana", "name": "GET /Users/ana",
        }));
        assert_eq!(
            value,
            json!({
                "unknown": ["[user]@[host] and banana, box70"],
                "service": "ana", "name": "GET /Users/ana",
            })
        );
        assert_eq!(redacted.names, 2);
    }

    #[test]
    fn short_names_and_root_are_words() {
        assert!(Redactor::new(Some("ax"), Some("root")).names.is_empty());
    }
}
