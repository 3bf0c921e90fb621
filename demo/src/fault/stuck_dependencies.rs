//! Jobs that wait for a job by its name, which somebody forgot to submit, and others that wait for these.

use super::{Fault, Scene, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "stuck-dependencies",
    expect: "stuck-dependencies",
    what: "jobs wait for one that nobody submits",
    numbers: &[
        Number::new("chains", 3, 1, 20),
        Number::new("chain", 3, 1, 20),
    ],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    let lane = scene.lane("nightly", 4)?;
    scene.quiet()?;
    let mut stuck = Vec::new();
    for chain in 0..scene.number("chains") {
        let mut after = "books-closed".to_owned();
        for link in 0..scene.number("chain") {
            let name = format!("report-{chain}-{link}");
            let job = scene
                .scheduler()
                .job("nightly_report", |_| async { anyhow::Ok(()) });
            stuck.push(
                job.lane(&lane)
                    .named(&name)
                    .after([after.as_str()])
                    .submit()?,
            );
            after = name;
        }
    }
    scene.until_over();
    for job in stuck {
        job.cancel();
    }
    Ok(())
}
