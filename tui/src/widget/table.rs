//! One table for all the lists: fixed columns, a selected row, and rows that keep their place until somebody asks to
//! sort them.

use std::{cmp::Ordering, collections::HashMap};

use ratatui::{
    buffer::Buffer,
    layout::{HorizontalAlignment as Alignment, Rect},
};

use crate::{
    format::{self, middle_cut},
    theme::{Theme, Tone},
    widget::fitting,
};

/// What tells a row from the others, from one second to the next.
pub type RowKey = String;

/// The text of one cell.
#[derive(Clone, Debug)]
pub struct Cell {
    pub text: String,
    pub tone: Tone,
}

impl Cell {
    pub fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Tone::Plain)
    }

    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self {
            text: text.into(),
            tone,
        }
    }
}

/// What a row is sorted by.
#[derive(Clone, Debug, PartialEq)]
pub enum SortKey {
    Text(String),
    /// Unknown comes last, whichever way the numbers run.
    Number(Option<f64>),
}

impl SortKey {
    pub fn number(value: Option<u64>) -> Self {
        Self::Number(value.map(|value| value as f64))
    }

    fn compare(&self, other: &Self, descending: bool) -> Ordering {
        let directed = |order: Ordering| if descending { order.reverse() } else { order };
        match (self, other) {
            (Self::Number(Some(a)), Self::Number(Some(b))) => directed(a.total_cmp(b)),
            (Self::Number(a), Self::Number(b)) => b.is_some().cmp(&a.is_some()),
            (Self::Text(a), Self::Text(b)) => directed(a.cmp(b)),
            (Self::Text(_), Self::Number(_)) | (Self::Number(_), Self::Text(_)) => Ordering::Equal,
        }
    }
}

/// One column.
pub struct Column<R> {
    /// Its heading, with the unit.
    pub title: &'static str,
    /// In characters. The first column takes what the others leave, and at least this.
    pub width: u16,
    pub align: Alignment,
    /// The columns of the lowest go first when the table gets narrow.
    pub keep: u8,
    pub cell: fn(&R) -> Cell,
    pub sort: fn(&R) -> SortKey,
}

/// A kind of table: the same for all rows it will ever show.
pub struct Table<R: 'static> {
    pub title: &'static str,
    pub columns: &'static [Column<R>],
    pub row_key: fn(&R) -> RowKey,
    pub order: RowOrder,
    /// What stands in place of rows while there are none.
    pub empty: &'static str,
}

impl<R> Table<R> {
    /// Which columns fit into this width.
    fn shown(&self, width: u16) -> Vec<bool> {
        let widths = self.columns.iter();
        fitting(widths.map(|column| (column.width, column.keep)), width)
    }
}

/// How rows stand before anybody sorted them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// Each keeps its place, new ones come last: for things whose figures are read again and again.
    Kept,
    /// As they are handed in: for a history, newest first.
    AsGiven,
}

/// Widest that the first column grows: beyond it, figures would stand too far from the name they belong to.
const MAX_NAME_WIDTH: u16 = 40;

/// The column a table was last sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sorting {
    column: usize,
    descending: bool,
}

/// How one table is looked at.
#[derive(Clone, Debug, Default)]
pub struct TableState {
    order: Vec<RowKey>,
    selected: Option<RowKey>,
    /// Whether somebody has moved the selection. Before that, the newest row of a history is it.
    moved: bool,
    sorting: Option<Sorting>,
}

/// A step of the selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Up,
    Down,
    Top,
    Bottom,
}

/// A wish to sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortBy {
    NextColumn,
    PreviousColumn,
    /// The same column, the other way round.
    Reverse,
    /// The same column, by today's figures.
    Again,
}

impl Step {
    /// Where it leads from `at`, the last place being `last`.
    pub fn from(self, at: usize, last: usize) -> usize {
        match self {
            Self::Up => at.saturating_sub(1),
            Self::Down => (at + 1).min(last),
            Self::Top => 0,
            Self::Bottom => last,
        }
    }
}

impl TableState {
    /// Makes room for the rows there are now: known ones stay where they are, new ones come last.
    pub fn sync<R>(&mut self, table: &Table<R>, rows: &[R]) {
        let keys: Vec<RowKey> = rows.iter().map(table.row_key).collect();
        if table.order == RowOrder::AsGiven && self.sorting.is_none() {
            self.order.clear();
        }
        self.order.retain(|key| keys.contains(key));
        for key in keys {
            if !self.order.contains(&key) {
                self.order.push(key);
            }
        }
        let follows = table.order == RowOrder::AsGiven && !self.moved;
        let gone = |key: &RowKey| !self.order.contains(key);
        if follows || self.selected.as_ref().is_none_or(gone) {
            self.selected = self.order.first().cloned();
        }
    }

    /// Moves the selection.
    pub fn step(&mut self, step: Step) {
        self.moved = true;
        let last = self.order.len().saturating_sub(1);
        let to = step.from(self.selected_index(), last);
        self.selected = self.order.get(to).cloned();
    }

