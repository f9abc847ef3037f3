//! Counts of wrong keys, by what they were to open and by user, for events and alerts.
//!
//! A count says how many wrong keys a user tried within the last [`WINDOW`]. So an alert ends by itself. The counts do not
//! change any answer to a caller: [`super::wrong_tries`] decides who may try.
//!
//! Users can only fill their own part of the table and of the list of events: no user makes the daemon forget the tries
//! of another one, or push out other events.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use keys::HashPayer;
use parking_lot::Mutex;
use protocol::accounts::user_name;
use protocol::api::{WRONG_KEYS_ALARM, WrongKeyRow};

/// The time after which a wrong key counts no more.
const WINDOW: Duration = Duration::from_secs(3600);
/// The greatest number of a count.
const COUNT_MAX: usize = 100;
/// The most counts of a user. The smallest is forgotten, and of equal ones that which was changed longest ago.
const COUNTS_OF_USER: usize = 32;
/// The wrong keys of a user on all things together from which on there is an alert. Those of an alert about one thing do
/// not count here. So a user who tries many things to have a count forgotten is found too.
const SUM_ALARM: usize = 30;
/// The name of all things together.
const ALL_THINGS: &str = "several things";
/// The most counts of all users.
const COUNTS_MAX: usize = 1024;
/// The most events about a user within the window. Each user of an alert has one more for it.
const EVENTS_OF_USER: usize = 8;

/// The thing that a key was to open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LockedObject {
    /// A dataset, by the guids of its pool and of itself.
    Dataset(u64, u64),
    /// A LUKS container, by its device.
    Container(String),
}

/// A wrong key.
pub(crate) struct WrongKey<'a> {
    pub(crate) thing: LockedObject,
    /// The present name of the thing.
    pub(crate) name: &'a str,
    pub(crate) payer: HashPayer,
}

/// The wrong keys of the last hour.
#[derive(Default)]
pub(crate) struct WrongKeys(Mutex<CountTable>);

#[derive(Default)]
struct CountTable {
    counts: BTreeMap<(HashPayer, LockedObject), TryCount>,
    /// The wrong keys of each user that no alert about one thing has told. No other count makes these be forgotten.
    sums: BTreeMap<HashPayer, TryCount>,
    /// The times of events about each user.
    told: BTreeMap<HashPayer, VecDeque<Instant>>,
}

#[derive(Default)]
struct TryCount {
    name: String,
    /// The times of the last wrong keys, the oldest first.
    times: VecDeque<Instant>,
    /// The time of the last one, in seconds since 1970.
    last: u64,
    /// True once an event has told that there were many.
    is_told: bool,
}

impl WrongKeys {
    /// Counts a wrong key at a time, which is also given in seconds since 1970. Returns the text of an event, if this is
    /// worth one: the first wrong key of a user in a while, and that with which an alert begins.
    pub(crate) fn add(&self, wrong: &WrongKey<'_>, now: Instant, secs: u64) -> Option<String> {
        let mut table = self.0.lock();
        table.forget(now);
        let place = (wrong.payer, wrong.thing.clone());
        if !table.counts.contains_key(&place) {
            table.make_space(wrong.payer);
        }
        let count = table.counts.entry(place).or_default();
        count.add(wrong.name, now, secs);
        let user = user_text(wrong.payer);
        let number = count.times.len();
        if number as u64 >= WRONG_KEYS_ALARM && !count.is_told {
            count.is_told = true;
            // A user cannot raise many alerts: each takes ten tries, and these are slow.
            return Some(format!(
                "{user} tried {number} wrong keys of {} within an hour",
                wrong.name
            ));
        }
        if count.is_told {
            return None;
        }
        let sum = table.sums.entry(wrong.payer).or_default();
        sum.add(ALL_THINGS, now, secs);
        let all = sum.times.len();
        if all >= SUM_ALARM && !sum.is_told {
            sum.is_told = true;
            return Some(format!(
                "{user} tried {all} wrong keys of {ALL_THINGS} within an hour"
            ));
        }
        if number > 1 {
            return None;
        }
        let told = table.told.entry(wrong.payer).or_default();
        if told.len() == EVENTS_OF_USER {
            return None;
        }
        told.push_back(now);
        Some(format!("{user} tried a wrong key of {}", wrong.name))
    }

    /// The counts at a time, those with the most wrong keys first.
    pub(crate) fn rows(&self, now: Instant) -> Vec<WrongKeyRow> {
        let mut table = self.0.lock();
        table.forget(now);
        let counts = table.counts.iter();
        let counts = counts.map(|((payer, _), count)| count.row(*payer));
        let sums = table.sums.iter().filter(|(_, sum)| sum.is_told);
        let sums = sums.map(|(payer, sum)| sum.row(*payer));
        let mut rows: Vec<WrongKeyRow> = counts.chain(sums).collect();
        rows.sort_by(|a, b| (b.count, &a.name).cmp(&(a.count, &b.name)));
        rows
    }
}

impl TryCount {
    fn add(&mut self, name: &str, now: Instant, secs: u64) {
        name.clone_into(&mut self.name);
        self.last = secs;
        if self.times.len() == COUNT_MAX {
            self.times.pop_front();
        }
        self.times.push_back(now);
    }

    fn row(&self, payer: HashPayer) -> WrongKeyRow {
        WrongKeyRow {
            name: self.name.clone(),
            user: user_text(payer),
            count: self.times.len() as u64,
            last: self.last,
        }
    }
}

