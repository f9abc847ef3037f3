//! Who asks, for the history.

use std::os::unix::net::UnixStream;

use crate::api::{Failure, FailureKind};
use crate::failure::Result;

/// The other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// `user on host`
    pub(crate) who: String,
}

impl Peer {
    /// Who is at the other end, if they may use this daemon: its own user, or root.
    pub(crate) fn of(stream: &UnixStream) -> Result<Peer> {
        let unknown = |error| Failure::other(format!("the caller is not known: {error}"));
        let credentials = rustix::net::sockopt::socket_peercred(stream).map_err(unknown)?;
        let uid = credentials.uid;
        if !uid.is_root() && uid != rustix::process::geteuid() {
            return Err(Failure::new(
                FailureKind::Permission,
                "only root and the user who runs the daemon may use it",
            ));
        }
        Ok(Peer {
            uid: uid.as_raw(),
            gid: credentials.gid.as_raw(),
            who: format!("{} on {}", user_name(uid.as_raw()), host_name()),
        })
    }
}

/// The name of a user in `/etc/passwd`, or the number.
fn user_name(uid: u32) -> String {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let found = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    found.unwrap_or_else(|| format!("uid {uid}"))
}

/// The name of this machine.
pub(crate) fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}
