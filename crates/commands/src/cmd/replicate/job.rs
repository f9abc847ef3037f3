//! The job that a command names.

use clap::Args;
use console::session::{Session, answer};
use protocol::api::{Failure, FailureKind, ReplicationRow, command};

// The name of a job.
#[derive(Args, Debug)]
pub(crate) struct JobName {
    /// The name of the job
    #[arg(value_name = "JOB")]
    pub(crate) name: String,
    /// The dataset that the job copies, if several have a job of this name
    #[arg(value_name = "SOURCE")]
    pub(crate) source: Option<String>,
}

/// The rows of the jobs of these datasets; of all if none is named.
pub(super) fn rows(
    names: Vec<String>,
    session: &mut Session,
) -> std::result::Result<Vec<ReplicationRow>, Failure> {
    answer!(
        session.call(command::ReplicateList { names })?,
        Replications
    )
}

/// The job with a name. If several datasets have one, the command has to name the dataset.
pub(super) fn find(
    job: &JobName,
    session: &mut Session,
) -> std::result::Result<ReplicationRow, Failure> {
    let mut found = rows(Vec::from_iter(job.source.clone()), session)?;
    found.retain(|row| row.name == job.name);
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => {
            let what = format!("there is no job '{}'", job.name);
            Err(Failure::new(
                FailureKind::NotFound,
                format!("{what}; to see the jobs: strongroom replicate list"),
            ))
        }
        _ => {
            let sources: Vec<&str> = found.iter().map(|row| row.source.as_str()).collect();
            Err(Failure::new(
                FailureKind::Usage,
                format!(
                    "several datasets have a job '{}'; name one after it: {}",
                    job.name,
                    sources.join(", ")
                ),
            ))
        }
    }
}

pub(super) fn source_of(
    job: &JobName,
    session: &mut Session,
) -> std::result::Result<String, Failure> {
    match &job.source {
        Some(source) => Ok(source.clone()),
        None => Ok(find(job, session)?.source),
    }
}
