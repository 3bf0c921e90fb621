//! The jobs that wait, who waits for whom, and the names and keys of jobs: one map each, so that no step depends on how
//! many wait.
//!
//! One lock for a scheduler, taken for jobs that wait or have a name, key or dependents, and by no other. Taken before
//! a lane's lock where both are needed. No code of the user runs under it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use ax_probe::clock::duration_ns;
use ax_wire::JobId;

use crate::{
    JobError, JobState, SubmitError,
    cell::{Header, Job},
    hub::Remember,
    job_ref::JobRef,
    plan::{Dependency, DependencyFailure, On, PathStep},
    shared::After,
};

/// Why a job waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitKind {
    /// For other jobs.
    Dependencies,
    /// For its time.
    Time,
    /// For the backoff after a failed attempt.
    Retry,
    /// Its backoff is over; for the retry budget.
    Budget,
    /// All its attempts have failed; for a person to retry or drop it.
    Person,
}

impl WaitKind {
    /// All that exist, in the order of their numbers.
    pub(crate) const ALL: [Self; 5] = [
        Self::Dependencies,
        Self::Time,
        Self::Retry,
        Self::Budget,
        Self::Person,
    ];
}

/// What must end before a job is ready.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Dep {
    Job(JobId),
    /// Of a job that has not been submitted yet.
    Name(Arc<str>),
}

pub(crate) struct Waiting {
    pub(crate) job: Arc<dyn Job>,
    pub(crate) kind: WaitKind,
    pub(crate) since_ns: u64,
    /// 0 where no time was set.
    pub(crate) until_ns: u64,
    pub(crate) unmet: HashSet<Dep>,
    pub(crate) any: bool,
    /// How the last attempt ended, in words.
    pub(crate) reason: Option<Arc<str>>,
    /// How the last attempt ended: what the handle is told when the job is dropped from the manual list.
    pub(crate) error: Option<JobError>,
}

impl Waiting {
    pub(crate) fn new(job: Arc<dyn Job>, kind: WaitKind, now_ns: u64, until_ns: u64) -> Self {
        Self {
            job,
            kind,
            since_ns: now_ns,
            until_ns,
            unmet: HashSet::new(),
            any: false,
            reason: None,
            error: None,
        }
    }

    /// After a failed attempt.
    pub(crate) fn retry(
        job: Arc<dyn Job>,
        kind: WaitKind,
        (now_ns, until_ns): (u64, u64),
        reason: Option<Arc<str>>,
        error: Option<JobError>,
    ) -> Self {
        Self {
            reason,
            error,
            ..Self::new(job, kind, now_ns, until_ns)
        }
    }
}

struct Named {
    job: Arc<dyn Job>,
    /// Set once it has ended without success.
    failure: Option<Arc<DependencyFailure>>,
}

/// A submit of a job that is not plain.
pub(crate) struct Registration<'a> {
    pub(crate) job: &'a Arc<dyn Job>,
    pub(crate) after: &'a [Dependency],
    pub(crate) any: bool,
    /// 0 for at once.
    pub(crate) until_ns: u64,
    pub(crate) now_ns: u64,
}

/// What became of it.
pub(crate) enum Registered {
    Ready(After),
    Waiting,
    /// Accepted, and to be cancelled at once.
    Doomed(Arc<DependencyFailure>),
    /// A job with its key is there already.
    Known(JobRef),
}

/// What an end, or a name that never comes, changes for others.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) ready: Vec<Arc<dyn Job>>,
    pub(crate) timed: Vec<(Arc<dyn Job>, u64)>,
    pub(crate) doomed: Vec<(Waiting, Arc<DependencyFailure>)>,
}

#[derive(Default)]
pub(crate) struct Ledger {
    /// By id, which is the order of submission.
    pub(crate) waiting: BTreeMap<JobId, Waiting>,
    /// Of these, those that wait for a person.
    pub(crate) manual: BTreeSet<JobId>,
    dependents: HashMap<Dep, HashSet<JobId>>,
    /// The jobs that others wait for, of which some run or are queued.
    pub(crate) awaited: HashMap<JobId, Arc<dyn Job>>,
    names: HashMap<Arc<str>, Named>,
    keys: HashMap<Arc<str>, Arc<dyn Job>>,
    /// Jobs with a name or key, by the time of their end.
    ended: VecDeque<(u64, Arc<dyn Job>)>,
}

