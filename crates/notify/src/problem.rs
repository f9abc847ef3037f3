//! The problems that there are now, as the daemon reports them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use protocol::api::{
    Ask, Command, DeviceRow, Failure, FailureKind, Fullness, PoolReport, ProblemKind,
    ReplicationRow, Reply, Severity, WRONG_KEYS_ALARM, WrongKeyRow, advice, command, is_behind,
};
use protocol::client::{DaemonConnection, Terminal};
use secret::Secret;
use serde::{Deserialize, Serialize};

/// The time within which the daemon has to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// The greatest number of characters of a text.
const TEXT_MAX: usize = 1000;
/// The states of a pool in which nothing is known of its devices.
const UNKNOWN_STATES: [&str; 2] = ["UNAVAIL", "STALLED"];
/// The begins of the subjects of jobs.
const JOB_SUBJECTS: [&str; 4] = ["run of ", "lag of ", "copy of ", "drill of "];
/// The begin of the subjects of wrong keys.
const KEYS_SUBJECT: &str = "wrong keys of ";
/// The states of a device about which nothing is to be done.
const GOOD_STATES: [&str; 4] = ["ONLINE", "AVAIL", "RESILVERING", "REMOVING"];

/// A problem that there is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CurrentProblem {
    /// The pool; none if it is a problem of the machine.
    pub(crate) pool: Option<String>,
    /// The subject. A problem is solved when there is none with its subject any more.
    pub(crate) subject: String,
    pub(crate) is_critical: bool,
    pub(crate) text: String,
    pub(crate) action: Option<String>,
}

/// The problems of a machine, by keys that stay as long as a problem is the same one.
#[derive(Default)]
pub(crate) struct ProblemSurvey {
    pub(crate) problems: BTreeMap<String, CurrentProblem>,
    /// The pools and jobs, unless the daemon did not answer.
    pub(crate) answer: Option<SurveyAnswer>,
}

/// The answer of the daemon.
pub(crate) struct SurveyAnswer {
    pub(crate) pools: Vec<PoolReport>,
    /// None if the daemon did not tell them.
    pub(crate) jobs: Option<Vec<ReplicationRow>>,
    /// The wrong keys of the last hour; none if the daemon did not tell them.
    pub(crate) wrong_keys: Option<Vec<WrongKeyRow>>,
}

impl ProblemSurvey {
    /// Asks the daemon at a socket.
    pub(crate) fn make(socket: &Path) -> ProblemSurvey {
        match ask(socket) {
            Ok(answer) => ProblemSurvey::of(answer),
            Err(failure) => {
                let mut survey = ProblemSurvey::default();
                let problem = CurrentProblem {
                    pool: None,
                    subject: "daemon".into(),
                    is_critical: true,
                    text: failure.message,
                    action: Some("systemctl status strongroom".into()),
                };
                survey.add("", problem);
                survey
            }
        }
    }

    pub(crate) fn of(answer: SurveyAnswer) -> ProblemSurvey {
        let mut survey = ProblemSurvey::default();
        for pool in &answer.pools {
            survey.add_pool(pool);
        }
        match &answer.jobs {
            Some(jobs) => jobs.iter().for_each(|job| survey.add_job(job)),
            None => {
                let problem = CurrentProblem {
                    pool: None,
                    subject: "jobs".into(),
                    is_critical: false,
                    text: "the daemon does not tell the jobs of replication".into(),
                    action: Some("strongroom replicate list".into()),
                };
                survey.add("", problem);
            }
        }
        let wrong_keys = answer.wrong_keys.iter().flatten();
        wrong_keys.for_each(|row| survey.add_wrong_keys(row));
        survey.answer = Some(answer);
        survey
    }

    /// Returns whether there is a problem with the subject of another one.
    pub(crate) fn has_subject(&self, told: &CurrentProblem) -> bool {
        let mut problems = self.problems.values();
        problems.any(|now| (&now.pool, &now.subject) == (&told.pool, &told.subject))
    }

    /// Returns whether a problem would be among these if there were one with its subject. A pool that does not answer, or
    /// that is not imported, has no report on its devices and jobs.
    pub(crate) fn knows(&self, told: &CurrentProblem) -> bool {
        let Some(answer) = &self.answer else {
            return false;
        };
        let is_job = JOB_SUBJECTS
            .iter()
            .any(|kind| told.subject.starts_with(kind));
        let is_known = |name: &String| {
            let mut pools = answer.pools.iter();
            pools.any(|pool| pool.name == *name && !UNKNOWN_STATES.contains(&&*pool.health))
        };
        let is_of_keys = told.subject.starts_with(KEYS_SUBJECT);
        told.pool.as_ref().is_none_or(is_known)
            && (!is_job || answer.jobs.is_some())
            && (!is_of_keys || answer.wrong_keys.is_some())
    }

