//! The property `snapshot-schedule`: the snapshots that the daemon makes, and how many it keeps.
//!
//! Each kind divides time into periods. The name of a snapshot has its kind and the time when it was made, so the name
//! tells its period. So a period never gets two snapshots, whatever the clock does. Pruning uses the order in which
//! snapshots were made. So a jump of the clock prunes at most one snapshot.
//!
//! Periods and names are in UTC, or in the time of the machine (`local`). A local name has the offset from UTC. So the
//! hour that a change of the clock repeats has two names. A name may not contain `+`: the offset is `p0100` or `m0500`.

use std::collections::BTreeSet;

use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan};
use parking_lot::Mutex;

pub(crate) const PROPERTY: &str = "snapshot-schedule";

/// The largest number of snapshots of one kind.
const MOST: u32 = 9999;

/// The word of a schedule in the time of the machine.
const LOCAL: &str = "local";

/// The shortest period, and the longest time between two checks of schedules, in seconds.
const MINUTE: u64 = 60;
const HOUR: u64 = 3600;

/// The frequency of snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Each so many minutes: a divisor of 60.
    Minutes(u8),
    Hourly,
    Daily,
    Weekly,
    Monthly,
    Yearly,
}

impl Kind {
    pub(crate) const ALL: [Kind; 11] = [
        Kind::Minutes(1),
        Kind::Minutes(5),
        Kind::Minutes(10),
        Kind::Minutes(15),
        Kind::Minutes(20),
        Kind::Minutes(30),
        Kind::Hourly,
        Kind::Daily,
        Kind::Weekly,
        Kind::Monthly,
        Kind::Yearly,
    ];

    fn word(self) -> String {
        match self {
            Kind::Minutes(minutes) => format!("{minutes}min"),
            Kind::Hourly => "hourly".into(),
            Kind::Daily => "daily".into(),
            Kind::Weekly => "weekly".into(),
            Kind::Monthly => "monthly".into(),
            Kind::Yearly => "yearly".into(),
        }
    }

    /// The name of a snapshot that is made at a time, in seconds since 1970. `None` for a time outside of the calendar.
    pub(crate) fn name_at(self, time: u64, zone: &TimeZone) -> Option<String> {
        let time = timestamp(time)?;
        let at = zone.to_datetime(time).strftime("%Y-%m-%d-%H%M");
        let offset = zone.to_offset(time);
        let mark = match (*zone == TimeZone::UTC, offset.seconds() / 60) {
            (true, _) => "Z".into(),
            (false, east @ 0..) => format!("p{:02}{:02}", east / 60, east % 60),
            (false, west) => format!("m{:02}{:02}", -west / 60, -west % 60),
        };
        Some(format!("auto-{}-{at}{mark}", self.word()))
    }

    /// The time of a name of this kind, if it is one. Names of earlier programs have no mark behind the begin of their
    /// period; for them it is `made`.
    fn time_of(self, name: &str, made: u64) -> Option<u64> {
        let rest = name.strip_prefix("auto-")?.strip_prefix(&self.word())?;
        let at = rest.strip_prefix('-')?;
        let is_form = |(is, wanted): (char, char)| match wanted {
            '0' => is.is_ascii_digit(),
            other => is == other,
        };
        let (at, mark) = at.split_at_checked(15)?;
        if !at.chars().zip("0000-00-00-0000".chars()).all(is_form) {
            return None;
        }
        let time = DateTime::strptime("%Y-%m-%d-%H%M", at).ok();
        let offset = match mark.split_at_checked(1) {
            None if mark.is_empty() => return Some(made),
            None => return None,
            Some(("Z", "")) => Offset::UTC,
            Some((sign @ ("p" | "m"), digits)) if digits.len() == 4 => {
                let is_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
                let number: i32 = digits.parse().ok().filter(|_| is_digits)?;
                let seconds = (number / 100 * 60 + number % 100) * 60;
                Offset::from_seconds(if sign == "p" { seconds } else { -seconds }).ok()?
            }
            Some(_) => return None,
        };
        // A name that is no time is its own all the same, and of no period.
        let time = time.and_then(|time| offset.to_timestamp(time).ok());
        Some(
            time.and_then(|time| u64::try_from(time.as_second()).ok())
                .unwrap_or(made),
        )
    }

    /// Returns whether a name is that of a scheduled snapshot of this kind.
    pub(crate) fn is_own(self, name: &str) -> bool {
        self.time_of(name, 0).is_some()
    }

