//! What is printed is read back, and what has no meaning is refused where it stands.

use super::*;
use crate::theme::Palette;

fn wrong(text: &str) -> String {
    let wrong = File::parse(text).expect_err(text);
    format!("{}: {}", wrong.line, wrong.why)
}

#[test]
fn the_printed_default_reads_as_the_default() {
    let text = default_text();
    assert_eq!(
        File::parse(&text).expect("reads"),
        File::default(),
        "{text}"
    );
    assert_eq!(File::parse("").expect("reads"), File::default());
}

#[test]
fn an_unknown_key_is_refused_with_its_line() {
    let told = wrong("mouse = false\n\nmuose = true\n");
    assert!(told.starts_with("3: unknown field `muose`"), "{told}");
    let told = wrong("[keys]\nquit = [\"q\"]\nqiut = [\"x\"]\n");
    assert!(told.starts_with("3: there is no action `qiut`"), "{told}");
    let told = wrong("[keys]\nquit = [\"ctrl-qq\"]\n");
    assert!(told.starts_with("2: no key is called `ctrl-qq`"), "{told}");
    let told = wrong("theme = \"purple\"");
    assert!(told.starts_with("1: unknown variant `purple`"), "{told}");
    let told = wrong("[keys]\ncopy = [\"x\"]\nredraw = [\"x\"]\n");
    assert!(told.starts_with("3: `x` is bound to"), "{told}");
    let told = wrong("mouse =");
    assert!(told.starts_with("1: "), "{told}");
}

#[test]
fn the_command_line_has_the_last_word() {
    let file = File {
        theme: Palette::Light,
        ..File::default()
    };
    let wishes = Wishes {
        ascii: true,
        no_mouse: true,
        readonly: true,
        ..Wishes::default()
    };
    let settings = Settings::of(file, &wishes);
    assert_eq!(settings.theme.palette(), Palette::Light);
    assert_eq!(settings.glyphs, Glyphs::Ascii);
    assert!(!settings.mouse && settings.readonly);
}

#[test]
fn a_file_that_was_named_must_be_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ax-top.toml");
    let wishes = Wishes {
        file: Some(path.clone()),
        ..Wishes::default()
    };
    let error = Settings::load(&wishes)
        .expect_err("is not there")
        .to_string();
    assert!(error.contains("ax-top.toml"), "{error}");
    fs::write(&path, "theme = \"light\"\nfoo = 1\n").expect("writes");
    let error = Settings::load(&wishes)
        .expect_err("has no meaning")
        .to_string();
    assert!(
        error.ends_with(", `keys`") && error.contains("ax-top.toml:2: unknown field `foo`"),
        "{error}"
    );
}
