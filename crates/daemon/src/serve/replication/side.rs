//! The target of a job: a dataset of this machine, or of another host.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::api::{DatasetRow, FailureKind, ReceiveName, Reply, VerifiedSnapshot, command};

use crate::failure::{Failure, Result};
use crate::serve::replication::listing::{ListedDataset, datasets_in, listing_of};
use crate::serve::replication::owner::{JobOwner, unexpected};
use crate::serve::replication::pipe::PipeEnd;
use crate::serve::replication::remote::{HttpsSite, SshHost};
use crate::state::callers::channel::DataChannel;
use crate::state::replication::job::ReplicationJob;
use crate::state::replication::progress::RunProgress;
use crate::state::replication::target::ReplicationTarget;

/// The target of a job.
pub(super) struct TargetSide {
    owner: JobOwner,
    progress: Arc<RunProgress>,
    limit: Option<u64>,
    place: CopyPlace,
}

/// The way to a target.
enum CopyPlace {
    /// A pool of this machine.
    Here,
    Ssh(SshHost),
    Https(HttpsSite),
}

impl TargetSide {
    pub(super) fn new(
        owner: &JobOwner,
        job: &ReplicationJob,
        progress: &Arc<RunProgress>,
    ) -> Result<TargetSide> {
        Ok(TargetSide {
            owner: owner.clone(),
            progress: Arc::clone(progress),
            limit: job.limit,
            place: match job.place()? {
                ReplicationTarget::Local(_) => CopyPlace::Here,
                ReplicationTarget::Ssh(target) => {
                    CopyPlace::Ssh(SshHost::new(&target, job, progress)?)
                }
                ReplicationTarget::Https(target) => {
                    CopyPlace::Https(HttpsSite::new(&target, job, progress)?)
                }
            },
        })
    }

    /// Returns whether a clone can be received as a clone: by root, in a pool of this machine. Others may not see what it
    /// would be a clone of.
    pub(super) fn takes_clones(&self) -> bool {
        matches!(self.place, CopyPlace::Here) && self.owner.is_admin()
    }

    /// The datasets with this name and below it. There are none if there is no dataset of this name, or none that the
    /// owner may see.
    pub(super) fn list(&self, name: &str, recursive: bool) -> Result<Vec<ListedDataset>> {
        let rows = match &self.place {
            CopyPlace::Ssh(host) => host.list(name, recursive),
            CopyPlace::Https(site) => site.list(name, recursive),
            CopyPlace::Here => self
                .owner
                .call(listing_of(name, recursive))
                .and_then(dataset_rows),
        };
        match rows {
            Ok(rows) => Ok(datasets_in(rows, name, recursive)),
            // If the target exists all the same, the receive says why it is refused.
            Err(failure)
                if matches!(
                    failure.kind,
                    FailureKind::NotFound | FailureKind::Permission
                ) =>
            {
                Ok(Vec::new())
            }
            Err(failure) => Err(failure),
        }
    }

    /// Throws away what an interrupted receive left.
    pub(super) fn abandon(&self, name: &str) -> Result<()> {
        match &self.place {
            CopyPlace::Ssh(host) => host.order("receive -A", &[name]),
            CopyPlace::Https(site) => site.abandon(name),
            CopyPlace::Here => {
                let target = name.to_owned();
                self.owner
                    .call(command::ReceiveAbandon { target })
                    .map(drop)
            }
        }
    }

