//! The first request of a session: whether there is anything to load.

use std::sync::Arc;

use ax_wire::session::{End, EndKind};

use super::{
    ends::end,
    generator::{self, target::Target},
};

/// A failure alone may be a hiccup.
const TRIES: usize = 3;

/// Why no load is made: nobody answers, or only failures are answered and so many may not be.
pub async fn first_answers(
    target: &Arc<Target>,
    settings: &generator::Settings,
    most_errors: Option<f64>,
) -> Option<End> {
    let mut status = 0;
    for _ in 0..TRIES {
        match generator::probe(target, settings.timeout).await {
            Ok(None) => return None,
            Ok(Some(failure)) => status = failure,
            Err(problem) => {
                let why = format!("nothing answers at {}: {problem}", target.url);
                return Some(end(EndKind::Unreachable, why));
            }
        }
    }
    let refused = most_errors.is_some_and(|most| most < 1.0);
    refused.then(|| {
        let why = format!(
            "{} {} is answered with status {status}: look at the path, --method, --header and --body. To load it all the same: --errors 100%",
            target.method, target.url
        );
        end(EndKind::Refused, why)
    })
}
