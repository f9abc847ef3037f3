//! Accepts connections, and limits their number for each user.
//!
//! An open connection needs a thread and descriptors. Each user other than root and the daemon's user has a limit. All
//! of them together have another limit, so that enough connections are left for root. The user is known before a thread
//! is started.
//!
//! A user without any permission is a stranger until it has shown a token. Strangers have few connections, so that they
//! do not shut out others. From then on the connection is one of the token's user.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use protocol::accounts::uid_of;
use protocol::api::{Answer, FailureKind};
use protocol::wire;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Resource, Rlimit, Uid, getrlimit, setrlimit};

use crate::failure::{Failure, Result};
use crate::host::stops::{Next, Stops};
use crate::host::users::is_admin;

/// The largest number of connections of one user at a time.
const PER_USER: usize = 64;
/// The largest number of connections of all users except root at a time.
const ALL: usize = 256;
/// Connections of users other than root take at most 1 / this of the daemon's descriptors. Each counts as two, because
/// its command opens files too.
const SHARE: u64 = 8;
/// The largest number of connections of one stranger at a time.
const STRANGER: usize = 4;
/// The largest number of connections of all strangers at a time.
const STRANGERS: usize = 16;
/// The process that serves the network runs as the first of these users with an account, and shows the tokens of others.
/// Its connections are not counted with those of other strangers.
const NETWORK: [&str; 2] = ["strongroom-web", "nobody"];
/// The log has at most one line about each user's refused connections in this time.
const QUIET: Duration = Duration::from_secs(60);
/// The pause after a connection could not be accepted.
pub(crate) const BACK_OFF: Duration = Duration::from_millis(100);

/// The connections of users other than root and the daemon's own, at all of the daemon's sockets.
pub(crate) struct Guests {
    /// The number of connections of each user. No number is 0.
    by_user: Mutex<BTreeMap<u32, usize>>,
    /// As `by_user`, of strangers.
    strangers: Mutex<BTreeMap<u32, usize>>,
    /// When the log had a line about a user.
    told: Mutex<BTreeMap<u32, Instant>>,
    max: usize,
}

/// Counts as a connection while it exists.
pub(crate) struct Guest {
    all: Arc<Guests>,
    /// The user. `None` for root, whose connections are not counted.
    uid: Option<u32>,
    /// Whether it is counted as a stranger's.
    is_stranger: bool,
    /// Whether its user has a permission, or has shown a token.
    pub(crate) is_known: bool,
}

impl Guests {
    /// A table with limits from the limit of descriptors.
    pub(crate) fn new() -> Arc<Guests> {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let max = usize::try_from(limit / SHARE / 2).unwrap_or(ALL);
        Guests::with_max(max.clamp(1, ALL))
    }

    fn with_max(max: usize) -> Arc<Guests> {
        Arc::new(Guests {
            by_user: Mutex::default(),
            strangers: Mutex::default(),
            told: Mutex::default(),
            max,
        })
    }

    /// Accepts the client at the other end.
    fn admit(self: &Arc<Self>, stream: &UnixStream) -> Result<Guest> {
        let peer = socket_peercred(stream).map_err(|error| {
            Failure::other(format!("the user of the caller is unknown: {error}"))
        })?;
        self.admit_user(peer.uid)
    }

    pub(crate) fn admit_user(self: &Arc<Self>, uid: Uid) -> Result<Guest> {
        let guest = |uid| Guest {
            all: Arc::clone(self),
            uid,
            is_stranger: false,
            is_known: true,
        };
        if is_admin(uid) {
            return Ok(guest(None));
        }
        let uid = uid.as_raw();
        let mut by_user = self.by_user.lock();
        let busy = |text: &str| Err(Failure::new(FailureKind::Busy, text));
        if by_user.get(&uid).is_some_and(|count| *count >= PER_USER) {
            return busy("you have too many commands running; wait until one has ended");
        }
        if by_user.values().sum::<usize>() >= self.max {
            return busy("too many commands of other users are running; try again");
        }
        *by_user.entry(uid).or_default() += 1;
        Ok(guest(Some(uid)))
    }

    /// Whether the log may have another line about a user's refused connections.
    pub(crate) fn may_tell(&self, uid: u32) -> bool {
        let now = Instant::now();
        let mut told = self.told.lock();
        told.retain(|_, at| now.duration_since(*at) < QUIET);
        if told.len() >= self.max || told.contains_key(&uid) {
            return false;
        }
        told.insert(uid, now);
        true
    }
}

impl Guest {
    /// Counts it as a stranger's, if there is a place.
    pub(crate) fn be_stranger(&mut self) -> Result<()> {
        let Some(uid) = self.uid else { return Ok(()) };
        if NETWORK.into_iter().find_map(uid_of) == Some(uid) {
            return Ok(());
        }
        let mut strangers = self.all.strangers.lock();
        let count = strangers.get(&uid).copied().unwrap_or_default();
        let most = STRANGERS.min(self.all.max / 4).max(1);
        if count >= STRANGER || strangers.values().sum::<usize>() >= most {
            let why = "too many users without a permission are connected; try again";
            return Err(Failure::new(FailureKind::Busy, why));
        }
        strangers.insert(uid, count + 1);
        self.is_stranger = true;
        Ok(())
    }

