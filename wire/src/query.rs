//! What a viewer asks beyond what it is sent, and the answers.
//!
//! A viewer numbers its questions and has one open at a time: a new one takes the place of the one before. The agent
//! answers what it knows itself, and hands the rest on to the service, whose [`Hello::features`](crate::hello::Hello)
//! name [`FEATURE`].

use serde::{Deserialize, Serialize};

use crate::{
    graph::{Graph, GraphQuery},
    histogram::LatencyHistogram,
    id::{InstanceId, TraceId},
    job::{JobsPage, JobsQuery},
    sample::TaskKind,
    trace::{TraceList, TraceView},
};

/// Among a service's features: it answers questions.
pub const FEATURE: &str = "questions";

/// A question of a viewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ask {
    /// The asker's number for it.
    pub number: u64,
    /// Of which service.
    pub instance: InstanceId,
    /// What is asked.
    pub question: Question,
}

/// The part of a question that the service answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Inquiry {
    /// The asker's number for it.
    pub number: u64,
    /// What is asked.
    pub question: Question,
}

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Question {
    /// Single jobs: live ones from the service, and those that are over and were kept.
    Jobs(JobsQuery),
    /// The traces that are kept.
    Traces,
    /// One trace.
    Trace {
        /// Which.
        trace: TraceId,
    },
    /// Who waits for whom.
    Graph(GraphQuery),
    /// The histograms of one type.
    Histograms(TypeKey),
    /// A question that this reader does not know.
    #[serde(other)]
    Unknown,
}

/// Which job type, named task or route.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TypeKey {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: TaskKind,
    /// Its lane, for a job type.
    pub lane: Option<String>,
}

/// What became of a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// The asker's number for the question.
    pub number: u64,
    /// The answer, or why there is none, for a person.
    pub outcome: Result<Answered, String>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answered {
    /// To [`Question::Jobs`].
    Jobs(JobsPage),
    /// To [`Question::Traces`].
    Traces(TraceList),
    /// To [`Question::Trace`].
    Trace(TraceView),
    /// To [`Question::Graph`].
    Graph(Graph),
    /// To [`Question::Histograms`].
    Histograms(Box<TypeHistograms>),
    /// An answer that this reader does not know.
    #[serde(other)]
    Unknown,
}

/// How long things of one type take: lately, and over a longer time before that includes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TypeHistograms {
    /// Which type.
    pub of: TypeKey,
    /// How long the later recordings go back.
    pub lately_ns: u64,
    /// How long all recordings go back.
    pub all_ns: u64,
    /// Ready to started.
    pub queue_wait: Compared,
    /// Started to finished.
    pub run: Compared,
    /// One poll.
    pub poll: Compared,
    /// Woken to polled; one poll in some is measured.
    #[serde(default)]
    pub schedule_delay: Compared,
}

/// A histogram of lately beside that of a longer time. `None`: nothing was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compared {
    /// Of lately.
    pub lately: Option<LatencyHistogram>,
    /// Of all of the time, lately included.
    pub all: Option<LatencyHistogram>,
}
