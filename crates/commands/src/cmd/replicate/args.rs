//! Jobs that copy datasets.

use clap::{Args, Subcommand};
use console::values;

use crate::cmd::replicate::drill::JobDrill;
use crate::cmd::replicate::job::JobName;
use crate::cmd::replicate::verify::JobVerify;

/// Copy datasets to another place by themselves
///
/// A job copies a dataset to a target again and again. The daemon runs it. The job belongs to the dataset: it
/// stays when the dataset is renamed, and when the pool is exported and imported on this machine. A pool that
/// comes from elsewhere may have jobs: these do not run here before `replicate resume`.
///
/// A run sends the snapshots that the target does not have, as they are sealed: no key is needed. It begins at
/// the newest snapshot that both sides have. A bookmark remembers that snapshot, so the source may destroy it.
/// An interrupted run goes on where it ended. The target always has the state of a whole snapshot.
///
/// A job makes no snapshots: set the property snapshot-schedule. The copy has no schedule of its own. --keep says
/// which of the snapshots with names of a schedule it keeps.
///
/// A job has the rights of the user who added it, as they are at each run. It needs `send` and `bookmark` on the
/// source, `receive`, `create` and `mount` at the target, and with --keep also `destroy` there. A job that lost a
/// right stops and says so.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  Snapshots each hour, and a copy of them in another pool:
    strongroom set snapshot-schedule=hourly:24,daily:30 tank/home
    strongroom replicate add offsite tank/home backup/home --every 1h --keep daily:365
    strongroom replicate list

  What the next run would send; send it now:
    strongroom replicate run -n offsite
    strongroom replicate run offsite

EXIT CODES
  2 for a wrong argument, or if the target has diverged; 3 if there is no such job or dataset; 4 if
  the name is taken; 6 if a right is missing.")]
pub(crate) enum ReplicateCommand {
    Add(JobAdd),
    List(JobList),
    Status(JobStatus),
    Run(JobRunNow),
    Verify(JobVerify),
    Drill(JobDrill),
    /// Pause a job
    ///
    /// The job does not run by itself until `replicate resume`. If it runs now, it stops, and what came is kept.
    /// `replicate run` runs a paused job once.
    #[command(after_help = "\
EXAMPLES
  While the other pool is away:
    strongroom replicate pause offsite
    strongroom pool export backup

EXIT CODES
  3 if there is no such job.")]
    Pause(JobName),
    /// Resume a job that was paused or stopped
    ///
    /// The job runs by itself again, at once. This also accepts a job on this machine that came with its pool
    /// from elsewhere: look at its target and its owner with `replicate list` before.
    #[command(after_help = "\
EXAMPLES
  After the user of the job got a right back:
    strongroom allow ann receive,create,mount backup/ann
    strongroom replicate resume offsite tank/ann

EXIT CODES
  3 if there is no such job.")]
    Resume(JobName),
    /// Remove a job; the copy stays
    ///
    /// If the job runs, it stops. Its bookmarks in the source are destroyed. A job that is added again goes on
    /// with the same copy, as long as both sides have a snapshot in common.
    #[command(after_help = "\
EXAMPLES
  The job, and then the copy too:
    strongroom replicate remove offsite
    strongroom destroy -r backup/home

EXIT CODES
  3 if there is no such job.")]
    Remove(JobName),
}

/// Add a job that copies a dataset
///
/// The target is a dataset that does not exist yet, or a copy that an earlier job or `receive` made. The dataset
/// above it has to exist. Nothing but receives may change the copy: mount it with -o ro, or not at all.
///
/// Copies of clones are clones for root's jobs with -R, and whole copies for others.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A dataset with all below it, each night, and at most 10 MiB in a second:
    strongroom replicate add nightly -R --every 1d --window 22:00-06:00 --limit 10M \\
      tank/home backup/home

  A copy that keeps more than its source:
    strongroom set snapshot-schedule=hourly:24 tank/home
    strongroom replicate add long --keep hourly:9999 tank/home backup/long

  To a host that takes copies and lets nobody destroy them from here; the token is made there:
    strongroom replicate add far --token file:///etc/strongroom/far.token \\
      tank/home https://nas.example:8443/backup/home

EXIT CODES
  2 for a wrong value; 3 if there is no such dataset; 4 if the dataset has a job of this name; 6 if
  a right is missing.")]