    /// The period with a time: its begin, and within a day the offset from UTC. `None` for a time outside of the calendar.
    fn period(self, time: u64, zone: &TimeZone) -> Option<(DateTime, Option<Offset>)> {
        let time = timestamp(time)?;
        let begin = self.begin(zone.to_datetime(time))?;
        let is_short = matches!(self, Kind::Minutes(_) | Kind::Hourly);
        Some((begin, is_short.then(|| zone.to_offset(time))))
    }

    fn begin(self, at: DateTime) -> Option<DateTime> {
        let day = at.date();
        let midnight = |date: Date| date.at(0, 0, 0, 0);
        Some(match self {
            Kind::Minutes(minutes) => {
                let begun = at.minute() - at.minute() % minutes as i8;
                day.at(at.hour(), begun, 0, 0)
            }
            Kind::Hourly => day.at(at.hour(), 0, 0, 0),
            Kind::Daily => midnight(day),
            Kind::Weekly => {
                let since_monday = i64::from(day.weekday().to_monday_zero_offset());
                midnight(day.checked_sub(since_monday.days()).ok()?)
            }
            Kind::Monthly => midnight(day.first_of_month()),
            Kind::Yearly => midnight(day.first_of_year()),
        })
    }
}

fn timestamp(time: u64) -> Option<Timestamp> {
    Timestamp::from_second(i64::try_from(time).ok()?).ok()
}

/// The kinds of a schedule, and the number of snapshots that it keeps of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SnapshotSchedule {
    kinds: Vec<(Kind, u32)>,
    /// True if periods and names are in the time of the machine, and not in UTC.
    is_local: bool,
}

impl SnapshotSchedule {
    /// Parses a value of the property. `None` if it is not valid.
    pub(crate) fn parse(value: &str) -> Option<SnapshotSchedule> {
        if value == "none" {
            return Some(SnapshotSchedule::default());
        }
        let kinds = value.strip_suffix(LOCAL).map(|rest| rest.strip_suffix(','));
        let is_local = kinds.is_some();
        let mut all: Vec<(Kind, u32)> = Vec::new();
        for part in kinds.unwrap_or(Some(value))?.split(',') {
            let (word, count) = part.split_once(':')?;
            let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word)?;
            let is_number = count.bytes().all(|byte| byte.is_ascii_digit());
            let count = count
                .parse()
                .ok()
                .filter(|count| is_number && (1..=MOST).contains(count))?;
            if all.iter().any(|(known, _)| *known == kind) {
                return None;
            }
            all.push((kind, count));
        }
        Some(SnapshotSchedule {
            kinds: all,
            is_local,
        })
    }

    /// The number of snapshots of a kind that are kept, if the schedule has this kind.
    pub(crate) fn keeps(&self, kind: Kind) -> Option<usize> {
        let found = self.kinds.iter().find(|(known, _)| *known == kind);
        found.map(|(_, count)| *count as usize)
    }

    /// Returns whether periods and names are in the time of the machine.
    pub(crate) fn is_local(&self) -> bool {
        self.is_local
    }

    /// Returns whether a period of the schedule may begin within an hour of UTC.
    pub(crate) fn is_fine(&self) -> bool {
        let is_short = |(kind, _): &(Kind, u32)| matches!(kind, Kind::Minutes(_));
        self.is_local || self.kinds.iter().any(is_short)
    }

    /// The snapshots that the schedule does not keep. The argument has snapshots from the oldest to the newest, with
    /// names.
    pub(crate) fn excess<'a, T>(
        &self,
        snapshots: &'a [T],
        name: impl Fn(&T) -> &str,
    ) -> Vec<&'a T> {
        let mut excess = Vec::new();
        for (kind, count) in &self.kinds {
            let own: Vec<&T> = snapshots
                .iter()
                .filter(|one| kind.is_own(name(one)))
                .collect();
            let over = own.len().saturating_sub(*count as usize);
            excess.extend(&own[..over]);
        }
        excess
    }
}

/// The names of the snapshots of one kind that are made at a time, and the search for one of the same period.
pub(crate) struct Due {
    kind: Kind,
    zone: TimeZone,
    /// The present, in seconds since 1970.
    pub(crate) time: u64,
    /// The name of a snapshot that is made now.
    pub(crate) name: String,
}

impl Due {
    /// `None` for a time outside of the calendar.
    pub(crate) fn at(time: u64, kind: Kind, zone: TimeZone) -> Option<Due> {
        let name = kind.name_at(time, &zone)?;
        Some(Due {
            kind,
            zone,
            time,
            name,
        })
    }

    /// Returns whether a snapshot with this name, made at this time, is the one of the present period.
    pub(crate) fn is_made(&self, name: &str, made: u64) -> bool {
        let time = self.kind.time_of(name, made);
        let period = |time| self.kind.period(time, &self.zone);
        time.is_some_and(|time| period(time) == period(self.time))
    }
}

