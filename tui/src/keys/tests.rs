//! No key has two meanings, and each can have another.

use std::collections::HashSet;

use super::*;

fn chord(text: &str) -> Chord {
    text.parse().expect(text)
}

fn pressed(keymap: &Keymap, text: &str) -> Pressed {
    keymap.press(&chord(text).0)
}

#[test]
fn the_default_is_sound() {
    Keymap::default().check().expect("no key has two meanings");
    let mut names = HashSet::new();
    for binding in bindings() {
        assert!(names.insert(binding.name.clone()), "{}", binding.name);
        assert!(!binding.chords.is_empty(), "{}", binding.name);
    }
}

#[test]
fn a_sequence_is_begun_before_it_is_done() {
    let keymap = Keymap::default();
    assert_eq!(pressed(&keymap, "g"), Pressed::Begun);
    assert_eq!(
        pressed(&keymap, "g g"),
        Pressed::Action(Action::Step(Step::Top))
    );
    assert_eq!(pressed(&keymap, "g q"), Pressed::Nothing);
    assert_eq!(pressed(&keymap, "ctrl-c"), Pressed::Action(Action::Quit));
    assert_eq!(pressed(&keymap, "c"), Pressed::Action(Action::Capture));
}

#[test]
fn keys_are_bound_anew_and_taken_from_who_had_them() {
    let changes = HashMap::from([("capture".to_owned(), vec![chord("ctrl-s"), chord("j")])]);
    let keymap = Keymap::with(&changes).expect("is sound");
    assert_eq!(pressed(&keymap, "ctrl-s"), Pressed::Action(Action::Capture));
    assert_eq!(pressed(&keymap, "j"), Pressed::Action(Action::Capture));
    assert_eq!(pressed(&keymap, "c"), Pressed::Nothing);
    assert_eq!(
        pressed(&keymap, "down"),
        Pressed::Action(Action::Step(Step::Down))
    );
}

#[test]
fn what_cannot_work_is_refused() {
    let with = |changes: &[(&str, &[&str])]| {
        let changes = changes.iter().map(|(name, chords)| {
            let chords = chords.iter().map(|text| chord(text)).collect();
            ((*name).to_owned(), chords)
        });
        Keymap::with(&changes.collect())
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    let refused = |changes: &[(&str, &[&str])]| with(changes).expect_err("cannot work");
    assert!(refused(&[("qiut", &["x"])]).contains("no action `qiut`"));
    assert!(refused(&[("copy", &["x"]), ("redraw", &["x"])]).contains("`x` is bound to"));
    assert!(refused(&[("copy", &["g"])]).contains("hides `gg`"));
    assert!(refused(&[("quit", &[])]).contains("quit"));
    assert_eq!(with(&[("capture", &[])]), Ok(()), "one may do without");
}

#[test]
fn what_is_left_without_a_key_is_known() {
    assert!(Keymap::default().keyless().is_empty());
    let help = HashMap::from([("help".to_owned(), vec![chord("esc")])]);
    let keymap = Keymap::with(&help).expect("is right");
    assert_eq!(keymap.keyless(), ["back"]);
}
