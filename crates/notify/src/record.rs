//! The record of what each target was told: a file of this user.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use console::outcome::Result;
use protocol::api::{Failure, FailureKind};
use serde::{Deserialize, Serialize};

use crate::problem::{CurrentProblem, ProblemSurvey};

/// A target gets at most this many messages in [`HOUR`] seconds.
const HOURLY_MAX: usize = 6;
const HOUR: u64 = 3600;

/// The record of all targets.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct ToldRecord {
    targets: BTreeMap<String, ToldTarget>,
}

/// The record of one target.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct ToldTarget {
    /// The problems that it was told of, and that were not solved since.
    pub(crate) told: BTreeMap<String, CurrentProblem>,
    /// The times of its last messages, in seconds since 1970.
    sent: Vec<u64>,
    /// The time of the last weekly report.
    pub(crate) weekly: u64,
}

/// The news for a target.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) new: Vec<CurrentProblem>,
    pub(crate) solved: Vec<CurrentProblem>,
    /// The number of problems that it was told of before, and that there still are.
    pub(crate) open: usize,
}

impl ToldTarget {
    /// Compares the problems that there are with those that the target was told of. Without an answer of the daemon
    /// nothing is known to be solved.
    pub(crate) fn news(&self, survey: &ProblemSurvey) -> News {
        let mut news = News::default();
        for (key, problem) in &survey.problems {
            match self.told.contains_key(key) {
                true => news.open += 1,
                false => news.new.push(problem.clone()),
            }
        }
        let is_there = |told: &CurrentProblem| {
            let mut problems = survey.problems.values();
            problems.any(|now| (&now.pool, &now.subject) == (&told.pool, &told.subject))
        };
        let gone = self.told.values().filter(|told| !is_there(told));
        let gone = gone.filter(|told| survey.answer.is_some() || told.pool.is_none());
        news.solved = gone.cloned().collect();
        news
    }

    /// Returns whether the target gets no other message now.
    pub(crate) fn is_full(&self, now: u64) -> bool {
        self.sent
            .iter()
            .filter(|sent| now.abs_diff(**sent) < HOUR)
            .count()
            >= HOURLY_MAX
    }

    /// Notes that a message was sent, which told of all problems that there are.
    pub(crate) fn note(&mut self, survey: &ProblemSurvey, now: u64) {
        match survey.answer {
            Some(_) => self.told = survey.problems.clone(),
            None => self.told.extend(survey.problems.clone()),
        }
        self.sent.retain(|sent| now.abs_diff(*sent) < HOUR);
        self.sent.push(now);
    }
}

/// The record, locked: another run of the command would tell the same again.
pub(crate) struct ToldFile {
    path: PathBuf,
    _lock: File,
    pub(crate) record: ToldRecord,
}

impl ToldFile {
    /// Opens the record. A record that is not there, or not understood, is an empty one: then all is told again.
    pub(crate) fn open(path: &Path) -> Result<ToldFile> {
        let cannot = |error| Failure::other(format!("cannot open '{}': {error}", path.display()));
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
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

    /// The record of a target.
    pub(crate) fn target(&mut self, key: &str) -> &mut ToldTarget {
        self.record.targets.entry(key.to_owned()).or_default()
    }

    /// Writes the record: either the old or the new one is there after a crash. Targets that are not in the file any more are dropped.
    pub(crate) fn write(&mut self, keys: &[String]) -> Result<()> {
        self.record.targets.retain(|key, _| keys.contains(key));
        let cannot =
            |error| Failure::other(format!("cannot write '{}': {error}", self.path.display()));
        let mut temporary = self.path.as_os_str().to_owned();
        temporary.push(".new");
        let write = || {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&temporary)?;
            file.write_all(&serde_json::to_vec(&self.record)?)?;
            file.sync_all()?;
            std::fs::rename(&temporary, &self.path)
        };
        write().map_err(cannot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::SurveyAnswer;

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
                pools: Vec::new(),
                jobs: Vec::new(),
            }),
        }
    }

    fn told_of(target: &ToldTarget, survey: &ProblemSurvey) -> (usize, usize, usize) {
        let news = target.news(survey);
        (news.new.len(), news.solved.len(), news.open)
    }

    #[test]
    fn each_problem_is_told_once_and_when_it_is_solved() {
        let mut target = ToldTarget::default();
        let one = survey(&[("space", "full")]);
        assert_eq!(told_of(&target, &one), (1, 0, 0));
        target.note(&one, 1000);
        assert_eq!(told_of(&target, &one), (0, 0, 1));
        // Another text of the same subject is news, and nothing is solved.
        let worse = survey(&[("space", "fuller"), ("scrub", "late")]);
        assert_eq!(told_of(&target, &worse), (2, 0, 0));
        target.note(&worse, 2000);
        assert_eq!(told_of(&target, &survey(&[("scrub", "late")])), (0, 1, 1));
        // A daemon that does not answer solves nothing.
        let mut silent = survey(&[]);
        silent.answer = None;
        assert_eq!(told_of(&target, &silent), (0, 0, 0));
        target.note(&silent, 2500);
        assert_eq!(told_of(&target, &survey(&[])), (0, 2, 0));
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