    fn add_pool(&mut self, pool: &PoolReport) {
        let rows = advice(pool);
        let is_bad = |device: &&DeviceRow| !GOOD_STATES.contains(&device.state.as_str());
        let bad: Vec<&DeviceRow> = pool.devices.iter().filter(is_bad).collect();
        let level = Fullness::of(pool.allocated, pool.free).level;
        for row in rows {
            let (subject, detail) = match row.kind {
                ProblemKind::Health => {
                    let states = bad.iter().map(|one| format!("{} {}", one.path, one.state));
                    let states: Vec<String> = states.collect();
                    // The text of a pool that waits has what waits, which changes all the time.
                    let text = match pool.health == "STALLED" {
                        true => String::new(),
                        false => without_numbers(&row.text),
                    };
                    ("health", format!("{text}\0{level}\0{}", states.join("\0")))
                }
                ProblemKind::Damage => ("damage", row.text.clone()),
                ProblemKind::Scrub => ("scrub", String::new()),
                ProblemKind::Space => ("space", level.to_string()),
                ProblemKind::Keys => ("keys", row.text.clone()),
            };
            let problem = CurrentProblem {
                pool: Some(row.pool),
                subject: subject.into(),
                is_critical: row.severity == Severity::Critical,
                text: row.text,
                action: row.action,
            };
            self.add(&detail, problem);
        }
        for device in bad {
            let problem = CurrentProblem {
                pool: Some(pool.name.clone()),
                subject: format!("device {}", device.path),
                is_critical: false,
                text: format!("{} is {}", device.path, device.state),
                action: Some(format!("strongroom pool status {}", pool.name)),
            };
            self.add(&device.state, problem);
        }
    }

    fn add_job(&mut self, job: &ReplicationRow) {
        let pool = job.source.split(['/', '@']).next().map(str::to_owned);
        let (name, source) = (&job.name, &job.source);
        let action = Some(format!("strongroom replicate status {name} {source}"));
        let mut add = |what: &str, detail: &str, text: String| {
            let problem = CurrentProblem {
                pool: pool.clone(),
                subject: format!("{what} of {name} {source}"),
                is_critical: what == "copy",
                text,
                action: action.clone(),
            };
            self.add(detail, problem);
        };
        // A job that tries again has the reason still.
        let is_again = job.state == "running" && job.error.is_some();
        if is_again || matches!(&*job.state, "failed" | "stopped") {
            let why = job.error.as_deref().unwrap_or("its last run failed");
            let text = format!("the job {name} cannot copy {source}: {why}");
            add("run", &without_numbers(why), text);
        }
        if is_behind(job.lag, job.every) {
            let hours = job.lag / 3600;
            let text = format!("the copy of {source} by {name} is {hours} h behind");
            add("lag", "", text);
        }
        let check = job.verification.as_ref();
        if let Some(why) = check.and_then(|check| check.failure.as_ref()) {
            let text = format!("the copy of {source} by {name} is not whole: {why}");
            add("copy", why, text);
        }
        let attempt = job.attempt.as_ref();
        if let Some(why) = attempt.and_then(|attempt| attempt.failure.as_ref()) {
            let text = format!("the copy of {source} by {name} was not verified: {why}");
            add("verification", &without_numbers(why), text);
        }
        let drill = job.drill.as_ref();
        if let Some(why) = drill.and_then(|drill| drill.failure.as_ref()) {
            let text = format!("a drill with the copy of {source} by {name} failed: {why}");
            add("drill", why, text);
        }
    }

    fn add_wrong_keys(&mut self, row: &WrongKeyRow) {
        if row.count < WRONG_KEYS_ALARM {
            return;
        }
        let (name, user) = (&row.name, &row.user);
        let problem = CurrentProblem {
            pool: None,
            subject: format!("{KEYS_SUBJECT}{name} {user}"),
            is_critical: false,
            text: format!(
                "{user} tried {} wrong keys of {name} within an hour",
                row.count
            ),
            action: Some("strongroom key tries".into()),
        };
        self.add("", problem);
    }

    /// Adds a problem. It stays the same one as long as its pool, subject, severity and `detail` do.
    fn add(&mut self, detail: &str, mut problem: CurrentProblem) {
        problem.text = problem.text.chars().take(TEXT_MAX).collect();
        let pool = problem.pool.as_deref().unwrap_or_default();
        let (subject, is_critical) = (&problem.subject, problem.is_critical);
        let key = format!("{pool}\0{subject}\0{is_critical}\0{detail}");
        self.problems.insert(key, problem);
    }
}

/// A text without its numbers: of a problem that stays, they grow.
fn without_numbers(text: &str) -> String {
    text.replace(|c: char| c.is_ascii_digit(), "")
}

