//! What changed, for every chart: made of what is known anyway, so that a mark and what it stands for never disagree.

use ax_wire::{
    alert::{Alert, AlertState},
    hello::Hello,
    incident::SnapshotSummary,
    mark::{Mark, MarkKind},
    sample::LimitReason,
};

use crate::{
    history::{HISTORY_NS, ServiceHistory, middle},
    text::duration,
    window::Window,
};

/// Marks of one service that are told; the oldest go first. 100 bytes each in every view.
pub const MAX_MARKS: usize = 96;

/// The instance of a service before this one: what it was, and how it did.
#[derive(Clone, Debug, PartialEq)]
pub struct Predecessor {
    /// Its ELF build id.
    pub build_id: Option<String>,
    /// Its own version, where it told one.
    pub version: Option<String>,
    /// The median of the 99th percentiles of event-loop lag, a second each, over its last quarter of an hour.
    pub lag_ns: Option<u64>,
    /// The median of the CPUs that it used.
    pub cpus_used: Option<f64>,
    /// The median of its resident memory.
    pub rss_bytes: Option<u64>,
}

impl Predecessor {
    /// What is worth to be remembered of an instance that is gone.
    #[must_use]
    pub fn of(history: &ServiceHistory) -> Self {
        let points = || history.seconds().map(|second| &second.point);
        let lags = points().filter_map(|point| Some(point.lag_max_ns? as f64));
        let cpus = points().filter_map(|point| point.cpus_used);
        let memory = points().filter_map(|point| Some(point.rss_bytes? as f64));
        let hello = &history.hello;
        Self {
            build_id: hello.build_id.clone(),
            version: hello.service_version.clone(),
            lag_ns: middle(lags.collect()).map(|ns| ns as u64),
            cpus_used: middle(cpus.collect()),
            rss_bytes: middle(memory.collect()).map(|bytes| bytes as u64),
        }
    }

    /// Whether it was another build than this one. `None` where one of them tells nothing of itself.
    #[must_use]
    pub fn is_other_build(&self, hello: &Hello) -> Option<bool> {
        let differs = |before: &Option<String>, now: &Option<String>| {
            before.as_ref().zip(now.as_ref()).map(|(a, b)| a != b)
        };
        let builds = differs(&self.build_id, &hello.build_id);
        builds.or(differs(&self.version, &hello.service_version))
    }
}

/// What the marks of one service are made of.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a> {
    /// Its history.
    pub window: Window<'a>,
    /// The instance before.
    pub before: Option<&'a Predecessor>,
    /// Its alerts, those that ended too.
    pub alerts: &'a [Alert],
    /// Its snapshots.
    pub snapshots: &'a [SnapshotSummary],
    /// Marks that have no other trace: first verdicts, rules that were read anew, changes by a person.
    pub others: &'a [Mark],
}

impl Changes<'_> {
    /// All of them, oldest first; at most [`MAX_MARKS`], and of the last quarter of an hour before `now_unix_ns`.
    #[must_use]
    pub fn marks(&self, now_unix_ns: u64) -> Vec<Mark> {
        let mut marks: Vec<Mark> = self.others.to_vec();
        marks.extend(self.start());
        marks.extend(self.limits());
        marks.extend(self.alerts.iter().flat_map(alert));
        marks.extend(self.snapshots.iter().map(snapshot));
        let oldest = now_unix_ns.saturating_sub(HISTORY_NS);
        marks.retain(|mark| mark.at_unix_ns >= oldest);
        marks.sort_by_key(|mark| mark.at_unix_ns);
        let excess = marks.len().saturating_sub(MAX_MARKS);
        marks.drain(..excess);
        marks
    }

    fn start(&self) -> impl Iterator<Item = Mark> {
        let hello = self.window.hello();
        let at_unix_ns = hello.process_start_unix_ns;
        let version = hello.service_version.as_ref();
        let version = version.map_or_else(String::new, |version| format!(", version {version}"));
        let started = Mark {
            at_unix_ns,
            kind: MarkKind::Started,
            text: format!("pid {} started{version}", hello.pid),
        };
        let other = self
            .before
            .filter(|before| before.is_other_build(hello) == Some(true));
        let build = other.map(|before| Mark {
            at_unix_ns,
            kind: MarkKind::Build,
            text: format!(
                "another build: {} after {}",
                told(hello.service_version.as_ref(), hello.build_id.as_ref()),
                told(before.version.as_ref(), before.build_id.as_ref())
            ),
        });
        [Some(started), build].into_iter().flatten()
    }

    fn limits(&self) -> Vec<Mark> {
        let clock = self.window.history().clock;
        let lanes = self.window.lanes().map(|(_, lane)| &lane.value.latest);
        let moves = lanes.flat_map(|lane| {
            // An adaptive limit moves all the time, and that is shown with the lane.
            let told = lane
                .limit_moves
                .iter()
                .filter(|moved| !matches!(moved.reason, LimitReason::Fast | LimitReason::Slow));
            told.map(move |moved| Mark {
                at_unix_ns: clock.to_unix_ns(moved.at_mono_ns),
                kind: MarkKind::Limit,
                text: format!("{}: limit {} -> {}", lane.name, moved.from, moved.to),
            })
        });
        moves.collect()
    }
}

fn told(version: Option<&String>, build_id: Option<&String>) -> String {
    let short = build_id.map(|id| id.chars().take(12).collect::<String>());
    match (version, short) {
        (Some(version), Some(id)) => format!("{version} ({id})"),
        (Some(version), None) => version.clone(),
        (None, Some(id)) => id,
        (None, None) => "an unknown one".to_owned(),
    }
}

