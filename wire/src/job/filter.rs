//! What a query for jobs can ask of a job.

use serde::{Deserialize, Serialize};

use super::{JobRow, JobState};
use crate::id::JobId;

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "term", rename_all = "snake_case")]
pub enum Term {
    /// Of a text.
    Text {
        /// Which.
        field: TextField,
        /// How it is compared. Upper and lower case are the same.
        how: MatchKind,
        /// With what.
        value: String,
        /// Whether the condition must not hold.
        #[serde(default)]
        not: bool,
    },
    /// Of a figure. Does not hold where the figure is unknown.
    Number {
        /// Which.
        field: NumberField,
        /// How it is compared.
        how: Comparison,
        /// With what; durations in nanoseconds.
        value: u64,
    },
    /// Of the state.
    State {
        /// It is one of these.
        any_of: Vec<JobState>,
        /// Whether it must be none of them.
        #[serde(default)]
        not: bool,
    },
    /// A condition that this reader does not know: no job fulfils it, so that nothing is shown that was not asked for.
    #[serde(other)]
    Unknown,
}

/// A text of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TextField {
    /// Its type.
    Type,
    /// Its lane.
    Lane,
    /// The name by which others depend on it.
    Name,
    /// Where it was submitted.
    Place,
    /// What its code says that it awaits.
    Awaits,
    /// Why it did not succeed.
    Error,
    /// Its trace id.
    Trace,
    /// A text that this reader does not know.
    #[serde(other)]
    Other,
}

/// How two texts are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MatchKind {
    /// The whole text.
    Is,
    /// Some part of it.
    Contains,
    /// Its beginning, as of an id that is shown cut.
    Begins,
    /// A way that this reader does not know: nothing is alike.
    #[serde(other)]
    Other,
}

/// A figure of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NumberField {
    /// Its id.
    Id,
    /// [`JobRow::age_ns`].
    Age,
    /// [`JobRow::queue_wait_ns`].
    Wait,
    /// [`JobRow::run_ns`].
    Run,
    /// [`JobRow::priority`].
    Priority,
    /// [`JobRow::attempt`].
    Attempt,
    /// A figure that this reader does not know.
    #[serde(other)]
    Other,
}

/// How two figures are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `>=`
    AtLeast,
    /// `>`
    More,
    /// A way that this reader does not know: nothing compares.
    #[serde(other)]
    Other,
}

impl Comparison {
    fn holds(self, value: u64, than: u64) -> bool {
        match self {
            Self::Less => value < than,
            Self::AtMost => value <= than,
            Self::Equal => value == than,
            Self::NotEqual => value != than,
            Self::AtLeast => value >= than,
            Self::More => value > than,
            Self::Other => false,
        }
    }
}

/// A job as a query sees it: a [`JobRow`], or something from which one could be made.
pub trait Facts {
    /// Which.
    fn id(&self) -> JobId;

    /// Its type.
    fn job_type(&self) -> &str;

    /// Its lane.
    fn lane(&self) -> Option<&str>;

    /// Where it stands.
    fn state(&self) -> JobState;

    /// A figure; `None` where it is unknown or does not apply.
    fn number(&self, field: NumberField) -> Option<u64>;

    /// Shows a text to `look`, and returns what that says; false where there is no such text.
    fn text(&self, field: TextField, look: &mut dyn FnMut(&str) -> bool) -> bool;
}

impl Term {
    /// Whether it holds of this job.
    pub fn holds(&self, job: &impl Facts) -> bool {
        match self {
            Self::Text {
                field,
                how,
                value,
                not,
            } => job.text(*field, &mut |text| how.holds(text, value)) != *not,
            Self::Number { field, how, value } => job
                .number(*field)
                .is_some_and(|number| how.holds(number, *value)),
            Self::State { .. } => self.admits(job.state()),
            Self::Unknown => false,
        }
    }

    /// Whether it can hold of a job of this state.
    pub(super) fn admits(&self, state: JobState) -> bool {
        match self {
            Self::State { any_of, not } => any_of.contains(&state) != *not,
            Self::Text { .. } | Self::Number { .. } => true,
            Self::Unknown => false,
        }
    }

    pub(super) fn id(&self) -> Option<JobId> {
        match self {
            Self::Number {
                field: NumberField::Id,
                how: Comparison::Equal,
                value,
            } => Some(JobId(*value)),
            _ => None,
        }
    }
}

impl MatchKind {
    fn holds(self, text: &str, value: &str) -> bool {
        let (text, value) = (text.as_bytes(), value.as_bytes());
        match self {
            Self::Is => text.eq_ignore_ascii_case(value),
            Self::Begins => text
                .get(..value.len())
                .is_some_and(|begin| begin.eq_ignore_ascii_case(value)),
            Self::Contains => {
                value.is_empty()
                    || text
                        .windows(value.len())
                        .any(|part| part.eq_ignore_ascii_case(value))
            }
            Self::Other => false,
        }
    }
}