/// Where a dependency stands.
enum Standing {
    Met,
    /// The job, where there is one yet.
    Open(Dep, Option<Arc<dyn Job>>),
    Failed(Arc<DependencyFailure>),
}

impl Ledger {
    pub(crate) fn register(
        &mut self,
        submit: &Registration<'_>,
    ) -> Result<Registered, SubmitError> {
        let header = submit.job.header();
        let (name, key) = header
            .plan()
            .map_or((None, None), |plan| (plan.name.clone(), plan.key.clone()));
        if let Some(known) = key.as_ref().and_then(|key| self.keys.get(key)) {
            let job = Arc::clone(known);
            return Ok(Registered::Known(JobRef { job }));
        }
        if let Some(name) = &name
            && let Some(named) = self.names.get(name)
            && !named.job.header().state.get().is_end()
        {
            return Err(SubmitError::DuplicateName {
                name: Box::from(&**name),
                job: named.job.header().id,
            });
        }
        let mut unmet = HashSet::new();
        let mut awaited = Vec::new();
        let mut met = false;
        let mut failure = None;
        for dependency in submit.after {
            match self.standing(header, name.as_ref(), dependency)? {
                Standing::Met => met = true,
                Standing::Open(dep, job) => {
                    unmet.insert(dep);
                    awaited.extend(job);
                }
                Standing::Failed(why) => failure = Some(why),
            }
        }
        if let Some(name) = &name {
            self.refuse_cycle(header, name, &unmet)?;
        }
        let satisfied = unmet.is_empty() || (submit.any && met);
        let doomed = if submit.any && (met || !unmet.is_empty()) {
            None
        } else {
            failure
        };
        let waits = doomed.is_some() || !satisfied || submit.until_ns > submit.now_ns;
        let after = header.lane.admit(Arc::clone(submit.job), waits)?;
        if let Some(key) = key {
            self.keys.insert(key, Arc::clone(submit.job));
        }
        if let Some(name) = name {
            self.name(name, submit.job);
        }
        if let Some(failure) = doomed {
            return Ok(Registered::Doomed(failure));
        }
        if !waits {
            return Ok(Registered::Ready(after));
        }
        let kind = if satisfied {
            WaitKind::Time
        } else {
            WaitKind::Dependencies
        };
        let job = Arc::clone(submit.job);
        let mut entry = Waiting::new(job, kind, submit.now_ns, submit.until_ns);
        if !satisfied {
            for dep in &unmet {
                self.dependents
                    .entry(dep.clone())
                    .or_default()
                    .insert(header.id);
            }
            let awaited = awaited.into_iter().map(|job| (job.header().id, job));
            self.awaited.extend(awaited);
            entry.unmet = unmet;
            entry.any = submit.any;
        }
        self.put(entry);
        Ok(Registered::Waiting)
    }

    fn standing(
        &self,
        of: &Header,
        own_name: Option<&Arc<str>>,
        on: &Dependency,
    ) -> Result<Standing, SubmitError> {
        let (job, failure) = match &on.0 {
            On::Job(job) if !Arc::ptr_eq(&job.header().lane.hub, &of.lane.hub) => {
                return Err(SubmitError::ForeignDependency {
                    job: job.header().id,
                });
            }
            On::Job(job) => (job, None),
            On::Name(name) if own_name == Some(name) => {
                let name: Box<str> = Box::from(&**name);
                return Err(SubmitError::Cycle {
                    path: vec![name.clone(), name],
                });
            }
            On::Name(name) => match self.names.get(name) {
                Some(named) => (&named.job, named.failure.clone()),
                None => return Ok(Standing::Open(Dep::Name(Arc::clone(name)), None)),
            },
        };
        let header = job.header();
        Ok(match header.lane.watch(header) {
            JobState::Success => Standing::Met,
            JobState::Failed | JobState::Cancelled => {
                Standing::Failed(failure.unwrap_or_else(|| Arc::new(past_failure(header))))
            }
            _ => Standing::Open(Dep::Job(header.id), Some(Arc::clone(job))),
        })
    }

