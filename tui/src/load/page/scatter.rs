//! Lag against throughput: a point a step, with its number, the knee circled, the limits as lines. Drawn with lag on a
//! logarithmic scale, since it spans from a tenth of a millisecond to seconds. Where no service was watched, latency takes
//! the place of lag.

use std::fmt::Write as _;

use ax_agent::load::{Analysis, Judged, Judgement};
use ax_wire::session::Session;
use maud::{Markup, html};

use super::about;
use crate::format::rate;

/// The drawing's own units; it keeps its proportions.
const WIDTH: f64 = 1_000.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 50.0;

struct Plane {
    most_per_s: f64,
    floor_ms: f64,
    top_ms: f64,
}

impl Plane {
    fn x(&self, per_s: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * per_s / self.most_per_s
    }

    fn y(&self, ms: f64) -> f64 {
        let height = (ms.max(self.floor_ms) / self.floor_ms).log10();
        let share = height / (self.top_ms / self.floor_ms).log10();
        TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - share.clamp(0.0, 1.0))
    }
}

/// Draws it.
pub fn scatter(session: &Session, analysis: &Analysis) -> Markup {
    let has_lag = analysis
        .steps
        .iter()
        .any(|step| step.figures.lag_p99_ns.is_some());
    let height_ns = |step: &Judged| {
        if has_lag {
            step.figures.lag_p99_ns
        } else {
            step.figures.p99_ns
        }
    };
    let points: Vec<_> = analysis
        .steps
        .iter()
        .filter_map(|step| {
            let per_s = step.figures.achieved_per_s?;
            Some((step, per_s, height_ns(step)? as f64 / 1e6))
        })
        .collect();
    if points.is_empty() {
        return html! { p.quiet { "No step has both." } };
    }
    let limits = &session.plan.limits;
    let limit_ns = if has_lag {
        limits.lag_p99_ns
    } else {
        limits.p99_ns
    };
    let limit = limit_ns.map(|ns| ns as f64 / 1e6);
    let heights = || points.iter().map(|(_, _, ms)| *ms).chain(limit);
    let power = |ms: f64, up: bool| {
        let power = ms.max(0.001).log10();
        10_f64.powf(if up { power.ceil() } else { power.floor() })
    };
    let floor_ms = power(heights().fold(f64::INFINITY, f64::min), false).min(0.1);
    let top_ms = power(heights().fold(0.0, f64::max), true).max(floor_ms * 10.0);
    let most_per_s = points
        .iter()
        .map(|(_, per_s, _)| *per_s)
        .fold(1.0, f64::max)
        * 1.08;
    let plane = Plane {
        most_per_s,
        floor_ms,
        top_ms,
    };
    let ticks = std::iter::successors(Some(floor_ms), |tick| Some(tick * 10.0));
    // A tenth more: powers of ten are not exact.
    let ticks: Vec<f64> = ticks.take_while(|tick| *tick <= top_ms * 1.1).collect();
    let what = if has_lag {
        "Event-loop lag p99, ms"
    } else {
        "Latency p99, ms"
    };
    html! {
        figure.scatter {
            figcaption {
                (what) " (log) over achieved per second"
                span.key { i.good {} "good" } span.key { i.bad {} "bad" } span.key { i.ring {} "the knee" }
                @if limit.is_some() { span.key { i.limit {} "the limit" } }
            }
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(what) {
                @for tick in &ticks {
                    line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(at(plane.y(*tick))) y2=(at(plane.y(*tick))) {}
                    text.label x=(LEFT - 8.0) y=(at(plane.y(*tick) + 5.0)) text-anchor="end" { (tick_words(*tick)) }
                }
                @for per_s in round_ticks(most_per_s) {
                    text.label x=(at(plane.x(per_s))) y=(HEIGHT - BOTTOM + 24.0) text-anchor="middle" {
                        (rate(Some(per_s))) "/s"
                    }
                }
                @if let Some(limit) = limit {
                    line.mark x1=(LEFT) x2=(WIDTH - RIGHT) y1=(at(plane.y(limit))) y2=(at(plane.y(limit))) {}
                }
                path.path d=(path(&plane, &points)) {}
                @for (step, per_s, ms) in &points {
                    (point(&plane, step, *per_s, *ms, analysis.knee.step == Some(step.figures.number)))
                }
                @for label in labels(&plane, &points, analysis.knee.step) { (label.draw()) }
            }
        }
    }
}

/// From point to point in the order of load.
fn path(plane: &Plane, points: &[(&Judged, f64, f64)]) -> String {
    let mut ordered: Vec<_> = points.iter().collect();
    let offered = |step: &Judged| step.figures.offered_per_s.unwrap_or(0.0);
    ordered.sort_by(|a, b| offered(a.0).total_cmp(&offered(b.0)));
    let mut path = String::new();
    for (_, per_s, ms) in ordered {
        let pen = if path.is_empty() { 'M' } else { 'L' };
        // Writing to a string does not fail.
        let _ = write!(path, "{pen}{} {}", at(plane.x(*per_s)), at(plane.y(*ms)));
    }
    path
}

fn point(plane: &Plane, step: &Judged, per_s: f64, ms: f64, is_knee: bool) -> Markup {
    let class = match step.judgement {
        Judgement::Good => "point good",
        Judgement::Bad(_) => "point bad",
        Judgement::Unsure(_) => "point unsure",
    };
    let (x, y) = (plane.x(per_s), plane.y(ms));
    html! {
        @if is_knee { circle.ring cx=(at(x)) cy=(at(y)) r="15" {} }
        circle class=(class) cx=(at(x)) cy=(at(y)) r="6" { title { (about(step)) } }
    }
}