/// Asks for the states of all pools and jobs. A daemon that hangs is one that does not answer.
fn ask(socket: &Path) -> Result<SurveyAnswer, Failure> {
    let (sender, answers) = mpsc::channel();
    let socket: PathBuf = socket.to_owned();
    let asked = threads::start("notify-ask", move || {
        let tries = command::KeyTries.into();
        for command in [command::PoolStatus::default().into(), all_jobs(), tries] {
            let command: Command = command;
            let daemon = DaemonConnection::connect(&socket);
            let asked = daemon.and_then(|daemon| daemon.call(command, &mut NoTerminal));
            let _ = sender.send(asked);
        }
    });
    asked.map_err(|error| Failure::other(format!("no thread can be started: {error}")))?;
    let answer = || {
        answers.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            let why = format!("the daemon does not answer within {} s", PATIENCE.as_secs());
            Err(Failure::new(FailureKind::NoDaemon, why))
        })
    };
    let pools = match answer()? {
        Reply::Pools(pools) => pools,
        _ => return Err(Failure::other("the daemon answers something else")),
    };
    let jobs = match answer() {
        Ok(Reply::Replications(jobs)) => Some(jobs),
        _ => None,
    };
    let wrong_keys = match answer() {
        Ok(Reply::WrongKeys(rows)) => Some(rows),
        _ => None,
    };
    Ok(SurveyAnswer {
        pools,
        jobs,
        wrong_keys,
    })
}

fn all_jobs() -> Command {
    let names = Vec::new();
    command::ReplicateList { names }.into()
}

/// A terminal without a person.
struct NoTerminal;

impl Terminal for NoTerminal {
    fn ask(&mut self, _: &Ask) -> Result<Option<Secret>, Failure> {
        Ok(None)
    }

    fn notice(&mut self, _: &str) {}
}

#[cfg(test)]
pub(crate) mod tests {
    use protocol::api::ScrubRow;
    use serde_json::{Value, json};

    use super::*;

    pub(crate) fn pool(changes: Value) -> PoolReport {
        let mut report = json!({
            "name": "tank", "guid": 7, "health": "ONLINE", "trouble": null, "action": null, "size": 1000,
            "allocated": 10, "free": 990, "dedupratio": 1.0, "freeing": false, "read_only": false, "txg": 5,
            "devices": [], "scrub": ScrubRow::default(), "resilver": ScrubRow::default(), "damage": [],
        });
        let (Value::Object(all), Value::Object(changes)) = (&mut report, changes) else {
            unreachable!("both are objects");
        };
        all.extend(changes);
        serde_json::from_value(report).unwrap()
    }

    fn keys(changes: Value) -> Vec<String> {
        let survey = ProblemSurvey::of(SurveyAnswer {
            pools: vec![pool(changes)],
            jobs: Some(Vec::new()),
            wrong_keys: None,
        });
        survey.problems.into_keys().collect()
    }

    fn device(path: &str, state: &str) -> Value {
        json!({
            "path": path, "guid": 1, "size": 1, "state": state, "group": 0, "is_log": false, "parity": 0, "column": 0,
            "replaces": null, "was_spare": false, "read": 0, "write": 0, "checksum": 0,
        })
    }

    #[test]
    fn ten_wrong_keys_are_one_problem() {
        let keys = |count: u64| {
            let row = json!({"name": "tank/a", "user": "ann", "count": count, "last": 5});
            let survey = ProblemSurvey::of(SurveyAnswer {
                pools: Vec::new(),
                jobs: Some(Vec::new()),
                wrong_keys: Some(vec![serde_json::from_value(row).unwrap()]),
            });
            survey.problems.into_keys().collect::<Vec<String>>()
        };
        assert_eq!(keys(9), [] as [String; 0]);
        assert_eq!(keys(10), keys(11));
        assert_eq!(keys(10).len(), 1);
    }

    #[test]
    fn a_problem_is_the_same_one_until_something_else_is_wrong() {
        assert_eq!(keys(json!({})), [] as [String; 0]);
        let silent = |seconds: u64| {
            let trouble = format!("/d1 has not answered for {seconds} s.");
            keys(
                json!({"health": "STALLED", "trouble": trouble, "devices": [device("/d1", "SLOW")]}),
            )
        };
        assert_eq!(silent(61), silent(121));
        let failed = |path: &str| {
            let trouble = format!("{path} failed.");
            keys(
                json!({"health": "DEGRADED", "trouble": trouble, "devices": [device(path, "FAULTED")]}),
            )
        };
        assert_eq!(failed("/d1").len(), 2);
        assert_ne!(failed("/d1"), failed("/d2"));
        let damaged = |file: &str| keys(json!({"damage": [file]}));
        assert_ne!(damaged("/photo1"), damaged("/photo2"));
        let full = |used: u64| {
            keys(json!({"allocated": used, "free": 1000 - used, "trouble": format!("{used} used")}))
        };
        assert_eq!(full(810), full(820));
        assert_ne!(full(820), full(910));
    }
}
