//! What a load session means: where the service stops being healthy, what filled first, what to set, and whether it
//! changed since the last session.
//!
//! Pure functions of a [`Session`], so that the terminal, the page and a script say the same of a file, however old it is.
//!
//! ```text
//!  Session --figures of each step--> judged: good, bad (why), unsure --> knee, and the next step of the search
//!          |                                   +--> Kneedle and the scalability law, as second opinions
//!          +--who was full when--> filled first       +--> advice for each lane
//! ```

mod advice;
mod compare;
mod figures;
mod filled;
mod judge;
mod knee;
mod kneedle;
#[cfg(test)]
mod made;
mod trend;
mod usl;

use ax_wire::session::Session;
use serde::Serialize;

pub use self::{
    advice::{Advice, DownstreamAdvice, LaneAdvice, advice},
    compare::{Change, Comparison, Direction, Metric, compare},
    figures::{Background, Source, StepFigures, Throughput},
    filled::{Filled, Filler, filled},
    judge::{Judged, Judgement, Reason, judge},
    knee::{Knee, Next, knee, next_load},
    kneedle::kneedle,
    trend::Slope,
    usl::{Usl, usl},
};

/// All that is made of one session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Analysis {
    /// Where throughput was read.
    pub throughput: Throughput,
    /// Each step, in the order of time.
    pub steps: Vec<Judged>,
    /// Where the service stops being healthy.
    pub knee: Knee,
    /// The knee as the shape of offered against achieved load shows it, in requests per second. `None`: the curve has none.
    pub kneedle_per_s: Option<f64>,
    /// The universal scalability law that fits best. `None`: too few steps.
    pub usl: Option<Usl>,
    /// What was full, in the order in which it filled.
    pub filled: Vec<Filled>,
    /// What to set.
    pub advice: Advice,
}

/// Works out everything. Costs some milliseconds a minute of session.
#[must_use]
pub fn analyze(session: &Session) -> Analysis {
    let throughput = Throughput::of(session);
    let steps = judge(session, &throughput);
    let knee = knee(&steps);
    let curve: Vec<_> = steps
        .iter()
        .filter_map(|step| Some((step.figures.offered_per_s?, step.figures.achieved_per_s?)))
        .collect();
    let loads: Vec<_> = steps
        .iter()
        .filter_map(|step| Some((step.figures.concurrency?, step.figures.achieved_per_s?)))
        .collect();
    Analysis {
        kneedle_per_s: kneedle(&curve),
        usl: usl(&loads),
        filled: filled(session),
        advice: advice(session, &knee),
        throughput,
        steps,
        knee,
    }
}
