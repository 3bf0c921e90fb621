//! Order, selection and room.

use ratatui::{buffer::Buffer, layout::Rect};

use super::*;
use crate::theme::Theme;

type Row = (&'static str, Option<u64>);

const WIDE: u16 = 80;

const NAME: Column<Row> = Column {
    title: "name",
    width: 4,
    align: Alignment::Left,
    keep: 9,
    cell: |row| Cell::plain(row.0),
    sort: |row| SortKey::Text(row.0.to_owned()),
};

const MS: Column<Row> = Column {
    title: "ms",
    width: 5,
    align: Alignment::Right,
    keep: 5,
    cell: |row| Cell::plain(crate::format::count(row.1)),
    sort: |row| SortKey::number(row.1),
};

static TABLE: Table<Row> = Table {
    title: "Things",
    empty: "none",
    order: RowOrder::Kept,
    row_key: |row| row.0.to_owned(),
    columns: &[NAME, MS],
};

fn shown(state: &TableState, rows: &[Row]) -> Vec<&'static str> {
    state.in_order(rows).map(|row| row.0).collect()
}

#[test]
fn rows_keep_their_place_until_asked_to_sort() {
    let mut state = TableState::default();
    let mut rows = vec![("b", Some(1)), ("a", Some(9)), ("c", None)];
    state.sync(&TABLE, &rows);
    assert_eq!(shown(&state, &rows), ["b", "a", "c"]);
    state.sort(&TABLE, &rows, SortBy::NextColumn, WIDE);
    assert_eq!(shown(&state, &rows), ["a", "b", "c"]);
    state.sort(&TABLE, &rows, SortBy::NextColumn, WIDE);
    assert_eq!(
        shown(&state, &rows),
        ["a", "b", "c"],
        "largest first, unknown last"
    );
    rows[0].1 = Some(100);
    rows.push(("d", Some(50)));
    state.sync(&TABLE, &rows);
    assert_eq!(shown(&state, &rows), ["a", "b", "c", "d"], "nothing jumps");
    state.sort(&TABLE, &rows, SortBy::Again, WIDE);
    assert_eq!(shown(&state, &rows), ["b", "d", "a", "c"]);
    state.sort(&TABLE, &rows, SortBy::Reverse, WIDE);
    assert_eq!(
        shown(&state, &rows),
        ["a", "d", "b", "c"],
        "unknown stays last"
    );
    assert_eq!(state.sorted_by(&TABLE).as_deref(), Some("by ms ▲"));
}

#[test]
fn a_history_stands_as_it_is_told_until_it_is_sorted() {
    let history = Table {
        order: RowOrder::AsGiven,
        columns: TABLE.columns,
        ..TABLE
    };
    let mut state = TableState::default();
    state.sync(&history, &[("old", Some(1))]);
    let rows = [("new", Some(2)), ("old", Some(1))];
    state.sync(&history, &rows);
    assert_eq!(shown(&state, &rows), ["new", "old"]);
    assert_eq!(state.selected().map(String::as_str), Some("new"));
    state.step(Step::Down);
    let rows = [("newer", Some(3)), ("new", Some(2)), ("old", Some(1))];
    state.sync(&history, &rows);
    assert_eq!(
        state.selected().map(String::as_str),
        Some("old"),
        "once moved, it stays"
    );
}

#[test]
fn the_selection_follows_its_row() {
    let mut state = TableState::default();
    let rows = [("b", Some(1)), ("a", Some(9))];
    state.sync(&TABLE, &rows);
    assert_eq!(state.selected().map(String::as_str), Some("b"));
    state.sort(&TABLE, &rows, SortBy::NextColumn, WIDE);
    assert_eq!(state.selected_index(), 1);
    state.step(Step::Down);
    assert_eq!(
        state.selected().map(String::as_str),
        Some("b"),
        "stops at the end"
    );
    state.step(Step::Top);
    assert_eq!(state.selected().map(String::as_str), Some("a"));
    state.sync(&TABLE, &rows[..1]);
    assert_eq!(
        state.selected().map(String::as_str),
        Some("b"),
        "its row is gone"
    );
}