/// Some ticks from nothing on, at distances of 1, 2 or 5 times a power of ten.
fn round_ticks(most: f64) -> Vec<f64> {
    let power = 10_f64.powf((most / 5.0).log10().floor());
    let distance = [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|distance| most / distance <= 8.0)
        .unwrap_or(10.0 * power);
    std::iter::successors(Some(0.0), |tick| Some(tick + distance))
        .take_while(|tick| *tick <= most)
        .collect()
}

/// A step's number beside its point.
struct Label {
    text: String,
    is_knee: bool,
    x: f64,
    y: f64,
}

impl Label {
    /// Its box: left, right, top, bottom. A digit is some 9 units wide.
    fn room(&self) -> [f64; 4] {
        let half = self.text.len() as f64 * 4.8;
        [self.x - half, self.x + half, self.y - 13.0, self.y + 3.0]
    }

    fn meets(&self, other: [f64; 4]) -> bool {
        let [left, right, top, bottom] = self.room();
        left < other[1] && other[0] < right && top < other[3] && other[2] < bottom
    }

    fn draw(&self) -> Markup {
        let class = if self.is_knee {
            "number knee"
        } else {
            "number"
        };
        html! { text class=(class) x=(at(self.x)) y=(at(self.y)) text-anchor="middle" { (self.text) } }
    }
}

/// The label of each point, where it meets no point and no label: above it, below it, or further away. The knee's own comes
/// first, since it is the longest.
fn labels(plane: &Plane, points: &[(&Judged, f64, f64)], knee: Option<u32>) -> Vec<Label> {
    let dots: Vec<[f64; 4]> = points
        .iter()
        .map(|(step, per_s, ms)| {
            let (x, y) = (plane.x(*per_s), plane.y(*ms));
            let radius = if knee == Some(step.figures.number) {
                17.0
            } else {
                7.0
            };
            [x - radius, x + radius, y - radius, y + radius]
        })
        .collect();
    let mut ordered: Vec<_> = points.iter().collect();
    ordered.sort_by_key(|(step, ..)| knee != Some(step.figures.number));
    let mut placed: Vec<Label> = Vec::new();
    for (step, per_s, ms) in ordered {
        let number = step.figures.number;
        let is_knee = knee == Some(number);
        let text = if is_knee {
            format!("knee, step {number}: {}/s", rate(Some(*per_s)))
        } else {
            number.to_string()
        };
        let (x, y) = (plane.x(*per_s), plane.y(*ms));
        let half = text.len() as f64 * 4.8;
        let aside = half + if is_knee { 20.0 } else { 12.0 };
        let up = if is_knee { 22.0 } else { 12.0 };
        let label = |(x, y): (f64, f64)| Label {
            text: text.clone(),
            is_knee,
            x: x.clamp(half, WIDTH - half),
            y: y.clamp(14.0, HEIGHT - BOTTOM - 4.0),
        };
        let rings = (0..6).map(|ring| f64::from(ring) * 16.0);
        let tries = rings.flat_map(|more| {
            [
                (x, y - up - more),
                (x, y + up + 11.0 + more),
                (x - aside - more, y + 5.0),
                (x + aside + more, y + 5.0),
            ]
        });
        let free = |label: &Label| {
            let labels = placed.iter().map(Label::room);
            !dots
                .iter()
                .copied()
                .chain(labels)
                .any(|other| label.meets(other))
        };
        let found = tries.map(label).find(free);
        // Where there is no room at all, it stands above its point all the same.
        placed.push(found.unwrap_or_else(|| label((x, y - up))));
    }
    placed
}

fn at(unit: f64) -> String {
    format!("{unit:.1}")
}

fn tick_words(ms: f64) -> String {
    if ms >= 1.0 {
        format!("{ms:.0}")
    } else {
        format!("{ms:.3}").trim_end_matches('0').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use ax_agent::load::analyze;

    use super::*;
    use crate::load::page::tests::fixture;

    #[test]
    fn ticks_are_round() {
        assert_eq!(round_ticks(255.0), [0.0, 50.0, 100.0, 150.0, 200.0, 250.0]);
        assert_eq!(round_ticks(7.9), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        for most in [1.0, 3.3, 12.0, 999.0, 1_001.0, 48_000.0] {
            assert!((3..=9).contains(&round_ticks(most).len()), "{most}");
        }
    }

    /// Steps of a search lie close to each other, and each number must be read.
    #[test]
    fn labels_meet_neither_points_nor_each_other() {
        let analysis = analyze(&fixture());
        let mut points: Vec<_> = analysis
            .steps
            .iter()
            .map(|step| (step, 230.0 + f64::from(step.figures.number), 3.0))
            .collect();
        points[0].1 = 50.0;
        let plane = Plane {
            most_per_s: 255.0,
            floor_ms: 0.1,
            top_ms: 100.0,
        };
        let labels = labels(&plane, &points, analysis.knee.step);
        assert_eq!(labels.len(), points.len());
        for (at, label) in labels.iter().enumerate() {
            for other in &labels[at + 1..] {
                assert!(
                    !label.meets(other.room()),
                    "{} and {}",
                    label.text,
                    other.text
                );
            }
            let [left, right, top, bottom] = label.room();
            assert!(left >= 0.0 && right <= WIDTH && top >= 0.0 && bottom <= HEIGHT);
        }
    }
}
