//! The record of what each target was told: a file of this user.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use console::outcome::Result;
use protocol::api::{Failure, FailureKind};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::problem::{CurrentProblem, ProblemSurvey};

/// A target gets at most this many messages in [`HOUR`] seconds.
const HOURLY_MAX: usize = 6;
const HOUR: u64 = 3600;
/// A problem is solved when it has been gone for so many seconds. One that comes and goes is told once.
const SOLVED_AFTER: u64 = 600;

/// The record of all targets.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct ToldRecord {
    targets: BTreeMap<String, ToldTarget>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct ToldTarget {
    /// The problems that it was told of, and that were not solved since.
    told: BTreeMap<String, ToldProblem>,
    /// The times of its last messages, in seconds since 1970.
    sent: Vec<u64>,
    /// The time of the last weekly report.
    pub(crate) weekly: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct ToldProblem {
    problem: CurrentProblem,
    /// The time since when the problem is gone.
    gone_since: Option<u64>,
}

/// The news for a target.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// The critical ones first.
    pub(crate) new: Vec<CurrentProblem>,
    pub(crate) solved: Vec<CurrentProblem>,
    /// The number of problems that it was told of before, and that there still are.
    pub(crate) open: usize,
}

impl ToldTarget {
    /// Compares the problems that there are at a time with those that the target was told of.
    pub(crate) fn news(&mut self, survey: &ProblemSurvey, now: u64) -> News {
        for told in self.told.values_mut() {
            let is_gone = !survey.has_subject(&told.problem) && survey.knows(&told.problem);
            told.gone_since = is_gone.then(|| told.gone_since.unwrap_or(now));
        }
        let mut news = News::default();
        for (key, problem) in &survey.problems {
            match self.told.contains_key(key) {
                true => news.open += 1,
                false => news.new.push(problem.clone()),
            }
        }
        news.new.sort_by_key(|problem| !problem.is_critical);
        let solved = self.told.values().filter(|told| told.is_solved(now));
        news.solved = solved.map(|told| told.problem.clone()).collect();
        news
    }

    /// Returns whether the target gets no other message now.
    pub(crate) fn is_full(&self, now: u64) -> bool {
        let recent = { self.sent.iter() }.filter(|sent| now.abs_diff(**sent) < HOUR);
        recent.count() >= HOURLY_MAX
    }

    /// Notes that a message was sent at a time, which told of all problems that there are, and of those that are solved.
    pub(crate) fn note(&mut self, survey: &ProblemSurvey, now: u64) {
        self.told.retain(|key, told| {
            let is_replaced =
                survey.has_subject(&told.problem) && !survey.problems.contains_key(key);
            !told.is_solved(now) && !is_replaced
        });
        for (key, problem) in &survey.problems {
            let told = ToldProblem {
                problem: problem.clone(),
                gone_since: None,
            };
            self.told.insert(key.clone(), told);
        }
        self.sent.retain(|sent| now.abs_diff(*sent) < HOUR);
        self.sent.push(now);
    }
}

impl ToldProblem {
    fn is_solved(&self, now: u64) -> bool {
        self.gone_since
            .is_some_and(|since| now.abs_diff(since) >= SOLVED_AFTER)
    }
}

/// The record, locked: another run of the command would tell the same again.
pub(crate) struct ToldFile {
    path: PathBuf,
    _lock: File,
    record: ToldRecord,
}

