//! Live control: what is to be changed of a running service is said in words first, and done when the user says yes.

use ax_wire::{
    control::{Action as Change, Control, Controlled, FEATURE, LaneRef},
    job::JobState,
    view::{LaneView, ServiceState},
};

use super::{App, Request};
use crate::{
    format::{printable, service_name},
    keys::{ControlKey, Key},
    screens::{Mode, Panel},
    theme::Tone,
    view::lanes::lane_key,
    world::Link,
};

/// A change that waits for a yes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirm {
    /// What will happen.
    pub words: String,
    control: Control,
}

impl App {
    /// Asks whether the selected lane or job is to be changed so, where the service allows it.
    pub(super) fn control(&mut self, key: ControlKey, now_unix_ns: u64) -> Option<Request> {
        let wish = match key {
            ControlKey::Pause => self.pause_wish(),
            ControlKey::Cancel => self.job_wish("cancelled", |job| Change::Cancel { job }),
            ControlKey::Retry => self.job_wish("queued again", |job| Change::Retry { job }),
            ControlKey::Resize => {
                let limit = self.lane_acted_on().map(|lane| lane.limit);
                match limit {
                    Ok(limit) => {
                        self.open_command_with(&format!("resize {limit}"));
                        return None;
                    }
                    Err(why) => Err(why),
                }
            }
        };
        self.confirm(wish, now_unix_ns);
        None
    }

    /// Asks whether the selected lane is to have another limit.
    pub(super) fn resize(&mut self, limit: &str, now_unix_ns: u64) -> Option<Request> {
        let wish = limit
            .parse()
            .map_err(|_| format!("`{limit}` is no limit: a whole number"));
        let wish = wish.and_then(|limit: u64| self.resize_wish(limit));
        self.confirm(wish, now_unix_ns);
        None
    }

    /// Takes the answer of the user.
    pub(super) fn answer(
        &mut self,
        confirm: Confirm,
        key: Key,
        now_unix_ns: u64,
    ) -> Option<Request> {
        if key.typed() == Some('y') {
            self.say(
                &format!("asked: {}", confirm.control.action),
                Tone::Plain,
                now_unix_ns,
            );
            return Some(Request::Control(confirm.control));
        }
        self.say("not done", Tone::Plain, now_unix_ns);
        None
    }

    /// Tells what became of a change.
    pub fn controlled(&mut self, controlled: &Controlled, now_unix_ns: u64) {
        match &controlled.outcome {
            Ok(done) => self.say(done, Tone::Good, now_unix_ns),
            Err(why) => self.say(&format!("not done: {why}"), Tone::Warning, now_unix_ns),
        }
    }

    /// Why nothing can be changed of the service that is shown, if so.
    pub fn uncontrollable(&self) -> Option<String> {
        if self.readonly {
            return Some(
                "nothing is asked of the service: ax-top was started with --readonly".to_owned(),
            );
        }
        if self.playback.is_some() || self.opened.is_some() {
            return Some("what is over cannot be changed".to_owned());
        }
        if matches!(self.world.link, Link::Connecting { .. }) {
            return Some("no agent is connected to hand it on".to_owned());
        }
        let Some(view) = self.view() else {
            return Some("no service is shown".to_owned());
        };
        if view.summary.state != ServiceState::Live {
            let name = printable(service_name(&view.summary.service));
            return Some(format!(
                "{name} is not heard: nothing can be changed of it now"
            ));
        }
        let allows = view.hello.features.iter().any(|feature| feature == FEATURE);
        (!allows).then(|| {
            format!(
                "{} does not allow it: build its probe with allow_control(true)",
                printable(service_name(&view.summary.service))
            )
        })
    }

    fn confirm(&mut self, wish: Result<(Change, String), String>, now_unix_ns: u64) {
        let refused = self.uncontrollable().map_or(Ok(()), Err);
        let instance = self.shown.ok_or_else(|| "no service is shown".to_owned());
        match refused.and(wish).and_then(|wish| Ok((wish, instance?))) {
            Ok(((action, what), instance)) => {
                self.controls += 1;
                let control = Control {
                    instance,
                    id: self.controls,
                    action,
                };
                let of = self
                    .view()
                    .map_or("", |view| service_name(&view.summary.service));
                let words = printable(&format!("{} of {of}? {what}", control.action));
                self.confirm = Some(Confirm { words, control });
            }
            Err(why) => self.say(&why, Tone::Warning, now_unix_ns),
        }
    }

