//! A session from its first step to its end, whatever that is: each step is made, joined with what the agent said of the
//! service meanwhile, judged, and written down.

use std::{future::Future, io, path::PathBuf, pin::pin, sync::Arc, time::Duration};

use ax_agent::load::{Judged, Next, Throughput, judge, next_load};
use ax_wire::{
    LatencyHistogram, ToAgent,
    control::{Action, Control, MAX_INJECTION},
    session::{self, End, EndKind, Injection, Load, Session, SessionFileError, Step, StepKind},
};
use tokio::{
    sync::Notify,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};

use super::{
    abort::{Abort, Recent},
    command::{Running, filled, longest, overdue},
    ends::{end, failure_of, gone, interrupted, warnings},
    first::first_answers,
    generator::{self, Generator, Phase, target::Target},
    outside::Outside,
    progress::Progress,
    watch::Watch,
};
use crate::{
    cli::{self, Failure},
    event::{Signals, now_unix_ns},
};

/// The part of a step before its counted one, in which queues fill to their level.
const RUN_IN_SHARE: u32 = 10;
const LONGEST_RUN_IN: Duration = Duration::from_secs(1);

/// How long the sample that ends a step is waited for; one comes each second.
const SAMPLE_WITHIN: Duration = Duration::from_millis(1_500);

/// How long what is queued may take to be worked off after a step, before the next one.
const SETTLE_WITHIN: Duration = Duration::from_secs(20);

/// How long the service may take to put a delay on a downstream.
const ORDER_WITHIN: Duration = Duration::from_secs(5);

/// How often thresholds are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// What makes the load.
pub enum Source {
    Http {
        target: Arc<Target>,
        settings: generator::Settings,
    },
    Command(Vec<String>),
}

/// The agent, and what it says of the service.
pub struct Inside {
    pub agent: cli::session::Session,
    pub watch: Watch,
}

/// Everything that a session takes.
pub struct Runner {
    pub session: Session,
    pub source: Source,
    pub abort: Vec<Abort>,
    /// How long the service is watched at rest before a wrapped command.
    pub background: Duration,
    /// Where it is written.
    pub path: PathBuf,
    /// `None`: only the outside is seen.
    pub inside: Option<Inside>,
    pub progress: Progress,
    /// The delays that the service has put on.
    pub injected: Vec<Injection>,
}

impl Runner {
    /// Runs it. The session is in the file after each step, and in the end with how it ended.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or the generator cannot be started. How the service fared is no error.
    pub async fn run(mut self, signals: &mut Signals) -> Result<Session, Failure> {
        self.save()?;
        for doubt in &self.session.warnings {
            self.progress.notes(doubt);
        }
        let generator = match &self.source {
            Source::Http { target, settings } => {
                let most = self.session.plan.limits.error_share;
                let problem = tokio::select! {
                    problem = first_answers(target, settings, most) => problem,
                    () = signals.any() => Some(interrupted()),
                };
                if let Some(problem) = problem {
                    return self.finish(problem);
                }
                Some(Generator::start(target, settings)?)
            }
            Source::Command(_) => None,
        };
        let ended = match self.inject(signals).await {
            None => self.steps(generator.as_ref(), signals).await,
            Some(refused) => Ok(refused),
        };
        self.undo_injections().await;
        self.finish(ended?)
    }

    /// Puts the delays on the downstreams. Says why the session ends, where the service does not allow one.
    async fn inject(&mut self, signals: &mut Signals) -> Option<End> {
        for injection in self.session.plan.injections.clone() {
            let Injection {
                downstream,
                delay_ns,
            } = &injection;
            let outcome = tokio::select! {
                outcome = order(&mut self.inside, downstream, *delay_ns) => outcome,
                () = signals.any() => return Some(interrupted()),
            };
            if let Err(why) = outcome {
                let why = format!("downstream {downstream} cannot be delayed: {why}");
                return Some(end(EndKind::Aborted, why));
            }
            self.injected.push(injection);
        }
        None
    }

    /// Takes the delays away. They end by themselves where this does not reach the service.
    async fn undo_injections(&mut self) {
        for injection in std::mem::take(&mut self.injected) {
            if let Err(why) = order(&mut self.inside, &injection.downstream, 0).await {
                self.session.warnings.push(format!(
                    "the delay of downstream {} may last for up to an hour: {why}",
                    injection.downstream
                ));
            }
        }
    }

    fn finish(mut self, ended: End) -> Result<Session, Failure> {
        self.session.end = ended;
        self.session.warnings.extend(warnings(&self.session));
        self.save()?;
        self.progress.finished(&self.session);
        self.progress.saved(&self.path);
        Ok(self.session)
    }

    fn judged(&self) -> Vec<Judged> {
        judge(&self.session, &Throughput::of(&self.session))
    }

    fn save(&mut self) -> Result<(), Failure> {
        self.session.written_unix_ns = now_unix_ns();
        if let Some(inside) = &self.inside {
            self.session.verdicts = inside.watch.verdicts().to_vec();
            self.session.marks = inside.watch.marks().to_vec();
        }
        session::write(&self.path, &self.session).map_err(|error| match error {
            SessionFileError::Io { .. } => io::Error::other(error.to_string()).into(),
            other => Failure::Internal(other.to_string()),
        })
    }

