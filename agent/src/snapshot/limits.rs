//! How often snapshots are taken: a cooldown and a rate, by the monotonic clock.

use std::{collections::VecDeque, time::Duration};

use super::Settings;
use crate::{clock::Now, text::duration};

const HOUR: Duration = Duration::from_hours(1);
const MINUTE: Duration = Duration::from_mins(1);

/// Who wanted a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A threshold.
    Automatic,
    /// A person, or the service's own code: no cooldown, a rate of its own.
    Asked,
    /// The death of a service: what came before it has a cooldown of its own.
    LastSeen,
}

/// The snapshots of the last hour, of one service or of all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    taken: VecDeque<(Kind, u64)>,
}

impl Limits {
    /// Notes a snapshot that was taken at `mono_ns`.
    pub(crate) fn note(&mut self, kind: Kind, mono_ns: u64) {
        self.taken.push_back((kind, mono_ns));
    }

    /// Whether a service may have one more now.
    ///
    /// # Errors
    ///
    /// Why not, for a person.
    pub(crate) fn check(
        &mut self,
        kind: Kind,
        settings: &Settings,
        now: Now,
    ) -> Result<(), String> {
        self.forget(now);
        match kind {
            Kind::Asked => {
                let asked = self.count(|k| k == Kind::Asked, MINUTE, now);
                if asked >= settings.asked_per_minute {
                    let most = settings.asked_per_minute;
                    return Err(format!(
                        "{most} snapshots were asked for within a minute; wait a little"
                    ));
                }
            }
            Kind::Automatic | Kind::LastSeen => {
                let mut before = self.taken.iter().rev();
                let since = before
                    .find(|(k, _)| *k == kind)
                    .map(|(_, at)| now.since(*at));
                if let Some(since) = since.filter(|since| *since < settings.cooldown) {
                    let ago = duration(since.as_nanos() as u64);
                    let cooldown = duration(settings.cooldown.as_nanos() as u64);
                    return Err(format!(
                        "the last one was {ago} ago, less than the cooldown of {cooldown}"
                    ));
                }
                self.check_hour(settings.per_hour, now)?;
            }
        }
        Ok(())
    }

    /// Whether fewer than `most` automatic ones were taken in the last hour.
    ///
    /// # Errors
    ///
    /// Why not, for a person.
    pub(crate) fn check_hour(&mut self, most: usize, now: Now) -> Result<(), String> {
        self.forget(now);
        if self.count(|kind| kind != Kind::Asked, HOUR, now) >= most {
            return Err(format!("{most} have been taken within the hour"));
        }
        Ok(())
    }

    fn count(&self, is: impl Fn(Kind) -> bool, span: Duration, now: Now) -> usize {
        let taken = self.taken.iter();
        taken
            .filter(|(kind, at)| is(*kind) && now.since(*at) < span)
            .count()
    }

    fn forget(&mut self, now: Now) {
        self.taken.retain(|(_, at)| now.since(*at) < HOUR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Now {
        Now {
            mono_ns: seconds * 1_000_000_000,
            unix_ns: 0,
        }
    }

    /// Takes one where it may; says whether it did.
    fn take(limits: &mut Limits, kind: Kind, seconds: u64) -> bool {
        let settings = Settings::in_folder(None);
        let admitted = limits.check(kind, &settings, at(seconds)).is_ok();
        if admitted {
            limits.note(kind, at(seconds).mono_ns);
        }
        admitted
    }

    #[test]
    fn a_cooldown_and_an_hourly_rate_hold_automatic_ones_back() {
        let mut limits = Limits::default();
        assert!(take(&mut limits, Kind::Automatic, 100));
        assert!(!take(&mut limits, Kind::Automatic, 159));
        assert!(take(&mut limits, Kind::Automatic, 160));
        let taken = (160..3_700).filter(|s| take(&mut limits, Kind::Automatic, *s));
        assert_eq!(taken.count(), DEFAULT_LEFT);
        assert!(
            take(&mut limits, Kind::Automatic, 3_760),
            "the hour is over"
        );
    }

    /// Two were taken before the loop.
    const DEFAULT_LEFT: usize = super::super::DEFAULT_PER_HOUR - 2;

    #[test]
    fn what_is_asked_for_and_a_death_have_limits_of_their_own() {
        let mut limits = Limits::default();
        assert!(take(&mut limits, Kind::Automatic, 100));
        assert!(take(&mut limits, Kind::LastSeen, 101));
        assert!(!take(&mut limits, Kind::LastSeen, 102));
        let asked = (0..100)
            .filter(|_| take(&mut limits, Kind::Asked, 103))
            .count();
        assert_eq!(asked, super::super::DEFAULT_ASKED_PER_MINUTE);
        assert!(take(&mut limits, Kind::Asked, 163));
    }
}
