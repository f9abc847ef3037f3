//! The decision of the daemon about one command of one caller.

use std::cell::RefCell;

use protocol::api::{Command, FailureKind};

use crate::failure::{Failure, Result};
use crate::host::callers::users::Peer;
use crate::serve::authorize::PermissionCheck;
use crate::serve::commands::{Serve, served};
use crate::serve::scope;
use crate::serve::subjects::{Subjects, replaced};
use crate::state::callers::decision::{DatasetGuid, Decide};
use crate::state::daemon::Daemon;
use crate::state::zones::view::ZoneView;

/// A command, and the caller who may or may not carry it out.
pub(crate) struct Decision<'a> {
    daemon: &'a Daemon,
    peer: Peer,
    view: Option<&'a ZoneView>,
    /// The command as it was sent: in a zone with the names of the tenant.
    command: Command,
    subjects: RefCell<Subjects>,
}

impl<'a> Decision<'a> {
    pub(super) fn new(
        daemon: &'a Daemon,
        peer: &Peer,
        view: Option<&'a ZoneView>,
        command: Command,
    ) -> Decision<'a> {
        Decision {
            daemon,
            peer: peer.clone(),
            view,
            command,
            subjects: RefCell::default(),
        }
    }

    /// Decides. Returns the command, in a zone with the names of the daemon.
    pub(super) fn make(&self) -> Result<Box<dyn Serve>> {
        scope::check(&self.peer, &self.command)?;
        let mut command = served(self.command.clone());
        self.subjects.borrow_mut().begin();
        let check = PermissionCheck::of(self.daemon, &self.peer, &self.subjects);
        match self.view {
            Some(view) => command.admit(view)?,
            None if self.peer.is_admin => {}
            None => command.authorize(&check)?,
        }
        Ok(command)
    }
}

impl Decide for Decision<'_> {
    fn again(&self) -> Result<()> {
        self.check_caller()?;
        self.make().map(drop).map_err(|mut failure| {
            failure.message += " (this changed while the command waited; nothing was changed)";
            failure
        })
    }

    fn check_caller(&self) -> Result<()> {
        let ended = |what: &str| {
            Failure::new(
                FailureKind::Permission,
                format!("{what} meanwhile; nothing was changed"),
            )
        };
        if let Some(token) = &self.peer.token
            && !self.daemon.tokens.has_valid(&token.id)
        {
            return Err(ended("the token was revoked or has expired"));
        }
        match self.view {
            Some(view) if !self.daemon.has_zone(view, &self.peer) => Err(ended(
                "the zone was destroyed, given to another user, or got another profile",
            )),
            _ => Ok(()),
        }
    }

    fn covers(&self, dataset: DatasetGuid, name: &str) -> Result<()> {
        let is_covered = match self.view {
            Some(view) => view.has(dataset)?,
            None => self.peer.is_admin || self.subjects.borrow().is_allowed(dataset),
        };
        match is_covered {
            true => Ok(()),
            false => Err(replaced(name)),
        }
    }
}
