//! Dates for errors, which have no time zone.

/// A time in seconds since 1970 as text, such as `2026-11-29 14:05 UTC`.
///
/// The days are counted in eras of 400 years that begin in March, as in Howard Hinnant's `civil_from_days`
/// (chrono-compatible low-level date algorithms).
pub(crate) fn utc(secs: u64) -> String {
    let days = secs / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = match month {
        0..=9 => (month + 3, 0),
        _ => (month - 9, 1),
    };
    let year = year + era * 400 + next;
    let minutes = secs / 60 % 1_440;
    let (hour, minute) = (minutes / 60, minutes % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected texts are those of `date -u -d @SECONDS`.
    #[test]
    fn dates_are_those_of_date() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_827_696), "2000-02-29 12:34 UTC");
        assert_eq!(utc(1_767_225_599), "2025-12-31 23:59 UTC");
        assert_eq!(utc(4_107_542_400), "2100-03-01 00:00 UTC");
        // No time is too large.
        assert!(utc(u64::MAX).ends_with(" UTC"));
    }
}
