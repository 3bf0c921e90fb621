//! A table on the screen.

use ratatui::{
    buffer::Buffer,
    layout::{HorizontalAlignment as Alignment, Rect},
};

use super::{Cell, Column, Table, TableState};
use crate::{
    format::{self, middle_cut},
    theme::{Theme, Tone},
};

/// A table, its rows and how they are looked at, ready to draw.
pub struct TableView<'a, R: 'static> {
    pub table: &'a Table<R>,
    pub rows: &'a [R],
    pub state: &'a TableState,
    /// Whether the keys act on it: only then the selected row is marked.
    pub focused: bool,
    pub theme: Theme,
}

/// Where the parts of a table stand on the screen, for whoever points at them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    /// Each heading, with the place of its column.
    pub headings: Vec<(Rect, usize)>,
    /// Each row, with its place among those that are seen.
    pub rows: Vec<(Rect, usize)>,
}

impl<R> TableView<'_, R> {
    /// Draws the headings and as many rows as find room.
    pub fn draw(&self, area: Rect, buf: &mut Buffer) -> Drawn {
        let mut drawn = Drawn::default();
        if area.height == 0 || area.width == 0 {
            return drawn;
        }
        let columns: Vec<(&Column<R>, u16)> = self
            .table
            .visible(self.state.shift(), area.width)
            .into_iter()
            .map(|(place, width)| (&self.table.columns[place], width))
            .collect();
        let places = self.table.visible(self.state.shift(), area.width);
        let headings = columns.iter().map(|(column, width)| {
            let cell = Cell::new(column.title, Tone::Quiet);
            (cell, column.align, *width)
        });
        draw_row(headings, Rect { height: 1, ..area }, buf, self.theme);
        let mut x = area.x;
        for (place, width) in places {
            let heading = Rect::new(x, area.y, width + 1, 1).intersection(area);
            drawn.headings.push((heading, place));
            x = x.saturating_add(width + 1);
        }
        let body = Rect {
            y: area.y + 1,
            height: area.height - 1,
            ..area
        };
        if self.state.count() == 0 && body.height > 0 {
            let words = match self.state.filter().unknown_column(self.table) {
                _ if self.rows.is_empty() => self.table.empty.to_owned(),
                Some(name) => format!("no column begins with `{name}`; esc takes the filter away"),
                None => "no row holds to the filter; esc takes it away".to_owned(),
            };
            let quiet = self.theme.style(Tone::Quiet);
            buf.set_stringn(body.x + 1, body.y, words, usize::from(body.width), quiet);
        }
        let selected = self.state.selected_index();
        let first = self.state.first(body.height);
        let rows = self.state.in_order(self.rows).enumerate().skip(first);
        for (y, (at, row)) in (body.top()..body.bottom()).zip(rows) {
            let line = Rect {
                y,
                height: 1,
                ..area
            };
            let cells = columns
                .iter()
                .map(|(column, width)| ((column.cell)(row), column.align, *width));
            draw_row(cells, line, buf, self.theme);
            if self.focused && at == selected {
                buf.set_style(line, Theme::selection());
            }
            drawn.rows.push((line, at));
        }
        drawn
    }
}

fn draw_row(
    cells: impl Iterator<Item = (Cell, Alignment, u16)>,
    line: Rect,
    buf: &mut Buffer,
    theme: Theme,
) {
    let mut x = line.x;
    for (cell, align, width) in cells {
        let text = middle_cut(&cell.text, usize::from(width));
        let spare = width.saturating_sub(format::width(&text) as u16);
        let indent = if align == Alignment::Right { spare } else { 0 };
        let room = line.right().saturating_sub(x + 1 + indent);
        buf.set_stringn(
            x + 1 + indent,
            line.y,
            text,
            usize::from(room),
            theme.style(cell.tone),
        );
        x += width + 1;
    }
}
