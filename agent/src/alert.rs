//! "Is something wrong?": rules as data, judged once a second over a [`Window`](crate::window::Window).
//!
//! - [`rules`]: what is held against what, and the rules that are built in;
//! - [`metrics`]: the figures that a rule can look at, pure functions of a window and the time;
//! - [`states`]: the life of an alert, *pending, firing, resolved*, over reconnects and restarts.

pub mod metrics;
pub mod rules;
pub mod states;

pub use self::{
    metrics::{Metric, Reading},
    rules::{Rule, Threshold, default_rules},
    states::{Book, Quiet},
};
