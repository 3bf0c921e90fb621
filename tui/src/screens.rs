//! The table of pages, and that of their panels: to add a screen is to add a [`Mode`], a row in [`PAGES`], and for each
//! part of it that the keys act on a [`Panel`] and a row in [`PANELS`]. Keys, tabs, help page, sorting, filtering and
//! scrolling are made of these rows; what is left is a file in `view` that draws it.

mod panels;

use ax_wire::view::ServiceView;
use ratatui::{buffer::Buffer, layout::Rect};

pub use self::panels::{Content, PANELS, Panel};
use crate::view::Screen;

/// Which page is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    Overview,
    Lanes,
    /// One lane alone.
    Lane,
    Jobs,
    /// Single jobs, found by a query.
    JobList,
    Traces,
    /// One trace alone.
    Trace,
    Workers,
    Dependencies,
    Alerts,
    Snapshots,
    Load,
    /// Stacks of what was stuck, of a snapshot file that was opened.
    Stacks,
    /// Running jobs and queue, of such a file.
    Evidence,
    Help,
    Services,
}

/// How a page is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A screen: by its key and by tab.
    Screen(char),
    /// The same, where a snapshot file is shown.
    OfFile(char),
    /// The same, where none is. It may have the key of one that is [of a file](Self::OfFile).
    NotOfFile(char),
    /// From a row of a screen; back leads there.
    Under(Mode),
    /// Over whichever screen is open, by a key of its own.
    Over,
}