    /// The lane that is open, or selected.
    fn lane_acted_on(&self) -> Result<&LaneView, String> {
        let key = match (self.mode, self.focused()) {
            (Mode::Lane, _) => self.lane.as_ref(),
            (_, Some(panel @ (Panel::Lanes | Panel::LanesInFull))) => self.table(panel).selected(),
            _ => None,
        };
        let key = key.ok_or_else(|| "select a lane first: 2 lists them".to_owned())?;
        let mut lanes = self.view().map_or(&[][..], |view| &view.lanes).iter();
        let lane = lanes.find(|lane| lane_key(lane) == *key);
        lane.ok_or_else(|| "this lane is no longer there".to_owned())
    }

    fn pause_wish(&self) -> Result<(Change, String), String> {
        let view = self.lane_acted_on()?;
        let lane = lane_ref(view);
        Ok(if view.paused {
            let what = format!(
                "its {} queued jobs begin, {} at a time.",
                view.pending, view.limit
            );
            (Change::Resume { lane }, what)
        } else {
            let what = format!(
                "it begins no job until it is resumed; the {} that run go on, and what comes is queued.",
                view.running
            );
            (Change::Pause { lane }, what)
        })
    }

    fn resize_wish(&self, limit: u64) -> Result<(Change, String), String> {
        let view = self.lane_acted_on()?;
        let lane = lane_ref(view);
        if limit == 0 {
            return Err("a limit is 1 or more; to let a lane begin nothing, pause it".to_owned());
        }
        let what = if limit < view.running {
            format!(
                "from {}; {} run now, and none is stopped: fewer begin.",
                view.limit, view.running
            )
        } else {
            format!(
                "from {}; {} run now, {} are queued.",
                view.limit, view.running, view.pending
            )
        };
        Ok((Change::Resize { lane, limit }, what))
    }

    fn job_wish(
        &self,
        what: &str,
        change: fn(ax_wire::JobId) -> Change,
    ) -> Result<(Change, String), String> {
        let job = self
            .selected_job()
            .filter(|_| self.focused() == Some(Panel::Jobs));
        let job = job.ok_or_else(|| "select a job first: 3, then enter on its type".to_owned())?;
        let state = match job.state {
            JobState::Running => "it runs: it is asked to end, and dropped after its lane's grace",
            JobState::Ready => "it is queued",
            JobState::Waiting => "it waits",
            state => {
                let (name, state) = (&job.job_type, state.word());
                return Err(format!("{name} #{} has ended: {state}", job.id));
            }
        };
        let what = format!("{} is {what}; {state}.", job.job_type);
        Ok((change(job.id), what))
    }
}

