//! The time that the charts show: how much of it, up to when, and the instant that the cursor stands at.

use ax_wire::view::Point;

const S: u64 = 1_000_000_000;

/// Time that one column stands for, from most detail to least: 15 minutes find room in 60 columns.
const STEPS_NS: [u64; 8] = [S / 4, S / 2, S, 2 * S, 5 * S, 10 * S, 15 * S, 30 * S];

/// A second a column.
const DEFAULT: usize = 2;

/// What a point tells of: the second that it ends.
const POINT_NS: u64 = S;

/// Points come a little more than a second apart: what lies so far outside one is still told by it.
const SLACK_NS: u64 = S / 4;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// Which of [`STEPS_NS`].
    step: usize,
    /// The newest instant that is shown; `None` follows the newest point.
    end_unix_ns: Option<u64>,
    /// Where the cursor stands.
    pub cursor_unix_ns: Option<u64>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            step: DEFAULT,
            end_unix_ns: None,
            cursor_unix_ns: None,
        }
    }
}

impl Timeline {
    /// Whether it shows the newest.
    pub fn follows(&self) -> bool {
        self.end_unix_ns.is_none()
    }

    /// More detail, or less where it is negative.
    pub fn zoom(&mut self, steps: isize) {
        let last = STEPS_NS.len() - 1;
        self.step = self.step.saturating_add_signed(-steps).min(last);
    }

    /// A second a column.
    pub fn zoom_reset(&mut self) {
        self.step = DEFAULT;
    }

    /// As much detail as lets so much time find room in so many columns.
    pub fn zoom_to(&mut self, length_ns: u64, columns: u16) {
        let fits = |step: &u64| step.saturating_mul(u64::from(columns)) >= length_ns;
        let step = STEPS_NS.iter().position(fits);
        self.step = step.unwrap_or(STEPS_NS.len() - 1);
    }

    /// Shows the time up to this instant; up to the newest where that is not before it.
    pub fn show_until(&mut self, end_unix_ns: u64, newest_unix_ns: u64) {
        self.end_unix_ns = (end_unix_ns < newest_unix_ns).then_some(end_unix_ns);
    }

    /// Back to the newest, without a cursor.
    pub fn now(&mut self) {
        self.end_unix_ns = None;
        self.cursor_unix_ns = None;
    }

    /// What so many columns show, the newest point being of that instant.
    pub fn span(&self, newest_unix_ns: u64, columns: u16) -> Span {
        let step_ns = STEPS_NS[self.step];
        let end = self.end_unix_ns.unwrap_or(newest_unix_ns);
        // A column of several seconds begins at a whole multiple of them, so that its bar does not change as time goes on.
        let end_unix_ns = if step_ns > POINT_NS {
            end.div_ceil(step_ns).saturating_mul(step_ns)
        } else {
            end
        };
        Span {
            end_unix_ns,
            step_ns,
            columns,
        }
    }
}

/// The time that a chart shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The end of the last column.
    pub end_unix_ns: u64,
    /// What one column stands for.
    pub step_ns: u64,
    pub columns: u16,
}

impl Span {
    /// From the beginning of the first column to the end of the last.
    pub fn length_ns(&self) -> u64 {
        self.step_ns.saturating_mul(u64::from(self.columns))
    }

    /// When a column ends, counted from the left.
    pub fn end_of(&self, column: u16) -> u64 {
        let behind = u64::from(self.columns.saturating_sub(1).saturating_sub(column));
        self.end_unix_ns
            .saturating_sub(behind.saturating_mul(self.step_ns))
    }

    /// The column in which an instant lies, counted from the left.
    pub fn column_of(&self, unix_ns: u64) -> Option<u16> {
        let back = self.end_unix_ns.checked_sub(unix_ns)? / self.step_ns;
        let last = u64::from(self.columns.checked_sub(1)?);
        last.checked_sub(back).map(|column| column as u16)
    }

    /// What each column shows: the largest figure of its time. `None` where none is known. The points stand oldest first.
    pub fn values<'a>(
        &self,
        points: impl DoubleEndedIterator<Item = &'a Point>,
        figure: impl Fn(&Point) -> Option<f64>,
    ) -> Vec<Option<f64>> {
        let mut values = vec![None; usize::from(self.columns)];
        // What a point says of the time just before its second, for where no other says anything.
        let mut nearby = values.clone();
        let begin = self.end_unix_ns.saturating_sub(self.length_ns());
        let raise = |value: &mut Option<f64>, figure: f64| {
            *value = Some(value.map_or(figure, |known| known.max(figure)));
        };
        for point in points.rev().take_while(|point| point.at_unix_ns > begin) {
            let Some(figure) = figure(point) else {
                continue;
            };
            for column in self.columns_of(point.at_unix_ns, POINT_NS) {
                raise(&mut values[usize::from(column)], figure);
            }
            for column in self.columns_of(point.at_unix_ns, POINT_NS + SLACK_NS) {
                raise(&mut nearby[usize::from(column)], figure);
            }
        }
        for (value, nearby) in values.iter_mut().zip(nearby) {
            *value = value.or(nearby);
        }
        values
    }

    /// The columns whose middle lies in the time of this length that ends at the instant; where a column stands for more
    /// than a second, the one in which the middle of the second lies.
    fn columns_of(&self, at_unix_ns: u64, length_ns: u64) -> std::ops::Range<u16> {
        let column = |unix_ns: u64| {
            let begin = self.end_unix_ns.saturating_sub(self.length_ns());
            let columns = unix_ns.saturating_sub(begin) / self.step_ns;
            columns.min(u64::from(self.columns)) as u16
        };
        if self.step_ns > POINT_NS {
            let middle = column(at_unix_ns.saturating_sub(POINT_NS / 2));
            return middle..middle.saturating_add(1).min(self.columns);
        }
        // A middle lies half a step behind the beginning of its column.
        let half = self.step_ns / 2;
        let first_behind = |unix_ns: u64| column((unix_ns + half).saturating_sub(1));
        first_behind(at_unix_ns.saturating_sub(length_ns) + 1)..first_behind(at_unix_ns + 1)
    }
}

