//! The thread that tells an agent what the probe sees: finds one, greets it, and sends a sample a second and events as
//! they come. While there is none it tries again for ever.

mod answers;
mod controls;
mod exemplars;
mod history;
mod link;
mod sample;
mod snapshots;

use std::{
    process,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::Duration,
};

use ax_wire::{
    InstanceId, ToAgent, ToService,
    control::{self, Controlled},
    event::{Event, Events},
    hello::{ClockAnchor, Hello, PROTOCOL},
    incident::Reason,
    query,
    view::Backfill,
};

pub(crate) use self::sample::{dropped, runtime_samples};
use self::{
    controls::Controls,
    exemplars::Exemplars,
    history::History,
    link::{Link, LinkError},
    sample::{Sampler, anchor_now},
    snapshots::{Snapshots, Surroundings},
};
pub use self::{
    history::HISTORY_POINTS,
    link::{MAX_REPLY_BYTES, OUT_BUFFER_BYTES},
    snapshots::MAX_SNAPSHOT_FILES,
};
use crate::{
    clock::{duration_ns, now_ns},
    elf, runtime,
    shared::Shared,
    threads,
};

/// From one sample to the next.
const SAMPLE_NS: u64 = 1_000_000_000;

/// From one look at events and socket to the next: how late an event may leave.
const CYCLE: Duration = Duration::from_millis(100);

/// The same while the agent owes an answer or has not taken everything.
const CYCLE_BUSY: Duration = Duration::from_millis(20);

/// The same while the agent owes an answer to an incident, whose snapshot somebody has to write soon.
const CYCLE_INCIDENT: Duration = Duration::from_millis(5);

/// The wait after a connection that failed: doubled each time, and jittered, so that the services of a host do not all
/// come at once when an agent starts.
const BACKOFF_MIN_NS: u64 = 100_000_000;
const BACKOFF_MAX_NS: u64 = 1_000_000_000;

/// The wait after an agent has refused the service, which it will most likely do again.
const BACKOFF_REFUSED_NS: u64 = 30_000_000_000;

/// How long an agent may take to answer the hello.
const ANSWER_NS: u64 = 2_000_000_000;

/// How long the goodbye may take.
const GOODBYE: Duration = Duration::from_millis(200);

/// How long the end waits for snapshots that are being written.
const LAST_SNAPSHOTS: Duration = Duration::from_millis(200);

enum State {
    /// No agent; to be tried again at that time.
    Apart { until_ns: u64 },
    /// The hello is on its way.
    Greeting { link: Link, since_ns: u64 },
    /// The agent has taken the hello.
    Connected { link: Link, controls: Controls },
}

/// Everything that the publishing thread owns.
pub(crate) struct Publisher {
    shared: Arc<Shared>,
    instance: InstanceId,
    build_id: Option<String>,
    process_start_unix_ns: u64,
    sampler: Sampler,
    sample_at_ns: u64,
    history: History,
    snapshots: Snapshots,
    exemplars: Exemplars,
    state: State,
    backoff_ns: u64,
    /// The last trouble that was logged: the same one again is not.
    logged: Option<String>,
}

impl Publisher {
    /// Publishes until the probe is stopped.
    pub(crate) fn run(shared: &Arc<Shared>) {
        let tid = rustix::thread::gettid().as_raw_pid().unsigned_abs();
        shared.publisher_tid.store(tid, Relaxed);
        let mut sampler = Sampler::new(shared);
        let started_unix_ns = sampler.anchor().unix_ns;
        let mut publisher = Self {
            shared: Arc::clone(shared),
            instance: InstanceId::new_now(),
            build_id: elf::own_build_id(),
            // Where the system does not say it, the probe's own start is the nearest thing.
            process_start_unix_ns: threads::process_start_unix_ns().unwrap_or(started_unix_ns),
            sampler,
            sample_at_ns: 0,
            history: History::new(),
            snapshots: Snapshots::new(shared),
            exemplars: Exemplars::default(),
            state: State::Apart { until_ns: 0 },
            backoff_ns: BACKOFF_MIN_NS,
            logged: None,
        };
        let named = shared.settings.socket.clone();
        let named = named.or_else(ax_wire::socket::named_by_env);
        if let Some(why) = named.as_deref().and_then(ax_wire::socket::distrust) {
            tracing::warn!("{why}");
        }
        loop {
            let pause = publisher.cycle();
            if shared.publisher.wait(pause) {
                publisher.end();
                return;
            }
        }
    }

