//! F1: the reference load, bursts of thousands of independent events, each of four steps in order.
//!
//! A file of its own: it looks at the memory of the whole process.

use std::{fs, time::Duration};

use ax_scheduler::{JobHandle, Lane, Scheduler};
use tokio::time::sleep;

const STEPS: [&str; 4] = ["fetch", "clean", "write", "notify"];
const EVENTS: u32 = 3_500;
const BURSTS: usize = 6;

/// The four steps of one event. Some fail at the second, some panic at the third.
fn submit(ax: &Scheduler, lanes: &[Lane; 4], event: u32) -> [JobHandle<usize>; 4] {
    let mut before = None;
    std::array::from_fn(|step| {
        let job = ax.job(STEPS[step], move |_| async move {
            sleep(Duration::from_millis(u64::from(event % 7))).await;
            match (step, event % 100) {
                (1, 13) => Err("unreadable"),
                (2, 17) => panic!("no disk"),
                _ => Ok(step),
            }
        });
        let job = job.lane(&lanes[step]).after(before.iter());
        let handle = job.submit().expect("room");
        before = Some(handle.job_ref());
        handle
    })
}

fn resident_pages() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux");
    let resident = statm.split_whitespace().nth(1).expect("a second field");
    resident.parse().expect("a number")
}

#[tokio::test(start_paused = true)]
async fn bursts_of_events_end_in_order_and_memory_stays_flat() {
    let ax = Scheduler::new();
    let lanes = STEPS.map(|step| ax.lane(step).limit(50).open().expect("new"));
    let mut resident = Vec::new();
    for _ in 0..BURSTS {
        let events: Vec<_> = (0..EVENTS)
            .map(|event| submit(&ax, &lanes, event))
            .collect();
        let mut ended_well = 0;
        for steps in events {
            let mut well = true;
            for step in steps {
                let outcome = step.await;
                // A step has its result only after the one before it has.
                assert!(well || outcome.is_err());
                well = outcome.is_ok();
            }
            ended_well += u32::from(well);
        }
        assert_eq!(ended_well, EVENTS / 100 * 98);
        resident.push(resident_pages());
    }
    for lane in &lanes {
        let counts = lane.counts();
        assert_eq!(
            (counts.running, counts.pending, counts.waiting),
            (0, 0, 0),
            "{counts:?}"
        );
        let submitted = counts.counters.submitted_total;
        assert_eq!(submitted, u64::from(EVENTS) * BURSTS as u64);
        assert_eq!(counts.counters.finished_total(), submitted);
    }
    // The first bursts fill what is remembered of ended jobs.
    let [.., last] = resident[..] else {
        unreachable!("some bursts")
    };
    assert!(last <= resident[1] * 3 / 2, "{resident:?} pages");
}
