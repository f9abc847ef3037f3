//! Carries out commands for the owner of a job.

use std::sync::Arc;
use std::time::Duration;

use protocol::accounts;
use protocol::api::{API_VERSION, Ask, Command, Reply, Request, command};
use secret::Secret;

use crate::failure::{Failure, Result};
use crate::host::callers::users::Peer;
use crate::serve::decision::Decision;
use crate::serve::dispatch::{RequestOutcome, history_line};
use crate::state::callers::channel::{Channel, DataChannel};
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::replication::job::ReplicationJob;

/// The owner of a job, as a caller of the daemon.
#[derive(Clone)]
pub(super) struct JobOwner {
    daemon: Arc<Daemon>,
    peer: Peer,
}

/// The channel of a command without a caller that waits.
struct OwnerChannel {
    rows: Vec<Reply>,
    data: Option<Arc<dyn DataChannel>>,
}

impl Channel for OwnerChannel {
    fn ask(&mut self, _: Ask) -> Result<Option<Secret>> {
        Ok(None)
    }

    fn notice(&mut self, text: String) {
        tracing::info!(notice = text, "while a job runs");
    }

    fn rows(&mut self, rows: Reply) -> Result<()> {
        self.rows.push(rows);
        Ok(())
    }

    fn pause(&mut self, time: Duration) -> bool {
        std::thread::sleep(time);
        !self.data.as_ref().is_some_and(|data| data.is_gone())
    }

    fn data(&self) -> Result<Arc<dyn DataChannel>> {
        let none = || Failure::other("this command needs a connection for its data");
        self.data.clone().ok_or_else(none)
    }
}

impl JobOwner {
    /// The owner of a job, with the groups that the user has now.
    pub(super) fn of(daemon: &Arc<Daemon>, job: &ReplicationJob) -> Result<JobOwner> {
        let unknown =
            |error| Failure::other(format!("the users of this machine are unknown: {error}"));
        let account = accounts::accounts().map_err(unknown)?.remove(&job.owner);
        job.check_user(account.as_ref().map(|account| account.name.as_str()))?;
        Ok(JobOwner {
            daemon: Arc::clone(daemon),
            peer: Peer::of_job(job.owner, account, &job.name),
        })
    }

    /// Returns whether the owner may do everything.
    pub(super) fn is_admin(&self) -> bool {
        self.peer.is_admin
    }

    /// Carries out a command.
    pub(super) fn call(&self, command: impl Into<Command>) -> Result<Reply> {
        self.carry_out(command.into(), None)
    }

    /// Carries out a command that sends or receives a stream.
    pub(super) fn call_with_data(
        &self,
        command: impl Into<Command>,
        data: Arc<dyn DataChannel>,
    ) -> Result<Reply> {
        self.carry_out(command.into(), Some(data))
    }

    /// Destroys a snapshot, if it is still the one with this guid.
    pub(super) fn destroy_same(&self, name: &str, guid: u64) -> Result<()> {
        let command = command::Destroy {
            name: name.to_owned(),
            ..command::Destroy::default()
        };
        let decision = Decision::new(&self.daemon, &self.peer, None, command.into());
        let served = decision.make()?;
        let pools = || self.daemon.pools();
        let mut channel = OwnerChannel {
            rows: Vec::new(),
            data: None,
        };
        let mut context = CallerContext {
            peer: self.peer.clone(),
            view: None,
            pools: &pools,
            said: history_line(&*served),
            decision: &decision,
            channel: &mut channel,
        };
        self.daemon.destroy_same(name, guid, &mut context)
    }

    fn carry_out(&self, command: Command, data: Option<Arc<dyn DataChannel>>) -> Result<Reply> {
        let mut channel = OwnerChannel {
            rows: Vec::new(),
            data,
        };
        let request = Request {
            version: API_VERSION,
            command,
            hash_memory: None,
        };
        let peer = self.peer.clone();
        match self.daemon.carry_out(request, peer, None, &mut channel)? {
            RequestOutcome::Reply(reply) => reply.after(channel.rows).ok_or_else(unexpected),
            RequestOutcome::Stop => Err(unexpected()),
        }
    }
}

/// The failure of an answer that does not fit the command.
pub(super) fn unexpected() -> Failure {
    Failure::other("the daemon gave another kind of answer")
}
