//! The user who sent a command, for the history and for permissions.

use std::os::unix::net::UnixStream;

use protocol::accounts::{SystemAccount, groups_of, user_name};
use protocol::api::FailureKind;
use rustix::process::Uid;

use crate::failure::{Failure, Result};
use crate::host::callers::scope::{BoundDataset, BoundScope, PeerToken};

/// The number that no group has.
const NO_GROUP: u32 = u32::MAX;

/// The other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// All groups that it is in, by number.
    pub(crate) groups: Vec<u32>,
    /// True for root and the daemon's own user, who may do everything, if they show no token for a dataset.
    pub(crate) is_admin: bool,
    /// The token that the caller showed.
    pub(crate) token: Option<PeerToken>,
    /// `user on host`
    pub(crate) who: String,
}

impl Peer {
    /// The user at the other end of a connection.
    pub(crate) fn of(stream: &UnixStream) -> Result<Peer> {
        let unknown = |error| Failure::other(format!("the user of the caller is unknown: {error}"));
        let credentials = rustix::net::sockopt::socket_peercred(stream).map_err(unknown)?;
        let (uid, gid) = (credentials.uid, credentials.gid.as_raw());
        let name = user_name(uid.as_raw());
        Ok(Peer::new(uid, gid, name, None))
    }

    pub(crate) fn of_token(uid: u32, account: SystemAccount, id: &str, scope: BoundScope) -> Peer {
        let uid = Uid::from_raw(uid);
        let token = PeerToken {
            id: id.to_owned(),
            scope,
            is_of_admin: is_admin(uid),
        };
        Peer::new(uid, account.gid, Some(account.name), Some(token))
    }

    /// A user who shows a token, perhaps one with a dataset.
    #[cfg(test)]
    pub(crate) fn with_token(uid: u32, id: &str, dataset: Option<&str>) -> Peer {
        let account = SystemAccount {
            name: uid.to_string(),
            gid: uid,
            home: String::new(),
        };
        let dataset = dataset.map(|name| BoundDataset {
            name: name.to_owned(),
            pool: 1,
            guid: 2,
        });
        let scope = BoundScope {
            dataset,
            ..BoundScope::default()
        };
        Peer::of_token(uid, account, id, scope)
    }

    /// The user whose rights a job has. Without an account the user is in no group.
    pub(crate) fn of_job(uid: u32, account: Option<SystemAccount>, job: &str) -> Peer {
        let (name, gid) = match account {
            Some(account) => (Some(account.name), account.gid),
            None => (None, NO_GROUP),
        };
        let peer = Peer::new(Uid::from_raw(uid), gid, name.clone(), None);
        let name = name.unwrap_or_else(|| uid.to_string());
        let who = format!("{name} (replicate {job}) on {}", host_name());
        Peer { who, ..peer }
    }

    /// The dataset to which the token limits the caller.
    pub(crate) fn dataset(&self) -> Option<&BoundDataset> {
        self.token.as_ref()?.scope.dataset.as_ref()
    }

    fn new(uid: Uid, gid: u32, name: Option<String>, token: Option<PeerToken>) -> Peer {
        let mut groups = name.as_deref().map_or_else(Vec::new, groups_of);
        let mut name = name.unwrap_or_else(|| uid.as_raw().to_string());
        groups.push(gid);
        if let Some(token) = &token {
            name += &format!(" (token {})", token.id);
        }
        Peer {
            uid: uid.as_raw(),
            gid,
            groups,
            is_admin: is_admin(uid) && !token.as_ref().is_some_and(PeerToken::has_dataset),
            token,
            who: format!("{name} on {}", host_name()),
        }
    }

    /// The user of a connection, if that user may do everything.
    pub(crate) fn admin_of(stream: &UnixStream) -> Result<Peer> {
        let peer = Peer::of(stream)?;
        match peer.is_admin {
            true => Ok(peer),
            false => Err(Failure::new(
                FailureKind::Permission,
                "only root and the user who runs the daemon may use it",
            )),
        }
    }
}

/// Returns whether a user may do everything: root, or the daemon's own user.
pub(crate) fn is_admin(uid: Uid) -> bool {
    uid.is_root() || uid == rustix::process::geteuid()
}

/// The name of this machine.
pub(crate) fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}
