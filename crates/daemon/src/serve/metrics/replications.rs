//! The metrics of jobs that copy datasets.

use crate::serve::metrics::text::{Labels, MetricsPage};
use crate::state::daemon::Daemon;

/// A job at one moment.
struct JobSample {
    labels: Labels,
    lag: u64,
    every: u64,
    is_running: bool,
    has_failed: bool,
    sent: u64,
    verified: u64,
    is_damaged: bool,
    drilled: u64,
    has_failed_drill: bool,
}

impl Daemon {
    /// Writes the metrics of all jobs.
    pub(super) fn of_replications(&self, page: &mut MetricsPage) {
        let sample = |one| {
            let row = self.replication_row(&one, None)?;
            Some(JobSample {
                labels: vec![("dataset", row.source), ("name", row.name)],
                lag: row.lag,
                every: row.every,
                is_running: row.state == "running",
                has_failed: matches!(&*row.state, "failed" | "stopped"),
                sent: row.sent,
                verified: row.verification.as_ref().map_or(0, |check| check.time),
                drilled: row.drill.as_ref().map_or(0, |check| check.time),
                has_failed_drill: row.drill.is_some_and(|check| check.failure.is_some()),
                is_damaged: row
                    .verification
                    .is_some_and(|check| check.failure.is_some()),
            })
        };
        let jobs: Vec<JobSample> = self.all_jobs().into_iter().filter_map(sample).collect();
        let mut gauge = |name, help, value: fn(&JobSample) -> u64| {
            let samples = jobs.iter().map(|job| (job.labels.clone(), value(job)));
            page.gauge(name, help, samples);
        };
        gauge(
            "strongroom_replication_lag_seconds",
            "Since the oldest snapshot was made that the job has not copied; 0 if it has copied all.",
            |job| job.lag,
        );
        gauge(
            "strongroom_replication_interval_seconds",
            "The time between two runs of the job.",
            |job| job.every,
        );
        gauge(
            "strongroom_replication_running",
            "1 while the job runs.",
            |job| u64::from(job.is_running),
        );
        gauge(
            "strongroom_replication_failed",
            "1 if the last run failed, or if the job stopped because its user lost a right.",
            |job| u64::from(job.has_failed),
        );
        gauge(
            "strongroom_replication_sent_bytes",
            "What the present run has sent; 0 if the job does not run.",
            |job| job.sent,
        );
        gauge(
            "strongroom_replication_verified_time_seconds",
            "The end of the last verification of the copies, since 1970; 0 if there was none.",
            |job| job.verified,
        );
        gauge(
            "strongroom_replication_damaged",
            "1 if the last verification found a copy that is not whole, or not that of its source.",
            |job| u64::from(job.is_damaged),
        );
        gauge(
            "strongroom_replication_drill_time_seconds",
            "The end of the last drill with the copy, since 1970; 0 if there was none.",
            |job| job.drilled,
        );
        gauge(
            "strongroom_replication_drill_failed",
            "1 if a file differed, or could not be restored, in the last drill.",
            |job| u64::from(job.has_failed_drill),
        );
    }
}
