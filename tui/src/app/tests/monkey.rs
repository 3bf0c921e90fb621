//! Random keys, sizes and moves of the mouse: nothing that a hand can do ends the program.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::{buffer::Buffer, layout::Rect, widgets::Widget as _};

use super::*;
use crate::{glyphs::Glyphs, theme::Theme, view::Screen};

/// A generator that gives the same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

fn key(dice: &mut Dice, app: &App) -> KeyEvent {
    // Mostly keys that mean something.
    if dice.throw(4) > 0 {
        let bindings = app.keymap.bindings();
        let binding = &bindings[dice.throw(bindings.len() as u64) as usize];
        if let Some(chord) = binding.chords.first() {
            return chord.0[0].event();
        }
    }
    let code = match dice.throw(6) {
        0 => KeyCode::Enter,
        1 => KeyCode::Backspace,
        2 => KeyCode::F(dice.throw(13) as u8),
        _ => KeyCode::Char(char::from_u32(dice.throw(0x3000) as u32).unwrap_or('x')),
    };
    let modifiers = KeyModifiers::from_bits_truncate(dice.throw(8) as u8);
    KeyEvent::new(code, modifiers)
}

fn mouse(dice: &mut Dice) -> MouseEvent {
    let left = MouseButton::Left;
    let kinds = [
        MouseEventKind::Down(left),
        MouseEventKind::Drag(left),
        MouseEventKind::Up(left),
        MouseEventKind::ScrollDown,
        MouseEventKind::ScrollUp,
        MouseEventKind::Moved,
    ];
    MouseEvent {
        kind: kinds[dice.throw(6) as usize],
        column: dice.throw(220) as u16,
        row: dice.throw(70) as u16,
        modifiers: KeyModifiers::NONE,
    }
}

#[test]
fn nothing_that_a_hand_can_do_ends_it() {
    let events = 100_000;
    let worlds = [
        fixture::world(vec![fixture::firing(), fixture::other()]),
        fixture::world(vec![fixture::healthy()]),
        fixture::world(Vec::new()),
        World::new(),
    ];
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut app = app();
    let mut quits = 0;
    let mut size = (120, 40);
    for event in 0..events {
        match dice.throw(20) {
            0..14 => {
                let key = key(&mut dice, &app);
                app.press(&key, fixture::NOW_UNIX_NS + event);
            }
            14..18 => {
                app.point(mouse(&mut dice), fixture::NOW_UNIX_NS + event);
            }
            18 => {
                let world = &worlds[dice.throw(worlds.len() as u64) as usize];
                app.take(world.clone());
            }
            _ => size = (dice.throw(220) as u16, dice.throw(70) as u16),
        }
        if dice.throw(40) == 0 {
            let area = Rect::new(0, 0, size.0, size.1);
            let mut buffer = Buffer::empty(area);
            let screen = Screen::new(&app, Theme::with_colour(true), Glyphs::Ascii);
            (&screen).render(area, &mut buffer);
            app.drawn = screen.into_drawn();
        }
        quits += u32::from(std::mem::take(&mut app.quit));
    }
    assert!(quits > 0, "the quit key was among them");
}