    /// Looks whether what the job waits for waits, in the end, for the job's own name.
    fn refuse_cycle(
        &self,
        header: &Header,
        name: &Arc<str>,
        unmet: &HashSet<Dep>,
    ) -> Result<(), SubmitError> {
        let own = Dep::Name(Arc::clone(name));
        if !self.dependents.contains_key(&own) {
            return Ok(());
        }
        let mut came_from: HashMap<JobId, JobId> = HashMap::new();
        let mut open: Vec<JobId> = Vec::new();
        let follow =
            |deps: &HashSet<Dep>, from: JobId, open: &mut Vec<_>, came_from: &mut HashMap<_, _>| {
                for dep in deps {
                    if let Dep::Job(id) = dep
                        && !came_from.contains_key(id)
                    {
                        came_from.insert(*id, from);
                        open.push(*id);
                    }
                }
            };
        follow(unmet, header.id, &mut open, &mut came_from);
        while let Some(id) = open.pop() {
            let Some(waiting) = self.waiting.get(&id) else {
                continue;
            };
            if waiting.unmet.contains(&own) {
                let mut path = vec![Box::from(&**name)];
                let mut step = id;
                while step != header.id {
                    if let Some(waiting) = self.waiting.get(&step) {
                        path.push(Box::from(&*step_of(waiting.job.header()).name));
                    }
                    step = came_from.get(&step).copied().unwrap_or(header.id);
                }
                path.push(Box::from(&**name));
                path.reverse();
                return Err(SubmitError::Cycle { path });
            }
            follow(&waiting.unmet, id, &mut open, &mut came_from);
        }
        Ok(())
    }

    /// The name is this job's from now on: who waits for the name, waits for the job.
    fn name(&mut self, name: Arc<str>, job: &Arc<dyn Job>) {
        let id = job.header().id;
        let by_name = Dep::Name(Arc::clone(&name));
        if let Some(ids) = self.dependents.remove(&by_name) {
            for waiting in &ids {
                if let Some(waiting) = self.waiting.get_mut(waiting) {
                    waiting.unmet.remove(&by_name);
                    waiting.unmet.insert(Dep::Job(id));
                }
            }
            self.dependents.entry(Dep::Job(id)).or_default().extend(ids);
            self.awaited.insert(id, Arc::clone(job));
        }
        let job = Arc::clone(job);
        self.names.insert(name, Named { job, failure: None });
    }

    /// A job waits.
    pub(crate) fn put(&mut self, waiting: Waiting) {
        let header = waiting.job.header();
        let id = header.id;
        header.lane.count_waiting(waiting.kind, true);
        if waiting.kind == WaitKind::Person {
            self.manual.insert(id);
        }
        self.waiting.insert(id, waiting);
    }

    /// A job that waits has to wait for this too. False where it does not wait.
    pub(crate) fn wait_on(&mut self, id: JobId, kind: WaitKind, until_ns: u64) -> bool {
        let Some(mut waiting) = self.remove(id) else {
            return false;
        };
        waiting.kind = kind;
        waiting.until_ns = until_ns;
        self.put(waiting);
        true
    }

