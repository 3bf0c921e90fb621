//! What is recorded is played, from anywhere; what is no whole recording is refused with a reason.

use std::fs;

use super::{writer::Room, *};
use crate::fixture;

const S: u64 = 1_000_000_000;

const ENDLESS: Limits = Limits {
    bytes: u64::MAX,
    length_ns: u64::MAX,
};

/// A recording of so many seconds of one service; its pending jobs count them.
fn record(folder: &std::path::Path, seconds: u64) -> PathBuf {
    let path = folder.join("session.axrec");
    let mut writer = Writer::create(&path, ENDLESS).expect("is made");
    let mut view = fixture::healthy();
    let services = ax_wire::view::Services {
        services: vec![view.summary.clone()],
        ..ax_wire::view::Services::default()
    };
    writer
        .add(fixture::NOW_UNIX_NS, &ToViewer::Services(services))
        .expect("is written");
    for second in 0..seconds {
        let at = fixture::NOW_UNIX_NS + second * S;
        view.at_unix_ns = at;
        view.lanes[0].pending = second;
        if let Some(point) = &mut view.point {
            point.at_unix_ns = at;
            point.pending = second;
        }
        writer
            .add(at, &ToViewer::View(Box::new(view.clone())))
            .expect("is written");
    }
    let receipt = writer.finish().expect("is ended");
    assert_eq!(receipt.frames, seconds + 1);
    assert_eq!(receipt.bytes, fs::metadata(&path).expect("is there").len());
    path
}

fn pending(player: &mut Player, second: u64) -> Option<u64> {
    let world = player
        .go_to(fixture::NOW_UNIX_NS + second * S)
        .expect("plays")?;
    let view = world.newest_view(world.choose(None)?)?;
    Some(view.lanes[0].pending)
}

/// `F94`: replay with rewind.
#[test]
fn a_recording_is_played_from_anywhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = record(folder.path(), 2_000);
    let mut player = Player::open(&path, false).expect("opens");
    assert_eq!(
        player.contents().chunks,
        2_000_usize.div_ceil(31),
        "half a minute each"
    );
    for second in [0, 1, 40, 1_999, 3, 1_500, 1_499, 999] {
        assert_eq!(pending(&mut player, second), Some(second));
    }
    assert_eq!(pending(&mut player, 999), None, "nothing has changed");
    let world = player
        .go_to(fixture::NOW_UNIX_NS + 1_999 * S)
        .expect("plays")
        .expect("moved");
    let feed = world
        .feed(world.choose(None).expect("a service"))
        .expect("figures");
    assert_eq!(
        feed.points.len(),
        15 * 60,
        "with the quarter of an hour before"
    );
    assert_eq!(feed.points.back().map(|point| point.pending), Some(1_999));
    assert_eq!(player.services().expect("reads"), ["checkout"]);
}

#[test]
fn what_is_no_whole_recording_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = record(folder.path(), 100);
    let whole = fs::read(&path).expect("reads");
    let refused = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("writes");
        match Player::open(&path, false) {
            Ok(_) => panic!("was opened"),
            Err(error) => error.to_string(),
        }
    };
    assert!(refused(b"").contains("is no recording"));
    assert!(refused(b"{\"snapshot\": 1}").contains("is no recording"));
    assert!(refused(b"ax-recording 2\nwhatever").contains("newer ax-top (format 2"));
    assert!(refused(b"ax-recording 1\nDONE").contains("holds no frames"));
    assert!(refused(b"ax-recording 1\nJUNKJUNK").contains("damaged at byte 15"));
    for cut in [whole.len() - 1, whole.len() - 4, whole.len() - 40, 20] {
        assert!(refused(&whole[..cut]).contains("cut off"), "{cut}");
    }
    fs::write(&path, &whole[..whole.len() - 40]).expect("writes");
    let mut salvaged = Player::open(&path, true).expect("what there is");
    assert_eq!(pending(&mut salvaged, 10), Some(10));
    let mut damaged = whole.clone();
    damaged[100] ^= 0xff;
    fs::write(&path, &damaged).expect("writes");
    let mut player = Player::open(&path, false).expect("its index is right");
    let error = player
        .go_to(fixture::NOW_UNIX_NS + S)
        .expect_err("is damaged");
    assert!(error.to_string().contains("damaged"), "{error}");
}

/// No file, however it is broken, ends the program.
#[test]
fn no_byte_that_is_wrong_panics() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = record(folder.path(), 3);
    let whole = fs::read(&path).expect("reads");
    for at in 0..whole.len().min(400) {
        let mut broken = whole.clone();
        broken[at] = broken[at].wrapping_add(101);
        fs::write(&path, &broken).expect("writes");
        if let Ok(mut player) = Player::open(&path, true) {
            let _ = player.go_to(fixture::NOW_UNIX_NS + 2 * S);
        }
    }
}

#[test]
fn a_recording_ends_where_it_may_not_grow() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut view = fixture::healthy();
    let mut fill = |name: &str, limits: Limits| {
        let mut writer = Writer::create(&folder.path().join(name), limits).expect("is made");
        let mut frames = 0;
        loop {
            view.at_unix_ns += S;
            let added = writer.add(view.at_unix_ns, &ToViewer::View(Box::new(view.clone())));
            frames += 1;
            if let Room::Full(why) = added.expect("is written") {
                return (frames, why, writer.finish().expect("is ended").bytes);
            }
        }
    };
    let (frames, why, _) = fill(
        "long",
        Limits {
            length_ns: 10 * S,
            ..ENDLESS
        },
    );
    assert_eq!(frames, 11);
    assert!(why.contains("--for"), "{why}");
    let (_, why, bytes) = fill(
        "large",
        Limits {
            bytes: 20_000,
            ..ENDLESS
        },
    );
    assert!(
        why.contains("--max-size") && bytes < 40_000,
        "{why} {bytes}"
    );
    let there = Writer::create(&folder.path().join("long"), ENDLESS);
    assert!(there.is_err(), "a recording is never written over");
}