    /// Does what can be done now; returns for how long there is nothing to do.
    fn cycle(&mut self) -> Duration {
        let now_ns = now_ns();
        self.history.tick(now_ns, &self.shared);
        let state = std::mem::replace(&mut self.state, State::Apart { until_ns: 0 });
        let next = match state {
            State::Apart { until_ns } if now_ns < until_ns => Ok(State::Apart { until_ns }),
            State::Apart { .. } => self.greet(now_ns),
            State::Greeting { link, since_ns } => self.await_answer(link, since_ns, now_ns),
            State::Connected { link, controls } => self.publish(link, controls, now_ns),
        };
        self.state = next.unwrap_or_else(|error| self.stay_apart(&error, now_ns));
        if !matches!(self.state, State::Connected { .. }) {
            self.snapshots.agent_is_gone();
            self.snapshots.offer(None, now_ns);
        }
        self.write_snapshots(now_ns);
        match &self.state {
            _ if self.snapshots.is_waiting() => CYCLE_INCIDENT,
            State::Connected { link, controls } if link.is_flushed() && !controls.is_busy() => {
                CYCLE
            }
            State::Apart { .. } => CYCLE,
            State::Connected { .. } | State::Greeting { .. } => CYCLE_BUSY,
        }
    }

    fn write_snapshots(&mut self, now_ns: u64) {
        if !self.snapshots.any_due(now_ns) {
            return;
        }
        let surroundings = Surroundings {
            hello: self.hello(anchor_now()),
            history: self.history.points(),
            types: self.sampler.peek_types(),
        };
        self.snapshots.write_due(now_ns, &surroundings);
    }

    /// Tries each place once; the error is that of the last one that is worth a word, else of the last.
    fn greet(&mut self, now_ns: u64) -> Result<State, LinkError> {
        let candidates = link::candidates(self.shared.settings.socket.as_deref());
        let mut trouble = None;
        for candidate in candidates {
            match Link::open(candidate) {
                Ok(mut link) => {
                    let anchor = self.sampler.anchor();
                    let hello = self.hello(anchor);
                    // A hello has some hundred bytes and nothing that JSON cannot say.
                    if link.push(ToAgent::Hello(Box::new(hello))).is_ok() {
                        link.flush()?;
                    }
                    return Ok(State::Greeting {
                        link,
                        since_ns: now_ns,
                    });
                }
                Err(error) if matches!(error, LinkError::NoAgent { .. }) => {
                    trouble.get_or_insert(error);
                }
                Err(error) => trouble = Some(error),
            }
        }
        match trouble {
            Some(error) => Err(error),
            None => Ok(State::Apart {
                until_ns: now_ns + BACKOFF_MAX_NS,
            }),
        }
    }