    async fn steps(
        &mut self,
        generator: Option<&Generator>,
        signals: &mut Signals,
    ) -> Result<End, Failure> {
        if let (Some(generator), Some(first)) = (generator, self.session.plan.loads.first()) {
            let warm_up = Duration::from_nanos(self.session.plan.warm_up_ns);
            if let (Load::RatePerS(rate_per_s), false) = (*first, warm_up.is_zero()) {
                let phase = Phase {
                    rate_per_s,
                    run_in: Duration::ZERO,
                    length: warm_up,
                };
                self.progress.warming_up(warm_up);
                let stop = || generator.stop();
                let (made, ended) = self
                    .attend(0, generator.run(phase), stop, Some(generator), signals)
                    .await;
                made?;
                if let Some(ended) = ended {
                    return Ok(ended);
                }
            }
        }
        if generator.is_none()
            && let Some(ended) = self.watch_at_rest(signals).await
        {
            return Ok(ended);
        }
        loop {
            let judged = self.judged();
            let Some((load, next)) = next_load(&self.session.plan, &judged) else {
                return Ok(End {
                    kind: EndKind::Completed,
                    why: None,
                });
            };
            let kind = match next {
                Next::Planned => StepKind::Planned,
                Next::Repeat => StepKind::Repeat,
                Next::Search => StepKind::Search,
            };
            let number = self.session.steps.len() as u32 + 1;
            self.progress
                .begins(number, load, next, self.session.plan.step_ns);
            let (step, ended) = match generator {
                Some(generator) => self.http_step(generator, number, load, signals).await?,
                None => match self.command_step(number, load, signals).await? {
                    Ok(made) => made,
                    Err(ended) => return Ok(ended),
                },
            };
            let mut step = Step { kind, ..step };
            let ended = match ended {
                None => self.rest(number, step.ended_unix_ns, signals).await,
                ended => ended,
            };
            if let Some(inside) = &self.inside {
                (step.service, step.missed_seconds) =
                    inside.watch.within(step.began_unix_ns, step.ended_unix_ns);
            }
            let failed = step.command.as_ref().and_then(failure_of).or_else(|| {
                let client = step.client.as_ref()?;
                let silent = client.achieved_total == 0 && client.errors.connect_total > 0;
                silent.then(gone)
            });
            self.session.steps.push(step);
            let judged = self.judged();
            if let Some(last) = judged.last() {
                self.progress.made(last);
            }
            self.save()?;
            if let Some(ended) = ended.or(failed) {
                return Ok(ended);
            }
        }
    }

    /// What the service does when nobody loads it: that is not the load's doing later.
    async fn watch_at_rest(&mut self, signals: &mut Signals) -> Option<End> {
        self.progress.at_rest(self.background);
        let began_unix_ns = now_unix_ns();
        let ((), ended) = self
            .attend(0, sleep(self.background), || (), None, signals)
            .await;
        let inside = self.inside.as_ref()?;
        (self.session.background, _) = inside.watch.within(began_unix_ns, now_unix_ns());
        ended
    }

    async fn http_step(
        &mut self,
        generator: &Generator,
        number: u32,
        load: Load,
        signals: &mut Signals,
    ) -> Result<(Step, Option<End>), Failure> {
        let Load::RatePerS(rate_per_s) = load else {
            return Err(Failure::Internal(
                "a step of the generator has no rate".to_owned(),
            ));
        };
        let whole = Duration::from_nanos(self.session.plan.step_ns);
        let run_in = (whole / RUN_IN_SHARE).min(LONGEST_RUN_IN);
        let phase = Phase {
            rate_per_s,
            run_in,
            length: whole.saturating_sub(run_in),
        };
        let made = self
            .attend(
                number,
                generator.run(phase),
                || generator.stop(),
                Some(generator),
                signals,
            )
            .await;
        let (outcome, why) = (made.0?, made.1);
        let step = Step {
            client: Some(outcome.client),
            ..empty_step(number, load, outcome.began_unix_ns, outcome.ended_unix_ns)
        };
        Ok((step, why))
    }

    /// `Err` inside: the command could not be run at all.
    async fn command_step(
        &mut self,
        number: u32,
        load: Load,
        signals: &mut Signals,
    ) -> Result<Result<(Step, Option<End>), End>, Failure> {
        let Source::Command(arguments) = &self.source else {
            return Err(Failure::Internal(
                "there is neither URL nor command".to_owned(),
            ));
        };
        let length = Duration::from_nanos(self.session.plan.step_ns);
        let longest = longest(arguments, length);
        let arguments = filled(arguments, load, length);
        let began = now_unix_ns();
        let mut running = match Running::start(&arguments) {
            Ok(running) => running,
            Err(error) => {
                let program = arguments.first().map_or("", String::as_str);
                return Ok(Err(end(
                    EndKind::CommandFailed,
                    format!("cannot run `{program}`: {error}"),
                )));
            }
        };
        let end_early = Notify::new();
        let work = async {
            let stopped = tokio::select! {
                exit = running.ended() => { exit?; None }
                () = end_early.notified() => Some(None),
                () = sleep(longest) => Some(Some(overdue(length, longest))),
            };
            if stopped.is_some() {
                running.stop().await;
            }
            let until_unix_ns = now_unix_ns();
            Ok::<_, io::Error>((running.outcome().await?, until_unix_ns, stopped.flatten()))
        };
        let made = self
            .attend(number, work, || end_early.notify_one(), None, signals)
            .await;
        let ((run, until_unix_ns, overdue), why) = (made.0?, made.1);
        let why = why.or(overdue);
        let step = Step {
            command: Some(run),
            ..empty_step(number, load, began, until_unix_ns)
        };
        Ok(Ok((step, why)))
    }

