//! A list of a screen whatever its rows are, so that keys need not know them: a table, where its rows come from, and what
//! is told of the selected one.

use std::borrow::Cow;

use ratatui::{buffer::Buffer, layout::Rect};

use crate::{
    app::App,
    theme::Theme,
    widget::table::{SortBy, Table, TableState, TableView},
};

/// The selected row in full, below its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    pub first: String,
    pub second: String,
}

/// See the module.
pub struct List<R: Clone + 'static> {
    pub table: &'static Table<R>,
    /// Its rows now.
    pub rows: for<'a> fn(&'a App) -> Cow<'a, [R]>,
    /// The selected row in full, where its cells do not tell all.
    pub detail: Option<fn(&R) -> Detail>,
}

/// A [`List`] of any rows.
pub trait AnyList: Sync {
    /// The heading of its table.
    fn title(&self) -> &'static str;

    /// Makes room for the rows there are now.
    fn sync(&self, app: &App, state: &mut TableState);

    /// Puts the rows in order, at this width of the table.
    fn sort(&self, app: &App, state: &mut TableState, by: SortBy, width: u16);

    /// Draws the table.
    fn draw(&self, app: &App, state: &TableState, look: Look, area: Rect, buf: &mut Buffer);

    /// What stands in the title of its panel: the part that finds room at this height, and what it is sorted by.
    fn remarks(&self, app: &App, state: &TableState, height: u16) -> Vec<String>;

    /// The selected row in full.
    fn detail(&self, app: &App, state: &TableState) -> Option<Detail>;
}

/// How a list is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Whether the keys act on it: only then the selected row is marked.
    pub focused: bool,
    pub theme: Theme,
}

impl<R: Clone + Sync> List<R> {
    fn view<'a>(&self, rows: &'a [R], state: &'a TableState, look: Look) -> TableView<'a, R> {
        TableView {
            table: self.table,
            rows,
            state,
            focused: look.focused,
            theme: look.theme,
        }
    }
}

impl<R: Clone + Sync> AnyList for List<R> {
    fn title(&self) -> &'static str {
        self.table.title
    }

    fn sync(&self, app: &App, state: &mut TableState) {
        state.sync(self.table, &(self.rows)(app));
    }

    fn sort(&self, app: &App, state: &mut TableState, by: SortBy, width: u16) {
        state.sort(self.table, &(self.rows)(app), by, width);
    }

    fn draw(&self, app: &App, state: &TableState, look: Look, area: Rect, buf: &mut Buffer) {
        self.view(&(self.rows)(app), state, look).draw(area, buf);
    }

    fn remarks(&self, app: &App, state: &TableState, height: u16) -> Vec<String> {
        let rows = (self.rows)(app);
        let part = state.part(rows.len(), height);
        part.into_iter()
            .chain(state.sorted_by(self.table))
            .collect()
    }

    fn detail(&self, app: &App, state: &TableState) -> Option<Detail> {
        let rows = (self.rows)(app);
        let selected = state.selected_row(self.table, &rows)?;
        self.detail.map(|detail| detail(selected))
    }
}
