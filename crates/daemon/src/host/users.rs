//! The user who sent a command, for the history and for permissions.

use std::os::unix::net::UnixStream;

use protocol::accounts::{Account, groups_of, user_name};
use protocol::api::FailureKind;
use rustix::process::Uid;

use crate::failure::{Failure, Result};

/// The other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// All groups that it is in, by number.
    pub(crate) groups: Vec<u32>,
    /// Whether it is root, or the daemon's own user, who may do everything.
    pub(crate) is_admin: bool,
    /// The id of the token that the caller showed.
    pub(crate) token: Option<String>,
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

    /// The user of a token, with this account.
    pub(crate) fn of_token(uid: u32, account: Account, token: &str) -> Peer {
        let uid = Uid::from_raw(uid);
        Peer::new(uid, account.gid, Some(account.name), Some(token.to_owned()))
    }

    fn new(uid: Uid, gid: u32, name: Option<String>, token: Option<String>) -> Peer {
        let mut groups = name.as_deref().map_or_else(Vec::new, groups_of);
        let mut name = name.unwrap_or_else(|| uid.as_raw().to_string());
        groups.push(gid);
        if let Some(token) = &token {
            name += &format!(" (token {token})");
        }
        Peer {
            uid: uid.as_raw(),
            gid,
            groups,
            is_admin: is_admin(uid),
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

/// Whether a user may do everything: root, or the daemon's own user.
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