/// How a page is drawn.
#[derive(Clone, Copy)]
pub enum Draw {
    /// From the figures of the service that is shown; while there are none, what to do stands there.
    Service(fn(&Screen<'_>, &ServiceView, Rect, &mut Buffer)),
    /// In any case.
    Always(fn(&Screen<'_>, Rect, &mut Buffer)),
}

/// One page.
pub struct Page {
    pub mode: Mode,
    pub place: Place,
    /// Its tab.
    pub name: &'static str,
    /// What is on it, for the help page.
    pub help: &'static str,
    /// What the keys act on, in the order in which they go from one to the next; the first has them at the beginning.
    pub panels: &'static [Panel],
    pub draw: Draw,
}

/// The pages, in the order of [`Mode`]; tab goes through the screens among them in this order.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a method of `Screen<'a>` is not general over 'a where it is named, only where it is called"
)]
pub static PAGES: [Page; 16] = [
    Page {
        mode: Mode::Overview,
        place: Place::Screen('1'),
        name: "Overview",
        help: "overview: what is wrong, how bad over time, who",
        panels: &[Panel::Lanes, Panel::Types, Panel::Workers],
        draw: Draw::Service(|screen, view, area, buf| screen.overview(view, area, buf)),
    },
    Page {
        mode: Mode::Lanes,
        place: Place::Screen('2'),
        name: "Lanes",
        help: "lanes: what comes in, where it queues, what it calls",
        panels: &[Panel::LanesInFull, Panel::Routes, Panel::Downstreams],
        draw: Draw::Service(|screen, view, area, buf| screen.flow(view, area, buf)),
    },
    Page {
        mode: Mode::Lane,
        place: Place::Under(Mode::Lanes),
        name: "Lane",
        help: "one lane",
        panels: &[],
        draw: Draw::Service(|screen, view, area, buf| screen.lane(view, area, buf)),
    },
    Page {
        mode: Mode::Jobs,
        place: Place::Screen('3'),
        name: "Jobs",
        help: "jobs: types and how long they take, then single jobs",
        panels: &[Panel::JobTypes],
        draw: Draw::Service(|screen, view, area, buf| screen.jobs(view, area, buf)),
    },
    Page {
        mode: Mode::JobList,
        place: Place::Under(Mode::Jobs),
        name: "Jobs",
        help: "single jobs",
        panels: &[Panel::Jobs],
        draw: Draw::Service(|screen, view, area, buf| screen.job_list(view, area, buf)),
    },
    Page {
        mode: Mode::Traces,
        place: Place::Screen('4'),
        name: "Traces",
        help: "traces: failed, slow and recent ones, as waterfalls",
        panels: &[Panel::FailedTraces, Panel::SlowTraces, Panel::RecentTraces],
        draw: Draw::Service(|screen, view, area, buf| screen.traces(view, area, buf)),
    },
    Page {
        mode: Mode::Trace,
        place: Place::Under(Mode::Traces),
        name: "Trace",
        help: "one trace",
        panels: &[Panel::Trace],
        draw: Draw::Service(|screen, view, area, buf| screen.trace(view, area, buf)),
    },
    Page {
        mode: Mode::Workers,
        place: Place::Screen('5'),
        name: "Workers",
        help: "workers: busy share over time, stalls, CPU; blocking pool",
        panels: &[Panel::WorkersInFull],
        draw: Draw::Service(|screen, view, area, buf| screen.workers_in_full(view, area, buf)),
    },
    Page {
        mode: Mode::Dependencies,
        place: Place::Screen('6'),
        name: "Deps",
        help: "dependencies: who waits for whom, and cancelled branches",
        panels: &[Panel::Dependencies],
        draw: Draw::Service(|screen, view, area, buf| screen.dependencies(view, area, buf)),
    },
    Page {
        mode: Mode::Alerts,
        place: Place::Screen('7'),
        name: "Alerts",
        help: "verdicts with evidence; alerts: what fires, and what did",
        panels: &[Panel::Verdicts, Panel::Alerts],
        draw: Draw::Service(|screen, view, area, buf| screen.alerts(view, area, buf)),
    },
    Page {
        mode: Mode::Snapshots,
        place: Place::Screen('8'),
        name: "Snapshots",
        help: "snapshots: evidence on disk",
        panels: &[Panel::Snapshots],
        draw: Draw::Service(|screen, view, area, buf| screen.snapshots(view, area, buf)),
    },
    Page {
        mode: Mode::Load,
        place: Place::NotOfFile('9'),
        name: "Load",
        help: "load: the load session that runs or ran last",
        panels: &[],
        draw: Draw::Always(|screen, area, buf| screen.load(area, buf)),
    },
    Page {
        mode: Mode::Stacks,
        place: Place::OfFile('9'),
        name: "Stacks",
        help: "stacks: what was stuck was doing (ax-top open FILE)",
        panels: &[Panel::Stacks],
        draw: Draw::Service(|screen, view, area, buf| screen.stacks(view, area, buf)),
    },
    Page {
        mode: Mode::Evidence,
        place: Place::OfFile('0'),
        name: "Evidence",
        help: "evidence: running jobs and queue (ax-top open FILE)",
        panels: &[Panel::Evidence],
        draw: Draw::Service(|screen, view, area, buf| screen.evidence(view, area, buf)),
    },
    Page {
        mode: Mode::Help,
        place: Place::Over,
        name: "Help",
        help: "the keys",
        panels: &[Panel::Help],
        draw: Draw::Always(|screen, area, buf| screen.help(area, buf)),
    },
    Page {
        mode: Mode::Services,
        place: Place::Over,
        name: "Services",
        help: "the services",
        panels: &[Panel::Services],
        draw: Draw::Always(|screen, area, buf| screen.services(area, buf)),
    },
];

impl Mode {
    /// Its row.
    pub fn page(self) -> &'static Page {
        &PAGES[self as usize]
    }

    /// The screen that it belongs to.
    pub fn screen(self) -> Self {
        match self.page().place {
            Place::Under(screen) => screen,
            Place::Screen(_) | Place::OfFile(_) | Place::NotOfFile(_) | Place::Over => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_rows_of_panels_stand_in_their_order() {
        for (at, row) in PANELS.iter().enumerate() {
            assert_eq!(row.panel as usize, at, "{:?}", row.panel);
        }
    }

    #[test]
    fn the_rows_of_pages_stand_in_their_order_and_no_key_has_two() {
        let (mut keys, mut not_of_file) = (HashSet::new(), HashSet::new());
        for (at, page) in PAGES.iter().enumerate() {
            assert_eq!(page.mode as usize, at, "{:?}", page.mode);
            match page.place {
                Place::Screen(key) => {
                    assert!(keys.insert(key) && not_of_file.insert(key), "{key}");
                }
                Place::OfFile(key) => assert!(keys.insert(key), "{key}"),
                Place::NotOfFile(key) => assert!(not_of_file.insert(key), "{key}"),
                Place::Under(parent) => {
                    let place = parent.page().place;
                    assert!(matches!(place, Place::Screen(_) | Place::OfFile(_)));
                }
                Place::Over => {}
            }
        }
    }
}
