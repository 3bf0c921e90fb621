//! What failed in a step.

use serde::{Deserialize, Serialize};

/// What failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Errors {
    /// Connections that could not be made.
    pub connect_total: u64,
    /// Answers that did not come in time.
    pub timeout_total: u64,
    /// Connections that broke before the answer had come whole.
    pub broken_total: u64,
    /// Answers with a status of 400 to 499.
    pub client_error_total: u64,
    /// Answers with a status of 500 or more.
    pub server_error_total: u64,
    /// For a person: the first failure.
    pub first: Option<String>,
    /// The statuses of 400 and more that came, by number. They are part of the totals above.
    #[serde(default)]
    pub statuses: Vec<StatusCount>,
}

/// How often a status was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatusCount {
    /// 404 and the like.
    pub status: u16,
    /// How many answers had it.
    pub count: u64,
}

impl Errors {
    /// Counts an answer with a status of 400 or more.
    pub fn add_status(&mut self, status: u16, count: u64) {
        if status < 500 {
            self.client_error_total += count;
        } else {
            self.server_error_total += count;
        }
        self.note(StatusCount { status, count });
    }

    fn note(&mut self, more: StatusCount) {
        let of = |own: &StatusCount| own.status.cmp(&more.status);
        match self.statuses.binary_search_by(of) {
            Ok(place) => self.statuses[place].count += more.count,
            Err(place) => self.statuses.insert(place, more),
        }
    }

    /// Adds what another thread, or another step, saw.
    pub fn merge(&mut self, other: &Self) {
        self.connect_total += other.connect_total;
        self.timeout_total += other.timeout_total;
        self.broken_total += other.broken_total;
        self.client_error_total += other.client_error_total;
        self.server_error_total += other.server_error_total;
        other.statuses.iter().for_each(|more| self.note(*more));
        if self.first.is_none() {
            self.first.clone_from(&other.first);
        }
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.connect_total
            + self.timeout_total
            + self.broken_total
            + self.client_error_total
            + self.server_error_total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_add_up_by_kind_and_by_status() {
        let mut sum = Errors::default();
        sum.add_status(503, 2);
        sum.add_status(404, 1);
        let more = Errors {
            timeout_total: 4,
            first: Some("no answer".to_owned()),
            statuses: vec![StatusCount {
                status: 503,
                count: 5,
            }],
            server_error_total: 5,
            ..Errors::default()
        };
        sum.merge(&more);
        let counts: Vec<_> = sum
            .statuses
            .iter()
            .map(|own| (own.status, own.count))
            .collect();
        assert_eq!(counts, [(404, 1), (503, 7)]);
        assert_eq!((sum.client_error_total, sum.server_error_total), (1, 7));
        assert_eq!((sum.total(), sum.first.as_deref()), (12, Some("no answer")));
    }
}