    /// Puts the rows in order, once, by a column that is shown at this width. The selected row stays selected.
    pub fn sort<R>(&mut self, table: &Table<R>, rows: &[R], by: SortBy, width: u16) {
        let shown = table.shown(width);
        let next = |from: usize, step: usize| {
            let count = shown.len();
            let places = (1..=count).map(|steps| (from + steps * step) % count);
            places.into_iter().find(|place| shown[*place]).unwrap_or(0)
        };
        let forward = 1;
        let back = shown.len() - 1;
        let column = |column: usize| Sorting {
            column,
            descending: rows
                .first()
                .is_none_or(|row| matches!((table.columns[column].sort)(row), SortKey::Number(_))),
        };
        let sorting = match (self.sorting, by) {
            (None, SortBy::PreviousColumn) => column(next(0, back)),
            (None, _) => column(next(back, forward)),
            (Some(now), SortBy::NextColumn) => column(next(now.column, forward)),
            (Some(now), SortBy::PreviousColumn) => column(next(now.column, back)),
            (Some(now), SortBy::Again) => now,
            (Some(now), SortBy::Reverse) => Sorting {
                descending: !now.descending,
                ..now
            },
        };
        self.sorting = Some(sorting);
        let key = table.columns[sorting.column].sort;
        let mut keyed: Vec<(SortKey, RowKey)> = rows
            .iter()
            .map(|row| (key(row), (table.row_key)(row)))
            .collect();
        keyed.sort_by(|(a, _), (b, _)| a.compare(b, sorting.descending));
        self.order = keyed.into_iter().map(|(_, key)| key).collect();
    }

    /// The row that the keys act on.
    pub fn selected(&self) -> Option<&RowKey> {
        self.selected.as_ref()
    }

    /// The same, as a row of `rows`.
    pub fn selected_row<'a, R>(&self, table: &Table<R>, rows: &'a [R]) -> Option<&'a R> {
        let selected = self.selected.as_ref()?;
        rows.iter().find(|row| (table.row_key)(row) == *selected)
    }

    fn selected_index(&self) -> usize {
        self.selected
            .as_ref()
            .and_then(|selected| self.order.iter().position(|key| key == selected))
            .unwrap_or_default()
    }

    /// The rows as they stand on the screen.
    fn in_order<'a, R>(&self, table: &Table<R>, rows: &'a [R]) -> Vec<&'a R> {
        let by_key: HashMap<RowKey, &R> =
            rows.iter().map(|row| ((table.row_key)(row), row)).collect();
        self.order
            .iter()
            .filter_map(|key| by_key.get(key).copied())
            .collect()
    }

    /// The first row that is drawn where so many find room: the selected one is always among them.
    fn first(&self, page: u16) -> usize {
        (self.selected_index() + 1).saturating_sub(usize::from(page))
    }

    /// `1-4 of 7`, where not `all` rows find room at this height, headings included.
    pub fn part(&self, all: usize, height: u16) -> Option<String> {
        let page = height.saturating_sub(1);
        let first = self.first(page);
        let last = (first + usize::from(page)).min(all);
        (all > usize::from(page)).then(|| match page {
            0 => format!("0 of {all}"),
            _ => format!("{}-{last} of {all}", first + 1),
        })
    }

    /// `by wait p99 ms ▼`, or nothing before anybody sorted.
    pub fn sorted_by<R>(&self, table: &Table<R>) -> Option<String> {
        self.sorting.map(|sorting| {
            let arrow = if sorting.descending { '▼' } else { '▲' };
            format!("by {} {arrow}", table.columns[sorting.column].title)
        })
    }
}

/// A table, its rows and how they are looked at, ready to draw.
pub struct TableView<'a, R: 'static> {
    pub table: &'a Table<R>,
    pub rows: &'a [R],
    pub state: &'a TableState,
    /// Whether the keys act on it: only then the selected row is marked.
    pub focused: bool,
    pub theme: Theme,
}

impl<R> TableView<'_, R> {
    pub fn draw(&self, area: Rect, buf: &mut Buffer) {
        if area.height == 0 || area.width == 0 {
            return;
        }
        let columns = self.visible_columns(area.width);
        let quiet = self.theme.style(Tone::Quiet);
        let headings = columns.iter().map(|(column, width)| {
            let cell = Cell::new(column.title, Tone::Quiet);
            (cell, column.align, *width)
        });
        draw_row(headings, Rect { height: 1, ..area }, buf, self.theme);
        let body = Rect {
            y: area.y + 1,
            height: area.height - 1,
            ..area
        };
        if self.rows.is_empty() && body.height > 0 {
            buf.set_stringn(
                body.x + 1,
                body.y,
                self.table.empty,
                usize::from(body.width),
                quiet,
            );
        }
        let selected = self.state.selected_index();
        let first = self.state.first(body.height);
        let rows = self.state.in_order(self.table, self.rows);
        for (y, (at, row)) in (body.top()..body.bottom()).zip(rows.iter().enumerate().skip(first)) {
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
        }
    }

    /// The columns that fit, each with its width; the first takes what the others leave.
    fn visible_columns(&self, width: u16) -> Vec<(&Column<R>, u16)> {
        let columns = self.table.columns;
        let mut visible: Vec<_> = columns
            .iter()
            .zip(self.table.shown(width))
            .filter(|(_, shown)| *shown)
            .map(|(column, _)| (column, column.width))
            .collect();
        let taken: u16 = visible.iter().map(|(_, width)| width + 1).sum();
        if let Some((_, first)) = visible.first_mut() {
            *first = (*first + width.saturating_sub(taken)).min(MAX_NAME_WIDTH);
        }
        visible
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

#[cfg(test)]
mod tests;
