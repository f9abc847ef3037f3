//! The report about a job that copies a dataset.

use serde::{Deserialize, Serialize};

/// A job that copies a dataset, with its state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplicationRow {
    /// The name of the job.
    pub name: String,
    /// The dataset that is copied.
    pub source: String,
    /// The place of the copy.
    pub target: String,
    /// The user whose rights the job has.
    pub owner: String,
    /// `waiting`, `running`, `paused`, `failed`, `stopped` or `not-accepted`.
    pub state: String,
    /// The seconds between two runs.
    pub every: u64,
    /// True if the datasets below the source are copied too.
    pub recursive: bool,
    /// The snapshots that the target keeps.
    pub keep: Option<String>,
    /// The most bytes that are sent in a second.
    pub limit: Option<u64>,
    /// The hours in which the job runs by itself.
    pub window: Option<String>,
    /// The file with the token for a target by HTTPS. The token itself is not known.
    #[serde(default)]
    pub token: Option<String>,
    /// The file with the authorities of such a target.
    #[serde(default)]
    pub ca: Option<String>,
    /// The time of the newest snapshot that was copied, in seconds since 1970.
    pub newest: Option<u64>,
    /// The seconds since the oldest snapshot was made that was not copied yet; 0 if all were.
    pub lag: u64,
    /// The begin of the last run, in seconds since 1970, since the daemon was started.
    pub last_run: Option<u64>,
    /// The present step of a job that runs.
    pub step: Option<String>,
    /// The bytes that a running job has sent.
    pub sent: u64,
    /// The bytes that a running job has to send, as far as they are known.
    pub total: u64,
    /// The bytes that a running job sends in a second.
    pub rate: u64,
    /// The reason why the last run failed, or why the job does not run.
    pub error: Option<String>,
    /// The last verification of the copies. `None` if they were never verified.
    pub verification: Option<CopyCheckRow>,
    /// The verification after that, if it could not find anything out.
    pub attempt: Option<CopyCheckRow>,
    /// The last drill. `None` if no file was ever restored from the copy.
    pub drill: Option<CopyCheckRow>,
}

/// A check of the copies of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyCheckRow {
    /// The end of the check, in seconds since 1970.
    pub time: u64,
    /// The reason why it failed; `None` if the copies that were read are whole.
    pub failure: Option<String>,
    /// True if only the newest copy of each dataset was read.
    pub newest: bool,
}

/// A copy is behind after this number of runs, and this time in seconds. The rules for alerts say the same.
const RUNS: u64 = 3;
const PATIENCE: u64 = 3600;

/// Returns whether a copy is behind: several runs did not bring it further. `lag` and `every`, the time between two runs,
/// are in seconds.
pub fn is_behind(lag: u64, every: u64) -> bool {
    lag > PATIENCE.saturating_add(every.saturating_mul(RUNS))
}
