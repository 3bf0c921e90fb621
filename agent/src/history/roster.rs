//! Who is in the samples, each in a place that stays.

/// Things with a key (lanes, types) that come in every sample, each with a number that stays the same while it keeps
/// coming. Bounded: when it is full, whoever has been away the longest gives up its place.
#[derive(Debug)]
pub(crate) struct Roster<T> {
    entries: Vec<Entry<T>>,
    limit: usize,
}

#[derive(Debug)]
pub(crate) struct Entry<T> {
    /// The second (see [`super::Second::number`]) in which it came first: what older seconds hold in this place was
    /// another's.
    pub(crate) born: u64,
    /// The second in which it came last.
    pub(crate) seen: u64,
    pub(crate) value: T,
}

impl<T> Roster<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            entries: Vec::new(),
            limit,
        }
    }

    /// The place of whoever `is_same` says yes to, made by `new` where there is none. `hint` is where it probably is:
    /// its position in the sample. `None` when everybody else is here in this same second, or when it has itself been
    /// here already.
    pub(crate) fn place(
        &mut self,
        hint: usize,
        second: u64,
        is_same: impl Fn(&T) -> bool,
        new: impl FnOnce() -> T,
    ) -> Option<usize> {
        let hinted = self.entries.get(hint).filter(|entry| is_same(&entry.value));
        let known = match hinted {
            Some(_) => Some(hint),
            None => self.entries.iter().position(|entry| is_same(&entry.value)),
        };
        if let Some(place) = known {
            let entry = &mut self.entries[place];
            let first_time = entry.seen < second;
            entry.seen = second;
            return first_time.then_some(place);
        }
        let entry = Entry {
            born: second,
            seen: second,
            value: new(),
        };
        if self.entries.len() < self.limit {
            self.entries.push(entry);
            return Some(self.entries.len() - 1);
        }
        let (place, away) = self
            .entries
            .iter_mut()
            .enumerate()
            // One that came a second ago may only stand later in this sample.
            .filter(|(_, away)| away.seen + 1 < second)
            .min_by_key(|(_, away)| away.seen)?;
        *away = entry;
        Some(place)
    }

    pub(crate) fn entries(&self) -> &[Entry<T>] {
        &self.entries
    }

    pub(crate) fn value_mut(&mut self, place: usize) -> &mut T {
        &mut self.entries[place].value
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().map(|entry| &mut entry.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(roster: &mut Roster<&'static str>, second: u64, name: &'static str) -> Option<usize> {
        roster.place(0, second, |known| *known == name, || name)
    }

    #[test]
    fn a_place_stays_until_somebody_needs_it() {
        let mut roster = Roster::new(2);
        assert_eq!(place(&mut roster, 1, "a"), Some(0));
        assert_eq!(place(&mut roster, 1, "b"), Some(1));
        assert_eq!(place(&mut roster, 1, "b"), None, "twice in one second");
        assert_eq!(place(&mut roster, 2, "b"), Some(1));
        assert_eq!(place(&mut roster, 2, "c"), None, "a may still come");
        assert_eq!(place(&mut roster, 3, "c"), Some(0), "a stayed away");
        assert_eq!(roster.entries()[0].born, 3);
        assert_eq!(place(&mut roster, 3, "a"), None, "full");
    }
}
