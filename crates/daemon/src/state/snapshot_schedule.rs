//! The property `snapshot-schedule`: the snapshots that the daemon makes, and how many it keeps.
//!
//! Each kind divides time into periods of UTC. The name of a snapshot contains its kind and the begin of its period. So
//! a period never gets two snapshots, whatever the clock does. Pruning uses the order in which snapshots were made. So
//! a jump of the clock prunes at most one snapshot.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use parking_lot::Mutex;

/// The property.
pub(crate) const PROPERTY: &str = "snapshot-schedule";

/// The largest number of snapshots of one kind.
const MOST: u32 = 9999;

/// The shortest period, in seconds.
const HOUR: u64 = 3600;

/// The frequency of snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Hourly,
    Daily,
    Weekly,
    Monthly,
    Yearly,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] = [
        Kind::Hourly,
        Kind::Daily,
        Kind::Weekly,
        Kind::Monthly,
        Kind::Yearly,
    ];

    fn word(self) -> &'static str {
        match self {
            Kind::Hourly => "hourly",
            Kind::Daily => "daily",
            Kind::Weekly => "weekly",
            Kind::Monthly => "monthly",
            Kind::Yearly => "yearly",
        }
    }

    /// The name of the snapshot for the period with a time, in seconds since 1970. `None` for a time outside of the
    /// calendar.
    pub(crate) fn name_at(self, time: u64) -> Option<String> {
        let time = Timestamp::from_second(i64::try_from(time).ok()?).ok()?;
        let at = time.to_zoned(TimeZone::UTC).datetime();
        let begin = self.begin(at)?;
        Some(format!(
            "auto-{}-{}",
            self.word(),
            begin.strftime("%Y-%m-%d-%H00")
        ))
    }

    fn begin(self, at: DateTime) -> Option<DateTime> {
        let day = at.date();
        let midnight = |date: Date| date.at(0, 0, 0, 0);
        Some(match self {
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

    /// Whether a name is that of a scheduled snapshot of this kind.
    pub(crate) fn is_own(self, name: &str) -> bool {
        let rest = name.strip_prefix("auto-");
        let rest = rest.and_then(|rest| rest.strip_prefix(self.word()));
        let Some(begin) = rest.and_then(|rest| rest.strip_prefix('-')) else {
            return false;
        };
        let form = |(is, wanted): (char, char)| match wanted {
            '0' => is.is_ascii_digit(),
            other => is == other,
        };
        begin.len() == 15 && begin.chars().zip("0000-00-00-0000".chars()).all(form)
    }
}

/// The kinds of a schedule, and the number of snapshots that it keeps of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SnapshotSchedule(Vec<(Kind, u32)>);

impl SnapshotSchedule {
    /// Parses a value of the property. `None` if it is not valid.
    pub(crate) fn parse(value: &str) -> Option<SnapshotSchedule> {
        if value == "none" {
            return Some(SnapshotSchedule::default());
        }
        let mut all: Vec<(Kind, u32)> = Vec::new();
        for part in value.split(',') {
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
        Some(SnapshotSchedule(all))
    }

    /// The number of snapshots of a kind that are kept, if the schedule has this kind.
    pub(crate) fn keeps(&self, kind: Kind) -> Option<usize> {
        let found = self.0.iter().find(|(known, _)| *known == kind);
        found.map(|(_, count)| *count as usize)
    }

    /// The snapshots that the schedule does not keep. The argument has snapshots from the oldest to the newest, with
    /// names.
    pub(crate) fn excess<'a, T>(
        &self,
        snapshots: &'a [T],
        name: impl Fn(&T) -> &str,
    ) -> Vec<&'a T> {
        let mut excess = Vec::new();
        for (kind, count) in &self.0 {
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

/// The time when schedules were last checked.
#[derive(Default)]
pub(crate) struct LookedAt(Mutex<Option<u64>>);

impl LookedAt {
    /// Whether a period may have begun since.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        *self.0.lock() != Some(now / HOUR)
    }

    /// Notes that schedules were checked.
    pub(crate) fn set(&self, now: u64) {
        *self.0.lock() = Some(now / HOUR);
    }

    /// Called when a schedule changes: schedules must be checked again.
    pub(crate) fn forget(&self) {
        *self.0.lock() = None;
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
            "hourly:1,hourly:2",
            "hourly:1, daily:2",
            "none,daily:1",
            "daily:99999999999",
            "hourly:24daily:1",
        ] {
            assert_eq!(SnapshotSchedule::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_have_the_begin_of_the_period_in_utc() {
        // Wednesday, 2026-11-25 03:45:10.
        let time = 1_795_578_310;
        let name = |kind: Kind| kind.name_at(time).unwrap();
        assert_eq!(name(Kind::Hourly), "auto-hourly-2026-11-25-0300");
        assert_eq!(name(Kind::Daily), "auto-daily-2026-11-25-0000");
        assert_eq!(name(Kind::Weekly), "auto-weekly-2026-11-23-0000");
        assert_eq!(name(Kind::Monthly), "auto-monthly-2026-11-01-0000");
        assert_eq!(name(Kind::Yearly), "auto-yearly-2026-01-01-0000");
        assert_eq!(
            Kind::Weekly.name_at(0).unwrap(),
            "auto-weekly-1969-12-29-0000"
        );
        assert_eq!(Kind::Daily.name_at(u64::MAX), None);
        for kind in Kind::ALL {
            assert!(kind.is_own(&name(kind)));
            let others = Kind::ALL.into_iter().filter(|other| *other != kind);
            assert!(others.into_iter().all(|other| !other.is_own(&name(kind))));
        }
        for foreign in [
            "auto-hourly",
            "auto-hourly-",
            "auto-hourly-2026-11-25-03000",
            "auto-hourly-2026-11-25-03",
            "auto-hourly-2026-11-25-0é0",
            "hourly-2026-11-25-0300",
            "auto-hourly-2026-11-25 0300",
        ] {
            assert!(!Kind::Hourly.is_own(foreign), "{foreign}");
        }
    }

    #[test]
    fn the_oldest_of_its_own_are_excess() {
        let names: Vec<String> = (0..5)
            .map(|hour| Kind::Hourly.name_at(hour * HOUR).unwrap())
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
