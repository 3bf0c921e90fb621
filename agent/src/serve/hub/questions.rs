//! What viewers ask beyond what they are sent: answered from a history, or by the service and then completed from it.

use ax_wire::{
    InstanceId, ToService, ToViewer, TraceId,
    hello::Hello,
    job::{JobsPage, JobsQuery},
    query::{Answer, Answered, Ask, FEATURE, Inquiry, Question},
    trace::{RecordedTrace, TraceView},
};

use super::Hub;
use crate::{
    clock::Now,
    history::{ServiceHistory, merge},
    serve::{connection::ConnectionId, questions::Open},
};

impl Hub {
    /// Takes a question of a viewer.
    pub(super) fn ask(&mut self, viewer: ConnectionId, ask: &Ask, now: Now) {
        // It takes the place of the one before, also where it is answered at once.
        self.questions.close(viewer);
        let number = ask.number;
        if !self.questions.admit(viewer, now) {
            let why = "too many questions in a second: ask again".to_owned();
            return self.tell_answer(viewer, number, Err(why));
        }
        let service = self.services.get(&ask.instance);
        let visible = service.filter(|s| self.viewers.sees(viewer, s.history.uid()));
        let Some(service) = visible else {
            return self.tell_answer(viewer, number, Err("there is no such service".to_owned()));
        };
        let history = &service.history;
        let outcome = match &ask.question {
            Question::Traces => Ok(Answered::Traces(history.kept.list(history.clock))),
            Question::Histograms(of) => history
                .type_histograms(of)
                .map(|histograms| Answered::Histograms(Box::new(histograms)))
                .ok_or_else(|| "the service has told of no such type".to_owned()),
            Question::Jobs(_) | Question::Trace { .. } | Question::Graph(_) => {
                let asked = knows_questions(&history.hello).and_then(|()| {
                    let sent = self.questions.open(
                        (viewer, number),
                        ask.instance,
                        ask.question.clone(),
                        now,
                    );
                    let question = for_service(&ask.question);
                    let inquiry = Inquiry {
                        number: sent,
                        question,
                    };
                    service
                        .send(ToService::Ask(inquiry))
                        .map_err(ToOwned::to_owned)
                });
                match asked {
                    Ok(()) => return,
                    Err(why) => {
                        self.questions.close(viewer);
                        self.compose(ask.instance, &ask.question, Err(why), now)
                    }
                }
            }
            Question::Unknown => {
                Err("this agent is older and does not know that question: update it".to_owned())
            }
        };
        self.tell_answer(viewer, number, outcome);
    }

    /// A service has answered.
    pub(super) fn answered(&mut self, instance: InstanceId, answer: Answer, now: Now) {
        if let Some(open) = self.questions.answered(instance, answer.number) {
            self.conclude(&open, answer.outcome, now);
        }
    }

    /// Answers what waits too long with what is known here.
    pub(super) fn conclude_late(&mut self, now: Now) {
        let services = &self.services;
        let gone = |instance| {
            let service = services.get(&instance);
            service.is_none_or(|service| service.speaker.is_none())
        };
        let late = self.questions.time_out(now, gone).into_iter();
        let late = late.map(|open| {
            let why = if gone(open.instance) {
                "the service is gone"
            } else {
                "the service did not answer in time"
            };
            (open, why)
        });
        for (open, why) in late.collect::<Vec<_>>() {
            self.conclude(&open, Err(why.to_owned()), now);
        }
    }

    fn conclude(&mut self, open: &Open, outcome: Result<Answered, String>, now: Now) {
        let outcome = self.compose(open.instance, &open.question, outcome, now);
        self.tell_answer(open.viewer, open.number, outcome);
    }

    /// What the viewer is told: the answer of the service, completed with what is kept here; where the service gave none,
    /// what is kept here alone.
    fn compose(
        &self,
        instance: InstanceId,
        question: &Question,
        outcome: Result<Answered, String>,
        now: Now,
    ) -> Result<Answered, String> {
        let Some(service) = self.services.get(&instance) else {
            return outcome;
        };
        let history = &service.history;
        match (question, outcome) {
            (Question::Jobs(query), Ok(Answered::Jobs(page))) => {
                Ok(Answered::Jobs(with_kept(history, query, page, now)))
            }
            (Question::Jobs(query), Err(why)) => {
                let page = JobsPage {
                    unknown: vec![format!("jobs that have not ended: {why}")],
                    ..JobsPage::default()
                };
                Ok(Answered::Jobs(with_kept(history, query, page, now)))
            }
            (Question::Trace { trace }, Ok(Answered::Trace(view))) => {
                Ok(Answered::Trace(with_kept_trace(history, *trace, view)))
            }
            (Question::Trace { trace }, Err(why)) => {
                kept_trace(history, *trace, &why).map(Answered::Trace)
            }
            (Question::Graph(_), Ok(Answered::Graph(graph))) => Ok(Answered::Graph(graph)),
            (_, Err(why)) => Err(why),
            (_, Ok(_)) => Err("the service answered something else".to_owned()),
        }
    }

    fn tell_answer(
        &mut self,
        viewer: ConnectionId,
        number: u64,
        outcome: Result<Answered, String>,
    ) {
        let answer = ToViewer::Answer(Box::new(Answer { number, outcome }));
        self.viewers.send_to(viewer, &answer, &mut self.dropped);
    }
}

fn knows_questions(hello: &Hello) -> Result<(), String> {
    if hello.features.iter().any(|feature| feature == FEATURE) {
        return Ok(());
    }
    let version = &hello.probe_version;
    Err(format!(
        "the service's ax-probe {version} cannot be asked: update it"
    ))
}

/// The service does not know the jobs that only the agent has kept, so it is asked for all that stand before the page, too.
fn for_service(question: &Question) -> Question {
    match question {
        Question::Jobs(query) => Question::Jobs(JobsQuery {
            offset: 0,
            limit: query.offset + query.limit,
            ..query.clone()
        }),
        other => other.clone(),
    }
}

/// Adds the jobs that are kept here, and cuts out the page that was asked for.
fn with_kept(
    history: &ServiceHistory,
    query: &JobsQuery,
    mut page: JobsPage,
    now: Now,
) -> JobsPage {
    for kept in history.kept.jobs(query, now.mono_ns) {
        if !page.rows.iter().any(|row| row.id == kept.id) {
            page.rows.push(kept);
            page.matching += 1;
        }
    }
    page.rows.sort_by(|a, b| query.order(a, b));
    page.rows
        .drain(..page.rows.len().min(query.offset as usize));
    page.rows.truncate(query.limit as usize);
    page
}

fn with_kept_trace(history: &ServiceHistory, trace: TraceId, mut view: TraceView) -> TraceView {
    if let Some(kept) = history.kept.trace(trace) {
        merge(&mut view.recorded, kept.trace.clone());
        if !view.jobs.iter().any(|job| job.id == kept.job.id) {
            view.jobs.push(kept.job.clone());
        }
    }
    view
}

fn kept_trace(history: &ServiceHistory, trace: TraceId, why: &str) -> Result<TraceView, String> {
    let kept = history.kept.trace(trace);
    let kept = kept.ok_or_else(|| format!("nothing of this trace is kept, and {why}"))?;
    let recorded: RecordedTrace = kept.trace.clone();
    Ok(TraceView {
        recorded,
        jobs: vec![kept.job.clone()],
        unknown: vec![format!("what the service still has of it: {why}")],
    })
}
