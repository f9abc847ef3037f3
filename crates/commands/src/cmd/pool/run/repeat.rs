//! `... [INTERVAL [COUNT]]`: a report again and again.

use std::time::{Duration, Instant};

use console::outcome::{Outcome, Result};
use console::session::{Session, other, usage};
use console::show::time;

use crate::cmd::pool::args::{Stamp, StampForm};

/// The interval and the count of reports; without a count they never end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Repeat {
    interval: Duration,
    count: Option<u64>,
}

impl Repeat {
    /// Waits for one interval.
    pub(super) fn wait(&self) {
        std::thread::sleep(self.interval);
    }
}

/// Names, and the numbers after them: the name of a pool does not begin with a digit.
pub(super) fn split(mut words: Vec<String>) -> Result<(Vec<String>, Option<Repeat>)> {
    let is_number = |word: &String| word.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let names = words.iter().take_while(|word| !is_number(word)).count();
    let numbers = words.split_off(names);
    let repeat = match numbers.as_slice() {
        [] => return Ok((words, None)),
        [every] => Repeat {
            interval: interval(every)?,
            count: None,
        },
        [every, count] => Repeat {
            interval: interval(every)?,
            count: Some(whole(count)?),
        },
        [_, _, more, ..] => {
            return Err(usage(format!(
                "'{more}' comes after an interval and a count; pools are named before them"
            )));
        }
    };
    Ok((words, Some(repeat)))
}

/// Seconds, perhaps with a fraction.
pub(super) fn interval(text: &str) -> Result<Duration> {
    let seconds = text.parse::<f64>().ok();
    let found = seconds.filter(|seconds| (0.01..=1e6).contains(seconds));
    found
        .map(Duration::from_secs_f64)
        .ok_or_else(|| usage(format!("'{text}' is not an interval in seconds")))
}

impl Stamp {
    /// The form of the time, which has no place in JSON.
    pub(super) fn checked(&self, session: &Session) -> Result<Option<StampForm>> {
        match self.stamp {
            Some(_) if session.json => Err(usage("-T is for people; leave it out with --json")),
            stamp => Ok(stamp),
        }
    }
}

/// The line with the time before a report; nothing without `-T`.
pub(super) fn line_of(stamp: Option<StampForm>) -> String {
    match stamp {
        None => String::new(),
        Some(StampForm::Seconds) => format!("{}\n", time::now()),
        Some(StampForm::Date) => format!("{}\n", time::second(time::now())),
    }
}

fn whole(text: &str) -> Result<u64> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(usage(format!("'{text}' is not a count"))),
    }
}

/// Makes a report once, or as often as is wanted; `report` is told which one it makes, from 0. All
/// but the last are printed at once.
pub(super) fn run(
    repeat: Option<Repeat>,
    stamp: Option<StampForm>,
    mut report: impl FnMut(u64) -> Result<String>,
) -> Result {
    let mut report = |made| report(made).map(|text| line_of(stamp) + &text);
    let Some(Repeat { interval, count }) = repeat else {
        return report(0).map(Outcome::text);
    };
    let begin = Instant::now();
    let mut made = 0;
    loop {
        let text = report(made)?;
        made += 1;
        if Some(made) == count {
            return Ok(Outcome::text(text));
        }
        match console::show::text::print(&text) {
            Ok(()) => {}
            // A reader that has seen enough, like `head`, is no error.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                return Ok(Outcome::done());
            }
            Err(error) => {
                return Err(other(format!(
                    "cannot write to the standard output: {error}"
                )));
            }
        }
        let next = begin + interval.saturating_mul(u32::try_from(made).unwrap_or(u32::MAX));
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn numbers_come_last() {
        let found = |line| {
            let (names, repeat) = split(words(line)).unwrap();
            let repeat = repeat.map(|repeat| (repeat.interval.as_millis(), repeat.count));
            (names.join(" "), repeat)
        };
        assert_eq!(found(""), (String::new(), None));
        assert_eq!(found("tank b2"), ("tank b2".into(), None));
        assert_eq!(found("5"), (String::new(), Some((5000, None))));
        assert_eq!(found("a b .5 3"), ("a b".into(), Some((500, Some(3)))));
        for wrong in ["1 tank", "0", "1 0", "1 2 3", "1e9", "5x", "1 -1"] {
            assert!(split(words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_report_is_made_as_often_as_is_wanted() {
        let once = run(None, None, |n| Ok(format!("{n}"))).unwrap();
        assert_eq!(once.text, "0");
        let repeat = Repeat {
            interval: Duration::from_millis(1),
            count: Some(3),
        };
        let mut made = Vec::new();
        let last = run(Some(repeat), None, |n| {
            made.push(n);
            Ok(String::new())
        });
        assert_eq!((last.unwrap().text, made), (String::new(), vec![0, 1, 2]));
    }
}