fn lane_ref(lane: &LaneView) -> LaneRef {
    LaneRef {
        name: lane.name.clone(),
        scheduler: Some(lane.scheduler),
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::{
        fixture::{self, asked},
        keys::Action,
        view::tests::drawn,
    };

    fn app(allows: bool) -> App {
        let mut view = fixture::firing();
        if allows {
            view.hello.features.push(FEATURE.to_owned());
        }
        let mut app = App::new(None, TimeZone::UTC);
        app.take(fixture::world(vec![view]));
        app
    }

    fn press(app: &mut App, key: &str) -> Option<Request> {
        let key: Key = key.parse().expect("a key");
        app.press(&key.event(), fixture::NOW_UNIX_NS)
    }

    fn note(app: &App) -> &str {
        app.note.as_ref().map_or("", |note| &note.text)
    }

    /// `F97`: what will happen is said, and only a yes does it.
    #[test]
    fn a_lane_is_paused_once_somebody_says_yes() {
        let mut app = app(true);
        assert_eq!(press(&mut app, "P"), None);
        let screen = drawn(&app, 120, 40);
        assert!(
            screen.contains("pause lane db of checkout? it begins no job"),
            "{screen}"
        );
        assert_eq!(press(&mut app, "enter"), None);
        assert_eq!(note(&app), "not done");
        press(&mut app, "P");
        let Some(Request::Control(control)) = press(&mut app, "y") else {
            panic!("asks for nothing");
        };
        assert_eq!(control.action.to_string(), "pause lane db");
        assert_eq!(control.instance, fixture::instance(1));
        let outcome = Ok("lane db is paused".to_owned());
        app.controlled(
            &Controlled {
                id: control.id,
                outcome,
            },
            0,
        );
        assert_eq!(note(&app), "lane db is paused");
    }

    #[test]
    fn a_limit_is_typed_and_confirmed() {
        let mut app = app(true);
        press(&mut app, "R");
        assert_eq!(
            app.prompt.as_ref().map(|prompt| prompt.text.as_str()),
            Some("resize 40")
        );
        for key in ["backspace", "backspace", "5", "enter"] {
            assert_eq!(press(&mut app, key), None);
        }
        let words = app.confirm.as_ref().map(|confirm| confirm.words.clone());
        assert!(words.is_some_and(
            |words| words.contains("resize lane db to 5") && words.contains("none is stopped")
        ));
        assert!(matches!(press(&mut app, "y"), Some(Request::Control(_))));
    }

    /// On the smallest screens, too, what will happen is read in full before it is answered.
    #[test]
    fn a_question_is_never_cut() {
        let mut app = app(true);
        press(&mut app, "P");
        for (width, height) in [(120, 40), (80, 24), (60, 20), (38, 9)] {
            let screen = drawn(&app, width, height);
            let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                words.contains(
                    "until it is resumed; the 31 that run go on, and what comes is queued."
                ),
                "{screen}"
            );
            assert!(words.contains("y yes, any other key no"), "{screen}");
        }
        press(&mut app, "n");
        app.controlled(
            &Controlled {
                id: 1,
                outcome: Err(format!("the folder {} is full", "/long".repeat(30))),
            },
            0,
        );
        let screen = drawn(&app, 80, 24);
        let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.contains("is full") && words.contains("? help"),
            "{screen}"
        );
    }

    #[test]
    fn what_cannot_be_is_not_asked() {
        let mut app = app(true);
        assert!(app.command("resize 0", 0).is_none() && app.confirm.is_none());
        assert!(note(&app).contains("1 or more"), "{}", note(&app));
        app.mode = Mode::JobList;
        asked::answer_all(&mut app, asked::answer);
        press(&mut app, "x");
        assert!(app.confirm.take().is_some(), "a job that runs");
        press(&mut app, "G");
        press(&mut app, "x");
        assert_eq!(app.confirm, None);
        assert!(note(&app).contains("has ended: "), "{}", note(&app));
    }

    #[test]
    fn what_is_not_allowed_is_not_offered_and_says_why() {
        let mut refused = app(false);
        press(&mut refused, "P");
        assert_eq!(refused.confirm, None);
        assert!(
            note(&refused).contains("allow_control(true)"),
            "{}",
            note(&refused)
        );
        let mut readonly = app(true);
        readonly.readonly = true;
        for key in [
            ControlKey::Pause,
            ControlKey::Resize,
            ControlKey::Cancel,
            ControlKey::Retry,
        ] {
            assert_eq!(readonly.update(Action::Control(key), 0), None);
            assert!(readonly.confirm.is_none() && readonly.prompt.is_none());
            assert!(
                note(&readonly).contains("--readonly"),
                "{}",
                note(&readonly)
            );
        }
        assert_eq!(press(&mut readonly, "c"), None);
        let mut gone = app(true);
        let mut world = gone.world.clone();
        for service in &mut world.services {
            service.state = ServiceState::Lost;
        }
        world.apply(crate::world::Update::Frame(ax_wire::ToViewer::Services(
            ax_wire::view::Services {
                services: world.services.clone(),
                agent_dropped: world.agent_dropped,
                file_problem: None,
            },
        )));
        gone.take(world);
        press(&mut gone, "P");
        assert_eq!(gone.confirm, None);
        assert!(note(&gone).contains("is not heard"), "{}", note(&gone));
    }
}
