//! The stacks in a snapshot file: innermost first, the runtime's functions folded, the function to look at marked.

use std::sync::Arc;

use ax_agent::symbol::{
    fold::{Line, Owner, fold},
    progress::{Progress, progress},
};
use ax_wire::{
    stack::{Function, Module, StackProof, ThreadStack},
    view::ServiceView,
};
use ratatui::{buffer::Buffer, layout::HorizontalAlignment::Left, layout::Rect};

use super::Screen;
use crate::{
    export::collapsed::thread,
    format::{duration, printable},
    list::Detail,
    opened::Opened,
    screens::Panel,
    theme::Tone,
    widget::table::{Cell, Column, RowOrder, SortKey, Table},
};

/// A function, or several of the runtime, as the list shows it.
#[derive(Clone, Debug)]
pub struct StackRow {
    /// Which stack: its thread, and how far into its stall.
    of: Arc<str>,
    /// Which of the stacks, and which of its lines: what the order is.
    at: (usize, usize),
    text: String,
    place: String,
    tone: Tone,
    /// Whether it is the function to look at.
    culprit: bool,
    /// What there is to say of it that is no name.
    remark: &'static str,
}

/// The lines of all stacks.
pub fn stack_rows(opened: &Opened) -> Vec<StackRow> {
    let stacks = opened.stacks().iter().enumerate();
    stacks
        .flat_map(|(index, stack)| {
            let of: Arc<str> = title(stack).into();
            let lines = fold(stack).into_iter().enumerate();
            let rows = lines.map(move |(line, what)| {
                let mut row = StackRow {
                    of: Arc::clone(&of),
                    at: (index, line),
                    text: String::new(),
                    place: String::new(),
                    tone: Tone::Plain,
                    culprit: false,
                    remark: "",
                };
                row.fill(&what);
                row
            });
            rows.collect::<Vec<_>>()
        })
        .collect()
}

fn title(stack: &ThreadStack) -> String {
    format!("{}, {}", thread(stack), duration(stack.stall_age_ns))
}

impl StackRow {
    fn fill(&mut self, line: &Line<'_>) {
        match line {
            Line::Function {
                function,
                owner,
                culprit,
            } => {
                self.text = printable(&function.name);
                self.place = place(function);
                self.culprit = *culprit;
                self.tone = match owner {
                    _ if *culprit => Tone::Strong,
                    Owner::User => Tone::Plain,
                    Owner::Library | Owner::Runtime => Tone::Quiet,
                };
                self.remark = match owner {
                    _ if *culprit => "the function to look at",
                    Owner::Library => "of a crate that the service uses",
                    Owner::User | Owner::Runtime => "",
                };
            }
            Line::Unnamed { module, offset } => {
                let module = module.map_or("outside any file", Module::name);
                self.text = printable(&format!("{module} + {offset:#x}"));
                self.remark = "without a name: ax-top symbolize FILE --with BINARY";
            }
            Line::Runtime {
                functions,
                innermost,
            } => {
                self.text = match functions {
                    1 => printable(&innermost.name),
                    _ => printable(&format!("{} and {} more", innermost.name, functions - 1)),
                };
                self.tone = Tone::Quiet;
                self.remark = "of the runtime";
            }
        }
    }

    /// Its name and its place in full.
    pub fn detail(&self) -> Detail {
        let second = [self.place.as_str(), self.remark].into_iter();
        let second: Vec<_> = second.filter(|text| !text.is_empty()).collect();
        Detail {
            first: self.text.clone(),
            second: second.join("  "),
        }
    }
}

fn place(function: &Function) -> String {
    let line = function
        .line
        .map_or_else(String::new, |line| format!(":{line}"));
    let file = function.file.as_deref();
    file.map_or_else(String::new, |file| printable(&format!("{file}{line}")))
}

