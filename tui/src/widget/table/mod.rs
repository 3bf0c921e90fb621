//! One table for all the lists: fixed columns, a selected row, and rows that keep their place until somebody asks to
//! sort them.

mod draw;
mod filter;
mod state;

use std::cmp::Ordering;

use ratatui::layout::HorizontalAlignment as Alignment;

pub use self::{
    draw::{Drawn, TableView},
    filter::Filter,
    state::TableState,
};
use crate::{theme::Tone, widget::fitting};

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

    /// The figure, where it is one and known.
    pub fn figure(&self) -> Option<f64> {
        match self {
            Self::Number(figure) => *figure,
            Self::Text(_) => None,
        }
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
    /// The columns that stand in this width, each by its place and with its width; the first takes what the others
    /// leave. `shift` columns behind the first are pushed out to the left; with none, the least important give way.
    fn visible(&self, shift: usize, width: u16) -> Vec<(usize, u16)> {
        let widths = || self.columns.iter().map(|column| column.width);
        let mut visible: Vec<(usize, u16)> = if shift == 0 {
            let parts = self
                .columns
                .iter()
                .map(|column| (column.width, column.keep));
            let shown = fitting(parts, width);
            let all = widths().enumerate();
            all.filter(|(place, _)| shown[*place]).collect()
        } else {
            let mut left = width;
            let shifted = widths()
                .enumerate()
                .take(1)
                .chain(widths().enumerate().skip(1 + shift));
            let fits = |(_, column): &(usize, u16)| match left.checked_sub(column + 1) {
                Some(rest) => {
                    left = rest;
                    true
                }
                None => false,
            };
            shifted.take_while(fits).collect()
        };
        let taken: u16 = visible.iter().map(|(_, width)| width + 1).sum();
        if let Some((0, first)) = visible.first_mut() {
            *first = (*first + width.saturating_sub(taken)).min(MAX_NAME_WIDTH);
        }
        visible
    }

    /// The farthest that the columns can be pushed out to the left: so that the last one is seen.
    fn last_shift(&self, width: u16) -> usize {
        let last = self.columns.len().saturating_sub(1);
        let seen = |shift: &usize| {
            let visible = self.visible(*shift, width);
            visible.last().is_some_and(|(place, _)| *place == last)
        };
        (1..last).find(seen).unwrap_or(last.saturating_sub(1))
    }
}

/// How rows stand before anybody sorted them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// Each keeps its place, new ones come last: for things whose figures are read again and again.
    Kept,
    /// As they are handed in: for a history, newest first.
    AsGiven,
    /// The same, also once somebody has sorted: who hands them in puts them in the order that is asked for.
    Asked,
}

/// Widest that the first column grows: beyond it, figures would stand too far from the name they belong to.
const MAX_NAME_WIDTH: u16 = 40;

/// A step of the selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Up,
    Down,
    Top,
    Bottom,
    /// So many rows further, or back where it is negative.
    By(isize),
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
    /// This column, counted from 0; the other way round where it is this one already.
    Column(usize),
}

impl Step {
    /// Where it leads from `at`, the last place being `last`.
    pub fn from(self, at: usize, last: usize) -> usize {
        match self {
            Self::Up => at.saturating_sub(1),
            Self::Down => (at + 1).min(last),
            Self::Top => 0,
            Self::Bottom => last,
            Self::By(rows) => at.saturating_add_signed(rows).min(last),
        }
    }
}

#[cfg(test)]
mod tests;
