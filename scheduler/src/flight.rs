//! What the probe's flight recorder is told of a job, and what an incident is told that it waits for.

use ax_probe::{recorder, task_type::End, trace};
use ax_wire::{JobId, incident::WaitsFor, recorder::RecordedKind};

use crate::cell::Header;

impl Header {
    /// Something happened to the job; `length_ns` is what [`RecordedKind`] says. About 10 ns.
    pub(crate) fn tell(&self, kind: RecordedKind, at_ns: u64, length_ns: Option<u64>) {
        if matches!(kind, RecordedKind::Submitted | RecordedKind::Ready) {
            recorder::record_begin(kind, &self.subject(), at_ns, self.parent());
        } else {
            recorder::record(kind, &self.subject(), at_ns, length_ns);
        }
    }

    /// The job inside which it was submitted.
    pub(crate) fn parent(&self) -> Option<JobId> {
        trace::job_of_span(self.inherited.parent()?, self.id)
    }

    pub(crate) fn waits_for(&self, now_ns: u64) -> Option<WaitsFor> {
        self.plan()?.waits.get()?.told(now_ns)
    }

    pub(crate) fn tell_end(&self, end: End, at_ns: u64, run_ns: u64) {
        let kind = match end {
            End::Succeeded => RecordedKind::Succeeded,
            End::Failed => RecordedKind::Failed,
            End::Panicked => RecordedKind::Panicked,
            End::TimedOut => RecordedKind::TimedOut,
            End::Cancelled => RecordedKind::Cancelled,
        };
        self.tell(kind, at_ns, Some(run_ns));
    }
}
