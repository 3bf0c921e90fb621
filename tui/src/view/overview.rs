//! The overview at each size.

use ax_wire::view::ServiceView;
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
};

use super::{Screen, Size, lanes::LANES, types::TYPES};
use crate::{format::age, screens::Panel, theme::Theme};

/// A panel's rule and its table's headings.
const TABLE_FRAME_ROWS: u16 = 2;

/// A table of job types below this height tells nothing.
const LEAST_TYPES_ROWS: u16 = TABLE_FRAME_ROWS + 3;

/// From this height on the smallest screen names the service, and from this one on it has figures.
const LEAST_WHO_ROWS: u16 = 4;
const LEAST_FIGURES_ROWS: u16 = 8;

/// A rule, six rows of bars and the axis.
const LEAST_CHART_ROWS: u16 = 8;

/// Height of a panel with a table of so many rows.
pub(super) fn table_rows(rows: usize) -> u16 {
    rows.clamp(1, usize::from(u8::MAX)) as u16 + TABLE_FRAME_ROWS
}

impl Screen<'_> {
    pub fn overview(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        match Size::of(buf.area) {
            Size::Banner | Size::Compact => self.compact(view, area, buf),
            Size::Standard => self.standard(view, area, buf),
            Size::Wide => self.wide(view, area, buf),
        }
    }

    /// 110x30 and larger: everything at once. What the tables do not need goes to the charts.
    fn wide(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let lanes_rows = table_rows(view.lanes.len()).min(area.height / 3);
        let types_rows = table_rows(view.types.len()).max(LEAST_TYPES_ROWS);
        let room = area.height.saturating_sub(lanes_rows + types_rows);
        let [charts, lanes, types] = Layout::vertical([
            Constraint::Length(room.clamp(LEAST_CHART_ROWS, area.height / 2)),
            Constraint::Length(lanes_rows),
            Constraint::Fill(1),
        ])
        .areas(area);
        let [lag, workers, process] = Layout::horizontal([
            Constraint::Fill(1),
            Constraint::Length(38),
            Constraint::Length(31),
        ])
        .areas(charts);
        self.lag(view, lag, buf);
        self.workers(view, workers, buf);
        self.process(view, process, buf);
        self.lanes(view, lanes, buf);
        self.types(view, types, buf);
    }

    /// 80x24: the chart beside the figures that matter, the tables below.
    fn standard(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let [charts, below] =
            Layout::vertical([Constraint::Length(LEAST_CHART_ROWS), Constraint::Fill(1)])
                .areas(area);
        let [lag, figures] =
            Layout::horizontal([Constraint::Fill(1), Constraint::Length(33)]).areas(charts);
        self.lag(view, lag, buf);
        self.four_figures(view, figures, buf);
        self.tables(view, below, buf);
    }

    /// Smaller: four figures in a line, the tables below.
    fn compact(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let [figures, below] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        self.figures_line(view, figures, buf);
        self.tables(view, below, buf);
    }

    /// Smaller than anything: who, what is wrong, and from eight rows on the figures.
    pub(super) fn tiny(&self, area: Rect, buf: &mut Buffer) {
        let who = u16::from(area.height >= LEAST_WHO_ROWS);
        let figures = match self.app.view() {
            Some(_) if area.height >= LEAST_FIGURES_ROWS => 3,
            _ => 0,
        };
        let [header, banner, below] = Layout::vertical([
            Constraint::Length(who),
            Constraint::Fill(1),
            Constraint::Length(figures),
        ])
        .areas(area);
        if who > 0 {
            self.header(header, buf);
        }
        self.banner(banner, buf);
        if let Some(view) = self.app.view().filter(|_| figures > 0) {
            self.three_lines(view, below, buf);
            if !self.app.is_current() {
                buf.set_style(below, Theme::faded());
            }
        }
    }

    /// Lanes and job types where both have room, else the panel that has the focus.
    fn tables(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let lanes_rows = table_rows(view.lanes.len());
        let both = lanes_rows + LEAST_TYPES_ROWS <= area.height;
        match self.app.focused() {
            Some(Panel::Workers) => self.workers(view, area, buf),
            _ if both => {
                let [lanes, types] =
                    Layout::vertical([Constraint::Length(lanes_rows), Constraint::Fill(1)])
                        .areas(area);
                self.lanes(view, lanes, buf);
                self.types(view, types, buf);
            }
            Some(Panel::Types) => self.types(view, area, buf),
            _ => self.lanes(view, area, buf),
        }
    }

    fn lanes(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        self.list(Panel::Lanes, &lanes_title(view), area, buf);
    }

    fn types(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let title = format!("{}, ms over {}", TYPES.title, window(view));
        self.list(Panel::Types, &title, area, buf);
    }
}

/// The span that quantiles are over.
pub(super) fn window(view: &ServiceView) -> String {
    age(view.window_ns)
}

/// What the figures of lanes are over: rates fall at once when a lane comes to a stop, quantiles need many jobs.
pub(super) fn lanes_title(view: &ServiceView) -> String {
    format!("{}, ms over {}, done/s over 2 s", LANES.title, window(view))
}
