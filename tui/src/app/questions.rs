//! What the open screen wants to know beyond the figures that come by themselves: the query for jobs, the trace and the
//! part of the graph that are looked at, and the questions that they make.

use std::fmt::Write as _;

use std::borrow::Cow;

use ax_wire::{
    JobId, TraceId,
    graph::{Graph, GraphQuery},
    job::{JobRow, JobSort, JobsPage, JobsQuery, MAX_DEPTH, MAX_PAGE_ROWS, Term},
    query::{Answered, Question, TypeHistograms, TypeKey},
    sample::TaskKind,
    trace::{TraceList, TraceSummary, TraceView, Why},
    view::TypeView,
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{App, Pace, Request};
use crate::{
    answers::Known,
    lives::{Life, Lives},
    query::{self, QueryError},
    screens::{Mode, Panel},
    theme::Tone,
    view::{
        dependencies::{TreeRow, tree},
        jobs::JOB_SORTS,
        types::TYPES,
    },
    waterfall::Waterfall,
    widget::table::Step,
    world::Link,
};

/// Longest query that can be typed.
const MAX_QUERY_CHARS: usize = 200;

/// Questions that follow from each other, with room to spare.
const MOST_QUESTIONS: usize = 4;

/// Rows that are asked for at a time.
const PAGE: u32 = MAX_PAGE_ROWS as u32;

/// The query for jobs, as it is typed.
#[derive(Clone, Debug, Default)]
pub struct JobsLook {
    pub text: String,
    /// Whether the keys go into it.
    pub typing: bool,
    /// What it was before somebody began to type; nothing where the list was not open.
    before: Option<String>,
    /// What the last text without a fault meant.
    terms: Vec<Term>,
    /// What is wrong with the text.
    pub error: Option<QueryError>,
    /// Jobs before the first row.
    pub offset: u32,
}

impl JobsLook {
    fn read(&mut self) {
        self.offset = 0;
        match query::parse(&self.text) {
            Ok(terms) => (self.terms, self.error) = (terms, None),
            Err(error) => self.error = Some(error),
        }
    }
}

/// What is looked at on the screens that ask.
#[derive(Clone, Debug, Default)]
pub struct Looks {
    pub jobs: JobsLook,
    /// The trace that is open.
    pub trace: Option<TraceId>,
    /// The screen from which it was opened.
    trace_from: Option<Mode>,
    /// The job around which the graph is shown; all of it without one.
    pub around: Option<JobId>,
}

impl App {
    /// What an agent is to be asked, the most important first.
    pub fn wanted(&self) -> Vec<Question> {
        match self.pace {
            Pace::Live => self.questions(),
            Pace::Frozen { .. } | Pace::Still => Vec::new(),
        }
    }

    /// Lets the snapshot file that is shown answer what the open screen wants to know.
    pub(super) fn ask_file(&mut self) {
        let (Some(opened), Some(instance)) = (self.opened.clone(), self.shown) else {
            return;
        };
        // The answer to one question may lead to another: a list to the trace of its first row.
        for _ in 0..MOST_QUESTIONS {
            let questions = self.questions();
            let known = |question: &Question| self.world.answers.find(instance, question).is_some();
            let Some(question) = questions.into_iter().find(|question| !known(question)) else {
                return;
            };
            let outcome = opened.answer(&question);
            let now = self.world.now_unix_ns;
            self.world.answers.learn(instance, question, outcome, now);
            self.show(self.shown);
        }
    }

    /// What the open screen wants to know, the most important first.
    fn questions(&self) -> Vec<Question> {
        let trace = |trace: Option<TraceId>| trace.map(|trace| Question::Trace { trace });
        match self.mode {
            Mode::Jobs => self.histograms_question().into_iter().collect(),
            Mode::JobList => {
                let selected = self.selected_job().and_then(|job| job.trace);
                let jobs = Question::Jobs(self.jobs_query());
                [Some(jobs), trace(selected)]
                    .into_iter()
                    .flatten()
                    .collect()
            }
            Mode::Traces => {
                let selected = self.selected_trace();
                let list = Some(Question::Traces);
                [list, trace(selected)].into_iter().flatten().collect()
            }
            Mode::Trace => trace(self.looks.trace).into_iter().collect(),
            Mode::Dependencies => vec![Question::Graph(self.graph_query())],
            _ => Vec::new(),
        }
    }

    /// Why there is no answer yet, in words.
    pub fn asking_words(&self) -> &'static str {
        match (&self.world.link, self.pace) {
            (Link::File { .. }, _) | (_, Pace::Still) => "a load session holds none of this",
            (Link::Recording { .. }, _) => {
                "a recording holds the figures of each second, and none of this: a snapshot does"
            }
            (_, Pace::Frozen { .. }) => "frozen: nothing is asked until the screen goes on",
            (Link::Connecting { .. }, Pace::Live) => "no agent is there to be asked",
            (_, Pace::Live) => "asking ..",
        }
    }

    fn known(&self, question: &Question) -> Option<&Known> {
        self.world.answers.of_kind(self.shown?, question)
    }

    // --- jobs

    fn jobs_query(&self) -> JobsQuery {
        let (sort, descending) = match self.table(Panel::Jobs).sorting() {
            Some((column, descending)) => (JOB_SORTS[column], descending),
            None => (JobSort::State, false),
        };
        JobsQuery {
            terms: self.looks.jobs.terms.clone(),
            sort,
            descending,
            offset: self.looks.jobs.offset,
            limit: PAGE,
        }
    }

    /// The newest page of jobs, whatever it was asked for, or why there is none; `None` before the first has come.
    pub fn jobs_page(&self) -> Option<Result<&JobsPage, &str>> {
        let known = self.known(&Question::Jobs(JobsQuery::default()))?;
        Some(match &known.outcome {
            Ok(Answered::Jobs(page)) => Ok(page),
            Ok(_) => Err("the agent answered something else"),
            Err(why) => Err(why),
        })
    }

    /// Whether the page is that of the query as it stands.
    pub fn jobs_are_of_query(&self) -> bool {
        let question = Question::Jobs(self.jobs_query());
        self.known(&question)
            .is_some_and(|known| known.question == question)
    }

    pub fn job_rows(&self) -> Cow<'_, [JobRow]> {
        match self.jobs_page() {
            Some(Ok(page)) => page.rows.as_slice().into(),
            _ => Cow::default(),
        }
    }

    /// The job that the keys act on.
    pub fn selected_job(&self) -> Option<&JobRow> {
        let selected = self.table(Panel::Jobs).selected()?;
        let Some(Ok(page)) = self.jobs_page() else {
            return None;
        };
        page.rows.iter().find(|job| job.id.to_string() == *selected)
    }

    /// Opens the single jobs of the selected type. Tasks that are no jobs are counted and measured, but not listed.
    pub fn open_jobs_of_type(&mut self) -> Option<Request> {
        let of = self.selected_type()?;
        if of.kind != TaskKind::Job {
            let text = format!(
                "{} is a task: only jobs of a lane are listed one by one",
                of.name
            );
            self.say(&text, Tone::Plain, self.world.now_unix_ns);
            return None;
        }
        let quoted = |text: &str| {
            let text = text.replace('"', "");
            if text.contains(' ') {
                format!("\"{text}\"")
            } else {
                text
            }
        };
        let mut text = format!("type={}", quoted(&of.name));
        if let Some(lane) = &of.lane {
            let _ = write!(text, " lane={}", quoted(lane));
        }
        text.push(' ');
        self.look_for_jobs(text);
        self.panels[Panel::Jobs as usize].table.begin_anew();
        self.mode = Mode::JobList;
        None
    }

    /// Sets the query for jobs.
    pub fn look_for_jobs(&mut self, text: String) {
        self.looks.jobs.text = text;
        self.looks.jobs.read();
    }

    /// Lets the keys go into the query: into that of the open list, or into a new one.
    pub fn begin_query(&mut self) {
        let open = self.mode == Mode::JobList;
        self.looks.jobs.before = open.then(|| self.looks.jobs.text.clone());
        if !open {
            self.look_for_jobs(String::new());
        }
        self.mode = Mode::JobList;
        self.looks.jobs.typing = true;
    }

    /// The keys are keys again; the query stays, or is as it was before.
    fn end_query(&mut self, keep: bool) -> bool {
        self.looks.jobs.typing = false;
        if !keep {
            match self.looks.jobs.before.take() {
                Some(before) => self.look_for_jobs(before),
                None => self.mode = Mode::Jobs,
            }
        }
        true
    }

    /// Takes a key while the query is typed. Returns false where the keys go elsewhere.
    pub fn type_key(&mut self, key: &KeyEvent) -> bool {
        if !self.looks.jobs.typing {
            return false;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let mut text = self.looks.jobs.text.clone();
        match key.code {
            KeyCode::Enter => return self.end_query(true),
            KeyCode::Esc => return self.end_query(false),
            KeyCode::Char('c') if control => return self.end_query(false),
            KeyCode::Tab => return self.complete_query(),
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Char('u') if control => text.clear(),
            KeyCode::Char('w') if control => {
                let kept = text.trim_end().rfind(' ').map_or(0, |space| space + 1);
                text.truncate(kept);
            }
            KeyCode::Char(c) if !control && text.chars().count() < MAX_QUERY_CHARS => text.push(c),
            _ => return true,
        }
        self.look_for_jobs(text);
        true
    }

    /// What may stand where the query ends.
    pub fn query_completions(&self) -> Vec<String> {
        let view = self.view();
        let types = view.map_or(&[][..], |view| &view.types).iter();
        let types = types.filter(|of| of.kind == TaskKind::Job);
        let types: Vec<_> = types.map(|of| of.name.as_str()).collect();
        let lanes = view.map_or(&[][..], |view| &view.lanes).iter();
        let lanes: Vec<_> = lanes.map(|lane| lane.name.as_str()).collect();
        query::completions(&self.looks.jobs.text, &types, &lanes)
    }

    /// Completes the query as far as there is no choice.
    fn complete_query(&mut self) -> bool {
        let completed = query::completed(&self.looks.jobs.text, &self.query_completions());
        if let Some(text) = completed {
            self.look_for_jobs(text);
        }
        true
    }

    /// At the end of a page of jobs, a step leads to the next page. Returns whether it did.
    pub(super) fn turn_jobs_page(&mut self, step: Step) -> bool {
        let Some(Ok(page)) = self.jobs_page() else {
            return false;
        };
        let selected = self.table(Panel::Jobs).selected();
        let at =
            |row: Option<&JobRow>| row.is_some_and(|row| Some(&row.id.to_string()) == selected);
        let offset = self.looks.jobs.offset;
        let further = u64::from(offset + PAGE) < page.matching.min(MAX_DEPTH as u64);
        let next = match step {
            Step::Down if at(page.rows.last()) && further => offset + PAGE,
            Step::Up if at(page.rows.first()) && offset > 0 => offset.saturating_sub(PAGE),
            _ => return false,
        };
        self.looks.jobs.offset = next;
        true
    }

    /// The life of the selected job, as far as its trace tells it.
    pub fn selected_life(&self) -> Option<Life> {
        let job = self.selected_job()?;
        let at_unix_ns = self.world.now_unix_ns;
        let mut lives = match self.trace_view(job.trace) {
            Some(Ok(view)) => self.lives_of(view),
            _ => Lives::default(),
        };
        lives.listed(job, at_unix_ns);
        let lives = lives.in_order();
        lives.into_iter().find(|life| life.job == Some(job.id))
    }

    // --- types

    /// The type that is selected on the screen of jobs.
    pub fn selected_type(&self) -> Option<&TypeView> {
        let selected = self.table(Panel::JobTypes).selected()?;
        let types = &self.view()?.types;
        types.iter().find(|row| (TYPES.row_key)(row) == *selected)
    }

    fn histograms_question(&self) -> Option<Question> {
        let of = self.selected_type()?;
        Some(Question::Histograms(TypeKey {
            name: of.name.clone(),
            kind: of.kind,
            lane: of.lane.clone(),
        }))
    }

    /// The histograms of the selected type, or why there are none; `None` before they have come.
    pub fn histograms(&self) -> Option<Result<&TypeHistograms, &str>> {
        let question = self.histograms_question()?;
        let known = self.world.answers.find(self.shown?, &question)?;
        Some(match &known.outcome {
            Ok(Answered::Histograms(histograms)) => Ok(histograms),
            Ok(_) => Err("the agent answered something else"),
            Err(why) => Err(why),
        })
    }

    // --- traces

    /// The traces that are kept, or why there are none; `None` before they have come.
    pub fn traces(&self) -> Option<Result<&TraceList, &str>> {
        let known = self.known(&Question::Traces)?;
        Some(match &known.outcome {
            Ok(Answered::Traces(traces)) => Ok(traces),
            Ok(_) => Err("the agent answered something else"),
            Err(why) => Err(why),
        })
    }

    fn traces_kept_for(&self, why: fn(Why) -> bool) -> Cow<'_, [TraceSummary]> {
        let Some(Ok(traces)) = self.traces() else {
            return Cow::default();
        };
        let kept = traces.traces.iter().filter(|trace| why(trace.why));
        kept.cloned().collect()
    }

    pub fn failed_traces(&self) -> Cow<'_, [TraceSummary]> {
        self.traces_kept_for(|why| why == Why::Failed)
    }

    /// The slowest first: they are looked at for what they took.
    pub fn slow_traces(&self) -> Cow<'_, [TraceSummary]> {
        let mut slow = self.traces_kept_for(|why| why == Why::Slow).into_owned();
        slow.sort_by_key(|trace| std::cmp::Reverse(trace.length_ns));
        slow.into()
    }

    pub fn recent_traces(&self) -> Cow<'_, [TraceSummary]> {
        self.traces_kept_for(|_| true)
    }

    /// The trace that the keys act on.
    fn selected_trace(&self) -> Option<TraceId> {
        let panel = self.focused()?;
        self.table(panel).selected()?.parse().ok()
    }

    /// Opens the selected trace.
    pub fn open_trace(&mut self) -> Option<Request> {
        let trace = self.selected_trace()?;
        self.show_trace(trace);
        None
    }

    /// Opens the trace of the selected job.
    pub fn open_trace_of_job(&mut self) -> Option<Request> {
        let trace = self.selected_job()?.trace?;
        self.show_trace(trace);
        None
    }

    fn show_trace(&mut self, trace: TraceId) {
        self.looks.trace = Some(trace);
        self.looks.trace_from = Some(self.mode);
        self.panels[Panel::Trace as usize].first_line = 0;
        self.mode = Mode::Trace;
    }

    /// The screen that an open trace leads back to.
    pub(super) fn back_from_trace(&self) -> Option<Mode> {
        self.looks.trace_from.filter(|_| self.mode == Mode::Trace)
    }

    /// What is known of a trace, or why nothing is; `None` before an answer has come.
    pub fn trace_view(&self, trace: Option<TraceId>) -> Option<Result<&TraceView, &str>> {
        let question = Question::Trace { trace: trace? };
        let known = self.world.answers.find(self.shown?, &question)?;
        Some(match &known.outcome {
            Ok(Answered::Trace(view)) => Ok(view),
            Ok(_) => Err("the agent answered something else"),
            Err(why) => Err(why),
        })
    }

    /// The wall time of a monotonic instant of the service.
    fn unix_ns(&self, mono_ns: u64) -> u64 {
        match (&self.opened, self.view()) {
            (Some(opened), _) => opened.unix_ns(mono_ns),
            (None, Some(view)) => view.hello.clock.to_unix_ns(mono_ns),
            (None, None) => mono_ns,
        }
    }

    fn lives_of(&self, trace: &TraceView) -> Lives {
        let unix_ns = |mono_ns| self.unix_ns(mono_ns);
        let recorded = &trace.recorded;
        let mut lives = Lives::told(&recorded.events, &recorded.names, unix_ns);
        let at_unix_ns = unix_ns(recorded.at_mono_ns);
        for job in &trace.jobs {
            lives.listed(job, at_unix_ns);
        }
        lives
    }

    /// The waterfall of a trace.
    pub fn waterfall(&self, trace: &TraceView) -> Waterfall {
        let lives = self.lives_of(trace).in_order();
        let lives: Vec<_> = lives.iter().collect();
        let stalls = self.view().map_or(&[][..], |view| &view.stalls);
        let now = self.unix_ns(trace.recorded.at_mono_ns);
        Waterfall::new(&lives, stalls, now)
    }

    /// Rows of the trace that is open.
    pub fn trace_lines(&self) -> usize {
        match self.trace_view(self.looks.trace) {
            Some(Ok(view)) => self.waterfall(view).rows.len(),
            _ => 0,
        }
    }

    // --- dependencies

    fn graph_query(&self) -> GraphQuery {
        GraphQuery {
            around: self.looks.around,
            lane: None,
        }
    }

    /// The part of the graph that is looked at, or why there is none; `None` before it has come.
    pub fn graph(&self) -> Option<Result<&Graph, &str>> {
        let known = self.known(&Question::Graph(GraphQuery::default()))?;
        Some(match &known.outcome {
            Ok(Answered::Graph(graph)) => Ok(graph),
            Ok(_) => Err("the agent answered something else"),
            Err(why) => Err(why),
        })
    }

    pub fn tree_rows(&self) -> Cow<'_, [TreeRow]> {
        match self.graph() {
            Some(Ok(graph)) => tree(graph).into(),
            _ => Cow::default(),
        }
    }

    /// Shows everything around the selected job; on it, all again.
    pub fn look_around(&mut self) -> Option<Request> {
        let rows = self.tree_rows();
        let selected = self.table(Panel::Dependencies).selected()?;
        let job = rows.iter().find(|row| row.key == *selected)?.node.job;
        self.looks.around = job.filter(|job| self.looks.around != Some(*job));
        None
    }
}
