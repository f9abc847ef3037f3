//! The definition of a job, as its source dataset stores it.
//!
//! A dataset has its jobs among its properties, under a name that no property can have: as JSON. So they move with the
//! dataset when it is renamed, and with the pool when it is exported. A stream does not carry them. A pool may come
//! from anywhere, so a machine runs a job only if the job was added or resumed there (`state::replication::table`).

use pool::Entry;
use protocol::api::FailureKind;
use protocol::characters::is_hidden;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};
use crate::state::datasets::snapshot_schedule::SnapshotSchedule;
use crate::state::replication::target::ReplicationTarget;
use crate::state::replication::window::DayWindow;

/// The property.
pub(crate) const JOBS: &str = "@replicate";
/// The most jobs of one dataset. Their text fits into a property.
pub(crate) const JOBS_MAX: usize = 12;
/// The end of the name of a bookmark whose snapshot may not have arrived.
pub(crate) const PENDING: &str = ".pending";
/// The most bytes of the name of a job.
const NAME_MAX: usize = 32;
/// The most bytes of the target of a job.
const TARGET_MAX: usize = 300;
/// The most bytes of the name of a user.
const USER_MAX: usize = 64;
/// The shortest and the longest time between two runs, in seconds.
const EVERY: std::ops::RangeInclusive<u64> = 60..=366 * 24 * 3600;
/// The begin of the name of a file, and the most bytes of it.
const FILE: &str = "file://";
const FILE_MAX: usize = 200;
/// The least bytes that a job may be limited to, in a second.
const LIMIT_LEAST: u64 = 1 << 10;

/// A job of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JobKey {
    /// The guid of the pool.
    pub(crate) pool: u64,
    /// The guid of the source dataset.
    pub(crate) dataset: u64,
    pub(crate) name: String,
}

/// A job that copies a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplicationJob {
    pub(crate) name: String,
    /// The place of the copy ([`ReplicationTarget`]).
    pub(crate) target: String,
    /// The user whose rights the job has.
    pub(crate) owner: u32,
    /// The name that this user had: another account with the same number is another user. `None` without an account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    /// The seconds between two runs.
    pub(crate) every: u64,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) recursive: bool,
    /// The snapshots that the target keeps, as in `snapshot-schedule`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) keep: Option<String>,
    /// The most bytes that are sent in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<u64>,
    /// The hours in which it runs by itself ([`DayWindow`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) window: Option<String>,
    /// The file with the token of a target by HTTPS, as `file:///PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    /// The file with the authorities of the certificate of such a target; those of the system if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) paused: bool,
}