    /// Does some work, and meanwhile takes in what the agent says and looks at the thresholds. Where the session is to end,
    /// `end_early` makes the work end, and why stands beside what it came to.
    async fn attend<T>(
        &mut self,
        step: u32,
        work: impl Future<Output = T>,
        end_early: impl Fn(),
        generator: Option<&Generator>,
        signals: &mut Signals,
    ) -> (T, Option<End>) {
        let mut work = pin!(work);
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        look.tick().await;
        let mut outside = Outside::new(generator);
        loop {
            let ended = tokio::select! {
                done = &mut work => return (done, None),
                told = news(&mut self.inside, step) => told,
                _ = look.tick() => {
                    let recent = outside.look(generator);
                    self.progress.tick(outside.in_flight);
                    outside.gone(generator).or_else(|| self.broken(recent, outside.latency().as_ref()))
                }
                () = signals.any() => Some(interrupted()),
            };
            if let Some(ended) = ended {
                end_early();
                return (work.await, Some(ended));
            }
        }
    }

    fn broken(
        &self,
        (answers, errors): (u64, u64),
        latency: Option<&LatencyHistogram>,
    ) -> Option<End> {
        let service = self
            .inside
            .as_ref()
            .map_or(&[][..], |inside| inside.watch.seconds());
        let recent = Recent {
            service,
            answers,
            errors,
            latency,
        };
        let broken = self.abort.iter().find_map(|abort| abort.broken(recent))?;
        Some(end(EndKind::Aborted, broken))
    }

    /// Between two steps: waits for the sample that ends the last one, and for what is queued to be worked off.
    async fn rest(&mut self, step: u32, ended_unix_ns: u64, signals: &mut Signals) -> Option<End> {
        let began = Instant::now();
        loop {
            let inside = self.inside.as_ref()?;
            let waits_for_sample =
                inside.watch.newest_unix_ns() < ended_unix_ns && began.elapsed() < SAMPLE_WITHIN;
            let settles = inside.watch.pending() > 0 && began.elapsed() < SETTLE_WITHIN;
            if !waits_for_sample && !settles {
                return None;
            }
            tokio::select! {
                told = timeout(SAMPLE_WITHIN, news(&mut self.inside, step)) => {
                    if let Ok(Some(ended)) = told {
                        return Some(ended);
                    }
                }
                () = signals.any() => return Some(interrupted()),
            }
        }
    }
}

/// The next news of the agent, taken in; never where none is watched. Says why the session ends, where it does.
async fn news(inside: &mut Option<Inside>, step: u32) -> Option<End> {
    let Some(Inside { agent, watch }) = inside else {
        return std::future::pending().await;
    };
    if let Err(problem) = agent.next().await {
        return Some(end(
            EndKind::ServiceGone,
            format!("the agent is out of reach: {problem}"),
        ));
    }
    watch.take(&agent.world, step);
    watch
        .gone()
        .map(|why| end(EndKind::ServiceGone, why.to_owned()))
}

/// Delays a downstream, and waits for what became of it.
async fn order(inside: &mut Option<Inside>, downstream: &str, delay_ns: u64) -> Result<(), String> {
    let Some(Inside { agent, watch }) = inside else {
        return Err("no service is watched".to_owned());
    };
    let id = now_unix_ns();
    agent.ask(ToAgent::Control(Control {
        instance: watch.instance(),
        id,
        action: Action::Inject {
            downstream: downstream.to_owned(),
            delay_ns,
            lasting_ns: generator::ns(MAX_INJECTION),
        },
    }));
    let answered = async {
        loop {
            agent.next().await.map_err(|problem| problem.to_string())?;
            watch.take(&agent.world, 0);
            if let Some(controlled) = agent.world.controlled.take_if(|answer| answer.id == id) {
                return controlled.outcome.map(|_| ());
            }
        }
    };
    let answered = timeout(ORDER_WITHIN, answered).await;
    answered.unwrap_or_else(|_| Err("the service does not answer".to_owned()))
}

fn empty_step(number: u32, load: Load, began_unix_ns: u64, ended_unix_ns: u64) -> Step {
    Step {
        number,
        kind: StepKind::Planned,
        load,
        began_unix_ns,
        ended_unix_ns,
        client: None,
        command: None,
        service: Vec::new(),
        missed_seconds: 0,
    }
}