    /// Renames a copy.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<()> {
        match &self.place {
            CopyPlace::Ssh(host) => host.order("rename", &[from, to]),
            CopyPlace::Https(site) => {
                let what = format!("the source of '{from}' was renamed");
                site.refuse(&what, &format!("strongroom rename '{from}' '{to}'"))
            }
            CopyPlace::Here => {
                let rename = command::Rename {
                    from: from.to_owned(),
                    to: to.to_owned(),
                    recursive: false,
                    parents: false,
                    force: false,
                };
                self.owner.call(rename).map(drop)
            }
        }
    }

    /// Destroys a snapshot, on this machine only if it is still the one with this guid.
    pub(super) fn destroy(&self, name: &str, guid: u64) -> Result<()> {
        match &self.place {
            CopyPlace::Ssh(host) => host.order("destroy -f", &[name]),
            CopyPlace::Https(site) => {
                let what = format!("'{name}' is to be destroyed");
                site.refuse(&what, &format!("strongroom destroy '{name}'"))
            }
            CopyPlace::Here => self.owner.destroy_same(name, guid),
        }
    }

    /// Sends a stream to a dataset. `said` is the step, for people.
    pub(super) fn receive(&self, send: command::Send, name: &str, said: String) -> Result<()> {
        let sending =
            |data: Arc<dyn DataChannel>| self.owner.call_with_data(send.clone(), data).map(drop);
        match &self.place {
            CopyPlace::Ssh(host) => host.receive(name, said, self.limit, sending),
            CopyPlace::Https(site) => site.receive(name, said, self.limit, sending),
            CopyPlace::Here => self.receive_here(send, name, said),
        }
    }

    /// Has the target read these snapshots.
    pub(super) fn verify(
        &self,
        names: &[String],
        challenge: &str,
    ) -> Result<Vec<VerifiedSnapshot>> {
        match &self.place {
            CopyPlace::Ssh(host) => host.verify(names, challenge),
            CopyPlace::Https(site) => site.verify(names, challenge),
            CopyPlace::Here => verify_here(&self.owner, &self.progress, names.to_vec(), challenge),
        }
    }

    fn receive_here(&self, send: command::Send, name: &str, said: String) -> Result<()> {
        let failed = |error| Failure::other(format!("the two sides cannot be connected: {error}"));
        let (here, there) = UnixStream::pair().map_err(failed)?;
        let out = PipeEnd::sending(here, &self.progress, self.limit) as Arc<dyn DataChannel>;
        let input = PipeEnd::receiving(there) as Arc<dyn DataChannel>;
        let ends = vec![Arc::clone(&out), Arc::clone(&input)];
        self.progress.enter(Some(said), ends)?;
        let receive = command::Receive {
            target: name.to_owned(),
            naming: ReceiveName::Exact,
            force: false,
            resumable: true,
            no_mount: false,
            dry_run: false,
            props: Vec::new(),
            exclude: Vec::new(),
        };
        // The first failure is the cause of the other one.
        let first = Arc::new(Mutex::new(None));
        let receiving = {
            let (owner, first) = (self.owner.clone(), Arc::clone(&first));
            move || {
                let received = owner.call_with_data(receive, Arc::clone(&input));
                note(&first, received);
                input.break_off();
            }
        };
        let receiving = threads::start("replicate-recv", receiving).map_err(failed)?;
        note(&first, self.owner.call_with_data(send, Arc::clone(&out)));
        if first.lock().is_some() {
            out.break_off();
        }
        let _ = receiving.join();
        self.progress.check()?;
        match first.lock().take() {
            None => Ok(()),
            Some(failure) => Err(failure),
        }
    }
}

/// Reads snapshots of this machine. A stop of the run ends it.
pub(super) fn verify_here(
    owner: &JobOwner,
    progress: &RunProgress,
    names: Vec<String>,
    challenge: &str,
) -> Result<Vec<VerifiedSnapshot>> {
    let failed = |error| Failure::other(format!("no connection can be made: {error}"));
    // Nothing is sent. The command ends when its end of the connection is closed.
    let (here, _there) = UnixStream::pair().map_err(failed)?;
    let end = PipeEnd::receiving(here) as Arc<dyn DataChannel>;
    progress.enter(None, vec![Arc::clone(&end)])?;
    let count = names.len();
    let command = command::Verify {
        names,
        challenge: Some(challenge.to_owned()),
    };
    let reply = owner.call_with_data(command, end);
    progress.check()?;
    match reply? {
        Reply::Verified(rows) if rows.len() == count => Ok(rows),
        _ => Err(unexpected()),
    }
}

/// Keeps the first failure.
fn note(first: &Mutex<Option<Failure>>, outcome: Result<Reply>) {
    if let Err(failure) = outcome {
        first.lock().get_or_insert(failure);
    }
}

/// The rows of a listing.
pub(super) fn dataset_rows(reply: Reply) -> Result<Vec<DatasetRow>> {
    match reply {
        Reply::Datasets(rows) => Ok(rows),
        _ => Err(unexpected()),
    }
}
