//! Times, in the time zone of the user.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// `Fri Nov 20 20:31 2026`, as in a property.
pub fn minute(seconds: u64) -> String {
    format(seconds, "%a %b %e %k:%M %Y")
}

/// `Fri Nov 20 20:31:05 2026`, as in the report on a scrub.
pub fn second(seconds: u64) -> String {
    format(seconds, "%a %b %e %H:%M:%S %Y")
}

/// `2026-11-20.20:31:05`, as in a history.
pub fn history(seconds: u64) -> String {
    format(seconds, "%Y-%m-%d.%H:%M:%S")
}

/// The time of day now, as `20:31:05`.
pub fn of_day() -> String {
    let now = Timestamp::now().to_zoned(TimeZone::system());
    now.strftime("%H:%M:%S").to_string()
}

/// The time now, in seconds since 1970.
pub fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |time| time.as_secs())
}

fn format(seconds: u64, pattern: &str) -> String {
    format_in(TimeZone::system(), seconds, pattern)
}

/// A time that no calendar has (a damaged structure may say so) is shown as its number.
fn format_in(zone: TimeZone, seconds: u64, pattern: &str) -> String {
    let time = i64::try_from(seconds).ok();
    match time.and_then(|seconds| Timestamp::from_second(seconds).ok()) {
        Some(time) => time.to_zoned(zone).strftime(pattern).to_string(),
        None => seconds.to_string(),
    }
}

/// `00:12:31`, or `3 days 00:12:31`.
pub fn duration(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    match days {
        0 => clock,
        1 => format!("1 day {clock}"),
        _ => format!("{days} days {clock}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let show = |seconds, pattern| format_in(TimeZone::UTC, seconds, pattern);
        let time = 1_795_206_665;
        assert_eq!(show(time, "%a %b %e %k:%M %Y"), "Fri Nov 20 20:31 2026");
        assert_eq!(show(time, "%Y-%m-%d.%H:%M:%S"), "2026-11-20.20:31:05");
        assert_eq!(show(4 * 3600, "%a %b %e %k:%M %Y"), "Thu Jan  1  4:00 1970");
        assert_eq!(show(u64::MAX, "%Y"), u64::MAX.to_string());
        assert_eq!(show(1 << 60, "%Y"), (1u64 << 60).to_string());
    }

    #[test]
    fn durations() {
        assert_eq!(duration(0), "00:00:00");
        assert_eq!(duration(751), "00:12:31");
        assert_eq!(duration(86_400 + 3661), "1 day 01:01:01");
        assert_eq!(duration(3 * 86_400 + 59), "3 days 00:00:59");
    }
}
