//! Where things stand on the last frame, for whoever points at them.

use ratatui::layout::{Position, Rect};

use crate::{
    screens::{Mode, Panel},
    timeline::Span,
    widget::table,
};

/// What can be pointed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Tab(Mode),
    Panel(Panel),
    /// A heading of the panel's table, by the place of its column.
    Heading(Panel, usize),
    /// A row of the panel's table, by its place among those that are seen.
    Row(Panel, usize),
    /// A chart: the time that it shows, and where its first column stands.
    Chart(Span, u16),
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    /// What lies on top comes last.
    targets: Vec<(Rect, Target)>,
    /// Rows that each panel has room for, headings left out.
    pages: Vec<(Panel, u16)>,
    /// Columns that each panel has room for.
    widths: Vec<(Panel, u16)>,
    /// Columns of the widest chart.
    pub chart_columns: u16,
}

impl Drawn {
    pub fn add(&mut self, area: Rect, target: Target) {
        if let Target::Chart(span, _) = target {
            self.chart_columns = self.chart_columns.max(span.columns);
        }
        self.targets.push((area, target));
    }

    /// A panel with so much room for its rows.
    pub fn add_panel(&mut self, panel: Panel, area: Rect, rows: u16) {
        self.add(area, Target::Panel(panel));
        self.pages.push((panel, rows));
        self.widths.push((panel, area.width));
    }

    /// The parts of a panel's table.
    pub fn add_table(&mut self, panel: Panel, table: table::Drawn) {
        for (area, column) in table.headings {
            self.add(area, Target::Heading(panel, column));
        }
        for (area, row) in table.rows {
            self.add(area, Target::Row(panel, row));
        }
    }

    /// What lies at a place, the topmost first.
    pub fn at(&self, column: u16, row: u16) -> impl Iterator<Item = Target> + '_ {
        let place = Position::new(column, row);
        let hit = self.targets.iter().rev();
        hit.filter(move |(area, _)| area.contains(place))
            .map(|(_, target)| *target)
    }

    /// The rows that a panel has room for; what most screens have before a frame has been drawn.
    pub fn page(&self, panel: Panel) -> u16 {
        let known = self.pages.iter().find(|(known, _)| *known == panel);
        known.map_or(20, |(_, rows)| *rows)
    }

    /// The columns that a panel has room for; plenty before a frame has been drawn.
    pub fn width(&self, panel: Panel) -> u16 {
        let known = self.widths.iter().find(|(known, _)| *known == panel);
        known.map_or(u16::MAX, |(_, width)| *width)
    }
}
