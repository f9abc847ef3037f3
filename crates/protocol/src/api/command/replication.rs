//! The commands for jobs that copy datasets to other places again and again.

use crate::api::arguments::{JobChange, each_once};

requests! {
    /// Add a job that copies a dataset to a target.
    ReplicateAdd: Changes, "replicate add" [
        "-R" recursive, "--ca" ca, "--every" every_text(), "--keep" keep, "--limit" limit, "--token" token,
        "--window" window, name, source, target,
    ] {
        /// The name of the job.
        name: String,
        /// The dataset that is copied.
        source: String,
        /// The dataset that becomes the copy, `ssh://[USER@]HOST[:PORT]/POOL/DATASET`, or
        /// `https://HOST[:PORT]/POOL/DATASET`.
        target: String,
        /// The seconds between two runs.
        every: u64,
        /// The datasets below the source too.
        #[serde(default)]
        recursive: bool,
        /// The snapshots that the target keeps, in the words of `snapshot-schedule`; all if absent.
        #[serde(default)]
        keep: Option<String>,
        /// The most bytes that are sent in a second.
        #[serde(default)]
        limit: Option<u64>,
        /// The hours in which the job runs by itself, as `22:00-06:00` in the time of the machine.
        #[serde(default)]
        window: Option<String>,
        /// The file with the token for a target by HTTPS, as `file:///PATH`. The owner of the job reads it at each run.
        #[serde(default)]
        token: Option<String>,
        /// The file with the authorities of the certificate of such a target, as `file:///PATH`; those of the system if
        /// absent.
        #[serde(default)]
        ca: Option<String>,
    }

    /// Pause, resume or remove a job.
    ReplicateChange: Changes, "replicate" [change.verb(), name, source] {
        /// The name of the job.
        name: String,
        /// The dataset that the job copies.
        source: String,
        /// The change.
        change: JobChange,
    }

    /// Run a job now, and wait until it has ended.
    ReplicateRun: Changes, "replicate run" ["-n" dry_run, name, source] {
        /// The name of the job.
        name: String,
        /// The dataset that the job copies.
        source: String,
        /// Send nothing: tell what would be sent.
        #[serde(default)]
        dry_run: bool,
    }

    /// Read the copies of a job, and compare them with the source.
    ReplicateVerify: Reads, "replicate verify" ["--newest" newest, name, source] {
        /// The name of the job.
        name: String,
        /// The dataset that the job copies.
        source: String,
        /// Only the newest copy of each dataset.
        #[serde(default)]
        newest: bool,
    }

    /// Note how a drill with the copy of a job ended.
    ReplicateDrilled: Changes, "replicate drill" [name, source] {
        /// The name of the job.
        name: String,
        /// The dataset that the job copies.
        source: String,
        /// The reason why it failed.
        #[serde(default)]
        failure: Option<String>,
    }

    /// List jobs, with their states.
    ReplicateList: Reads, "replicate list" [names] {
        /// The datasets that the jobs copy; all if none is named.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
    }
}

impl ReplicateAdd {
    fn every_text(&self) -> String {
        format!("{}s", self.every)
    }
}