/// One row a line.
pub static STACKS: Table<StackRow> = Table {
    title: "Stacks, innermost first",
    empty: "no stack was taken: no worker was stuck, or the service takes none (Builder::stacks)",
    order: RowOrder::AsGiven,
    row_key: |row| format!("{}/{}", row.at.0, row.at.1),
    columns: &[
        Column {
            title: "",
            width: 2,
            align: Left,
            keep: 20,
            cell: |row| Cell::new(if row.culprit { "->" } else { "" }, Tone::Strong),
            sort: |row| SortKey::number(Some(u64::from(!row.culprit))),
        },
        Column {
            title: "function",
            width: 52,
            align: Left,
            keep: 19,
            cell: |row| Cell::new(row.text.clone(), row.tone),
            sort: |row| SortKey::Text(row.text.clone()),
        },
        Column {
            title: "of",
            width: 18,
            align: Left,
            keep: 18,
            cell: |row| Cell::new(row.of.to_string(), Tone::Quiet),
            sort: |row| SortKey::Text(row.of.to_string()),
        },
        Column {
            title: "where",
            width: 40,
            align: Left,
            keep: 5,
            cell: |row| Cell::new(row.place.clone(), row.tone),
            sort: |row| SortKey::Text(row.place.clone()),
        },
    ],
};

impl Screen<'_> {
    pub fn stacks(&self, _: &ServiceView, area: Rect, buf: &mut Buffer) {
        let stacks = self.app.opened.as_deref().map_or(&[][..], Opened::stacks);
        self.history(Panel::Stacks, note(stacks), area, buf);
    }
}

/// What the stacks say together.
fn note(stacks: &[ThreadStack]) -> Option<String> {
    let pairs = stacks.windows(2).filter_map(|pair| {
        let moved = match progress(&pair[0], &pair[1])? {
            Progress::None => "does not move: the same stack later on".to_owned(),
            Progress::Within(function) => format!("moves within {}", printable(&function.name)),
            Progress::Elsewhere => "moves".to_owned(),
        };
        Some(format!("{} {moved}", thread(&pair[1])))
    });
    let unsure = stacks
        .iter()
        .any(|stack| stack.proof != StackProof::SamePoll);
    let unsure = unsure.then(|| "a stack may be of another poll of the same busy time".to_owned());
    let all: Vec<_> = pairs.chain(unsure).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;
    use crate::{
        app::App,
        glyphs::Glyphs,
        keys::Action,
        opened::tests::{fixture, with_stacks},
        screens::Mode,
        theme::Theme,
    };

    fn drawn(opened: Opened, width: u16) -> String {
        let mut app = App::of_file(opened, TimeZone::UTC);
        app.update(Action::Open(Mode::Stacks), 0);
        let mut terminal = Terminal::new(TestBackend::new(width, 24)).expect("draws in memory");
        let screen = Screen::new(&app, Theme::with_colour(false), Glyphs::Unicode);
        let draw = terminal.draw(|frame| frame.render_widget(&screen, frame.area()));
        draw.expect("draws in memory");
        let rows = terminal.backend().buffer().content().chunks(width.into());
        // Without the tabs above, which are not of this screen.
        let lines = rows.skip(1).map(|row| {
            let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
            line.trim_end().to_owned()
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_function_to_look_at_is_marked_and_a_long_name_is_cut_in_the_middle() {
        let mut opened = with_stacks();
        let incident = opened.snapshot.incident.as_mut().expect("has one");
        let long = format!("demo::{}::the_end_of_a_long_name", "middle::".repeat(12));
        incident.stacks[1].frames[1].functions[1].name = long;
        insta::assert_snapshot!(format!(
            "{}\n\n{}",
            drawn(opened.clone(), 120),
            drawn(opened, 80)
        ));
    }

    #[test]
    fn without_stacks_it_says_why() {
        let screen = drawn(fixture(), 120);
        assert!(screen.contains("no stack was taken"), "{screen}");
    }
}