impl ToldFile {
    /// Opens the record. A record that is not there, or not understood, is an empty one: then all is told again.
    pub(crate) fn open(path: &Path) -> Result<ToldFile> {
        let cannot =
            |error: io::Error| Failure::other(format!("cannot open '{}': {error}", path.display()));
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .mode(0o600)
            .open(beside(path, ".lock"))
            .map_err(cannot)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Failure::new(
                FailureKind::Busy,
                format!("another 'strongroom notify' uses '{}'", path.display()),
            ),
            TryLockError::Error(error) => cannot(error),
        })?;
        let record = match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::NotFound => ToldRecord::default(),
            Err(error) => return Err(cannot(error)),
        };
        Ok(ToldFile {
            path: path.to_owned(),
            _lock: lock,
            record,
        })
    }

    /// Forgets all targets but these.
    pub(crate) fn keep(&mut self, keys: &[String]) {
        self.record.targets.retain(|key, _| keys.contains(key));
    }

    pub(crate) fn target(&mut self, key: &str) -> &mut ToldTarget {
        self.record.targets.entry(key.to_owned()).or_default()
    }

    /// Writes the record: after a crash either the old or the new one is there.
    pub(crate) fn write(&self) -> Result<()> {
        let cannot = |error: io::Error| {
            Failure::other(format!("cannot write '{}': {error}", self.path.display()))
        };
        let bytes = serde_json::to_vec(&self.record).map_err(|error| cannot(error.into()))?;
        self.replace(&bytes).map_err(cannot)
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let temporary = beside(&self.path, ".new");
        match std::fs::remove_file(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &self.path)
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::problem::SurveyAnswer;
    use crate::problem::tests::pool;

    fn survey(texts: &[(&str, &str)]) -> ProblemSurvey {
        let problems = texts.iter().map(|(subject, text)| {
            let problem = CurrentProblem {
                pool: Some("tank".into()),
                subject: (*subject).into(),
                is_critical: false,
                text: (*text).into(),
                action: None,
            };
            (format!("{subject} {text}"), problem)
        });
        ProblemSurvey {
            problems: problems.collect(),
            answer: Some(SurveyAnswer {
                pools: vec![pool(json!({}))],
                jobs: Some(Vec::new()),
                wrong_keys: Some(Vec::new()),
            }),
        }
    }

    fn told_of(target: &mut ToldTarget, survey: &ProblemSurvey, now: u64) -> (usize, usize, usize) {
        let news = target.news(survey, now);
        (news.new.len(), news.solved.len(), news.open)
    }

    #[test]
    fn each_problem_is_told_once_and_when_it_is_solved() {
        let mut target = ToldTarget::default();
        let one = survey(&[("space", "full")]);
        assert_eq!(told_of(&mut target, &one, 1000), (1, 0, 0));
        target.note(&one, 1000);
        assert_eq!(told_of(&mut target, &one, 1100), (0, 0, 1));
        // Another text of the same subject is news, and nothing is solved.
        let worse = survey(&[("space", "fuller"), ("scrub", "late")]);
        assert_eq!(told_of(&mut target, &worse, 2000), (2, 0, 0));
        target.note(&worse, 2000);
        let less = survey(&[("scrub", "late")]);
        assert_eq!(told_of(&mut target, &less, 2100), (0, 0, 1));
        // It comes back, and is gone again for some time.
        assert_eq!(told_of(&mut target, &worse, 2200), (0, 0, 2));
        assert_eq!(told_of(&mut target, &less, 2300), (0, 0, 1));
        assert_eq!(told_of(&mut target, &less, 2300 + SOLVED_AFTER), (0, 1, 1));
    }

    #[test]
    fn what_is_not_known_is_not_solved() {
        let mut target = ToldTarget::default();
        target.note(
            &survey(&[
                ("space", "full"),
                ("run of x tank/a", "no"),
                ("wrong keys of tank/a ann", ""),
            ]),
            1000,
        );
        let unknown = |change: fn(&mut SurveyAnswer)| {
            let mut none = survey(&[]);
            none.answer.as_mut().map(change);
            none
        };
        let late = 9_000_000;
        let is_solved = |survey: ProblemSurvey| {
            let mut target = target.clone();
            target.news(&survey, 2000);
            target.news(&survey, late).solved.len()
        };
        assert_eq!(is_solved(survey(&[])), 3);
        assert_eq!(is_solved(unknown(|answer| answer.jobs = None)), 2);
        assert_eq!(is_solved(unknown(|answer| answer.wrong_keys = None)), 2);
        assert_eq!(is_solved(unknown(|answer| answer.pools.clear())), 0);
        assert_eq!(
            is_solved(unknown(|answer| answer.pools[0].health = "UNAVAIL".into())),
            0
        );
        let mut silent = survey(&[]);
        silent.answer = None;
        assert_eq!(is_solved(silent), 0);
    }

    #[test]
    fn a_target_gets_few_messages_in_an_hour() {
        let mut target = ToldTarget::default();
        let none = survey(&[]);
        for time in 0..HOURLY_MAX as u64 {
            assert!(!target.is_full(10_000 + time));
            target.note(&none, 10_000 + time);
        }
        assert!(target.is_full(10_010) && !target.is_full(10_000 + HOUR + 10));
    }
}
