//! The numbers of a fault: how long, how often, how much.

use std::{fmt, time::Duration};

use serde::Serialize;

/// A number that can be set, within bounds.
#[derive(Serialize)]
pub(crate) struct Number {
    /// Its name, which ends in its unit where it has one.
    pub(crate) name: &'static str,
    /// What it is unless set.
    pub(crate) usual: u64,
    /// The smallest that is accepted.
    pub(crate) least: u64,
    /// The largest that is accepted.
    pub(crate) most: u64,
}

impl Number {
    pub(crate) const fn new(name: &'static str, usual: u64, least: u64, most: u64) -> Self {
        Self {
            name,
            usual,
            least,
            most,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            usual,
            least,
            most,
        } = self;
        write!(f, "{name}={usual} ({least} to {most})")
    }
}

/// A number that the command line sets: `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    name: String,
    value: u64,
}

impl std::str::FromStr for Set {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text
            .split_once('=')
            .ok_or("NAME=VALUE is expected, such as sleep_ms=300")?;
        let value = value
            .parse()
            .map_err(|_| format!("{value:?} is no whole number"))?;
        Ok(Self {
            name: name.to_owned(),
            value,
        })
    }
}

/// All numbers of one fault.
#[derive(Clone, Debug)]
pub(crate) struct Numbers(Vec<(&'static str, u64)>);

impl Numbers {
    /// The usual ones, but for those that are set.
    pub(crate) fn of(known: &[Number], set: &[Set]) -> Result<Self, String> {
        let mut numbers: Vec<_> = known.iter().map(|it| (it.name, it.usual)).collect();
        for Set { name, value } in set {
            let at = known.iter().position(|it| it.name == name).ok_or_else(|| {
                let names: Vec<_> = known.iter().map(ToString::to_string).collect();
                format!(
                    "the fault has no number {name:?}; it has {}",
                    names.join(", ")
                )
            })?;
            if !(known[at].least..=known[at].most).contains(value) {
                return Err(format!("{value} is out of bounds: {}", known[at]));
            }
            numbers[at].1 = *value;
        }
        Ok(Self(numbers))
    }

    /// The number of this name, which the fault must have declared.
    pub(crate) fn get(&self, name: &str) -> u64 {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.expect("a fault reads the numbers that it declares").1
    }

    /// The same, as a time in milliseconds.
    pub(crate) fn ms(&self, name: &str) -> Duration {
        Duration::from_millis(self.get(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Number] = &[
        Number::new("sleep_ms", 300, 60, 5_000),
        Number::new("jobs", 4, 1, 9),
    ];

    #[test]
    fn a_number_is_the_usual_one_unless_set() {
        let set = ["sleep_ms=400".parse().expect("is one")];
        let numbers = Numbers::of(KNOWN, &set).expect("are known");
        assert_eq!(numbers.ms("sleep_ms"), Duration::from_millis(400));
        assert_eq!(numbers.get("jobs"), 4);
    }

    #[test]
    fn a_wrong_number_is_refused_with_what_would_be_right() {
        let refused = |text: &str| {
            let set = text.parse::<Set>();
            set.and_then(|set| Numbers::of(KNOWN, &[set]).map(|_| ()))
                .expect_err(text)
        };
        assert!(refused("sleep_ms").contains("NAME=VALUE"));
        assert!(refused("jobs=many").contains("\"many\""));
        assert!(refused("jobs=10").contains("jobs=4 (1 to 9)"));
        assert!(refused("rate=10").contains("sleep_ms=300 (60 to 5000), jobs=4"));
    }
}
