//! A chart over time as inline SVG. The drawing is stretched to the room there is, so text stands beside it as HTML and
//! keeps its size on a phone.

use std::fmt::Write as _;

use jiff::tz::TimeZone;
use maud::{Markup, PreEscaped, html};

use crate::format::time_of_day;

/// The drawing's own units; the style sheet says its size.
const WIDTH: f64 = 1_000.0;
const HEIGHT: f64 = 100.0;

/// How a figure becomes a height.
#[derive(Clone, Copy, Debug)]
pub enum Scale {
    /// From nothing on.
    Linear,
    /// From this figure on, for what spans several powers of ten.
    Log { floor: f64 },
}

/// One line of a chart.
pub struct Series {
    /// What it is.
    pub name: &'static str,
    /// Instants on the wall clock, oldest first; a gap where nothing is known.
    pub points: Vec<(u64, Option<f64>)>,
}

/// Up to two lines over one span of time.
pub struct Chart {
    /// What is shown, with its unit.
    pub title: &'static str,
    pub scale: Scale,
    pub series: Vec<Series>,
    /// The heights to compare with.
    pub thresholds: Vec<f64>,
    /// When the evidence was taken.
    pub at_unix_ns: u64,
}

impl Chart {
    /// Draws it; nothing where there are fewer than two points.
    pub fn draw(&self) -> Option<Markup> {
        self.draw_marked(&[])
    }

    /// The same with upright lines at these instants, a word at each.
    pub fn draw_marked(&self, marks: &[(u64, String)]) -> Option<Markup> {
        let times = || {
            let points = self.series.iter().flat_map(|series| &series.points);
            points.map(|(at, _)| *at)
        };
        let (from, to) = (times().min()?, times().max()?.max(self.at_unix_ns));
        let known = self.series.iter().flat_map(|series| &series.points);
        let highest = known
            .filter_map(|(_, value)| *value)
            .chain(self.thresholds.iter().copied())
            .fold(0.0, f64::max);
        if from == to || highest <= 0.0 {
            return None;
        }
        let plane = Plane {
            from,
            to,
            top: self.scale.top(highest),
            scale: self.scale,
        };
        Some(self.markup(&plane, marks))
    }

    fn markup(&self, plane: &Plane, marks: &[(u64, String)]) -> Markup {
        let within = |(at, _): &&(u64, String)| (plane.from..=plane.to).contains(at);
        let marks: Vec<_> = marks.iter().filter(within).collect();
        let ticks = self.scale.ticks(plane.top);
        let clock = |unix_ns| time_of_day(unix_ns, &TimeZone::UTC);
        html! {
            figure {
                figcaption {
                    (self.title)
                    @for (class, series) in ["one", "two"].iter().zip(&self.series) {
                        span.key { i class=(class) {} (series.name) }
                    }
                }
                div.plot {
                    @for tick in &ticks {
                        span style={ "bottom:" (percent(plane.share(*tick))) "%" } { (tick) }
                    }
                    @for (at, word) in &marks {
                        b style={ "left:" (percent(plane.x(*at) / WIDTH)) "%" } { (word) }
                    }
                    svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(self.title) {
                        @for tick in &ticks {
                            (level("grid", plane.y(*tick)))
                        }
                        @for (at, _) in &marks {
                            @let x = format!("{:.1}", plane.x(*at));
                            line.step x1=(x) x2=(x) y1="0" y2=(HEIGHT) {}
                        }
                        @if let Some(series) = self.series.first() {
                            path.area d=(plane.area(&series.points)) {}
                        }
                        @for (class, series) in ["one", "two"].iter().zip(&self.series) {
                            path class=(class) d=(plane.line(&series.points)) {}
                        }
                        @for threshold in &self.thresholds {
                            (level("mark", plane.y(*threshold)))
                        }
                    }
                }
                div.times {
                    span { (clock(plane.from)) }
                    span { (clock(plane.from.midpoint(plane.to))) }
                    span { (clock(plane.to)) " UTC" }
                }
            }
        }
    }
}

impl Scale {
    /// Where the drawing ends: a round figure at or above the highest.
    fn top(self, highest: f64) -> f64 {
        let power = 10_f64.powf(highest.log10().floor());
        let round = match self {
            Self::Linear => [1.0, 2.0, 5.0, 10.0],
            Self::Log { .. } => [1.0, 10.0, 10.0, 10.0],
        };
        let factor = round.into_iter().find(|factor| factor * power >= highest);
        factor.unwrap_or(10.0) * power
    }

