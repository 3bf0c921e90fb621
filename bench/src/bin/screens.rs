//! Draws the screens of the dashboard as SVG, for the README and for whoever wants to look at them without a terminal:
//! `cargo run -p ax-bench --bin screens` writes `docs/screens/*.svg`.

use std::{fmt::Write as _, fs, path::Path};

use ax_tui::stage::{self, Palette, Stage};
use ratatui::{
    buffer::{Buffer, Cell},
    style::{Color, Modifier},
};

/// Width and height of a cell, and the size of its letters.
const CELL: (f64, f64) = (8.4, 18.0);
const FONT: f64 = 14.0;

/// Name, palette, keys, columns and rows.
type Shot = (&'static str, Palette, &'static str, u16, u16);

const SHOTS: [Shot; 8] = [
    ("overview", Palette::Dark, "1", 120, 36),
    ("overview-light", Palette::Light, "1", 120, 36),
    ("overview-colour-blind", Palette::ColourBlind, "1", 120, 36),
    ("overview-80x24", Palette::Dark, "1", 80, 24),
    ("cursor", Palette::Dark, "1 N", 120, 36),
    ("lanes", Palette::Dark, "2", 120, 36),
    ("alerts", Palette::Dark, "7", 120, 24),
    ("help", Palette::Dark, "?", 100, 66),
];

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/screens");
    fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for (name, palette, keys, width, height) in SHOTS {
        let mut stage = Stage::new(vec![stage::troubled(), stage::healthy(2)]);
        stage.set_palette(palette);
        // The cursor goes by what the last frame showed.
        let _ = stage.buffer(width, height);
        stage.press(keys);
        let buffer = stage.buffer(width, height);
        let path = folder.join(name).with_extension("svg");
        let svg = svg(&buffer, palette);
        fs::write(&path, svg).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        println!("{}", path.display());
    }
}

fn svg(buffer: &Buffer, palette: Palette) -> String {
    let (ground, ink) = match palette {
        Palette::Light => ("#ffffff", "#1f2328"),
        Palette::Dark | Palette::HighContrast | Palette::ColourBlind => ("#14161b", "#d7dae0"),
    };
    let (width, height) = (
        f64::from(buffer.area.width) * CELL.0,
        f64::from(buffer.area.height) * CELL.1,
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"'DejaVu Sans Mono', \
         Menlo, Consolas, monospace\" font-size=\"{FONT}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"{ground}\"/>\n"
    );
    let rows = buffer.content().chunks(usize::from(buffer.area.width));
    for (y, row) in rows.enumerate() {
        let mut x = 0;
        for run in row.chunk_by(|a, b| look(a) == look(b) && is_block(a) == is_block(b)) {
            let text: String = run.iter().map(Cell::symbol).collect();
            let cell = &run[0];
            let (left, top) = (x as f64 * CELL.0, y as f64 * CELL.1);
            let reversed = cell.modifier.contains(Modifier::REVERSED);
            if reversed {
                let paper = format!("fill=\"{}\"", hex(cell.fg, ink));
                let size = (run.len() as f64 * CELL.0, CELL.1);
                rectangle(&mut svg, (left, top), size, &paper);
            }
            let has = |modifier, attribute| {
                if cell.modifier.contains(modifier) {
                    attribute
                } else {
                    ""
                }
            };
            let run = Run {
                left,
                top,
                text: &text,
                fill: if reversed {
                    ground.to_owned()
                } else {
                    hex(cell.fg, ink)
                },
                opacity: has(Modifier::DIM, " opacity=\"0.6\""),
                bold: has(Modifier::BOLD, " font-weight=\"bold\""),
            };
            if is_block(cell) {
                run.bars(&mut svg);
            } else {
                run.words(&mut svg);
            }
            x += text.chars().count();
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn look(cell: &Cell) -> (Color, Modifier) {
    (cell.fg, cell.modifier)
}

fn is_block(cell: &Cell) -> bool {
    matches!(cell.symbol().chars().next(), Some('▁'..='█'))
}

/// Cells of one look, side by side.
struct Run<'a> {
    left: f64,
    top: f64,
    text: &'a str,
    fill: String,
    opacity: &'static str,
    bold: &'static str,
}

fn hex(colour: Color, otherwise: &str) -> String {
    match colour {
        Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
        _ => otherwise.to_owned(),
    }
}

fn rectangle(svg: &mut String, (left, top): (f64, f64), (width, height): (f64, f64), fill: &str) {
    let _ = writeln!(
        svg,
        "<rect x=\"{left:.1}\" y=\"{top:.2}\" width=\"{width:.1}\" height=\"{height:.2}\" {fill}/>"
    );
}

impl Run<'_> {
    /// Bars as rectangles: fonts leave gaps between blocks.
    fn bars(&self, svg: &mut String) {
        for (at, symbol) in self.text.chars().enumerate() {
            let eighths = f64::from(symbol as u32 - '▁' as u32 + 1);
            let height = CELL.1 * eighths / 8.0;
            let place = (self.left + at as f64 * CELL.0, self.top + CELL.1 - height);
            let fill = format!("fill=\"{}\"{}", self.fill, self.opacity);
            rectangle(svg, place, (CELL.0 + 0.1, height), &fill);
        }
    }

    /// Word by word, each where it stands: what draws the picture may make one blank of several.
    fn words(&self, svg: &mut String) {
        let mut at = 0;
        for word in self.text.split(' ') {
            let length = word.chars().count();
            if length > 0 {
                let word = word
                    .replace('&', "&amp;")
                    .replace('<', "&lt;")
                    .replace('>', "&gt;");
                let _ = writeln!(
                    svg,
                    "<text x=\"{:.1}\" y=\"{:.1}\" textLength=\"{:.1}\" fill=\"{}\"{}{}>{word}</text>",
                    self.left + at as f64 * CELL.0,
                    self.top + CELL.1 * 0.76,
                    length as f64 * CELL.0,
                    self.fill,
                    self.bold,
                    self.opacity
                );
            }
            at += length + 1;
        }
    }
}
