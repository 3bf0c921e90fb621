//! What one thread saw in one phase.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use ax_wire::{
    LatencyHistogram,
    session::{Client, Slice},
};

use super::{
    connection::{Answer, SendError},
    ns,
    pace::between_ns,
    run_in::RunIn,
};

/// Shared by the requests of a phase. All of them run on the thread that made it, so nobody ever waits for the lock.
pub fn shared(run_in: &Arc<RunIn>, length: Duration, slice: Duration) -> Arc<Mutex<Tally>> {
    Arc::new(Mutex::new(Tally::new(Arc::clone(run_in), length, slice)))
}

pub fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

/// See the module.
pub struct Tally {
    /// What comes before the counted part.
    run_in: Arc<RunIn>,
    /// Of the counted part.
    length: Duration,
    slice: Duration,
    client: Client,
    slices: Vec<Counts>,
    in_flight: u64,
    /// Since when that many are.
    level_since: Instant,
    /// Requests under way x time, within the counted part.
    area_s: f64,
    starved: Option<(u64, Duration)>,
}

#[derive(Default)]
struct Counts {
    achieved: u64,
    errors: u64,
    /// At its end.
    in_flight: u64,
    closed: bool,
    latency: Option<LatencyHistogram>,
}

impl Tally {
    pub fn new(run_in: Arc<RunIn>, length: Duration, slice: Duration) -> Self {
        let slices = (length.as_secs_f64() / slice.as_secs_f64())
            .round()
            .max(1.0) as usize;
        Self {
            run_in,
            length,
            slice,
            client: Client::default(),
            slices: (0..slices).map(|_| Counts::default()).collect(),
            in_flight: 0,
            level_since: Instant::now(),
            area_s: 0.0,
            starved: None,
        }
    }

    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// How much of the phase was counted: less than planned where it was stopped.
    pub fn measured(&self) -> Duration {
        self.length
    }

    /// The counted part, from and to. `None`: it has not begun, and it is not known when it will.
    fn counted(&self) -> Option<(Instant, Instant)> {
        let from = self.run_in.over()?;
        Some((from, from + self.length))
    }

    fn is_counted(&self, intended: Instant) -> bool {
        self.counted().is_some_and(|(from, _)| intended >= from)
    }

    /// A request is due. Whether it may be sent.
    pub fn begin(&mut self, intended: Instant, most: u64) -> bool {
        let counted = u64::from(self.is_counted(intended));
        let room = self.in_flight < most;
        self.client.scheduled_total += counted;
        if room {
            self.client.sent_total += counted;
            self.level(Instant::now());
            self.in_flight += 1;
        } else {
            self.client.dropped_total += counted;
        }
        room
    }

    /// A request has ended.
    pub fn end(&mut self, intended: Instant, ended: Instant, answer: Answer) {
        self.level(ended);
        self.in_flight = self.in_flight.saturating_sub(1);
        let sent = answer.sent.unwrap_or(ended);
        let latency_ns = between_ns(intended, ended);
        let ok = answer.outcome.is_ok();
        if let Some(slice) = self.slice_of(ended) {
            let counts = &mut self.slices[slice];
            counts.achieved += u64::from(ok);
            counts.errors += u64::from(!ok);
            self.client.achieved_total += u64::from(ok);
            counts.latency.get_or_insert_default().record_ns(latency_ns);
        }
        if !self.is_counted(intended) {
            return;
        }
        self.client.latency.record_ns(latency_ns);
        self.client.service_time.record_ns(between_ns(sent, ended));
        if answer.sent.is_some() {
            self.client.send_error.record_ns(between_ns(intended, sent));
        }
        if let Err(error) = answer.outcome {
            self.failed(&error);
        }
    }

    /// Closes the slices that are over, and says when the next one will be.
    pub fn tick(&mut self, now: Instant) -> Option<Instant> {
        self.level(now);
        let in_flight = self.in_flight;
        let (from, _) = self.counted()?;
        for (number, slice) in (1..).zip(&mut self.slices) {
            let ends = from + self.slice * number;
            if ends > now {
                return Some(ends);
            }
            if !slice.closed {
                slice.closed = true;
                slice.in_flight = in_flight;
            }
        }
        None
    }

    /// Takes how long the thread waited for a CPU, and in what time.
    pub fn starved(&mut self, starved_ns: Option<u64>, of: Duration) {
        self.starved = starved_ns.map(|ns| (ns, of));
    }

    /// Adds what another thread saw.
    pub fn merge(&mut self, other: &Self) {
        let (own, more) = (&mut self.client, &other.client);
        own.scheduled_total += more.scheduled_total;
        own.sent_total += more.sent_total;
        own.dropped_total += more.dropped_total;
        own.achieved_total += more.achieved_total;
        own.latency.merge(&more.latency);
        own.service_time.merge(&more.service_time);
        own.send_error.merge(&more.send_error);
        own.errors.merge(&more.errors);
        self.in_flight += other.in_flight;
        self.area_s += other.area_s;
        let starved = self.starved.zip(other.starved);
        self.starved = starved.map(|(own, more)| (own.0 + more.0, own.1 + more.1));
        for (own, more) in self.slices.iter_mut().zip(&other.slices) {
            own.achieved += more.achieved;
            own.errors += more.errors;
            own.in_flight += more.in_flight;
            if let Some(latency) = &more.latency {
                own.latency.get_or_insert_default().merge(latency);
            }
        }
    }

