//! F99: what the next instance of a service has of the one before it.

use ax_wire::{ToViewer, verdict::Evidence, view::ServiceState};

use crate::common::{SECOND, TestAgent, hello, sample};

/// A service that is started anew each night is compared with what it did a day before all the same.
#[tokio::test]
async fn the_day_goes_on_with_the_next_instance() {
    let agent = TestAgent::start();
    let first = hello("checkout");
    let mut before = agent.service(&first).await;
    // Forty minutes, a sample each half a minute.
    for at in 1..=80 {
        before.send_sample(sample(at * 30)).await;
    }
    let mut viewer = agent.viewer().await;
    viewer
        .wait_for(|frame| match frame {
            ToViewer::View(view) => view
                .point
                .filter(|point| point.at_unix_ns == first.clock.unix_ns + 80 * 30 * SECOND),
            _ => None,
        })
        .await;
    drop(before);
    // The connection of the first has to be seen to break before the next takes its seat.
    viewer
        .wait_for(|frame| match frame {
            ToViewer::Services(services) => {
                let mut states = services.services.iter().map(|of| of.state);
                states
                    .any(|state| state == ServiceState::Lost)
                    .then_some(())
            }
            _ => None,
        })
        .await;
    let mut next = hello("checkout");
    next.clock.unix_ns += (24 * 3_600 + 1_200) * SECOND;
    let mut after = agent.service(&next).await;
    for at in 1..=5 {
        after.send_sample(sample(at)).await;
    }
    let told: Vec<Evidence> = viewer
        .wait_for(|frame| match frame {
            ToViewer::View(view) if view.summary.instance == next.instance => {
                let first = view.diagnosis.verdicts.into_iter().next()?;
                let evidence = first.evidence.into_iter();
                let told = evidence.filter(|of| of.what.ends_with("the same hour a day before"));
                Some(told.collect())
            }
            _ => None,
        })
        .await;
    let lag = told.iter().find(|of| of.what.starts_with("event-loop lag"));
    let lag = lag.unwrap_or_else(|| panic!("{told:?}"));
    assert_eq!((lag.value, lag.against), (1e6, Some(1e6)));
    agent.stop().await;
}