    fn await_answer(
        &mut self,
        mut link: Link,
        since_ns: u64,
        now_ns: u64,
    ) -> Result<State, LinkError> {
        link.flush()?;
        let mut frames = link.receive()?.into_iter();
        while let Some(frame) = frames.next() {
            match frame {
                ToService::Ack(_) => {
                    self.backoff_ns = BACKOFF_MIN_NS;
                    self.logged = None;
                    self.sample_at_ns = now_ns;
                    self.shared.outbox.lock().connected = true;
                    // What happened while no agent was there. It has less than a hundred kilobytes.
                    let charts = ToAgent::Backfill(Backfill {
                        instance: self.instance,
                        points: self.history.points(),
                    });
                    if link.push(charts).is_err() {
                        self.sampler.count_dropped();
                    }
                    let controls = Controls::new(self.shared.settings.allow_control);
                    // Whoever waits for this service asks at once: that may have come with the answer.
                    return self.take_in(link, controls, frames.collect());
                }
                ToService::Refused(refused) => return Err(refusal(&link, refused.reason)),
                ToService::Capture
                | ToService::IncidentAck(_)
                | ToService::Ask(_)
                | ToService::Control(_)
                | ToService::Unknown => {}
            }
        }
        if now_ns.saturating_sub(since_ns) > ANSWER_NS {
            return Err(LinkError::Silent {
                path: link.path().to_owned(),
            });
        }
        Ok(State::Greeting { link, since_ns })
    }

    fn publish(
        &mut self,
        mut link: Link,
        mut controls: Controls,
        now_ns: u64,
    ) -> Result<State, LinkError> {
        self.snapshots.offer(Some(&mut link), now_ns);
        self.queue_frames(&mut link, now_ns);
        for controlled in controls.outcomes() {
            self.tell_controlled(&mut link, controlled);
        }
        match link.flush().and_then(|()| link.receive()) {
            Ok(frames) => self.take_in(link, controls, frames),
            Err(error) => Err(self.part(link, error)),
        }
    }

    /// Takes back what a connection that has ended was still to carry.
    fn part(&mut self, link: Link, error: LinkError) -> LinkError {
        self.give_back(link);
        self.shared.outbox.lock().connected = false;
        error
    }

    /// Whoever asked is told by the agent where no outcome came.
    fn tell_controlled(&mut self, link: &mut Link, controlled: Controlled) {
        if link.has_room() && link.push(ToAgent::Controlled(controlled)).is_err() {
            self.sampler.count_dropped();
        }
    }

    /// Does what a connected agent asks for.
    fn take_in(
        &mut self,
        mut link: Link,
        mut controls: Controls,
        frames: Vec<ToService>,
    ) -> Result<State, LinkError> {
        match self.obey(&mut link, &mut controls, frames) {
            Ok(()) => Ok(State::Connected { link, controls }),
            Err(error) => Err(self.part(link, error)),
        }
    }

    fn obey(
        &mut self,
        link: &mut Link,
        controls: &mut Controls,
        frames: Vec<ToService>,
    ) -> Result<(), LinkError> {
        let mut inquiries = Vec::new();
        for frame in frames {
            match frame {
                ToService::Refused(refused) => return Err(refusal(link, refused.reason)),
                ToService::Capture => {
                    self.shared.incidents.ask(Reason::Capture);
                    self.shared.watchdog.nudge();
                }
                ToService::IncidentAck(ack) => self.snapshots.acknowledged(ack.id),
                ToService::Ask(inquiry) => inquiries.push(inquiry),
                ToService::Control(order) => {
                    if let Some(refused) = controls.take(order, now_ns()) {
                        self.tell_controlled(link, refused);
                    }
                }
                ToService::Ack(_) | ToService::Unknown => {}
            }
        }
        for answer in answers::answer(inquiries) {
            // Whoever asked is told by the agent that no answer came.
            if link.has_room() && link.push(ToAgent::Answer(Box::new(answer))).is_err() {
                self.sampler.count_dropped();
            }
        }
        link.flush()
    }

    /// Hands over what is due, as long as the agent takes what it was given before.
    fn queue_frames(&mut self, link: &mut Link, now_ns: u64) {
        if link.has_room() {
            let events = self.shared.outbox.lock().take_events();
            if !events.is_empty() && link.push(ToAgent::Events(Events { events })).is_err() {
                self.sampler.count_dropped();
            }
        }
        if now_ns < self.sample_at_ns {
            return;
        }
        self.sample_at_ns = (self.sample_at_ns + SAMPLE_NS).max(now_ns);
        if link.has_room() {
            let sample = Box::new(self.sampler.take());
            if link.push(ToAgent::Sample(sample)).is_err() {
                self.sampler.count_dropped();
            }
        } else {
            self.sampler.skip();
        }
        if link.has_room() {
            let events = self.exemplars.take(now_ns);
            if !events.is_empty() && link.push(ToAgent::Events(Events { events })).is_err() {
                self.sampler.count_dropped();
            }
        }
    }

