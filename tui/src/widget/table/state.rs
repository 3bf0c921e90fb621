//! How a table is looked at: order, selection, filter, and what part of it is seen.

use std::collections::{HashMap, HashSet};

use super::{Filter, RowKey, RowOrder, SortBy, SortKey, Step, Table};

/// The column a table was last sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sorting {
    column: usize,
    descending: bool,
}

/// How one table is looked at.
#[derive(Clone, Debug, Default)]
pub struct TableState {
    /// The rows as they were handed in last, unless they are to be arranged anew.
    given: Option<Vec<RowKey>>,
    /// All rows there are, in the order in which they stand.
    order: Vec<RowKey>,
    /// Those that the filter lets through, as places among the rows that were handed in last.
    visible: Vec<(RowKey, usize)>,
    selected: Option<RowKey>,
    /// Whether somebody has moved the selection. Before that, the newest row of a history is it, or the first of those that
    /// were asked for.
    moved: bool,
    sorting: Option<Sorting>,
    filter: Filter,
    /// Columns that are pushed out to the left, behind the first.
    shift: usize,
}

impl TableState {
    /// Makes room for the rows there are now: known ones stay where they are, new ones come last.
    pub fn sync<R>(&mut self, table: &Table<R>, rows: &[R]) {
        let given: Vec<RowKey> = rows.iter().map(table.row_key).collect();
        // Nearly every frame brings new figures of the rows that were there before; a filter looks at the figures.
        if self.given.as_ref() != Some(&given) || !self.filter.is_empty() {
            self.arrange(table, rows, &given);
            self.given = Some(given);
        }
        let follows = table.order != RowOrder::Kept && !self.moved;
        let gone = |key: &RowKey| !self.visible.iter().any(|(visible, _)| visible == key);
        if follows || self.selected.as_ref().is_none_or(gone) {
            self.selected = self.visible.first().map(|(key, _)| key.clone());
        }
    }

    fn arrange<R>(&mut self, table: &Table<R>, rows: &[R], given: &[RowKey]) {
        let unsorted = table.order == RowOrder::AsGiven && self.sorting.is_none();
        if unsorted || table.order == RowOrder::Asked {
            self.order.clear();
        }
        // Of two rows with one key the first stands; there should be none.
        let mut places: HashMap<&RowKey, usize> = HashMap::with_capacity(given.len());
        for (place, key) in given.iter().enumerate() {
            places.entry(key).or_insert(place);
        }
        self.order.retain(|key| places.contains_key(key));
        if self.order.len() < places.len() {
            let known: HashSet<&RowKey> = self.order.iter().collect();
            let is_new = |(place, key): &(usize, &RowKey)| {
                places.get(key) == Some(place) && !known.contains(key)
            };
            let new = given.iter().enumerate().filter(is_new);
            let new: Vec<RowKey> = new.map(|(_, key)| key.clone()).collect();
            self.order.extend(new);
        }
        let lets_through = |place: usize| self.filter.matches(table, &rows[place]);
        let visible = self.order.iter().filter_map(|key| {
            let place = *places.get(key)?;
            lets_through(place).then(|| (key.clone(), place))
        });
        self.visible = visible.collect();
    }

    /// Moves the selection.
    pub fn step(&mut self, step: Step) {
        let last = self.visible.len().saturating_sub(1);
        self.select(step.from(self.selected_index(), last));
    }

    /// Selects the first row, as if nobody had moved the selection.
    pub fn begin_anew(&mut self) {
        self.moved = false;
        self.selected = None;
    }

    /// Selects the row at this place among those that are seen.
    pub fn select(&mut self, index: usize) {
        self.moved = true;
        if let Some((key, _)) = self.visible.get(index) {
            self.selected = Some(key.clone());
        }
    }

    /// Lets only those rows be seen that hold to the filter, from the next [`TableState::sync`] on.
    pub fn set_filter(&mut self, filter: Filter) {
        self.filter = filter;
        self.given = None;
    }

    /// What the rows are narrowed to.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Pushes columns out to the left, or pulls them back in.
    pub fn scroll_sideways<R>(&mut self, table: &Table<R>, columns: isize, width: u16) {
        let farthest = table.last_shift(width);
        self.shift = self.shift.saturating_add_signed(columns).min(farthest);
    }

    /// Puts the rows in order, once, by a column that is seen at this width. The selected row stays selected.
    pub fn sort<R>(&mut self, table: &Table<R>, rows: &[R], by: SortBy, width: u16) {
        let visible = table.visible(self.shift, width);
        let seen: Vec<usize> = visible.into_iter().map(|(place, _)| place).collect();
        let next = |from: usize, step: usize| {
            let count = table.columns.len();
            let places = (1..=count).map(|steps| (from + steps * step) % count);
            places
                .into_iter()
                .find(|place| seen.contains(place))
                .unwrap_or(0)
        };
        let forward = 1;
        let back = table.columns.len().saturating_sub(1);
        let column = |column: usize| Sorting {
            column,
            descending: rows
                .first()
                .is_none_or(|row| matches!((table.columns[column].sort)(row), SortKey::Number(_))),
        };
        let sorting = match (self.sorting, by) {
            (Some(now), SortBy::Column(chosen)) if chosen == now.column => Sorting {
                descending: !now.descending,
                ..now
            },
            (_, SortBy::Column(chosen)) if chosen < table.columns.len() => column(chosen),
            (_, SortBy::Column(_)) => return,
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
        self.given = None;
        self.sync(table, rows);
    }

    /// The column that it was sorted by, and whether the largest come first.
    pub fn sorting(&self) -> Option<(usize, bool)> {
        self.sorting
            .map(|sorting| (sorting.column, sorting.descending))
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

    /// Where the selected row stands among those that are seen.
    pub fn selected_index(&self) -> usize {
        let is = |(key, _): &(RowKey, usize)| Some(key) == self.selected.as_ref();
        self.visible.iter().position(is).unwrap_or_default()
    }

    /// The rows that the filter lets through, as they stand. Rows that were not there at the last
    /// [`TableState::sync`] are not among them.
    pub fn in_order<'a, R>(&self, rows: &'a [R]) -> impl Iterator<Item = &'a R> + use<'a, '_, R> {
        self.visible
            .iter()
            .filter_map(|(_, place)| rows.get(*place))
    }

    /// How many the filter lets through.
    pub fn count(&self) -> usize {
        self.visible.len()
    }

    /// Columns that are pushed out to the left.
    pub fn shift(&self) -> usize {
        self.shift
    }

    /// The first row that is drawn where so many find room: the selected one is always among them.
    pub fn first(&self, page: u16) -> usize {
        (self.selected_index() + 1).saturating_sub(usize::from(page))
    }

    /// `1-4 of 7`, where not all rows find room at this height, headings included.
    pub fn part(&self, height: u16) -> Option<String> {
        let (page, all) = (height.saturating_sub(1), self.count());
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

    /// `/pdf 3 of 17`, where the rows are narrowed.
    pub fn narrowed(&self) -> Option<String> {
        let (text, seen, all) = (self.filter.text(), self.count(), self.order.len());
        (!self.filter.is_empty()).then(|| format!("/{text} {seen} of {all}"))
    }

    /// `+3 columns`, where not all are seen.
    pub fn unseen<R>(&self, table: &Table<R>, width: u16) -> Option<String> {
        let unseen = table.columns.len() - table.visible(self.shift, width).len();
        let plural = if unseen == 1 { "" } else { "s" };
        (unseen > 0).then(|| format!("+{unseen} column{plural}"))
    }
}
