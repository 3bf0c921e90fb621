//! What a rule does when it fires.
//!
//! - here: actions as data;
//! - `facts`: what an alert tells those that are called, by name;
//! - `template`: bodies of JSON with such names in them;
//! - `exec` and `webhook`: programs that are run, services that are called;
//! - `runner`: so many of them at once.

pub(crate) mod exec;
pub(crate) mod facts;
pub(crate) mod runner;
pub(crate) mod template;
pub(crate) mod webhook;

use std::{fmt, sync::Arc, time::Duration};

pub use self::template::Template;

/// How long a program may run, and a call may take, where the rule does not say.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long they may be given at most: as long, they hold a place that others wait for.
pub const LONGEST_TIMEOUT: Duration = Duration::from_mins(5);

/// How often a call that failed is repeated, where the rule does not say.
pub const DEFAULT_RETRIES: u64 = 2;

/// How often a call is repeated at most.
pub const MOST_RETRIES: u64 = 5;

/// Something that a rule does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Takes a snapshot of the service, within the limits of snapshots.
    Snapshot,
    /// Viewers ring.
    Bell,
    /// Runs a program.
    Exec(Arc<Exec>),
    /// Calls a URL.
    Webhook(Arc<Webhook>),
}

/// A program to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Exec {
    /// The program and its arguments; no shell is in between.
    pub argv: Vec<String>,
    /// After so long it is killed, with all that it has started in its process group.
    pub timeout: Duration,
    /// What it reads on its standard input; the alert as JSON where it is left out.
    pub body: Option<Template>,
    /// Whether it is run again when the alert ends.
    pub resolved: bool,
}

/// A URL to be called.
#[derive(Clone, Debug, PartialEq)]
pub struct Webhook {
    /// Where to.
    pub url: webhook::Url,
    /// For one try.
    pub timeout: Duration,
    /// How often a try that failed is repeated, each after a longer pause.
    pub retries: u64,
    /// Headers beside those that are needed.
    pub headers: Vec<(String, String)>,
    /// What is sent; the alert as JSON where it is left out.
    pub body: Option<Template>,
    /// Whether it is called again when the alert ends.
    pub resolved: bool,
}

impl Action {
    /// Whether somebody is told who does not look at a screen.
    #[must_use]
    pub fn reaches_out(&self) -> bool {
        matches!(self, Self::Exec(_) | Self::Webhook(_))
    }
}

/// For a person: without arguments, and of a URL only the host, since both may hold secrets.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Snapshot => f.write_str("snapshot"),
            Self::Bell => f.write_str("bell"),
            Self::Exec(exec) => {
                let program = exec.argv.first().map_or("?", String::as_str);
                write!(f, "exec {program}")
            }
            Self::Webhook(webhook) => write!(f, "webhook {}", webhook.url.authority()),
        }
    }
}

#[cfg(test)]
mod tests;
