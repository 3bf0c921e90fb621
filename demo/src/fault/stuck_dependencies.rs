//! Jobs that wait for each other by name, in a circle, and others that wait for one of them.

use super::{Fault, Scene, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "stuck-dependencies",
    expect: "stuck-dependencies",
    what: "jobs wait for others that can never begin",
    numbers: &[
        Number::new("circle", 3, 2, 20),
        Number::new("waiting", 5, 0, 100),
    ],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    let lane = scene.lane("nightly", 4)?;
    scene.quiet()?;
    let job = |name: &str, after: &str| {
        let job = scene
            .scheduler()
            .job("close_books", |_| async { anyhow::Ok(()) });
        job.lane(&lane).named(name).after([after]).submit()
    };
    let circle = scene.number("circle");
    let mut stuck = Vec::new();
    for at in 0..circle {
        stuck.push(job(
            &format!("books-{at}"),
            &format!("books-{}", (at + 1) % circle),
        )?);
    }
    for at in 0..scene.number("waiting") {
        stuck.push(job(&format!("report-{at}"), "books-0")?);
    }
    scene.until_over();
    for job in stuck {
        job.cancel();
    }
    Ok(())
}