impl CountTable {
    /// Forgets what is older than the window.
    fn forget(&mut self, now: Instant) {
        fn drop_old(times: &mut VecDeque<Instant>, now: Instant) -> bool {
            let is_old = |time: &Instant| now.saturating_duration_since(*time) >= WINDOW;
            while times.front().is_some_and(is_old) {
                times.pop_front();
            }
            !times.is_empty()
        }
        self.counts.retain(|_, count| {
            let has_some = drop_old(&mut count.times, now);
            count.is_told &= count.times.len() as u64 >= WRONG_KEYS_ALARM;
            has_some
        });
        self.sums.retain(|_, sum| {
            let has_some = drop_old(&mut sum.times, now);
            sum.is_told &= sum.times.len() >= SUM_ALARM;
            has_some
        });
        self.told.retain(|_, times| drop_old(times, now));
    }

    /// Makes space for a count of a user, at the expense of counts of the same user as long as there are enough.
    fn make_space(&mut self, payer: HashPayer) {
        let is_own = |of: &(HashPayer, LockedObject)| of.0 == payer;
        let own = self.counts.keys().filter(|of| is_own(of)).count();
        let is_full = self.counts.len() >= COUNTS_MAX;
        if own < COUNTS_OF_USER && !is_full {
            return;
        }
        let candidates = self.counts.iter();
        let candidates = candidates.filter(|(of, _)| own < COUNTS_OF_USER || is_own(of));
        let least =
            candidates.min_by_key(|(_, count)| (count.times.len(), count.times.back().copied()));
        let least = least.map(|(of, _)| of.clone());
        least.map(|of| self.counts.remove(&of));
    }
}

fn user_text(payer: HashPayer) -> String {
    let named = |uid: u32| user_name(uid).unwrap_or_else(|| format!("uid {uid}"));
    match payer {
        HashPayer::Root => "root".into(),
        HashPayer::User(uid) => named(uid),
        HashPayer::Login(uid) => format!("a login as {}", named(uid)),
        HashPayer::Tenant(_) => "a tenant".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn wrong(user: u32, dataset: u64) -> WrongKey<'static> {
        WrongKey {
            thing: LockedObject::Dataset(1, dataset),
            name: "tank/a",
            payer: HashPayer::User(user),
        }
    }

    #[test]
    fn the_first_and_the_tenth_are_events_and_an_hour_later_they_begin_again() {
        let (keys, start) = (WrongKeys::default(), Instant::now());
        let told_at = |minute: u32| keys.add(&wrong(4_000_001, 7), start + MINUTE * minute, 5);
        let first = told_at(0).unwrap();
        assert_eq!(first, "uid 4000001 tried a wrong key of tank/a");
        for minute in 1..9 {
            assert_eq!(told_at(minute), None);
        }
        let tenth = told_at(9).unwrap();
        assert_eq!(
            tenth,
            "uid 4000001 tried 10 wrong keys of tank/a within an hour"
        );
        assert_eq!(told_at(10), None, "told once");
        let count_at = |minute: u32| {
            let rows = keys.rows(start + MINUTE * minute);
            rows.first().map_or(0, |row| row.count)
        };
        assert_eq!([count_at(10), count_at(59), count_at(60)], [11, 11, 10]);
        // The alert ends, and begins again.
        assert_eq!(count_at(61), 9);
        assert!(told_at(61).unwrap().contains("10 wrong keys"));
        assert_eq!(count_at(200), 0);
        assert!(told_at(200).unwrap().contains("a wrong key"));
    }

    #[test]
    fn a_user_fills_only_a_part_of_the_table_and_of_the_events() {
        let (keys, now) = (WrongKeys::default(), Instant::now());
        for _ in 0..WRONG_KEYS_ALARM {
            keys.add(&wrong(1, 7), now, 5);
        }
        let told = (0..5000).filter_map(|dataset| keys.add(&wrong(2, dataset), now, 5));
        assert_eq!(told.count(), EVENTS_OF_USER + 1, "one for all together");
        let rows = keys.rows(now);
        assert_eq!(rows.len(), 1 + COUNTS_OF_USER + 1);
        assert_eq!((&*rows[0].name, rows[0].count), (ALL_THINGS, 100));
        assert_eq!(rows[1].count, WRONG_KEYS_ALARM);
        for user in 0..5000 {
            keys.add(&wrong(user, 9), now, 5);
        }
        let rows = keys.rows(now);
        assert_eq!(rows.len(), COUNTS_MAX + 1);
        assert_eq!(rows[1].count, WRONG_KEYS_ALARM, "an alert stays");
        for _ in 0..2 * COUNT_MAX {
            keys.add(&wrong(1, 7), now, 5);
        }
        let of_one = |row: &WrongKeyRow| row.name == "tank/a" && row.count == COUNT_MAX as u64;
        assert!(keys.rows(now).iter().any(of_one));
    }

    #[test]
    fn tries_of_many_things_hide_no_count_and_are_an_alert_together() {
        let (keys, now) = (WrongKeys::default(), Instant::now());
        let told_of = |dataset: u64| keys.add(&wrong(4_000_001, dataset), now, 5);
        (1..WRONG_KEYS_ALARM).for_each(|_| drop(told_of(7)));
        let told: Vec<String> = (100..150).filter_map(told_of).collect();
        let all = "uid 4000001 tried 30 wrong keys of several things within an hour";
        assert!(told.contains(&all.into()), "{told:?}");
        let tenth = told_of(7).unwrap();
        assert!(tenth.contains("10 wrong keys of tank/a"), "{tenth}");
    }
}