impl Facts for JobRow {
    fn id(&self) -> JobId {
        self.id
    }

    fn job_type(&self) -> &str {
        &self.job_type
    }

    fn lane(&self) -> Option<&str> {
        self.lane.as_deref()
    }

    fn state(&self) -> JobState {
        self.state
    }

    fn number(&self, field: NumberField) -> Option<u64> {
        match field {
            NumberField::Id => Some(self.id.0),
            NumberField::Age => Some(self.age_ns),
            NumberField::Wait => self.queue_wait_ns,
            NumberField::Run => self.run_ns,
            NumberField::Priority => self.priority.map(u64::from),
            NumberField::Attempt => Some(self.attempt.into()),
            NumberField::Other => None,
        }
    }

    fn text(&self, field: TextField, look: &mut dyn FnMut(&str) -> bool) -> bool {
        let text = match field {
            TextField::Type => Some(&self.job_type),
            TextField::Lane => self.lane.as_ref(),
            TextField::Name => self.name.as_ref(),
            TextField::Place => self.place.as_ref(),
            TextField::Awaits => self.waits_for.as_ref().map(|waits| &waits.label),
            TextField::Error => self.error.as_ref(),
            TextField::Trace => {
                let trace = self.trace.map(|trace| trace.to_string());
                return trace.is_some_and(|trace| look(&trace));
            }
            TextField::Other => None,
        };
        text.is_some_and(|text| look(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        TraceId,
        job::{JobSort, JobsQuery},
    };

    fn row(id: u64, job_type: &str, state: JobState, wait_ms: Option<u64>) -> JobRow {
        JobRow {
            id: JobId(id),
            job_type: job_type.to_owned(),
            lane: Some("db".to_owned()),
            trace: TraceId::new(0xabc << 116),
            state,
            queue_wait_ns: wait_ms.map(|ms| ms * 1_000_000),
            ..JobRow::default()
        }
    }

    fn text(field: TextField, how: MatchKind, value: &str, not: bool) -> Term {
        let value = value.to_owned();
        Term::Text {
            field,
            how,
            value,
            not,
        }
    }

    #[test]
    fn each_kind_of_term_holds_where_it_should() {
        let job = row(7, "render_PDF", JobState::Ready, Some(120));
        let wait = |how, ms: u64| Term::Number {
            field: NumberField::Wait,
            how,
            value: ms * 1_000_000,
        };
        let state = |not| Term::State {
            any_of: vec![JobState::Failed, JobState::Ready],
            not,
        };
        let holding = [
            text(TextField::Type, MatchKind::Contains, "pdf", false),
            text(TextField::Type, MatchKind::Contains, "", false),
            text(TextField::Type, MatchKind::Is, "render", true),
            text(TextField::Trace, MatchKind::Begins, "ABC", false),
            text(TextField::Error, MatchKind::Contains, "refused", true),
            wait(Comparison::More, 100),
            wait(Comparison::AtMost, 120),
            state(false),
        ];
        for term in holding {
            assert!(term.holds(&job), "{term:?}");
        }
        let failing = [
            text(TextField::Lane, MatchKind::Is, "d", false),
            text(TextField::Name, MatchKind::Contains, "", false),
            wait(Comparison::Less, 120),
            Term::Number {
                field: NumberField::Run,
                how: Comparison::AtLeast,
                value: 0,
            },
            state(true),
            Term::Unknown,
        ];
        for term in failing {
            assert!(!term.holds(&job), "{term:?}");
        }
    }

    #[test]
    fn jobs_stand_in_the_order_that_was_asked_for() {
        let mut jobs = [
            row(1, "b", JobState::Ready, None),
            row(2, "a", JobState::Running, Some(5)),
            row(3, "b", JobState::Running, Some(9)),
        ];
        let mut sorted = |sort, descending| {
            let query = JobsQuery {
                sort,
                descending,
                ..JobsQuery::default()
            };
            jobs.sort_by(|a, b| query.order(a, b));
            jobs.each_ref().map(|job| job.id.0)
        };
        assert_eq!(sorted(JobSort::State, false), [2, 3, 1]);
        assert_eq!(sorted(JobSort::Type, false), [2, 1, 3]);
        assert_eq!(sorted(JobSort::Type, true), [1, 3, 2]);
        assert_eq!(sorted(JobSort::Id, true), [3, 2, 1]);
        assert_eq!(sorted(JobSort::Wait, true), [3, 2, 1], "unknown comes last");
        assert_eq!(
            sorted(JobSort::Wait, false),
            [2, 3, 1],
            "unknown comes last"
        );
    }

    #[test]
    fn a_term_of_a_newer_viewer_shows_nothing_rather_than_too_much() {
        let newer = r#"{"terms":[{"term":"phase_of_moon","value":3}],"sort":"state","descending":false,"limit":9}"#;
        let query: JobsQuery = serde_json::from_str(newer).expect("reads");
        assert!(!query.matches(&row(1, "a", JobState::Ready, None)));
    }
}