    /// Counts it as one of the user whose token was shown.
    pub(crate) fn be_user(&mut self, uid: u32) -> Result<()> {
        let guest = self.all.admit_user(Uid::from_raw(uid))?;
        *self = guest;
        Ok(())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let Some(uid) = self.uid else { return };
        if self.is_stranger {
            leave(&mut self.all.strangers.lock(), uid);
        }
        leave(&mut self.all.by_user.lock(), uid);
    }
}

fn leave(counts: &mut BTreeMap<u32, usize>, uid: u32) {
    if let Some(count) = counts.get_mut(&uid) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&uid);
        }
    }
}

/// Accepts and serves connections until the thread has to end.
pub(crate) fn attend(
    listener: &UnixListener,
    stops: &Stops,
    guests: &Arc<Guests>,
    mut serve: impl FnMut(UnixStream, Guest),
) -> Next {
    let mut next = || match stops.wait(listener) {
        Next::Connection => Ok(listener.accept().map(|(stream, _)| stream)),
        other => Err(other),
    };
    loop {
        let stream = match take(&mut next, || stops.wait_for(BACK_OFF)) {
            Ok(stream) => stream,
            Err(told) => return told,
        };
        match guests.admit(&stream) {
            Ok(guest) => serve(stream, guest),
            Err(failure) => {
                let peer = socket_peercred(&stream);
                if peer.is_ok_and(|peer| guests.may_tell(peer.uid.as_raw())) {
                    tracing::warn!(
                        reason = failure.message,
                        "connections of a user are refused"
                    );
                }
                refuse(&stream, failure);
            }
        }
    }
}

/// The next connection. If it cannot be accepted, usually because there are no more descriptors, pauses first.
/// Otherwise the waiting connection would be tried over and over.
fn take<S, T>(
    mut next: impl FnMut() -> std::result::Result<io::Result<S>, T>,
    mut pause: impl FnMut(),
) -> std::result::Result<S, T> {
    let mut is_told = false;
    loop {
        match next()? {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                if !is_told {
                    tracing::warn!(%error, "a connection could not be accepted; the daemon tries again");
                }
                is_told = true;
                pause();
            }
        }
    }
}

/// Sends a client the failure, without waiting until the client reads it.
fn refuse(mut stream: &UnixStream, failure: Failure) {
    if stream.set_nonblocking(true).is_ok() {
        let _ = wire::send(&mut stream, &Answer::Failed(failure.into()));
    }
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

    #[test]
    fn each_has_so_many_and_root_has_its_own() {
        let guests = Guests::with_max(PER_USER + 2);
        let user = |uid| guests.admit_user(Uid::from_raw(uid));
        let mut first: Vec<Guest> = (0..PER_USER).map(|_| user(1001).unwrap()).collect();
        assert_eq!(user(1001).err().unwrap().kind, FailureKind::Busy);
        let others = [user(1002).unwrap(), user(1003).unwrap()];
        assert_eq!(user(1004).err().unwrap().kind, FailureKind::Busy);
        let root: Vec<Guest> = (0..PER_USER + 9).map(|_| user(0).unwrap()).collect();
        drop(first.pop());
        drop(user(1004).unwrap());
        drop(user(1001).unwrap());
        drop((first, others, root));
        assert!(guests.by_user.lock().is_empty());
    }

    #[test]
    fn strangers_leave_places_for_others() {
        let guests = Guests::with_max(ALL);
        let stranger = |uid| {
            let mut guest = guests.admit_user(Uid::from_raw(uid))?;
            guest.be_stranger().map(|()| guest)
        };
        let tries = (2001..2020).flat_map(|uid| (0..9).map(move |_| uid));
        let mut all: Vec<Guest> = tries.filter_map(|uid| stranger(uid).ok()).collect();
        assert_eq!(all.len(), STRANGERS);
        assert_eq!(guests.by_user.lock().get(&2001), Some(&STRANGER));
        assert_eq!(guests.by_user.lock().len(), STRANGERS / STRANGER);
        // One shows a token.
        all[0].be_user(3001).unwrap();
        assert_eq!(guests.by_user.lock().get(&3001), Some(&1));
        drop(stranger(2001).unwrap());
        drop(all);
        assert!(guests.by_user.lock().is_empty() && guests.strangers.lock().is_empty());
        assert!(guests.may_tell(7) && !guests.may_tell(7) && guests.may_tell(8));
    }

    #[test]
    fn what_cannot_be_taken_is_tried_after_a_pause() {
        let mut tries = 0;
        let mut pauses = Vec::new();
        let taken: std::result::Result<&str, ()> = take(
            || {
                tries += 1;
                Ok(match tries {
                    1..=3 => Err(rustix::io::Errno::MFILE.into()),
                    _ => Ok("connected"),
                })
            },
            || pauses.push(()),
        );
        assert_eq!((taken, pauses.len()), (Ok("connected"), 3));
    }

    #[test]
    fn who_is_refused_hears_why() {
        let (here, mut there) = UnixStream::pair().unwrap();
        refuse(&here, Failure::new(FailureKind::Busy, "later"));
        drop(here);
        match wire::receive(&mut there).unwrap() {
            Answer::Failed(failure) => assert_eq!(failure.kind, FailureKind::Busy),
            other => panic!("{other:?}"),
        }
    }
}
