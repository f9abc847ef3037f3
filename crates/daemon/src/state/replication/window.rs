//! The hours of a day in which a job runs by itself.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::failure::{Failure, Result};

/// The minutes of a day.
const DAY: u16 = 24 * 60;

/// The hours of a day, in the time of the machine. The end may be on the next day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DayWindow {
    /// The begin and the end, in minutes since midnight.
    begin: u16,
    end: u16,
}

impl DayWindow {
    /// Parses a window such as `22:00-06:00`.
    pub(crate) fn parse(text: &str) -> Result<DayWindow> {
        let parts = text.split_once('-');
        let times = parts.and_then(|(begin, end)| Some((minutes(begin)?, minutes(end)?)));
        match times {
            Some((begin, end)) if begin != end && begin < DAY => Ok(DayWindow { begin, end }),
            _ => Err(Failure::usage(format!(
                "'{text}' is not a window of hours; write it as 22:00-06:00"
            ))),
        }
    }

    /// Returns whether a time, in seconds since 1970, is in the window.
    pub(crate) fn has(self, time: u64, zone: &TimeZone) -> bool {
        let time = i64::try_from(time).ok();
        let time = time.and_then(|time| Timestamp::from_second(time).ok());
        // A clock outside of the calendar must not stop a job for ever.
        time.is_none_or(|time| {
            let at = zone.to_datetime(time);
            self.has_minute(at.hour() as u16 * 60 + at.minute() as u16)
        })
    }

    fn has_minute(self, minute: u16) -> bool {
        match self.begin < self.end {
            true => (self.begin..self.end).contains(&minute),
            false => minute >= self.begin || minute < self.end,
        }
    }
}

impl fmt::Display for DayWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [begin, end] = [self.begin, self.end].map(|at| (at / 60, at % 60));
        write!(f, "{:02}:{:02}-{:02}:{:02}", begin.0, begin.1, end.0, end.1)
    }
}

/// The minutes since midnight of `06:30`. The end of a day is `24:00`.
fn minutes(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let number = |text: &str| {
        let is_two = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_two.then(|| text.parse::<u16>().ok())?
    };
    let (hour, minute) = (number(hour)?, number(minute)?);
    let total = hour * 60 + minute;
    (minute < 60 && total <= DAY).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_its_hours() {
        let night = DayWindow::parse("22:00-06:00").unwrap();
        assert_eq!(night.to_string(), "22:00-06:00");
        for (minute, is_in) in [
            (21 * 60 + 59, false),
            (22 * 60, true),
            (0, true),
            (359, true),
            (360, false),
        ] {
            assert_eq!(night.has_minute(minute), is_in, "{minute}");
        }
        let day = DayWindow::parse("08:30-24:00").unwrap();
        for (minute, is_in) in [(509, false), (510, true), (1439, true), (0, false)] {
            assert_eq!(day.has_minute(minute), is_in, "{minute}");
        }
        // 1970-01-01 01:00 in Berlin.
        let zone = TimeZone::posix("CET-1").unwrap();
        let hour = DayWindow::parse("01:00-02:00").unwrap();
        assert!(hour.has(0, &zone) && !hour.has(0, &TimeZone::UTC));
        assert!(hour.has(u64::MAX, &zone));
        for wrong in [
            "",
            "22-6",
            "22:00",
            "22:00-22:00",
            "24:00-01:00",
            "25:00-26:00",
            "1:00-2:00",
            "01:60-02:00",
            "01:00-+2:00",
        ] {
            assert!(DayWindow::parse(wrong).is_err(), "{wrong}");
        }
    }
}
