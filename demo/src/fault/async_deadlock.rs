//! Transfers between two accounts, each of which has a lock: whoever locks in the other order waits for ever.

use std::{sync::Arc, time::Duration};

use ax_scheduler::{Lane, at};
use tokio::{sync::Mutex, time::sleep};

use super::{Fault, Scene, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "async-deadlock",
    expect: "async-deadlock",
    what: "two jobs hold an async lock each and wait for the other's, and later ones wait for both",
    numbers: &[Number::new("transfers_per_s", 2, 1, 20)],
    run,
};

/// From the first lock to the second; the two that meet need it.
const BETWEEN: Duration = Duration::from_millis(20);

type Account = Arc<Mutex<i64>>;

fn run(scene: &Scene) -> anyhow::Result<()> {
    let lane = scene.lane("transfers", 20)?;
    let cash = (Account::default(), "account cash");
    let bank = (Account::default(), "account bank");
    let steady = {
        let (scene, lane, cash, bank) = (scene.clone(), lane.clone(), cash.clone(), bank.clone());
        move || transfer(&scene, &lane, cash.clone(), bank.clone())
    };
    scene.steadily(scene.number("transfers_per_s"), steady)?;
    scene.quiet()?;
    transfer(scene, &lane, cash.clone(), bank.clone())?;
    transfer(scene, &lane, bank, cash)?;
    scene.until_over();
    Ok(())
}

fn transfer(
    scene: &Scene,
    lane: &Lane,
    (from, from_label): (Account, &'static str),
    (to, to_label): (Account, &'static str),
) -> Result<ax_scheduler::JobHandle<()>, ax_scheduler::SubmitError> {
    let job = scene.scheduler().job("transfer", move |_| async move {
        let mut from = at(from_label, from.lock()).await;
        sleep(BETWEEN).await;
        let mut to = at(to_label, to.lock()).await;
        *from -= 1;
        *to += 1;
        anyhow::Ok(())
    });
    job.lane(lane).submit()
}