    /// What the agent did not get is kept for the next one.
    fn give_back(&mut self, link: Link) {
        for frame in link.into_unsent() {
            match frame {
                ToAgent::Sample(sample) => self.sampler.give_back(*sample),
                ToAgent::Events(Events { mut events }) => {
                    // The recorder has moved on, and the next agent wants what is new.
                    events.retain(|event| !matches!(event, Event::Exemplar(_)));
                    self.shared.outbox.lock().put_back(events, Vec::new());
                }
                _ => {}
            }
        }
    }

    fn stay_apart(&mut self, error: &LinkError, now_ns: u64) -> State {
        if !matches!(error, LinkError::NoAgent { .. }) {
            let text = error.to_string();
            if self.logged.as_ref() != Some(&text) {
                tracing::warn!("{text}");
                self.logged = Some(text);
            }
        }
        let wait_ns = if matches!(error, LinkError::Refused { .. }) {
            BACKOFF_REFUSED_NS
        } else {
            let wait_ns = self.backoff_ns;
            self.backoff_ns = (wait_ns * 2).min(BACKOFF_MAX_NS);
            fastrand::u64(wait_ns * 3 / 4..=wait_ns)
        };
        State::Apart {
            until_ns: now_ns + wait_ns,
        }
    }

    /// Sees to it that evidence gets its file, then says goodbye.
    fn end(&mut self) {
        let until_ns = now_ns() + duration_ns(LAST_SNAPSHOTS);
        self.cycle();
        while self.snapshots.is_waiting() && now_ns() < until_ns {
            thread::sleep(CYCLE_INCIDENT);
            self.cycle();
        }
        self.snapshots.agent_is_gone();
        self.write_snapshots(now_ns());
        self.say_goodbye();
        self.snapshots
            .settle(now_ns() + duration_ns(LAST_SNAPSHOTS));
    }

    fn say_goodbye(&mut self) {
        let state = std::mem::replace(&mut self.state, State::Apart { until_ns: 0 });
        let State::Connected { mut link, .. } = state else {
            return;
        };
        // The last figures go with it.
        self.sample_at_ns = 0;
        let now = now_ns();
        self.queue_frames(&mut link, now);
        let deadline_ns = now + duration_ns(GOODBYE);
        if link.push(ToAgent::Goodbye).is_err() {
            return;
        }
        while link.flush().is_ok() && !link.is_flushed() && now_ns() < deadline_ns {
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn hello(&self, clock: ClockAnchor) -> Hello {
        let settings = &self.shared.settings;
        let unstable = cfg!(tokio_unstable).then(|| "tokio_unstable".to_owned());
        Hello {
            protocol: PROTOCOL,
            service: settings.service.clone(),
            instance: self.instance,
            pid: process::id(),
            process_start_unix_ns: self.process_start_unix_ns,
            service_version: settings.service_version.clone(),
            build_id: self.build_id.clone(),
            probe_version: env!("CARGO_PKG_VERSION").to_owned(),
            cpus: thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
            runtimes: runtime::all().iter().map(|of| of.info.clone()).collect(),
            features: unstable
                .into_iter()
                .chain([query::FEATURE.to_owned()])
                .chain(settings.allow_control.then(|| control::FEATURE.to_owned()))
                .collect(),
            clock,
            stall_threshold_ns: settings.stall_threshold_ns,
            snapshot_threshold_ns: settings.snapshot_threshold_ns,
        }
    }
}

fn refusal(link: &Link, reason: String) -> LinkError {
    LinkError::Refused {
        path: link.path().to_owned(),
        reason,
    }
}