#[test]
fn a_column_that_is_not_shown_is_not_sorted_by() {
    let rows = [("b", Some(1)), ("a", Some(9))];
    let mut state = TableState::default();
    state.sync(&TABLE, &rows);
    for by in [
        SortBy::NextColumn,
        SortBy::NextColumn,
        SortBy::PreviousColumn,
    ] {
        state.sort(&TABLE, &rows, by, 8);
        assert_eq!(state.sorted_by(&TABLE).as_deref(), Some("by name ▲"));
    }
    state.sort(&TABLE, &rows, SortBy::PreviousColumn, WIDE);
    assert_eq!(state.sorted_by(&TABLE).as_deref(), Some("by ms ▼"));
}

#[test]
fn what_does_not_fit_is_counted() {
    let rows = [("a", None), ("b", None), ("c", None)];
    let mut state = TableState::default();
    state.sync(&TABLE, &rows);
    let part = |state: &TableState, height| state.part(height);
    assert_eq!(part(&state, 4), None);
    assert_eq!(part(&state, 3).as_deref(), Some("1-2 of 3"));
    assert_eq!(part(&state, 1).as_deref(), Some("0 of 3"));
    state.step(Step::Bottom);
    assert_eq!(part(&state, 3).as_deref(), Some("2-3 of 3"));
}

#[test]
fn numbers_stand_right_and_a_narrow_table_loses_columns() {
    let rows = [("a_long_name", Some(7))];
    let mut state = TableState::default();
    state.sync(&TABLE, &rows);
    let view = TableView {
        table: &TABLE,
        rows: &rows,
        state: &state,
        focused: false,
        theme: Theme::with_colour(false),
    };
    let draw = |width: u16| {
        let area = Rect::new(0, 0, width, 2);
        let mut buf = Buffer::empty(area);
        view.draw(area, &mut buf);
        (0..width).map(|x| buf[(x, 1)].symbol()).collect::<String>()
    };
    assert_eq!(draw(15), " a_lo…ame     7");
    assert_eq!(draw(8), " a_l…ame");
}

#[test]
fn a_filter_narrows_by_words_and_by_figures() {
    let rows = [
        ("render_pdf", Some(5_000_000)),
        ("render_png", None),
        ("send_mail", Some(90_000_000)),
    ];
    let narrowed = |text: &str| {
        let mut state = TableState::default();
        state.set_filter(Filter::parse(text));
        state.sync(&TABLE, &rows);
        shown(&state, &rows)
    };
    assert_eq!(narrowed("").len(), 3);
    assert_eq!(narrowed("RENDER"), ["render_pdf", "render_png"]);
    assert_eq!(narrowed("!render"), ["send_mail"]);
    assert_eq!(narrowed("render !png"), ["render_pdf"]);
    assert_eq!(narrowed("!").len(), 3, "about to become something");
    assert_eq!(narrowed("name=send_mail"), ["send_mail"]);
    assert_eq!(narrowed("name!=send_mail ms>1ms"), ["render_pdf"]);
    assert_eq!(narrowed("ms>10ms"), ["send_mail"], "unknown is not more");
    assert_eq!(narrowed("ms<=5ms"), ["render_pdf"]);
    assert_eq!(narrowed("ms>=90000000"), ["send_mail"], "as it stands");
    assert_eq!(narrowed("mood=good"), [""; 0], "no such column: a word");
}

#[test]
fn what_a_filter_hides_comes_back_where_it_stood() {
    let rows = [("a", None), ("b", None), ("c", None)];
    let mut state = TableState::default();
    state.sync(&TABLE, &rows);
    state.step(Step::Down);
    state.set_filter(Filter::parse("!a !b"));
    state.sync(&TABLE, &rows);
    assert_eq!(
        (state.selected().map(String::as_str), state.count()),
        (Some("c"), 1)
    );
    assert_eq!(state.narrowed().as_deref(), Some("/!a !b 1 of 3"));
    state.set_filter(Filter::default());
    state.sync(&TABLE, &rows);
    assert_eq!(shown(&state, &rows), ["a", "b", "c"]);
    assert_eq!(state.selected().map(String::as_str), Some("c"));
}

