//! The user who sent a command, for the history and for permissions.

use std::os::unix::net::UnixStream;

use protocol::accounts::{groups_of, user_name};
use protocol::api::FailureKind;

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
        let mut groups = name.as_deref().map_or_else(Vec::new, groups_of);
        let name = name.unwrap_or_else(|| uid.as_raw().to_string());
        groups.push(gid);
        Ok(Peer {
            uid: uid.as_raw(),
            gid,
            groups,
            is_admin: uid.is_root() || uid == rustix::process::geteuid(),
            who: format!("{name} on {}", host_name()),
        })
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

/// The name of this machine.
pub(crate) fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}
