//! A heat strip: a share over time in one row of cells, each as tall as the share, newest at the right; what happened at
//! an instant is drawn over it as a block with a name in it.

use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
};

use crate::{
    format::middle_cut,
    theme::{Theme, Tone},
};

/// From nothing to all.
const LEVELS: [&str; 9] = ["·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// From this share on, a cell is worth a look.
const HOT: f64 = 0.9;

/// Something that lasted, from second to second before now.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    pub from_s_ago: f64,
    pub to_s_ago: f64,
    pub name: String,
}

/// See the module.
pub struct HeatStrip<'a> {
    /// A share a second, oldest first; unknown leaves a gap.
    pub shares: &'a [Option<f64>],
    /// Seconds that one cell stands for.
    pub seconds: usize,
    pub blocks: &'a [Block],
    pub theme: Theme,
}

impl HeatStrip<'_> {
    pub fn draw(&self, area: Rect, buf: &mut Buffer) {
        if area.height == 0 || area.width == 0 {
            return;
        }
        let seconds = self.seconds.max(1);
        let chunks = self.shares.rchunks(seconds);
        for (back, chunk) in (0..area.width).zip(chunks) {
            let known: Vec<f64> = chunk.iter().copied().flatten().collect();
            if known.is_empty() {
                continue;
            }
            let share = known.iter().sum::<f64>() / known.len() as f64;
            let level = (share.clamp(0.0, 1.0) * 8.0).round() as usize;
            // What is not zero shows.
            let level = level.max(usize::from(share > 0.005));
            let tone = if share >= HOT {
                Tone::Warning
            } else {
                Tone::Plain
            };
            if let Some(cell) = buf.cell_mut(Position::new(area.right() - 1 - back, area.y)) {
                cell.set_symbol(LEVELS[level]);
                cell.set_style(self.theme.style(tone));
            }
        }
        for block in self.blocks {
            self.block(block, area, buf);
        }
    }

    /// A block is at least a cell wide, and shows as much of its name as it has room for.
    fn block(&self, block: &Block, area: Rect, buf: &mut Buffer) {
        let cells = |s_ago: f64| s_ago / self.seconds.max(1) as f64;
        let right = cells(block.to_s_ago.max(0.0)).floor();
        if right >= f64::from(area.width) {
            return;
        }
        let left = cells(block.from_s_ago).ceil().max(right + 1.0);
        let left = left.min(f64::from(area.width));
        let (x, width) = (area.right() - left as u16, (left - right) as u16);
        let style = self.theme.style(Tone::Critical);
        let text = if width >= 5 {
            let name = middle_cut(&block.name, usize::from(width) - 2);
            format!("█{name:█<width$}", width = usize::from(width) - 1)
        } else {
            "█".repeat(usize::from(width))
        };
        buf.set_stringn(x, area.y, text, usize::from(width), style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(shares: &[Option<f64>], seconds: usize, blocks: &[Block], width: u16) -> String {
        let area = Rect::new(0, 0, width, 1);
        let mut buf = Buffer::empty(area);
        let strip = HeatStrip {
            shares,
            seconds,
            blocks,
            theme: Theme::with_colour(false),
        };
        strip.draw(area, &mut buf);
        buf.content()
            .iter()
            .map(ratatui::buffer::Cell::symbol)
            .collect()
    }

    #[test]
    fn shares_are_levels_and_unknown_is_a_gap() {
        let shares = [Some(0.0), Some(0.5), None, Some(1.0)];
        assert_eq!(drawn(&shares, 1, &[], 6), "  ·▄ █");
        assert_eq!(drawn(&shares, 2, &[], 3), " ▂█");
        assert_eq!(drawn(&shares, 1, &[], 2), " █", "the newest");
    }

    #[test]
    fn a_block_is_seen_however_short_and_named_where_there_is_room() {
        let block = |from_s_ago, to_s_ago| Block {
            from_s_ago,
            to_s_ago,
            name: "render_pdf".to_owned(),
        };
        assert_eq!(drawn(&[], 1, &[block(2.3, 2.2)], 6), "   █  ");
        assert_eq!(drawn(&[], 1, &[block(15.0, 1.0)], 16), " █render_pdf███ ");
        assert_eq!(
            drawn(&[], 1, &[block(100.0, 90.0)], 6),
            "      ",
            "too long ago"
        );
        assert_eq!(drawn(&[], 1, &[block(90.0, -1.0)], 4), "████");
    }
}