#[test]
fn columns_are_pushed_out_to_the_left_until_the_last_is_seen() {
    let rows = [("a", Some(7))];
    let wide = Table {
        columns: &[NAME, MS, MS, MS],
        ..TABLE
    };
    let mut state = TableState::default();
    state.sync(&wide, &rows);
    assert_eq!(state.unseen(&wide, 40), None);
    assert_eq!(state.unseen(&wide, 16).as_deref(), Some("+2 columns"));
    for _ in 0..9 {
        state.scroll_sideways(&wide, 1, 16);
    }
    assert_eq!(wide.visible(state.shift(), 16), [(0, 9), (3, 5)]);
    state.scroll_sideways(&wide, -9, 16);
    assert_eq!(state.shift(), 0);
}

#[test]
fn a_heading_sorts_and_once_more_turns_round() {
    let rows = [("b", Some(1)), ("a", Some(9))];
    let mut state = TableState::default();
    state.sync(&TABLE, &rows);
    state.sort(&TABLE, &rows, SortBy::Column(1), WIDE);
    assert_eq!(state.sorted_by(&TABLE).as_deref(), Some("by ms ▼"));
    state.sort(&TABLE, &rows, SortBy::Column(1), WIDE);
    assert_eq!(shown(&state, &rows), ["b", "a"]);
    state.sort(&TABLE, &rows, SortBy::Column(7), WIDE);
    assert_eq!(state.sorted_by(&TABLE).as_deref(), Some("by ms ▲"));
}

/// What is not arranged anew each second must be, once it changes.
#[test]
fn rows_that_change_places_and_filters_that_come_and_go_are_noticed() {
    let mut state = TableState::default();
    let rows = [("b", Some(1)), ("a", Some(9))];
    state.sync(&TABLE, &rows);
    let swapped = [("a", Some(8)), ("b", Some(2))];
    state.sync(&TABLE, &swapped);
    let seen: Vec<_> = state.in_order(&swapped).copied().collect();
    assert_eq!(seen, [("b", Some(2)), ("a", Some(8))]);
    state.set_filter(Filter::parse("ms>5"));
    state.sync(&TABLE, &swapped);
    assert_eq!(shown(&state, &swapped), ["a"]);
    let later = [("a", Some(3)), ("b", Some(6))];
    state.sync(&TABLE, &later);
    assert_eq!(shown(&state, &later), ["b"], "by the figures of now");
    state.set_filter(Filter::parse(""));
    state.sync(&TABLE, &[]);
    assert_eq!((state.count(), state.selected()), (0, None));
    state.sync(&TABLE, &later);
    assert_eq!(shown(&state, &later), ["a", "b"]);
}

#[test]
fn the_first_of_what_was_asked_for_is_selected_until_somebody_moves() {
    let asked = Table {
        order: RowOrder::Asked,
        columns: TABLE.columns,
        ..TABLE
    };
    let mut state = TableState::default();
    state.sync(&asked, &[("a", None), ("b", None)]);
    state.step(Step::Down);
    state.sync(&asked, &[("c", None), ("b", None)]);
    assert_eq!(state.selected().map(String::as_str), Some("b"));
    state.begin_anew();
    state.sync(&asked, &[("c", None), ("b", None)]);
    assert_eq!(state.selected().map(String::as_str), Some("c"));
}

#[test]
fn a_name_that_no_column_has_is_said_where_nothing_is_found() {
    let rows = [
        ("b", Some(1)),
        ("0af7651916cd43dd8448eb211c80319c", Some(9)),
    ];
    let mut state = TableState::default();
    state.set_filter(Filter::parse("wiat>5"));
    state.sync(&TABLE, &rows);
    let area = Rect::new(0, 0, WIDE, 3);
    let mut buffer = Buffer::empty(area);
    let view = TableView {
        table: &TABLE,
        rows: &rows,
        state: &state,
        focused: true,
        theme: Theme::with_colour(false),
    };
    view.draw(area, &mut buffer);
    let line: String = (0..WIDE).map(|x| buffer[(x, 1)].symbol()).collect();
    assert!(line.contains("no column begins with `wiat`"), "{line}");
    let cut = Table {
        columns: &[MS],
        ..TABLE
    };
    state.set_filter(Filter::parse("0AF7651916CD43DD8448EB211C80319C"));
    state.sync(&cut, &rows);
    assert_eq!(state.count(), 1, "its cells do not show it");
}
