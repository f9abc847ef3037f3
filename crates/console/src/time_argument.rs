//! Times that a user types.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// A moment, in seconds since 1970. A date is the beginning of that day, in the time zone of the user. A number of nine digits or
/// more is the seconds, as the history of a pool has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeArgument(pub u64);

impl FromStr for TimeArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<TimeArgument, String> {
        if text.len() >= 9
            && let Ok(seconds) = text.parse()
        {
            return Ok(TimeArgument(seconds));
        }
        moment_in(&TimeZone::system(), text).map(TimeArgument).ok_or_else(|| {
            "write a date, as in 2027-01-31, or a time, as in 2027-01-31T18:00 or 2027-01-31T17:00Z"
                .into()
        })
    }
}

fn moment_in(zone: &TimeZone, text: &str) -> Option<u64> {
    let stamp = match text.parse::<Timestamp>() {
        Ok(stamp) => stamp,
        Err(_) => {
            let local: DateTime = text.parse().ok()?;
            zone.to_timestamp(local).ok()?
        }
    };
    u64::try_from(stamp.as_second()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let day = moment_in(&zone, "2027-01-31").unwrap();
        assert_eq!(moment_in(&zone, "2027-01-30T22:00Z"), Some(day));
        assert_eq!(moment_in(&zone, "2027-01-31T18:30"), Some(day + 66_600));
        assert_eq!(moment_in(&zone, "2027-01-31 18:30:05"), Some(day + 66_605));
        for bad in ["", "soon", "2027", "2027-13-01", "1969-01-01", "30d"] {
            assert_eq!(moment_in(&zone, bad), None, "{bad}");
        }
        assert_eq!("2500000000".parse(), Ok(TimeArgument(2_500_000_000)));
    }
}