    /// Takes a job out, whatever it waits for.
    pub(crate) fn remove(&mut self, id: JobId) -> Option<Waiting> {
        let waiting = self.waiting.remove(&id)?;
        waiting.job.header().lane.count_waiting(waiting.kind, false);
        if waiting.kind == WaitKind::Person {
            self.manual.remove(&id);
        }
        for dep in &waiting.unmet {
            if let Some(ids) = self.dependents.get_mut(dep) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.dependents.remove(dep);
                    if let Dep::Job(id) = dep {
                        self.awaited.remove(id);
                    }
                }
            }
        }
        Some(waiting)
    }

    /// The jobs that wait for this one.
    pub(crate) fn dependents_of(&self, id: JobId) -> impl Iterator<Item = JobId> {
        self.dependents
            .get(&Dep::Job(id))
            .into_iter()
            .flatten()
            .copied()
    }

    /// A watched job has ended; `failure` where it did not succeed.
    pub(crate) fn ended(
        &mut self,
        header: &Header,
        failure: Option<&Arc<DependencyFailure>>,
        now_ns: u64,
        remember: Remember,
    ) -> Changes {
        if let Some(plan) = header.plan() {
            let mut ended = None;
            if let Some(name) = &plan.name
                && let Some(named) = self.names.get_mut(name)
                && named.job.header().id == header.id
            {
                named.failure = failure.cloned();
                ended = Some(Arc::clone(&named.job));
            }
            if let Some(key) = &plan.key {
                ended = ended.or_else(|| self.keys.get(key).cloned());
            }
            self.ended.extend(ended.map(|job| (now_ns, job)));
        }
        self.forget_old(now_ns, remember);
        self.settle(&Dep::Job(header.id), failure, now_ns)
    }

    /// Names that nobody has will never come: nobody can submit any more.
    pub(crate) fn close_names(&mut self, now_ns: u64) -> Changes {
        let names = self.dependents.keys().filter_map(|dep| match dep {
            Dep::Name(name) => Some(Arc::clone(name)),
            Dep::Job(_) => None,
        });
        let mut all = Changes::default();
        for name in names.collect::<Vec<_>>() {
            let failure = Arc::new(DependencyFailure {
                path: vec![PathStep {
                    job: None,
                    name: Arc::clone(&name),
                }],
                left_out: 0,
                reason: Arc::from("no job of this name was submitted"),
            });
            let changes = self.settle(&Dep::Name(name), Some(&failure), now_ns);
            all.ready.extend(changes.ready);
            all.timed.extend(changes.timed);
            all.doomed.extend(changes.doomed);
        }
        all
    }

    /// `dep` has ended.
    fn settle(
        &mut self,
        dep: &Dep,
        failure: Option<&Arc<DependencyFailure>>,
        now_ns: u64,
    ) -> Changes {
        let mut changes = Changes::default();
        let Some(ids) = self.dependents.remove(dep) else {
            return changes;
        };
        if let Dep::Job(id) = dep {
            self.awaited.remove(id);
        }
        let mut ids: Vec<_> = ids.into_iter().collect();
        // In the order of their submission.
        ids.sort_unstable();
        for id in ids {
            let Some(waiting) = self.waiting.get_mut(&id) else {
                continue;
            };
            waiting.unmet.remove(dep);
            let left = waiting.unmet.len();
            let doomed = failure.filter(|_| !waiting.any || left == 0);
            let satisfied = failure.is_none() && (waiting.any || left == 0);
            if let Some(failure) = doomed {
                let failure = Arc::clone(failure);
                changes
                    .doomed
                    .extend(self.remove(id).map(|waiting| (waiting, failure)));
            } else if satisfied && waiting.until_ns > now_ns {
                let until_ns = waiting.until_ns;
                if let Some(mut waiting) = self.remove(id) {
                    waiting.unmet.clear();
                    waiting.kind = WaitKind::Time;
                    changes.timed.push((Arc::clone(&waiting.job), until_ns));
                    self.put(waiting);
                }
            } else if satisfied {
                changes
                    .ready
                    .extend(self.remove(id).map(|waiting| waiting.job));
            }
        }
        changes
    }

    /// Forgets names and keys of jobs that ended long ago, or are too many.
    pub(crate) fn forget_old(&mut self, now_ns: u64, remember: Remember) {
        let old_ns = now_ns.saturating_sub(duration_ns(remember.time));
        while let Some((ended_ns, _)) = self.ended.front()
            && (*ended_ns < old_ns || self.ended.len() > remember.count)
        {
            let Some((_, job)) = self.ended.pop_front() else {
                return;
            };
            let Some(plan) = job.header().plan() else {
                continue;
            };
            let same = |known: &Arc<dyn Job>| known.header().id == job.header().id;
            if let Some(name) = &plan.name
                && self.names.get(name).is_some_and(|named| same(&named.job))
            {
                self.names.remove(name);
            }
            if let Some(key) = &plan.key
                && self.keys.get(key).is_some_and(same)
            {
                self.keys.remove(key);
            }
        }
    }
}

/// The step of a path that a job is.
pub(crate) fn step_of(header: &Header) -> PathStep {
    let name = header.plan().and_then(|plan| plan.name.clone());
    PathStep {
        job: Some(header.id),
        name: name.unwrap_or_else(|| Arc::from(header.task.name())),
    }
}

/// Of a job that had failed before anybody depended on it.
fn past_failure(header: &Header) -> DependencyFailure {
    let state = header.state.get().name();
    let record = header.lane.records.lock().find(header.id);
    let reason = record.and_then(|record| record.error);
    DependencyFailure {
        path: vec![step_of(header)],
        left_out: 0,
        reason: reason.unwrap_or_else(|| Arc::from(state)),
    }
}
