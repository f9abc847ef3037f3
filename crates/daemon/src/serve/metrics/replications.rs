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
    }
}