/// The files that a target by HTTPS needs, by their paths.
pub(crate) struct SiteFiles {
    pub(crate) token: String,
    pub(crate) authorities: Option<String>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl ReplicationJob {
    /// The jobs of a dataset. Those that this program cannot carry out are left out.
    pub(crate) fn of(entry: &Entry) -> Vec<ReplicationJob> {
        let text = entry.props.get(JOBS).map_or("", String::as_str);
        ReplicationJob::parse_all(text)
    }

    /// Parses the value of the property.
    pub(crate) fn parse_all(text: &str) -> Vec<ReplicationJob> {
        let all: Vec<serde_json::Value> = serde_json::from_str(text).unwrap_or_default();
        let jobs = all.into_iter().take(JOBS_MAX);
        let jobs = jobs.filter_map(|job| serde_json::from_value::<ReplicationJob>(job).ok());
        jobs.filter(|job| job.check().is_ok()).collect()
    }

    /// The value of the property.
    pub(crate) fn to_text(jobs: &[ReplicationJob]) -> Result<String> {
        serde_json::to_string(jobs)
            .map_err(|error| Failure::other(format!("the jobs cannot be written: {error}")))
    }

    /// The definition as text: what a machine accepts.
    pub(crate) fn definition(&self) -> Result<String> {
        let one = ReplicationJob {
            paused: false,
            ..self.clone()
        };
        ReplicationJob::to_text(&[one])
    }

    /// Checks the values of a job.
    pub(crate) fn check(&self) -> Result<()> {
        let name = &self.name;
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if name.is_empty()
            || name.len() > NAME_MAX
            || name.starts_with('-')
            || !name.chars().all(allowed)
        {
            return Err(Failure::usage(format!(
                "'{name}' cannot be the name of a job: it has at most {NAME_MAX} letters, digits, '-' and '_'"
            )));
        }
        ReplicationTarget::parse(&self.target)?;
        if self.target.len() > TARGET_MAX {
            return Err(Failure::usage(format!(
                "the target is longer than {TARGET_MAX} bytes"
            )));
        }
        if self.user.as_ref().is_some_and(|user| user.len() > USER_MAX) {
            return Err(Failure::usage(format!(
                "the name of the user is longer than {USER_MAX} bytes"
            )));
        }
        if !EVERY.contains(&self.every) {
            return Err(Failure::usage(
                "a job runs at most every minute, and at least every year: --every 60s to --every 366d",
            ));
        }
        if self.limit.is_some_and(|limit| limit < LIMIT_LEAST) {
            return Err(Failure::usage(
                "the limit of a job is at least 1K, in bytes each second",
            ));
        }
        self.day_window()?;
        self.schedule()?;
        match self.place()? {
            ReplicationTarget::Https(_) => self.files().map(drop),
            _ if self.token.is_none() && self.ca.is_none() => Ok(()),
            _ => Err(Failure::usage(
                "--token and --ca are for a target https://HOST/POOL/DATASET",
            )),
        }
    }

    /// The files that a target by HTTPS needs.
    pub(crate) fn files(&self) -> Result<SiteFiles> {
        let token = self.token.as_deref().ok_or_else(|| {
            Failure::usage(
                "a target https://HOST/POOL/DATASET needs --token file:///PATH; to make a token on that host: strongroom \
                 web token create --receive-only --dataset POOL/DATASET LABEL",
            )
        })?;
        if self.keep.is_some() {
            return Err(Failure::usage(
                "a job by https destroys nothing at its target, so there is no --keep; on the host of the copy: strongroom \
                 snapshot --prune --keep SCHEDULE DATASET",
            ));
        }
        Ok(SiteFiles {
            token: path_of(token)?,
            authorities: self.ca.as_deref().map(path_of).transpose()?,
        })
    }

    /// Refuses a job whose owner is another user now, or was removed. `user` is the name that the number has now.
    pub(crate) fn check_user(&self, user: Option<&str>) -> Result<()> {
        if user == self.user.as_deref() {
            return Ok(());
        }
        let account = |user: Option<&str>| match user {
            Some(user) => format!("'{user}'"),
            None => "no account".to_owned(),
        };
        Err(Failure::new(
            FailureKind::Permission,
            format!(
                "the user {} had {} when the job was added, and has {} now; to run it for another user, remove it and add \
                 it again as that user",
                self.owner,
                account(self.user.as_deref()),
                account(user)
            ),
        ))
    }

    /// The place of the copy.
    pub(crate) fn place(&self) -> Result<ReplicationTarget> {
        ReplicationTarget::parse(&self.target)
    }

    pub(crate) fn day_window(&self) -> Result<Option<DayWindow>> {
        self.window.as_deref().map(DayWindow::parse).transpose()
    }

    /// The snapshots that the target keeps.
    pub(crate) fn schedule(&self) -> Result<Option<SnapshotSchedule>> {
        let Some(keep) = &self.keep else {
            return Ok(None);
        };
        let schedule = SnapshotSchedule::parse(keep).filter(|_| keep != "none");
        schedule.map(Some).ok_or_else(|| {
            Failure::usage(format!(
                "--keep '{keep}': write it as the property snapshot-schedule, such as hourly:24,daily:30"
            ))
        })
    }

    /// The begin of the names of the bookmarks that the job makes. `dataset` is the guid of the dataset that has the job:
    /// a dataset below may have a job with the same name.
    pub(crate) fn mark_prefix(&self, dataset: u64) -> String {
        format!("replicate.{}.{dataset:016x}.", self.name)
    }
}

/// The path in the name of a file.
fn path_of(name: &str) -> Result<String> {
    let path = name.strip_prefix(FILE).filter(|path| {
        path.starts_with('/') && path.len() <= FILE_MAX && !path.chars().any(is_hidden)
    });
    path.map(str::to_owned).ok_or_else(|| {
        Failure::usage(format!(
            "'{name}' is no file: write file:///PATH, with at most {FILE_MAX} bytes"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> ReplicationJob {
        ReplicationJob {
            name: "offsite".into(),
            target: "backup/home".into(),
            owner: 0,
            user: Some("root".into()),
            every: 3600,
            recursive: true,
            keep: Some("hourly:24,daily:7".into()),
            limit: Some(10 << 20),
            window: Some("22:00-06:00".into()),
            token: None,
            ca: None,
            paused: false,
        }
    }

    /// A job by HTTPS.
    fn far() -> ReplicationJob {
        ReplicationJob {
            target: "https://host:8443/backup/home".into(),
            keep: None,
            token: Some("file:///etc/token".into()),
            ca: Some("file:///etc/ca.pem".into()),
            ..job()
        }
    }

    #[test]
    fn a_target_by_https_has_a_token_and_prunes_nothing() {
        far().check().unwrap();
        let files = far().files().unwrap();
        assert_eq!(files.token, "/etc/token");
        assert_eq!(files.authorities.as_deref(), Some("/etc/ca.pem"));
        let wrong: [fn(&mut ReplicationJob); 7] = [
            |job| job.token = None,
            |job| job.token = Some("/etc/token".into()),
            |job| job.token = Some("file://token".into()),
            |job| job.token = Some("file:///a\nb".into()),
            |job| job.ca = Some(format!("file:///{}", "x".repeat(FILE_MAX))),
            |job| job.keep = Some("daily:7".into()),
            |job| job.target = "ssh://host/backup/home".into(),
        ];
        for (number, change) in wrong.into_iter().enumerate() {
            let mut job = far();
            change(&mut job);
            assert!(job.check().is_err(), "{number}");
        }
    }

    #[test]
    fn jobs_are_stored_and_read() {
        let paused = ReplicationJob {
            name: "b".into(),
            paused: true,
            ..job()
        };
        let text = ReplicationJob::to_text(&[job(), paused.clone()]).unwrap();
        assert_eq!(ReplicationJob::parse_all(&text), [job(), paused]);
        let full = vec![
            ReplicationJob {
                target: format!("ssh://h/{}", "x".repeat(TARGET_MAX - 8)),
                user: Some("x".repeat(USER_MAX)),
                ..job()
            };
            JOBS_MAX
        ];
        let text = ReplicationJob::to_text(&full).unwrap();
        assert!(text.len() <= pool::PROPERTY_MAX, "{}", text.len());
    }

    #[test]
    fn a_job_that_is_not_understood_hides_no_other() {
        let one = serde_json::to_string(&job()).unwrap();
        let text = format!(r#"[{{"name": 5}}, {one}, {{"new": true}}]"#);
        assert_eq!(ReplicationJob::parse_all(&text), [job()]);
        for wrong in ["", "{}", "[", "[1]"] {
            assert!(ReplicationJob::parse_all(wrong).is_empty(), "{wrong}");
        }
    }

    #[test]
    fn a_pause_changes_no_definition() {
        let paused = ReplicationJob {
            paused: true,
            ..job()
        };
        assert_eq!(paused.definition().unwrap(), job().definition().unwrap());
        let other = ReplicationJob { owner: 1, ..job() };
        assert_ne!(other.definition().unwrap(), job().definition().unwrap());
    }

    #[test]
    fn another_user_with_the_same_number_does_not_inherit_a_job() {
        job().check_user(Some("root")).unwrap();
        for now in [None, Some("ann"), Some("")] {
            let failure = job().check_user(now).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Permission);
        }
        let without = ReplicationJob {
            user: None,
            ..job()
        };
        without.check_user(None).unwrap();
        assert!(without.check_user(Some("root")).is_err());
    }

    #[test]
    fn values_are_checked() {
        job().check().unwrap();
        let wrong: [fn(&mut ReplicationJob); 10] = [
            |job| job.user = Some("x".repeat(65)),
            |job| job.name = "a.b".into(),
            |job| job.name = "-n".into(),
            |job| job.name = "x".repeat(33),
            |job| job.target = "http://x/y".into(),
            |job| job.every = 59,
            |job| job.keep = Some("none".into()),
            |job| job.keep = Some("often:3".into()),
            |job| job.limit = Some(5),
            |job| job.window = Some("night".into()),
        ];
        for (number, change) in wrong.into_iter().enumerate() {
            let mut job = job();
            change(&mut job);
            assert!(job.check().is_err(), "{number}");
        }
    }
}