    /// What is kept in a session.
    pub fn into_client(self, began_unix_ns: u64) -> Client {
        let measured_s = self.measured().as_secs_f64();
        let slice_ns = ns(self.slice);
        let slices = (0..).zip(self.slices).filter(|(_, counts)| counts.closed);
        Client {
            unfinished_total: self.in_flight,
            mean_in_flight: if measured_s > 0.0 {
                self.area_s / measured_s
            } else {
                0.0
            },
            starved_share: self
                .starved
                .filter(|(_, of)| !of.is_zero())
                .map(|(starved_ns, of)| starved_ns as f64 / ns(of) as f64),
            slices: slices
                .map(|(number, counts)| Slice {
                    at_unix_ns: began_unix_ns + slice_ns * number,
                    length_ns: slice_ns,
                    achieved: counts.achieved,
                    errors: counts.errors,
                    in_flight: counts.in_flight,
                    latency: counts.latency,
                })
                .collect(),
            ..self.client
        }
    }

    /// Ends the counted part now, where it was to last longer.
    pub fn cut(&mut self, now: Instant) {
        let lasted = self.counted().map_or(Duration::ZERO, |(from, _)| {
            now.saturating_duration_since(from)
        });
        self.length = self.length.min(lasted);
    }

    fn slice_of(&self, at: Instant) -> Option<usize> {
        let (from, end) = self.counted()?;
        let since = at.checked_duration_since(from)?;
        if at >= end {
            return None;
        }
        let number = since.as_nanos() / self.slice.as_nanos().max(1);
        Some((number as usize).min(self.slices.len() - 1))
    }

    /// Brings the area up to now.
    fn level(&mut self, now: Instant) {
        if let Some((from, end)) = self.counted() {
            let span = now
                .min(end)
                .saturating_duration_since(self.level_since.max(from));
            self.area_s += self.in_flight as f64 * span.as_secs_f64();
        }
        self.level_since = now;
    }

    fn failed(&mut self, error: &SendError) {
        let errors = &mut self.client.errors;
        match error {
            SendError::Connect(_) | SendError::Tls(_) => errors.connect_total += 1,
            SendError::Timeout(_) => errors.timeout_total += 1,
            SendError::Broken(_) => errors.broken_total += 1,
            SendError::Status(status) => errors.add_status(*status, 1),
        }
        if errors.first.is_none() {
            errors.first = Some(error.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn answer(sent: Instant, status: Option<u16>) -> Answer {
        Answer {
            sent: Some(sent),
            outcome: status.map_or(Ok(()), |status| Err(SendError::Status(status))),
        }
    }

    /// Latency is counted from the intended send time, throughput by when answers came, and what was dropped stays so.
    #[test]
    fn each_request_is_counted_where_it_belongs() {
        let due = Instant::now();
        let start = due + 50 * MS;
        let run_in = RunIn::new(due, 50 * MS);
        run_in.end(start);
        let mut tally = Tally::new(run_in, 1_000 * MS, 100 * MS);
        assert!(tally.begin(due, 2), "in the run-in");
        assert!(tally.begin(start + 10 * MS, 2));
        assert!(!tally.begin(start + 20 * MS, 2), "two are under way");
        tally.end(due, start + 30 * MS, answer(start, None));
        tally.end(
            start + 10 * MS,
            start + 110 * MS,
            answer(start + 60 * MS, None),
        );
        assert!(tally.begin(start + 120 * MS, 2));
        tally.end(
            start + 120 * MS,
            start + 1_500 * MS,
            answer(start + 120 * MS, Some(503)),
        );
        tally.tick(start + 1_000 * MS);
        let client = tally.into_client(0);
        assert_eq!(
            (
                client.scheduled_total,
                client.sent_total,
                client.dropped_total
            ),
            (3, 2, 1)
        );
        assert_eq!(
            client.achieved_total, 2,
            "the one of the run-in ended in time"
        );
        assert_eq!(client.latency.count(), 2, "and is not measured");
        assert_eq!(client.errors.server_error_total, 1);
        assert_eq!(client.slices.len(), 10);
        assert_eq!(
            (client.slices[0].achieved, client.slices[1].achieved),
            (1, 1)
        );
        let near =
            |ns: Option<u64>, ms: f64| (ns.expect("has some") as f64 / 1e6 / ms - 1.0).abs() < 0.02;
        assert!(near(client.latency.quantile_ns(0.5), 100.0));
        assert!(near(client.service_time.quantile_ns(0.5), 50.0));
        assert!(near(client.send_error.max_ns(), 50.0));
    }
}
