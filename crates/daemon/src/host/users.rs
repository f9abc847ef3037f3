//! Who asks, for the history and for what is allowed to whom.

use std::os::unix::net::UnixStream;

use crate::api::{Failure, FailureKind};
use crate::failure::Result;

/// The other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// All groups that it is in, by number.
    pub(crate) groups: Vec<u32>,
    /// Whether it is root, or the daemon's own user, who may do everything.
    pub(crate) is_master: bool,
    /// `user on host`
    pub(crate) who: String,
}

impl Peer {
    /// Who is at the other end.
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
            is_master: uid.is_root() || uid == rustix::process::geteuid(),
            who: format!("{name} on {}", host_name()),
        })
    }

    /// The same, if they may do everything.
    pub(crate) fn master_of(stream: &UnixStream) -> Result<Peer> {
        let peer = Peer::of(stream)?;
        match peer.is_master {
            true => Ok(peer),
            false => Err(Failure::new(
                FailureKind::Permission,
                "only root and the user who runs the daemon may use it",
            )),
        }
    }
}

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// The name of a user in `/etc/passwd`.
pub(crate) fn user_name(uid: u32) -> Option<String> {
    name_in(USERS, uid)
}

/// The name of a group in `/etc/group`.
pub(crate) fn group_name(gid: u32) -> Option<String> {
    name_in(GROUPS, gid)
}

/// The number of a user: of that name, or that number itself.
pub(crate) fn uid_of(name: &str) -> Option<u32> {
    number_in(USERS, name)
}

/// The number of a group: of that name, or that number itself.
pub(crate) fn gid_of(name: &str) -> Option<u32> {
    number_in(GROUPS, name)
}

fn name_in(file: &str, number: u32) -> Option<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then(|| name.to_owned())
    })
}

fn number_in(file: &str, name: &str) -> Option<u32> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let by_name = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    });
    by_name.or_else(|| name.parse().ok())
}

/// The groups that list a user as their member.
fn groups_of(name: &str) -> Vec<u32> {
    let text = std::fs::read_to_string(GROUPS).unwrap_or_default();
    let is_member = |line: &str| {
        let mut fields = line.split(':').skip(2);
        let number = fields.next()?.parse().ok()?;
        let mut members = fields.next()?.split(',');
        members.any(|member| member == name).then_some(number)
    };
    text.lines().filter_map(is_member).collect()
}

/// The name of this machine.
pub(crate) fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}
