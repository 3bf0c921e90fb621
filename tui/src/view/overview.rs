//! The overview at each size.

use ax_wire::view::ServiceView;
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    widgets::Widget,
};

use super::{Screen, lanes::LANES, types::TYPES};
use crate::{
    app::Panel,
    widget::table::{Table, TableState, TableView},
};

/// A panel's rule and its table's headings.
const TABLE_FRAME_ROWS: u16 = 2;

/// A table of job types below this height tells nothing.
const LEAST_TYPES_ROWS: u16 = TABLE_FRAME_ROWS + 3;

/// A rule, six rows of bars and the axis.
const LEAST_CHART_ROWS: u16 = 8;

/// Height of a panel with a table of so many rows.
fn table_rows(rows: usize) -> u16 {
    rows.clamp(1, usize::from(u8::MAX)) as u16 + TABLE_FRAME_ROWS
}

impl Screen<'_> {
    /// 110x30 and larger: everything at once. What the tables do not need goes to the charts.
    pub(super) fn wide(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
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
    pub(super) fn standard(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
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
    pub(super) fn compact(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let [figures, below] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        self.figures_line(view, figures, buf);
        self.tables(view, below, buf);
    }

    /// Lanes and job types where both have room, else the panel that has the focus.
    fn tables(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let lanes_rows = table_rows(view.lanes.len());
        let both = lanes_rows + LEAST_TYPES_ROWS <= area.height;
        match self.app.focus {
            Panel::Workers => self.workers(view, area, buf),
            Panel::Lanes | Panel::Types if both => {
                let [lanes, types] =
                    Layout::vertical([Constraint::Length(lanes_rows), Constraint::Fill(1)])
                        .areas(area);
                self.lanes(view, lanes, buf);
                self.types(view, types, buf);
            }
            Panel::Lanes => self.lanes(view, area, buf),
            Panel::Types => self.types(view, area, buf),
        }
    }

    fn lanes(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let state = &self.app.lanes;
        self.table(&LANES, &view.lanes, state, Panel::Lanes, area, buf);
    }

    fn types(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let state = &self.app.types;
        self.table(&TYPES, &view.types, state, Panel::Types, area, buf);
    }

    fn table<R>(
        &self,
        table: &Table<R>,
        rows: &[R],
        state: &TableState,
        panel: Panel,
        area: Rect,
        buf: &mut Buffer,
    ) {
        let title = format!("{}, times in ms  {}", table.title, state.sorted_by(table));
        let inner = self.panel(area, title.trim_end(), Some(panel), buf);
        let view = TableView {
            table,
            rows,
            state,
            focused: self.app.focus == panel,
            theme: self.theme,
        };
        view.render(inner, buf);
    }
}