pub(crate) struct JobAdd {
    /// Copy the datasets below the source too
    #[arg(short = 'R')]
    pub(crate) recursive: bool,
    /// The time between two runs: a number with s, m, h or d
    #[arg(long, value_name = "TIME", value_parser = every, default_value = "1h")]
    pub(crate) every: u64,
    /// The snapshots that the copy keeps, as in snapshot-schedule: hourly:24,daily:30 [default: all]
    #[arg(long, value_name = "SCHEDULE")]
    pub(crate) keep: Option<String>,
    /// The most bytes that are sent in a second, such as 10M [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(crate) limit: Option<u64>,
    /// The hours in which the job runs by itself, in the time of the machine [default: all]
    #[arg(long, value_name = "HH:MM-HH:MM")]
    pub(crate) window: Option<String>,
    /// The file with the token for a target by https, as file:///PATH
    ///
    /// The user of the job reads it at each run. Other users must not be able to. On the other host:
    /// `strongroom web token create --receive-only --dataset POOL/DATASET LABEL`.
    #[arg(long, value_name = "FILE")]
    pub(crate) token: Option<String>,
    /// The authorities of the certificate of a target by https, as file:///PATH, in PEM form [default: the system's]
    #[arg(long, value_name = "FILE", requires = "token")]
    pub(crate) ca: Option<String>,
    /// The name of the job
    #[arg(value_name = "JOB")]
    pub(crate) name: String,
    /// The dataset to copy
    #[arg(value_name = "SOURCE")]
    pub(crate) source: String,
    /// The dataset that becomes the copy: POOL/DATASET, or ssh:// or https://HOST/POOL/DATASET
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
}

/// List jobs that copy datasets
///
/// Shows your own jobs, and root all jobs. LAG is the time since the oldest snapshot was made that is not
/// copied yet: `-` means that the copy has everything. A copy that stays behind for three runs and an hour
/// gives an event and an alert.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All jobs; those of one dataset:
    strongroom replicate list
    strongroom replicate list tank/home

STATES
  waiting       the job waits for its next time
  running       it runs now
  paused        `replicate pause` stopped it
  failed        its last run failed; it tries again after five minutes
  stopped       its user lost a right; `replicate resume` lets it run again
  not-accepted  it came with its pool from elsewhere; `replicate resume` lets it run here

JSON
  [{\"name\", \"source\", \"target\", \"owner\", \"state\", \"every\", \"recursive\", \"keep\", \"limit\",
  \"window\", \"token\", \"ca\", \"newest\", \"lag\", \"last_run\", \"step\", \"sent\", \"total\", \"rate\", \"error\",
  \"verification\": {\"time\", \"failure\", \"newest\"} or null, \"attempt\" and \"drill\": the same}, ...]
  with times in seconds and sizes in bytes. \"newest\" is true if only the newest copies were read.
  \"attempt\" is a later verification that found nothing out, such as one without an answer.")]
pub(crate) struct JobList {
    /// Print no header, and tabs between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// Datasets with jobs; all if none is named
    #[arg(value_name = "DATASET")]
    pub(crate) names: Vec<String>,
}

/// Show a job in detail
///
/// Shows the definition of a job, its state, the progress and rate of a run, and the reason why the last run
/// failed.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  One job; each second while it runs:
    strongroom replicate status offsite
    watch -n 1 strongroom replicate status offsite

JSON
  One element as `replicate list` shows it.

EXIT CODES
  3 if there is no such job.")]
pub(crate) struct JobStatus {
    #[command(flatten)]
    pub(crate) job: JobName,
}

/// Run a job now
///
/// Runs the job, also outside of its hours and while it is paused, and waits until it has ended. The run
/// continues if the command is interrupted.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  What would be sent, with sizes; then send it:
    strongroom replicate run -n offsite
    strongroom replicate run offsite

JSON
  With -n: [{\"name\", \"from\", \"size\"}, ...] with sizes in bytes.

EXIT CODES
  2 if the target has diverged; 3 if there is no such job; 5 if a dataset is in use; 6 if a right is
  missing; 11 if there is no free space.")]
pub(crate) struct JobRunNow {
    /// Send nothing; print the streams that would be sent
    #[arg(short = 'n')]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) job: JobName,
}

/// Parses a time between two runs.
fn every(text: &str) -> Result<u64, String> {
    values::seconds(text)
        .ok_or_else(|| format!("'{text}': use a number with s, m, h or d, such as 1h"))
}
