//! Live control: what a viewer asks a service to change while it runs, and what came of it.
//!
//! ```text
//!  viewer --Control--> agent --Order--> service
//!  viewer <--Controlled-- agent <--Controlled-- service
//! ```
//!
//! A service refuses every order unless it was built with `allow_control(true)`, which [`FEATURE`] among its features
//! tells beforehand. The agent hands an order on for the service's own user and root only. Both log each order with its
//! outcome.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::id::{InstanceId, JobId};

/// Among a service's features: it takes orders.
pub const FEATURE: &str = "control";

/// The longest name of a lane or downstream in an order, in characters. A longer one is of none that exists.
pub const MAX_NAME_CHARS: usize = 128;

/// The longest delay that is injected into a downstream.
pub const MAX_INJECTED_DELAY: Duration = Duration::from_mins(1);

/// The longest time for which a delay is injected: it ends by itself, also when whoever asked for it is gone.
pub const MAX_INJECTION: Duration = Duration::from_hours(1);

/// A viewer asks for a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Control {
    /// Of which service.
    pub instance: InstanceId,
    /// The asker's number for it, which [`Controlled`] repeats.
    pub id: u64,
    /// What is to be changed.
    pub action: Action,
}

/// The part of a [`Control`] that the service gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Order {
    /// The agent's number for it.
    pub id: u64,
    /// What is to be changed.
    pub action: Action,
}

/// What became of a [`Control`], or of an [`Order`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Controlled {
    /// The asker's number for it.
    pub id: u64,
    /// What was done, or why nothing was: one sentence for a person.
    pub outcome: Result<String, String>,
}

/// What can be changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Action {
    /// A lane begins no job until it is resumed. What runs goes on, what comes is queued.
    Pause {
        /// Which lane.
        lane: LaneRef,
    },
    /// A lane that was paused goes on.
    Resume {
        /// Which lane.
        lane: LaneRef,
    },
    /// A lane gets another limit. One that falls stops no job.
    Resize {
        /// Which lane.
        lane: LaneRef,
        /// Jobs that run at once.
        limit: u64,
    },
    /// A job is to end: at once where it is queued or waits; a running one is asked to, and is dropped after its lane's
    /// grace.
    Cancel {
        /// Which job.
        job: JobId,
    },
    /// A job whose attempts have all failed, and that waits for a person, is queued again.
    Retry {
        /// Which job.
        job: JobId,
    },
    /// Each call of a downstream takes so much longer, for a while. Where the service allows that of this downstream.
    Inject {
        /// Which downstream.
        downstream: String,
        /// How much longer, at most [`MAX_INJECTED_DELAY`]; 0 ends it.
        delay_ns: u64,
        /// For how long, at most [`MAX_INJECTION`].
        lasting_ns: u64,
    },
    /// A change that this reader does not know.
    #[serde(other)]
    Unknown,
}

/// One lane of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LaneRef {
    /// Its name.
    pub name: String,
    /// Its scheduler, by its number in the process. `None`: the first that has a lane of this name.
    #[serde(default)]
    pub scheduler: Option<u32>,
}

impl LaneRef {
    /// The lane of this name, whichever scheduler has it.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            scheduler: None,
        }
    }

    /// Whether this lane is meant.
    #[must_use]
    pub fn is(&self, name: &str, scheduler: u32) -> bool {
        self.name == name && self.scheduler.is_none_or(|of| of == scheduler)
    }
}

/// In words, as it is logged: `resize lane api to 20`.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pause { lane } => write!(f, "pause lane {}", lane.name),
            Self::Resume { lane } => write!(f, "resume lane {}", lane.name),
            Self::Resize { lane, limit } => write!(f, "resize lane {} to {limit}", lane.name),
            Self::Cancel { job } => write!(f, "cancel job {job}"),
            Self::Retry { job } => write!(f, "retry job {job}"),
            Self::Inject {
                downstream,
                delay_ns: 0,
                ..
            } => write!(f, "end the delay of downstream {downstream}"),
            Self::Inject {
                downstream,
                delay_ns,
                lasting_ns,
            } => write!(
                f,
                "delay downstream {downstream} by {:?} for {:?}",
                Duration::from_nanos(*delay_ns),
                Duration::from_nanos(*lasting_ns)
            ),
            Self::Unknown => write!(f, "an unknown change"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ToAgent, ToService, ToViewer, frame};

    fn action(json: &str) -> Action {
        serde_json::from_str(json).expect("reads")
    }

    /// F97: the frames as a viewer of another language writes them.
    #[test]
    fn actions_are_read_as_they_are_documented() {
        let lane = LaneRef::named("api");
        assert!(lane.is("api", 7) && !lane.is("db", 7));
        assert_eq!(
            action(r#"{"do":"pause","lane":{"name":"api"}}"#),
            Action::Pause { lane: lane.clone() }
        );
        assert_eq!(
            action(r#"{"do":"resize","lane":{"name":"api","scheduler":2},"limit":20}"#),
            Action::Resize {
                lane: LaneRef {
                    scheduler: Some(2),
                    ..lane
                },
                limit: 20
            }
        );
        assert_eq!(
            action(
                r#"{"do":"inject","downstream":"db","delay_ns":500000000,"lasting_ns":60000000000}"#
            )
            .to_string(),
            "delay downstream db by 500ms for 60s"
        );
        assert_eq!(action(r#"{"do":"reboot","host":"all"}"#), Action::Unknown);
    }

    #[test]
    fn an_order_and_its_outcome_come_back_as_they_were_sent() {
        let action = Action::Cancel { job: JobId(7) };
        let order = ToService::Control(Order { id: 1, action });
        let outcome = |outcome| Controlled { id: 1, outcome };
        let done = ToAgent::Controlled(outcome(Ok("done".to_owned())));
        let told = ToViewer::Controlled(outcome(Err("no".to_owned())));
        let mut line = Vec::new();
        frame::encode(&order, &mut line).expect("encodes");
        assert_eq!(frame::decode::<ToService>(&line).expect("decodes"), order);
        line.clear();
        frame::encode(&done, &mut line).expect("encodes");
        assert_eq!(frame::decode::<ToAgent>(&line).expect("decodes"), done);
        line.clear();
        frame::encode(&told, &mut line).expect("encodes");
        assert_eq!(frame::decode::<ToViewer>(&line).expect("decodes"), told);
    }
}
