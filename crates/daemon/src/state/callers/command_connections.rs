//! The connections of commands, at all sockets of the daemon.
//!
//! An open connection needs a thread and descriptors. So each user has a limit, all users together have another one, and
//! root has places of its own. The crate `admission` has the rules.
//!
//! A user without any permission is a stranger until it has shown a token. From then on the connection is one of the
//! token's user.

use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Instant;

use admission::{
    ClientSource, ConnectionPlaces, LogLimit, NoPlace, Permit, PlaceLimit, PlaceLimits, StopSignal,
};
use protocol::accounts::uid_of;
use protocol::api::{DaemonAnswer, FailureKind};
use protocol::wire;
use rustix::process::{Resource, Rlimit, Uid, getrlimit, setrlimit};

use crate::failure::{Failure, Result};
use crate::host::callers::users::{Peer, is_admin};

/// The largest number of connections of one user at a time.
const PER_USER: usize = 64;
/// The largest number of connections of all users except root at a time.
const ALL: usize = 256;
/// Connections of users other than root take at most 1 / this of the daemon's descriptors. Each counts as two, because
/// its command opens files too.
const SHARE: u64 = 8;
/// The largest number of connections of users that have not shown a permission or a token.
const STRANGERS: usize = 128;
/// The process that serves the network runs as the first of these users with an account, and shows the tokens of others.
/// Until then it has places of its own.
const NETWORK: [&str; 2] = ["strongroom-web", "nobody"];

/// The connections at all of the daemon's sockets.
pub(crate) struct CommandConnections {
    places: Arc<ConnectionPlaces>,
    log_limit: LogLimit,
    /// The first one of [`NETWORK`].
    network: Option<ClientSource>,
}

/// Ends a thread that accepts connections: everything is unmounted already.
pub(crate) const STOPPED: u8 = 0;
/// Ends a thread that accepts connections, which unmounts everything first.
pub(crate) const SIGNALLED: u8 = 1;

/// Counts as a connection while it exists.
pub(crate) struct CommandPermit {
    permit: Permit,
}

impl CommandConnections {
    /// A table with limits from the limit of descriptors.
    pub(crate) fn new() -> CommandConnections {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let max = usize::try_from(limit / SHARE / 2).unwrap_or(ALL);
        CommandConnections::with_max(max.clamp(1, ALL))
    }

    fn with_max(max: usize) -> CommandConnections {
        let limit = |all| PlaceLimit {
            all,
            site: PER_USER,
            each: PER_USER,
        };
        CommandConnections {
            places: ConnectionPlaces::new(PlaceLimits {
                strangers: limit(STRANGERS.min(max)),
                members: limit(max),
                reserved: usize::MAX,
            }),
            log_limit: LogLimit::default(),
            network: NETWORK
                .into_iter()
                .find_map(uid_of)
                .map(ClientSource::local_user),
        }
    }

    /// A place for a client. A user other than root is a stranger at first.
    pub(crate) fn greet(&self, stream: &Arc<UnixStream>, source: ClientSource) -> CommandPermit {
        let is_network = self.network.as_ref() == Some(&source);
        let stream = Arc::clone(stream);
        let give_way = move || {
            let why = "too many users without a permission are connected; try again";
            refuse(&stream, Failure::new(FailureKind::Busy, why));
        };
        let source = source.clone().reserved(source.is_reserved() || is_network);
        let permit = self.places.greet(source, give_way);
        CommandPermit { permit }
    }

    /// Returns whether the log may have another line about a user.
    pub(crate) fn may_tell(&self, uid: u32) -> bool {
        self.log_limit
            .may_tell(&ClientSource::user(uid), Instant::now())
    }

    /// Counts a connection as one of a user who has a permission, or whose token was shown.
    /// A token of root with a dataset has no reserved place: it may be a stolen one.
    pub(crate) fn admit(&self, guest: &mut CommandPermit, peer: &Peer) -> Result<()> {
        let uid = peer.uid;
        let token = peer.token.as_ref();
        let source = match token.filter(|token| token.gives_all()) {
            Some(token) => ClientSource::token(token.number()),
            None => ClientSource::user(uid).reserved(is_admin(Uid::from_raw(uid))),
        };
        guest.permit.admit_as(source).map_err(|why| {
            let text = match why {
                NoPlace::OfSource => "you have too many commands running; wait until one has ended",
                NoPlace::OfAll => "too many commands of other users are running; try again",
                NoPlace::Closed => "too many connections wait; try again",
            };
            if self.may_tell(uid) {
                tracing::warn!(uid, reason = text, "connections of a user are refused");
            }
            Failure::new(FailureKind::Busy, text)
        })
    }
}