    fn ticks(self, top: f64) -> Vec<f64> {
        match self {
            Self::Linear => vec![0.0, top / 2.0, top],
            Self::Log { floor } => {
                let ticks = std::iter::successors(Some(floor), |tick| Some(tick * 10.0));
                // A tenth more: powers of ten are not exact.
                ticks.take_while(|tick| *tick <= top * 1.1).collect()
            }
        }
    }
}

struct Plane {
    from: u64,
    to: u64,
    top: f64,
    scale: Scale,
}

impl Plane {
    /// How high a figure stands, 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => value / self.top,
            Scale::Log { floor } => {
                (value.max(floor) / floor).log10() / (self.top / floor).log10().max(1.0)
            }
        };
        share.clamp(0.0, 1.0)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT * (1.0 - self.share(value))
    }

    fn x(&self, at: u64) -> f64 {
        WIDTH * (at - self.from) as f64 / (self.to - self.from) as f64
    }

    fn line(&self, points: &[(u64, Option<f64>)]) -> String {
        let mut path = String::new();
        let mut pen = 'M';
        for (at, value) in points {
            let Some(value) = value else {
                pen = 'M';
                continue;
            };
            // Writing to a string does not fail.
            let _ = write!(path, "{pen}{:.1} {:.1}", self.x(*at), self.y(*value));
            pen = 'L';
        }
        path
    }

    /// The room below the line, run by run.
    fn area(&self, points: &[(u64, Option<f64>)]) -> String {
        let mut path = String::new();
        for run in points.split(|(_, value)| value.is_none()) {
            let (Some((first, _)), Some((last, _))) = (run.first(), run.last()) else {
                continue;
            };
            let line = self.line(run).replacen('M', "L", 1);
            let _ = write!(
                path,
                "M{:.1} {HEIGHT}{line}L{:.1} {HEIGHT}Z",
                self.x(*first),
                self.x(*last)
            );
        }
        path
    }
}

fn percent(share: f64) -> PreEscaped<String> {
    PreEscaped(format!("{:.1}", share * 100.0))
}

fn level(class: &str, y: f64) -> Markup {
    html! { line class=(class) x1="0" x2=(WIDTH) y1=(format!("{y:.1}")) y2=(format!("{y:.1}")) {} }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(u64, Option<f64>)>) -> Chart {
        Chart {
            title: "lag, ms",
            scale: Scale::Log { floor: 0.1 },
            series: vec![Series {
                name: "max",
                points,
            }],
            thresholds: vec![50.0],
            at_unix_ns: 10,
        }
    }

    #[test]
    fn a_gap_breaks_the_line_and_the_scale_ends_at_a_round_figure() {
        let points = vec![
            (0, Some(0.1)),
            (5, Some(100.0)),
            (6, None),
            (10, Some(10.0)),
        ];
        let drawn = chart(points).draw().expect("has points").into_string();
        assert!(
            drawn.contains("M0.0 100.0L500.0 0.0M1000.0 33.3"),
            "{drawn}"
        );
        assert!(drawn.contains(r#"bottom:100.0%">100<"#), "{drawn}");
    }

    #[test]
    fn marks_stand_where_they_happened_and_not_outside() {
        let points = vec![(0, Some(1.0)), (10, Some(2.0))];
        let marks = [(5, "7".to_owned()), (11, "8".to_owned())];
        let drawn = chart(points).draw_marked(&marks).expect("has points");
        let drawn = drawn.into_string();
        assert!(drawn.contains(r#"<b style="left:50.0%">7</b>"#), "{drawn}");
        assert_eq!(drawn.matches("class=\"step\"").count(), 1, "{drawn}");
    }

    #[test]
    fn without_points_there_is_no_chart() {
        assert!(chart(Vec::new()).draw().is_none());
        assert!(chart(vec![(10, Some(1.0))]).draw().is_none());
        let mut nothing = chart(vec![(0, Some(0.0)), (9, None)]);
        nothing.thresholds.clear();
        assert!(nothing.draw().is_none());
    }

    #[test]
    fn a_linear_scale_is_round() {
        assert_eq!(
            Scale::Linear.ticks(Scale::Linear.top(57.0)),
            [0.0, 50.0, 100.0]
        );
        assert_eq!(
            Scale::Linear.ticks(Scale::Linear.top(0.3)),
            [0.0, 0.25, 0.5]
        );
    }
}