/// The point that tells of an instant: the one whose second it lies in.
pub fn point_at<'a>(points: impl Iterator<Item = &'a Point>, unix_ns: u64) -> Option<&'a Point> {
    let mut later = points.skip_while(|point| point.at_unix_ns < unix_ns);
    later
        .next()
        .filter(|point| point.at_unix_ns < unix_ns.saturating_add(POINT_NS + SLACK_NS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: u64 = 1_000 * S;

    /// A point every so many nanoseconds, the newest at [`T`], each with the number of its place.
    fn points(count: u64, apart_ns: u64) -> Vec<Point> {
        let point = |place: u64| Point {
            at_unix_ns: T - (count - 1 - place) * apart_ns,
            lag_p50_ns: None,
            lag_max_ns: Some(place),
            cpus_used: None,
            rss_bytes: None,
            busy_shares: Vec::new(),
            running: 0,
            pending: 0,
            finished_per_s: None,
        };
        (0..count).map(point).collect()
    }

    fn drawn(timeline: Timeline, points: &[Point], columns: u16) -> Vec<Option<u64>> {
        let span = timeline.span(T, columns);
        let values = span.values(points.iter(), |point| point.lag_max_ns.map(|ns| ns as f64));
        values
            .iter()
            .map(|value| value.map(|value| value as u64))
            .collect()
    }

    #[test]
    fn a_second_a_column_is_where_it_starts() {
        let shown = drawn(Timeline::default(), &points(3, S), 5);
        assert_eq!(shown, [None, None, Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn points_that_drift_leave_no_gap_and_a_lost_one_does() {
        let mut all = points(400, S + 3_000_000);
        assert!(
            drawn(Timeline::default(), &all, 300)
                .iter()
                .all(Option::is_some)
        );
        all.remove(390);
        let gaps = drawn(Timeline::default(), &all, 300);
        assert_eq!(gaps.iter().filter(|value| value.is_none()).count(), 1);
    }

    #[test]
    fn zoomed_out_a_column_shows_the_largest_and_stays_what_it_was() {
        let mut timeline = Timeline::default();
        timeline.zoom(-2);
        assert_eq!(drawn(timeline, &points(10, S), 3), [None, Some(4), Some(9)]);
        let later = timeline.span(T + 2 * S, 3);
        assert_eq!(
            later.end_unix_ns,
            T + 5 * S,
            "whole multiples of five seconds"
        );
        for _ in 0..20 {
            timeline.zoom(-1);
        }
        assert_eq!(timeline.span(T, 60).length_ns(), 30 * 60 * S);
    }

    #[test]
    fn zoomed_in_a_point_takes_several_columns() {
        let mut timeline = Timeline::default();
        timeline.zoom(9);
        let shown = drawn(timeline, &points(2, S), 6);
        assert_eq!(
            shown,
            [Some(0), Some(0), Some(1), Some(1), Some(1), Some(1)]
        );
    }

    #[test]
    fn it_can_look_back_and_returns() {
        let mut timeline = Timeline::default();
        timeline.show_until(T - 2 * S, T);
        assert!(!timeline.follows());
        assert_eq!(drawn(timeline, &points(5, S), 2), [Some(1), Some(2)]);
        timeline.show_until(T + S, T);
        assert!(timeline.follows(), "there is nothing newer than now");
    }

    #[test]
    fn what_was_dragged_over_finds_room() {
        let mut timeline = Timeline::default();
        timeline.zoom_to(100 * S, 60);
        assert_eq!(timeline.span(T, 60).step_ns, 2 * S);
        timeline.zoom_to(u64::MAX, 60);
        assert_eq!(timeline.span(T, 60).step_ns, 30 * S);
        timeline.zoom_to(0, 60);
        assert_eq!(timeline.span(T, 60).step_ns, S / 4);
    }

    #[test]
    fn the_cursor_reads_the_point_of_its_second() {
        let all = points(3, S);
        let at = |unix_ns| point_at(all.iter(), unix_ns).and_then(|point| point.lag_max_ns);
        assert_eq!(at(T), Some(2));
        assert_eq!(at(T - S / 2), Some(2));
        assert_eq!(at(T - S), Some(1));
        assert_eq!(at(T + 1), None);
        assert_eq!(at(T - 10 * S), None);
    }

    #[test]
    fn columns_and_instants_answer_each_other() {
        let span = Timeline::default().span(T, 60);
        for column in [0, 1, 30, 59] {
            assert_eq!(span.column_of(span.end_of(column)), Some(column));
        }
        assert_eq!(span.column_of(T + 1), None);
        assert_eq!(span.column_of(T - 60 * S), None);
        assert_eq!(Timeline::default().span(T, 0).column_of(T), None);
    }
}