/// The last check of schedules, and what could not be made.
#[derive(Default)]
pub(crate) struct ScheduleChecks(Mutex<CheckRecord>);

#[derive(Default)]
struct CheckRecord {
    last: Option<ScheduleCheck>,
    /// The datasets and kinds that failed in the hour with this number.
    failed: BTreeSet<(u64, Kind)>,
    failed_in: u64,
}

#[derive(Clone, Copy)]
struct ScheduleCheck {
    time: u64,
    /// The seconds between two times when a period may begin.
    step: u64,
}

impl ScheduleChecks {
    /// Returns whether a period may have begun since.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        let last = self.0.lock().last;
        last.is_none_or(|look| look.time / look.step != now / look.step)
    }

    /// Notes that schedules were checked. `fine`: a period of one may begin within an hour of UTC.
    pub(crate) fn set(&self, now: u64, fine: bool) {
        self.0.lock().last = Some(ScheduleCheck {
            time: now,
            step: if fine { MINUTE } else { HOUR },
        });
    }

    /// Notes that a snapshot of a kind could not be made of a dataset. It is not tried again in this hour, because each
    /// try writes to the history.
    pub(crate) fn note_failed(&self, id: u64, kind: Kind, now: u64) {
        let mut looks = self.0.lock();
        if looks.failed_in != now / HOUR {
            looks.failed.clear();
            looks.failed_in = now / HOUR;
        }
        looks.failed.insert((id, kind));
    }

    /// Returns whether a snapshot of a kind could not be made of a dataset in this hour.
    pub(crate) fn has_failed(&self, id: u64, kind: Kind, now: u64) -> bool {
        let looks = self.0.lock();
        looks.failed_in == now / HOUR && looks.failed.contains(&(id, kind))
    }

    /// Called when a schedule changes: schedules must be checked again.
    pub(crate) fn forget(&self) {
        *self.0.lock() = CheckRecord::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read() {
        let schedule = SnapshotSchedule::parse("hourly:24,daily:30,monthly:12").unwrap();
        assert_eq!(schedule.keeps(Kind::Hourly), Some(24));
        assert_eq!(schedule.keeps(Kind::Monthly), Some(12));
        assert_eq!(schedule.keeps(Kind::Weekly), None);
        let schedule = SnapshotSchedule::parse("15min:96,daily:7,local").unwrap();
        assert_eq!(schedule.keeps(Kind::Minutes(15)), Some(96));
        assert!(schedule.is_local() && schedule.is_fine());
        assert_eq!(
            SnapshotSchedule::parse("none"),
            Some(SnapshotSchedule::default())
        );
        for wrong in [
            "",
            "hourly",
            "hourly:",
            "hourly:0",
            "hourly:+1",
            "hourly:10000",
            "hourly:1,",
            "minutely:5",
            "7min:5",
            "15min",
            "local",
            "hourly:1local",
            "local,hourly:1",
            "hourly:1,local,local",
            "hourly:1,hourly:2",
            "hourly:1, daily:2",
            "none,daily:1",
            "daily:99999999999",
            "hourly:24daily:1",
        ] {
            assert_eq!(SnapshotSchedule::parse(wrong), None, "{wrong}");
        }
    }

    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    #[test]
    fn names_tell_when_they_were_made() {
        // Wednesday, 2026-11-25 03:45:10 UTC.
        let time = 1_795_578_310;
        let in_utc = |kind: Kind| kind.name_at(time, &TimeZone::UTC).unwrap();
        assert_eq!(in_utc(Kind::Yearly), "auto-yearly-2026-11-25-0345Z");
        assert_eq!(in_utc(Kind::Minutes(15)), "auto-15min-2026-11-25-0345Z");
        let at = |zone: &TimeZone| Kind::Daily.name_at(time, zone).unwrap();
        assert_eq!(at(&berlin()), "auto-daily-2026-11-25-0445p0100");
        let zone = TimeZone::posix("NST3:30").unwrap();
        assert_eq!(at(&zone), "auto-daily-2026-11-25-0015m0330");
        // London in winter is not UTC.
        let zone = TimeZone::posix("GMT0BST,M3.5.0/1,M10.5.0").unwrap();
        assert_eq!(at(&zone), "auto-daily-2026-11-25-0345p0000");
        assert_eq!(Kind::Daily.name_at(u64::MAX, &TimeZone::UTC), None);
        for kind in Kind::ALL {
            for zone in [TimeZone::UTC, berlin()] {
                let name = kind.name_at(time, &zone).unwrap();
                assert_eq!(kind.time_of(&name, 0), Some(time - 10), "{name}");
                let mut others = Kind::ALL.into_iter().filter(|other| *other != kind);
                assert!(others.all(|other| !other.is_own(&name)));
            }
        }
        // An earlier program named the begin of the period.
        assert_eq!(
            Kind::Daily.time_of("auto-daily-2026-11-25-0000", 7),
            Some(7)
        );
        for foreign in [
            "auto-hourly",
            "auto-hourly-",
            "auto-hourly-2026-11-25-03000",
            "auto-hourly-2026-11-25-03",
            "auto-hourly-2026-11-25-0é0",
            "hourly-2026-11-25-0300",
            "auto-hourly-2026-11-25 0300",
            "auto-hourly-2026-11-25-0300z",
            "auto-hourly-2026-11-25-0300é",
            "auto-hourly-2026-11-25-0300Z1",
            "auto-hourly-2026-11-25-0300p100",
            "auto-hourly-2026-11-25-0300p01é",
            "auto-hourly-2026-11-25-0300x0100",
        ] {
            assert!(!Kind::Hourly.is_own(foreign), "{foreign}");
        }
    }

    #[test]
    fn a_period_is_known_by_the_times_of_names() {
        // Sunday, 2026-10-25 00:30:00 UTC: the clock goes back at 01:00 UTC, from 03:00 to 02:00.
        let before = 1_792_888_200;
        let due = |time, kind, zone| Due::at(time, kind, zone).unwrap();
        let name = |time, kind: Kind| kind.name_at(time, &berlin()).unwrap();
        // The repeated hour is a period of its own.
        let again = due(before + HOUR, Kind::Hourly, berlin());
        assert_eq!(again.name, "auto-hourly-2026-10-25-0230p0100");
        assert_eq!(
            name(before, Kind::Hourly),
            "auto-hourly-2026-10-25-0230p0200"
        );
        assert!(!again.is_made(&name(before, Kind::Hourly), 0));
        assert!(again.is_made(&name(before + HOUR + 29 * 60, Kind::Hourly), 0));
        // The day has 25 hours.
        let day = due(before + 22 * HOUR, Kind::Daily, berlin());
        assert!(day.is_made(&name(before, Kind::Daily), 0));
        assert!(!day.is_made(&name(before + 23 * HOUR, Kind::Daily), 0));
        // A change of the zone makes no second one.
        let utc = due(before + 22 * HOUR, Kind::Daily, TimeZone::UTC);
        assert!(utc.is_made(&name(before, Kind::Daily), 0));
        // A quarter of an hour.
        let quarter = due(before + 14 * 60, Kind::Minutes(15), TimeZone::UTC);
        assert!(quarter.is_made("auto-15min-2026-10-25-0030Z", 0));
        assert!(!quarter.is_made("auto-15min-2026-10-25-0029Z", 0));
        // Names of earlier programs, by the time when they were made.
        let year = due(before, Kind::Yearly, TimeZone::UTC);
        assert!(year.is_made("auto-yearly-2026-01-01-0000", before - 1000));
        assert!(!year.is_made("auto-yearly-2026-01-01-0000", 0));
        assert!(!year.is_made("mine", before));
    }

    #[test]
    fn schedules_are_checked_when_a_period_may_begin() {
        let looked = ScheduleChecks::default();
        assert!(looked.is_due(0));
        looked.set(HOUR, false);
        assert!(!looked.is_due(2 * HOUR - 1) && looked.is_due(2 * HOUR) && looked.is_due(0));
        looked.set(HOUR, true);
        assert!(!looked.is_due(HOUR + MINUTE - 1) && looked.is_due(HOUR + MINUTE));
    }

    #[test]
    fn the_oldest_of_its_own_are_excess() {
        let names: Vec<String> = ["auto-hourly-1970-01-01-0000".into()]
            .into_iter()
            .chain((1..5).map(|hour| Kind::Hourly.name_at(hour * HOUR, &TimeZone::UTC).unwrap()))
            .chain(["mine".into(), "auto-daily-1970-01-01-0000".into()])
            .collect();
        let excess = |schedule: &str| {
            let schedule = SnapshotSchedule::parse(schedule).unwrap();
            let excess = schedule.excess(&names, |name| name);
            excess.into_iter().cloned().collect::<Vec<_>>()
        };
        assert_eq!(excess("hourly:3"), names[..2]);
        assert!(excess("hourly:5,daily:1").is_empty());
        assert!(excess("weekly:1").is_empty() && excess("none").is_empty());
    }
}
