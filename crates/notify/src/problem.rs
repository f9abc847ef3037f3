//! The problems that there are now, as the daemon reports them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use protocol::api::{
    Ask, Command, DeviceRow, Failure, FailureKind, PoolReport, ProblemKind, ReplicationRow, Reply,
    Severity, advice, command, is_behind,
};
use protocol::client::{DaemonConnection, Terminal};
use secret::Secret;
use serde::{Deserialize, Serialize};

/// The time within which the daemon has to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// The greatest number of characters of a text.
const TEXT_MAX: usize = 1000;
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
    pub(crate) jobs: Vec<ReplicationRow>,
}

impl ProblemSurvey {
    /// Asks the daemon at a socket.
    pub(crate) fn make(socket: &Path) -> ProblemSurvey {
        match ask(socket) {
            Ok(answer) => ProblemSurvey::of(answer),
            Err(failure) => {
                let mut survey = ProblemSurvey::default();
                survey.add(CurrentProblem {
                    pool: None,
                    subject: "daemon".into(),
                    is_critical: true,
                    text: failure.message,
                    action: Some("systemctl status strongroom".into()),
                });
                survey
            }
        }
    }

    /// The problems in an answer.
    pub(crate) fn of(answer: SurveyAnswer) -> ProblemSurvey {
        let mut survey = ProblemSurvey::default();
        for pool in &answer.pools {
            survey.add_pool(pool);
        }
        for job in &answer.jobs {
            survey.add_job(job);
        }
        survey.answer = Some(answer);
        survey
    }

    fn add_pool(&mut self, pool: &PoolReport) {
        let rows = advice(pool);
        let health: String = { rows.iter() }
            .filter(|row| row.kind == ProblemKind::Health)
            .map(|row| row.text.as_str())
            .collect();
        for row in rows {
            let subject = match row.kind {
                ProblemKind::Health => "health",
                ProblemKind::Damage => "damage",
                ProblemKind::Scrub => "scrub",
                ProblemKind::Space => "space",
                ProblemKind::Keys => "keys",
            };
            self.add(CurrentProblem {
                pool: Some(row.pool),
                subject: subject.into(),
                is_critical: row.severity == Severity::Critical,
                text: row.text,
                action: row.action,
            });
        }
        // The first device that failed is named by the trouble of the pool.
        let is_bad = |device: &&DeviceRow| {
            !GOOD_STATES.contains(&device.state.as_str()) && !health.contains(&device.path)
        };
        for device in pool.devices.iter().filter(is_bad) {
            self.add(CurrentProblem {
                pool: Some(pool.name.clone()),
                subject: format!("device {}", device.path),
                is_critical: false,
                text: format!("{} is {}", device.path, device.state),
                action: Some(format!("strongroom pool status {}", pool.name)),
            });
        }
    }

    fn add_job(&mut self, job: &ReplicationRow) {
        let pool = job.source.split(['/', '@']).next().map(str::to_owned);
        let (name, source) = (&job.name, &job.source);
        let action = Some(format!("strongroom replicate status {name} {source}"));
        let mut add = |what: &str, text: String| {
            self.add(CurrentProblem {
                pool: pool.clone(),
                subject: format!("{what} of {name} {source}"),
                is_critical: false,
                text,
                action: action.clone(),
            });
        };
        if job.state == "failed" {
            let why = job.error.as_deref().unwrap_or("its last run failed");
            add("run", format!("the job {name} cannot copy {source}: {why}"));
        }
        if is_behind(job.lag, job.every) {
            let hours = job.lag / 3600;
            add(
                "lag",
                format!("the copy of {source} by {name} is {hours} h behind"),
            );
        }
    }

    fn add(&mut self, mut problem: CurrentProblem) {
        problem.text = problem.text.chars().take(TEXT_MAX).collect();
        let pool = problem.pool.as_deref().unwrap_or_default();
        // The number of seconds in a text grows, and the problem is the same.
        let kept = match problem.subject.starts_with("device ") {
            true => problem.text.clone(),
            false => problem.text.replace(|c: char| c.is_ascii_digit(), ""),
        };
        let key = format!(
            "{pool}\0{}\0{}\0{kept}",
            problem.subject, problem.is_critical
        );
        self.problems.insert(key, problem);
    }
}

/// Asks for the states of all pools and jobs. A daemon that hangs is one that does not answer.
fn ask(socket: &Path) -> Result<SurveyAnswer, Failure> {
    let (sender, answers) = mpsc::channel();
    let socket: PathBuf = socket.to_owned();
    let asked = threads::start("notify-ask", move || {
        let _ = sender.send(ask_now(&socket));
    });
    asked.map_err(|error| Failure::other(format!("no thread can be started: {error}")))?;
    answers.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        let why = format!("the daemon does not answer within {} s", PATIENCE.as_secs());
        Err(Failure::new(FailureKind::NoDaemon, why))
    })
}

fn ask_now(socket: &Path) -> Result<SurveyAnswer, Failure> {
    let call = |command: Command| DaemonConnection::connect(socket)?.call(command, &mut NoTerminal);
    let pools = match call(command::PoolStatus::default().into())? {
        Reply::Pools(pools) => pools,
        _ => return Err(Failure::other("the daemon answers something else")),
    };
    let jobs = match call(command::ReplicateList { names: Vec::new() }.into())? {
        Reply::Replications(jobs) => jobs,
        _ => return Err(Failure::other("the daemon answers something else")),
    };
    Ok(SurveyAnswer { pools, jobs })
}

/// A terminal without a person.
struct NoTerminal;

impl Terminal for NoTerminal {
    fn ask(&mut self, _: &Ask) -> Result<Option<Secret>, Failure> {
        Ok(None)
    }

    fn notice(&mut self, _: &str) {}
}