/// Accepts and serves connections until the thread has to end. Returns why it ends.
pub(crate) fn attend(
    listener: &UnixListener,
    stop: &StopSignal,
    guests: &CommandConnections,
    mut serve: impl FnMut(Arc<UnixStream>, CommandPermit),
) -> u8 {
    let failed = |error: &std::io::Error| {
        tracing::warn!(%error, "a connection could not be accepted; the daemon tries again");
    };
    admission::attend(listener, stop, failed, |stream, source| {
        let stream = Arc::new(stream);
        let guest = guests.greet(&stream, source);
        serve(stream, guest);
    })
}

/// Sends a client the failure, without waiting until the client reads it, and ends the connection.
fn refuse(mut stream: &UnixStream, failure: Failure) {
    if stream.set_nonblocking(true).is_ok() {
        let _ = wire::send(&mut stream, &DaemonAnswer::Failed(failure));
    }
    let _ = stream.shutdown(Shutdown::Both);
}

/// Raises the limit of descriptors of this process to the maximum.
pub(crate) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(guests: &CommandConnections, uid: u32) -> (CommandPermit, UnixStream) {
        let (here, there) = UnixStream::pair().unwrap();
        let guest = guests.greet(&Arc::new(here), ClientSource::local_user(uid));
        (guest, there)
    }

    fn admit(guests: &CommandConnections, uid: u32) -> Result<(CommandPermit, UnixStream)> {
        let (mut guest, there) = connect(guests, uid);
        let peer = user(uid);
        guests.admit(&mut guest, &peer).map(|()| (guest, there))
    }

    fn user(uid: u32) -> Peer {
        Peer::with_token(uid, "00000001", None)
    }

    #[test]
    fn four_users_leave_places_for_others_and_for_root() {
        let guests = CommandConnections::with_max(ALL);
        let four: Vec<_> = (1001..=1004)
            .flat_map(|uid| std::iter::from_fn(move || Some(uid)).take(PER_USER))
            .filter_map(|uid| admit(&guests, uid).ok())
            .collect();
        let refused = admit(&guests, 1001).err().unwrap();
        assert_eq!(refused.kind, FailureKind::Busy);
        let others = [admit(&guests, 1005).unwrap(), admit(&guests, 1006).unwrap()];
        let root: Vec<_> = (0..ALL + 9).map(|_| admit(&guests, 0).unwrap()).collect();
        drop((four, others, root));
    }

    #[test]
    fn a_token_of_root_with_a_dataset_takes_only_its_own_places() {
        let guests = CommandConnections::with_max(ALL);
        let show = |id: &str| {
            let (mut guest, there) = connect(&guests, 2001);
            let peer = Peer::with_token(0, id, Some("tank/a"));
            guests.admit(&mut guest, &peer).map(|()| (guest, there))
        };
        let stolen: Vec<_> = (0..PER_USER).map(|_| show("0000000a").unwrap()).collect();
        assert_eq!(show("0000000a").err().unwrap().kind, FailureKind::Busy);
        let others = [show("0000000b").unwrap(), admit(&guests, 0).unwrap()];
        drop((stolen, others));
    }

    #[test]
    fn the_oldest_stranger_hears_why_it_gives_way() {
        let guests = CommandConnections::with_max(ALL);
        let mut known = admit(&guests, 2001).unwrap();
        let (mut slow, mut there) = connect(&guests, 2001);
        let more: Vec<_> = (0..PER_USER).map(|_| connect(&guests, 2001)).collect();
        match wire::receive(&mut there).unwrap() {
            DaemonAnswer::Failed(failure) => assert_eq!(failure.kind, FailureKind::Busy),
            other => panic!("{other:?}"),
        }
        assert!(guests.admit(&mut slow, &user(2001)).is_err());
        guests.admit(&mut known.0, &user(2001)).unwrap();
        // It shows a token of another user.
        let mut last = more.into_iter().last().unwrap();
        guests.admit(&mut last.0, &user(3001)).unwrap();
        assert!(guests.may_tell(7) && !guests.may_tell(7) && guests.may_tell(8));
    }
}
