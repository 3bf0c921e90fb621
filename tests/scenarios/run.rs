//! One run of one scenario, on the real programs: an agent, the demo's service, and a viewer that notes each second what
//! the verdicts are.

use std::{
    io::{BufRead as _, BufReader},
    process::{ChildStdout, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use ax_wire::{
    ToViewer,
    verdict::{Verdict, VerdictId},
    view::ServiceView,
};

use crate::{
    file::{Drawn, Scenario},
    support::{Guarded, PATIENCE, Viewer, ax_agent, ax_top, eventually},
};

/// How long the fault is watched on, once the right verdict is first.
const WATCHED_ON: Duration = Duration::from_secs(3);

/// What came out.
#[derive(Debug)]
pub struct Outcome {
    pub drawn: Drawn,
    /// From the beginning of the fault to the first view whose first verdict is an expected one.
    pub verdict_after: Option<Duration>,
    /// The verdict that stood first when one first did.
    pub first: Option<VerdictId>,
    /// The expected verdict was there, at whichever place.
    pub said: bool,
    /// What was said that is neither expected nor follows from it, each once, and when.
    pub wrong: Vec<Wrong>,
    /// The alerts of a service in which nothing is wrong.
    pub alerts: Vec<String>,
    /// Load of the machine in the last minute, when the run began.
    pub load: f64,
    /// The last sentence of the expected verdict.
    pub sentence: String,
    /// Highest figures since the fault began.
    pub figures: Figures,
}

/// A verdict that should not have been there.
#[derive(Clone, Debug)]
pub struct Wrong {
    pub id: VerdictId,
    /// Seconds after the beginning of the fault; before it, negative.
    pub at_s: f64,
    /// It stood above all others.
    pub was_first: bool,
    pub sentence: String,
}

/// The board of the service.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub lag_ms: f64,
    pub cpus: f64,
    pub blocking: u64,
    pub rss_mib: f64,
    /// Before the fault.
    pub rss_mib_before: f64,
}

impl Outcome {
    /// Whether it is all that is asked for, as the long version judges.
    pub fn is_right(&self, scenario: &Scenario) -> bool {
        let in_time = |after: Duration| after <= Duration::from_secs(scenario.within_s);
        self.said
            && self.wrong.is_empty()
            && self.alerts.is_empty()
            && (scenario.fault.is_none() || self.verdict_after.is_some_and(in_time))
    }
}

/// The numbers of a scenario that the harness decides.
pub struct Plan {
    /// How long a service in which nothing is wrong is watched.
    pub healthy_for: Duration,
    /// How long the right verdict is waited for.
    pub patience: Duration,
}

/// Runs it.
pub fn run(scenario: &Scenario, drawn: &Drawn, plan: &Plan) -> Outcome {
    let load = load_of_the_machine();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("ax/agent.sock");
    let agent = ax_agent(&socket)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _agent = Guarded(agent.expect("the agent starts"));
    eventually("the agent's socket", || socket.exists().then_some(()));
    let mut service = demo_service(scenario, drawn, &socket);
    let began = fault_began(service.0.stdout.take().expect("piped"));
    let mut watch = Watch {
        scenario,
        began,
        began_unix_ns: None,
        right_since: None,
        outcome: Outcome {
            drawn: drawn.clone(),
            verdict_after: None,
            first: None,
            said: false,
            wrong: Vec::new(),
            alerts: Vec::new(),
            load,
            sentence: String::new(),
            figures: Figures::default(),
        },
    };
    let mut viewer = Viewer::connect(&socket);
    let mut healthy_until = None;
    let mut give_up = Instant::now() + Duration::from_secs(drawn.quiet_s) + PATIENCE;
    while Instant::now() < give_up {
        let ToViewer::View(view) = viewer.next_frame() else {
            continue;
        };
        if scenario.fault.is_none() {
            let until = *healthy_until.get_or_insert_with(|| Instant::now() + plan.healthy_for);
            give_up = until;
        }
        let had_begun = watch.began_unix_ns.is_some();
        watch.see(&view);
        if !had_begun && watch.began_unix_ns.is_some() {
            give_up = Instant::now() + plan.patience;
        }
        if watch
            .right_since
            .is_some_and(|since: Instant| since.elapsed() >= WATCHED_ON)
        {
            break;
        }
    }
    // In good order, so that what the fault did is undone.
    drop(service.0.stdin.take());
    let patience = Instant::now() + Duration::from_secs(3);
    while Instant::now() < patience && matches!(service.0.try_wait(), Ok(None)) {
        thread::sleep(Duration::from_millis(20));
    }
    watch.outcome
}

fn demo_service(scenario: &Scenario, drawn: &Drawn, socket: &std::path::Path) -> Guarded {
    let mut command = ax_top(socket);
    command.args(["demo-service", "--flavor", drawn.flavor.name()]);
    command.args(["--workers", &drawn.workers.to_string()]);
    command.args(["--rate", &drawn.rate.to_string()]);
    if let Some(fault) = &scenario.fault {
        let after_ms = drawn.quiet_s * 1_000;
        command.args(["--fault", fault, "--after-ms", &after_ms.to_string()]);
    }
    for (name, value) in &drawn.numbers {
        command.args(["--set", &format!("{name}={value}")]);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Guarded(command.spawn().expect("the demo starts"))
}

/// Reads what the service says until it says when the fault began. Its pipe is read to the end, so that it never fills.
fn fault_began(stdout: ChildStdout) -> mpsc::Receiver<u64> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let at = line
                .strip_prefix("fault ")
                .and_then(|line| line.rsplit(' ').next()?.parse().ok());
            if let Some(at_unix_ns) = at {
                // Whoever asked may be gone.
                let _ = tell.send(at_unix_ns);
            }
        }
    });
    told
}

