//! A task that asks to be polled again each time that it is polled, and never gets anywhere.

use std::{future::poll_fn, task::Poll};

use super::{Fault, Scene};

pub(super) const FAULT: Fault = Fault {
    name: "busy-poll",
    expect: "busy-poll",
    what: "a task wakes itself all the time without progress",
    numbers: &[],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    scene.quiet()?;
    let watcher = scene.spawn(
        "watch_settings",
        poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        }),
    );
    scene.until_over();
    watcher.abort();
    Ok(())
}