fn alert(alert: &Alert) -> impl Iterator<Item = Mark> + use<> {
    let subject = alert.subject.as_deref();
    let name = subject.map_or_else(
        || alert.rule.clone(),
        |subject| format!("{} {subject}", alert.rule),
    );
    let began = alert.fired_unix_ns.map(|at_unix_ns| Mark {
        at_unix_ns,
        kind: MarkKind::AlertBegan,
        text: format!("{name} began"),
    });
    let ended = alert
        .resolved_unix_ns
        .filter(|_| alert.state == AlertState::Resolved && alert.fired_unix_ns.is_some());
    let lasted = ended.map(|ended| ended.saturating_sub(alert.began_unix_ns));
    let ended = ended.zip(lasted).map(|(at_unix_ns, lasted_ns)| Mark {
        at_unix_ns,
        kind: MarkKind::AlertEnded,
        text: format!("{name} ended after {}", duration(lasted_ns)),
    });
    [began, ended].into_iter().flatten()
}

fn snapshot(summary: &SnapshotSummary) -> Mark {
    let culprit = summary.culprit.as_ref();
    let culprit = culprit.map_or_else(String::new, |culprit| format!(" of {culprit}"));
    Mark {
        at_unix_ns: summary.at_unix_ns,
        kind: MarkKind::Snapshot,
        text: format!("snapshot{culprit}"),
    }
}

#[cfg(test)]
mod tests {
    use ax_wire::{
        alert::{Severity, Unit},
        sample::LimitMove,
    };

    use super::*;
    use crate::diagnosis::scene::{S, Scene};

    fn changes<'a>(scene: &'a Scene, before: Option<&'a Predecessor>) -> Changes<'a> {
        Changes {
            window: scene.history.window(),
            before,
            alerts: &[],
            snapshots: &[],
            others: scene.casebook.marks(),
        }
    }

    fn kinds(marks: &[Mark]) -> Vec<MarkKind> {
        marks.iter().map(|mark| mark.kind).collect()
    }

    /// F99: start, build, limits, alerts and verdicts, in the order of their time.
    #[test]
    fn everything_that_changed_has_its_mark() {
        let mut scene = Scene::healthy();
        scene.stall(412, |_| ());
        scene.goes_on(2, |_| ());
        scene.goes_on(1, |picture| {
            picture.lane("db").limit_moves = vec![
                LimitMove {
                    seq: 1,
                    at_mono_ns: 26 * S,
                    from: 40,
                    to: 20,
                    reason: LimitReason::Resized,
                },
                LimitMove {
                    seq: 2,
                    at_mono_ns: 27 * S,
                    from: 20,
                    to: 21,
                    reason: LimitReason::Fast,
                },
            ];
        });
        let now = scene.now().unix_ns;
        let alert = Alert {
            rule: "lag-high".to_owned(),
            subject: None,
            severity: Severity::Warning,
            state: AlertState::Resolved,
            began_unix_ns: now - 9 * S,
            fired_unix_ns: Some(now - 8 * S),
            resolved_unix_ns: Some(now),
            value: 0.0,
            peak: 0.0,
            threshold: 0.0,
            unit: Unit::Nanoseconds,
            sentence: String::new(),
            bell: false,
            silenced: None,
        };
        let before = Predecessor {
            build_id: Some("aa".repeat(20)),
            ..Predecessor::of(&scene.history)
        };
        let of_another = Changes {
            alerts: &[alert],
            ..changes(&scene, Some(&before))
        };
        let marks = of_another.marks(now);
        // The service of the scene tells no build, so nothing is said of another one.
        assert_eq!(
            kinds(&marks),
            [
                MarkKind::Started,
                MarkKind::AlertBegan,
                MarkKind::Limit,
                MarkKind::Verdict,
                MarkKind::AlertEnded,
            ]
        );
        assert_eq!(marks[2].text, "db: limit 40 -> 20");
        assert_eq!(marks[3].text, "blocking-call");
        assert_eq!(marks[4].text, "lag-high ended after 9.0 s");
    }

    #[test]
    fn another_build_is_told_by_its_id_or_its_version() {
        let mut scene = Scene::healthy();
        let before = Predecessor::of(&scene.history);
        assert_eq!(before.is_other_build(&scene.history.hello), None);
        assert_eq!(before.lag_ns.map(|ns| ns / 1_000_000), Some(1));
        let before = Predecessor {
            build_id: Some("0123456789abcdef".to_owned()),
            ..before
        };
        scene.history.hello.build_id = Some("fedcba9876543210".to_owned());
        let marks = changes(&scene, Some(&before)).marks(scene.now().unix_ns);
        assert_eq!(kinds(&marks), [MarkKind::Started, MarkKind::Build]);
        assert_eq!(
            marks[1].text,
            "another build: fedcba987654 after 0123456789ab"
        );
        scene.history.hello.build_id = before.build_id.clone();
        assert_eq!(before.is_other_build(&scene.history.hello), Some(false));
    }

    #[test]
    fn old_marks_go() {
        let scene = Scene::healthy();
        let later = scene.now().unix_ns + HISTORY_NS;
        assert_eq!(changes(&scene, None).marks(later), []);
        let many: Vec<Mark> = (0..500)
            .map(|at| Mark {
                at_unix_ns: scene.now().unix_ns + at,
                kind: MarkKind::Rules,
                text: String::new(),
            })
            .collect();
        let many = Changes {
            others: &many,
            ..changes(&scene, None)
        };
        let marks = many.marks(scene.now().unix_ns);
        assert_eq!(marks.len(), MAX_MARKS);
        assert_eq!(marks[MAX_MARKS - 1].at_unix_ns, scene.now().unix_ns + 499);
    }
}