struct Watch<'a> {
    scenario: &'a Scenario,
    began: mpsc::Receiver<u64>,
    began_unix_ns: Option<u64>,
    right_since: Option<Instant>,
    outcome: Outcome,
}

impl Watch<'_> {
    fn see(&mut self, view: &ServiceView) {
        if let Ok(began) = self.began.try_recv() {
            self.began_unix_ns = Some(began);
        }
        self.measure(view);
        if self.scenario.fault.is_none() {
            for alert in &view.alerts {
                let alert = format!("{}: {}", alert.rule, alert.sentence);
                if !self.outcome.alerts.contains(&alert) {
                    self.outcome.alerts.push(alert);
                }
            }
        }
        let verdicts = &view.diagnosis.verdicts;
        for (rank, verdict) in verdicts.iter().enumerate() {
            self.judge(view, verdict, rank == 0);
        }
    }

    fn judge(&mut self, view: &ServiceView, verdict: &Verdict, is_first: bool) {
        let expected = self.scenario.expect.contains(&verdict.id);
        if verdict.id == VerdictId::Healthy {
            self.outcome.said |= expected;
            return;
        }
        let since_began = |began: u64| (view.at_unix_ns as f64 - began as f64) / 1e9;
        let at_s = self.began_unix_ns.map_or(-1.0, since_began);
        if at_s >= 0.0 && is_first && self.outcome.first.is_none() {
            self.outcome.first = Some(verdict.id);
        }
        if at_s >= 0.0 && expected {
            self.outcome.said = true;
            verdict.sentence.clone_into(&mut self.outcome.sentence);
            if is_first {
                self.right_since.get_or_insert_with(Instant::now);
                let after = Duration::from_secs_f64(at_s);
                self.outcome.verdict_after.get_or_insert(after);
            }
            return;
        }
        let is_among = |ids: &[VerdictId]| at_s >= 0.0 && ids.contains(&verdict.id);
        let comes_before =
            is_among(&self.scenario.before) && (!is_first || self.outcome.verdict_after.is_none());
        // What an expected verdict says that it only looks so because of it, unless it is what that is confused with.
        let explained = || {
            let causes = view.diagnosis.verdicts.iter();
            let causes = causes.filter(|cause| self.scenario.expect.contains(&cause.id));
            let mut explained = causes.flat_map(|cause| &cause.explains);
            explained.any(|it| it.id == verdict.id && it.subject == verdict.subject)
                && !self.scenario.forbid.contains(&verdict.id)
        };
        let follows = !is_first && (is_among(&self.scenario.beside) || at_s >= 0.0 && explained());
        let known = |wrong: &Wrong| wrong.id == verdict.id && wrong.was_first == is_first;
        if !follows && !comes_before && !self.outcome.wrong.iter().any(known) {
            self.outcome.wrong.push(Wrong {
                id: verdict.id,
                at_s,
                was_first: is_first,
                sentence: verdict.sentence.clone(),
            });
        }
    }

    fn measure(&mut self, view: &ServiceView) {
        let figures = &mut self.outcome.figures;
        let rss_mib = view.process.rss_bytes.unwrap_or(0) as f64 / 1024.0 / 1024.0;
        if self.began_unix_ns.is_none() {
            figures.rss_mib_before = rss_mib;
            return;
        }
        let highest = |of: &mut f64, value: f64| *of = of.max(value);
        highest(&mut figures.rss_mib, rss_mib);
        highest(&mut figures.cpus, view.process.cpus_used.unwrap_or(0.0));
        let lag_ns = view.point.as_ref().and_then(|point| point.lag_max_ns);
        highest(&mut figures.lag_ms, lag_ns.unwrap_or(0) as f64 / 1e6);
        let blocking = view
            .runtimes
            .iter()
            .map(|runtime| runtime.blocking.watched_running);
        figures.blocking = figures.blocking.max(blocking.max().unwrap_or(0));
    }
}

/// Load of the machine in the last minute.
fn load_of_the_machine() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split(' ').next().and_then(|load| load.parse().ok());
    first.unwrap_or(f64::NAN)
}
