//! The command.

use console::outcome::{Outcome, Result};
use console::session::Session;
use console::show::table::Column;
use console::show::{json, time};
use jiff::Zoned;
use jiff::civil::Weekday;
use protocol::api::{Failure, FailureKind};
use serde::Serialize;
use serde_json::json;

use crate::args::{Notify, NotifyFile, NotifyRunArgs};
use crate::config::{Day, NotifyConfig, NotifyTarget};
use crate::message::NoticeToPeople;
use crate::problem::{CurrentProblem, ProblemSurvey};
use crate::record::{ToldFile, ToldTarget};
use crate::send::send;

/// The hour of the day from which the weekly report is sent, in the time of the machine.
const WEEKLY_HOUR: i8 = 8;
/// A report is sent again after this number of seconds at the earliest: six days.
const WEEKLY_MIN: u64 = 6 * 86_400;
const HOUR: u64 = 3600;

/// Carries out the command.
pub fn run(args: &Notify, session: &mut Session) -> Result<Outcome> {
    match args {
        Notify::Run(args) if args.dry_run => show(session),
        Notify::Run(args) => tell(args, session),
        Notify::Test(args) => test(&args.config, session.json),
    }
}

/// Shows the problems that there are.
fn show(session: &Session) -> Result<Outcome> {
    let survey = ProblemSurvey::make(&session.socket);
    let problems: Vec<&CurrentProblem> = survey.problems.values().collect();
    if session.json {
        return Ok(Outcome::text(json::show(&json!({"problems": problems}))));
    }
    if problems.is_empty() {
        return Ok(Outcome::text("all is well\n"));
    }
    let heads = [
        Column::left("POOL"),
        Column::left("SEVERITY"),
        Column::left("PROBLEM"),
    ];
    Ok(Outcome::rows(problems, false, &heads, false, |problem| {
        let severity = if problem.is_critical {
            "critical"
        } else {
            "warning"
        };
        let pool = problem.pool.clone().unwrap_or_else(|| "-".into());
        vec![pool, severity.into(), problem.text.clone()]
    }))
}

/// Tells each target what is new.
fn tell(args: &NotifyRunArgs, session: &Session) -> Result<Outcome> {
    let config = NotifyConfig::read(&args.config.config)?;
    let targets = config.targets();
    let keys: Vec<String> = targets.iter().map(NotifyTarget::key).collect();
    let mut record = ToldFile::open(&args.state)?;
    record.keep(&keys);
    let survey = ProblemSurvey::make(&session.socket);
    let (host, now) = (host(), time::now());
    let mut failures = Vec::new();
    if let Err(failure) = record.write() {
        failures.push(failure);
        // Without a record all is told again at each run. Once in an hour is better than never.
        if now % HOUR >= HOUR / 30 {
            return Ok(failed(failures));
        }
    }
    let is_report_time = config.weekly.is_some_and(|day| is_time(day, &Zoned::now()));
    for (target, key) in targets.iter().zip(&keys) {
        let told = record.target(key);
        match tell_one(target, told, &survey, (&host, now), is_report_time) {
            // What was told is on the disk before the next target is told.
            Ok(true) => failures.extend(record.write().err()),
            Ok(false) => {}
            Err(why) => {
                let what = format!("{} was not told: {why}", target.shown());
                failures.push(Failure::new(FailureKind::Other, what));
            }
        }
    }
    // It has the times since when problems are gone.
    failures.extend(record.write().err());
    Ok(failed(failures))
}

fn failed(failures: Vec<Failure>) -> Outcome {
    Outcome {
        failures,
        ..Outcome::done()
    }
}

/// Tells one target. Returns whether it got a message.
fn tell_one(
    target: &NotifyTarget,
    told: &mut ToldTarget,
    survey: &ProblemSurvey,
    (host, now): (&str, u64),
    is_report_time: bool,
) -> std::result::Result<bool, String> {
    let news = told.news(survey, now);
    if told.is_full(now) {
        return Ok(false);
    }
    let mut is_told = false;
    if let Some(notice) = NoticeToPeople::of_news(host, news) {
        send(target, &notice)?;
        told.note(survey, now);
        is_told = true;
    }
    let is_due = is_report_time && now.abs_diff(told.weekly) >= WEEKLY_MIN;
    if let (true, Some(answer)) = (is_due, &survey.answer) {
        let mut problems: Vec<CurrentProblem> = survey.problems.values().cloned().collect();
        problems.sort_by_key(|problem| !problem.is_critical);
        send(target, &NoticeToPeople::of_week(host, answer, &problems))?;
        told.weekly = now;
        is_told = true;
    }
    Ok(is_told)
}

/// The result of a test.
#[derive(Serialize)]
struct TestedTarget {
    target: String,
    is_sent: bool,
    reason: Option<String>,
}

fn test(file: &NotifyFile, as_json: bool) -> Result<Outcome> {
    let config = NotifyConfig::read(&file.config)?;
    let notice = NoticeToPeople::of_test(&host());
    let tested = |target: &NotifyTarget| {
        let reason = send(target, &notice).err();
        TestedTarget {
            target: target.shown(),
            is_sent: reason.is_none(),
            reason,
        }
    };
    let rows: Vec<TestedTarget> = config.targets().iter().map(tested).collect();
    let has_failed = rows.iter().any(|row| !row.is_sent);
    let heads = [Column::left("TARGET"), Column::left("RESULT")];
    let outcome = Outcome::rows(rows, as_json, &heads, false, |row| {
        let result = row.reason.unwrap_or_else(|| "sent".into());
        vec![row.target, result]
    });
    Ok(match has_failed {
        true => Outcome {
            failures: vec![Failure::other("a target did not take the message")],
            ..outcome
        },
        false => outcome,
    })
}

fn host() -> String {
    let uname = rustix::system::uname();
    uname.nodename().to_string_lossy().into_owned()
}

/// Returns whether a time is at the hour of the weekly report, or later on its day.
fn is_time(day: Day, now: &Zoned) -> bool {
    let weekday = match day {
        Day::Mon => Weekday::Monday,
        Day::Tue => Weekday::Tuesday,
        Day::Wed => Weekday::Wednesday,
        Day::Thu => Weekday::Thursday,
        Day::Fri => Weekday::Friday,
        Day::Sat => Weekday::Saturday,
        Day::Sun => Weekday::Sunday,
    };
    now.weekday() == weekday && now.hour() >= WEEKLY_HOUR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_comes_in_the_morning_of_its_day() {
        let at = |text: &str| text.parse::<Zoned>().unwrap();
        assert!(is_time(Day::Mon, &at("2026-11-30T08:00[UTC]")));
        assert!(!is_time(Day::Mon, &at("2026-11-30T07:59[UTC]")));
        assert!(!is_time(Day::Mon, &at("2026-12-01T09:00[UTC]")));
    }
}
