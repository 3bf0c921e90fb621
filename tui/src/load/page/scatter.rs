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
                @for part in 0..=4 {
                    @let per_s = most_per_s * f64::from(part) / 4.0;
                    text.label x=(at(plane.x(per_s))) y=(HEIGHT - BOTTOM + 24.0) text-anchor=(if part == 4 { "end" } else { "middle" }) {
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
        @if is_knee {
            text.number.knee x=(at(x - 22.0)) y=(at(y + 5.0)) text-anchor="end" {
                "knee, step " (step.figures.number) ": " (rate(Some(per_s))) "/s"
            }
        } @else {
            text.number x=(at(x)) y=(at(y - 12.0)) text-anchor="middle" { (step.figures.number) }
        }
    }
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
