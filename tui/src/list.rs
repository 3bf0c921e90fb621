//! A list of a screen whatever its rows are, so that keys need not know them: a table, where its rows come from, and what
//! is told of the selected one.

use std::borrow::Cow;

use ratatui::{buffer::Buffer, layout::Rect};

use crate::{
    app::{App, export::Sheet},
    theme::Theme,
    widget::table::{Drawn, SortBy, Table, TableState, TableView},
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

    /// Pushes columns out to the left, or pulls them back in, at this width of the table.
    fn scroll_sideways(&self, state: &mut TableState, columns: isize, width: u16);

    /// Draws the table.
    fn draw(
        &self,
        app: &App,
        state: &TableState,
        look: Look,
        area: Rect,
        buf: &mut Buffer,
    ) -> Drawn;

    /// What stands in the title of its panel: what it is narrowed to, the parts that find room in this much, and what it
    /// is sorted by.
    fn remarks(&self, state: &TableState, room: Rect) -> Vec<String>;

    /// The headings of its columns, in small letters.
    fn headings(&self) -> Vec<String>;

    /// What is seen of it, as text.
    fn sheet(&self, app: &App, state: &TableState) -> Sheet;

    /// What the selected row is called: its first cell.
    fn name(&self, app: &App, state: &TableState) -> Option<String>;

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

    fn scroll_sideways(&self, state: &mut TableState, columns: isize, width: u16) {
        state.scroll_sideways(self.table, columns, width);
    }

    fn draw(
        &self,
        app: &App,
        state: &TableState,
        look: Look,
        area: Rect,
        buf: &mut Buffer,
    ) -> Drawn {
        self.view(&(self.rows)(app), state, look).draw(area, buf)
    }

    fn remarks(&self, state: &TableState, room: Rect) -> Vec<String> {
        let remarks = [
            state.narrowed(),
            state.part(room.height),
            state.unseen(self.table, room.width),
            state.sorted_by(self.table),
        ];
        remarks.into_iter().flatten().collect()
    }

    fn headings(&self) -> Vec<String> {
        let columns = self.table.columns.iter();
        columns
            .map(|column| column.title.trim().to_lowercase())
            .collect()
    }

    fn sheet(&self, app: &App, state: &TableState) -> Sheet {
        let columns = self.table.columns;
        let rows = (self.rows)(app);
        let cells = |row: &R| {
            columns
                .iter()
                .map(|column| (column.cell)(row).text)
                .collect()
        };
        Sheet {
            headings: columns.iter().map(|column| column.title).collect(),
            rows: state.in_order(&rows).map(cells).collect(),
        }
    }

    fn name(&self, app: &App, state: &TableState) -> Option<String> {
        let rows = (self.rows)(app);
        let selected = state.selected_row(self.table, &rows)?;
        let first = self.table.columns.first()?;
        Some((first.cell)(selected).text)
    }

    fn detail(&self, app: &App, state: &TableState) -> Option<Detail> {
        let rows = (self.rows)(app);
        let selected = state.selected_row(self.table, &rows)?;
        self.detail.map(|detail| detail(selected))
    }
}
