//! "Is something wrong?": rules as data, judged once a second over a [`Window`](crate::window::Window).
//!
//! - [`metrics`]: the figures that a rule can look at, pure functions of a window and the time;
//! - [`rules`]: what is held against what; `defaults`: the rules that are built in;
//! - `readings`: the figures of one judgement, each worked out once;
//! - `set`, `language` and `print`: all that a file says of alerts, read and written;
//! - [`states`]: the life of an alert, *pending, firing, resolved*, over reconnects and restarts;
//! - `explain`: why a rule fires, and why one does not;
//! - [`silence`]: alerts that nobody is to be told of for a while;
//! - [`action`]: what a rule does when it fires.

pub mod action;
#[cfg(test)]
mod day;
mod defaults;
mod explain;
pub(crate) mod language;
pub mod metrics;
mod print;
mod readings;
pub mod rules;
mod set;
pub mod silence;
pub mod states;
pub(crate) mod words;

pub use self::{
    action::Action,
    defaults::default_rules,
    metrics::{Metric, Reading},
    print::default_file,
    rules::{Op, Origin, Rule, Threshold},
    set::{BySeverity, RuleSet},
    states::{Book, Changes, Judging, Quiet},
};
