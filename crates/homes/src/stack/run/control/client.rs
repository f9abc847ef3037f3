//! The side of commands.

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use console::outcome::Result;
use fuse::ListedMount;
use keys::TimedStream;
use protocol::api::{Failure, FailureKind};
use protocol::client::{SYSTEM_DIR, runtime_dir};
use protocol::wire;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use secret::Secret;

use super::messages::{ANSWER_MAX, ControlAnswer, DIRECTORY, PATIENCE, Request, socket_name};
use crate::stack::run::CoveredDirectory;
use crate::stack::run::mounts::{SUBTYPE, resolved};

/// The time that an answer may take: what programs have written is written back before a key goes.
const WORK: Duration = Duration::from_secs(300);

/// Returns whether a mount shows the lower directory that it names: it is of root or of this user, or of the owner of
/// that directory. Every user can make a mount with this type and any source.
pub(crate) fn is_credible(listed: &ListedMount) -> bool {
    let is_trusted = [0, rustix::process::geteuid().as_raw()].contains(&listed.user);
    is_trusted || owner_of_lower(listed) == Some(listed.user)
}

fn owner_of_lower(listed: &ListedMount) -> Option<u32> {
    if Path::new(&listed.source) == listed.path {
        let covered = CoveredDirectory::below(&listed.path).ok()?;
        return Some(rustix::fs::stat(covered.path()).ok()?.st_uid);
    }
    Some(rustix::fs::stat(&listed.source[..]).ok()?.st_uid)
}

fn failed(path: &Path, kind: FailureKind, why: &dyn std::fmt::Display) -> Failure {
    Failure::new(kind, format!("{}: {why}", path.display()))
}

/// A mount of an encrypted directory.
pub(crate) struct StackedMount {
    listed: ListedMount,
}

impl StackedMount {
    /// The mount that a path is on. Only those who may look into a mount find it by what is in it.
    pub(crate) fn of(path: &Path) -> Result<StackedMount> {
        StackedMount::find(path)?.ok_or_else(|| {
            let why = "it is on no mount of an encrypted directory";
            Failure::new(FailureKind::NotFound, format!("{}: {why}", path.display()))
        })
    }

    /// The mount on this mountpoint, the last one.
    pub(crate) fn at(mountpoint: &Path) -> Option<StackedMount> {
        let place = resolved(mountpoint);
        let mut mounts = fuse::listed(SUBTYPE).into_iter().rev();
        let listed = mounts.find(|mount| mount.path == place)?;
        Some(StackedMount { listed })
    }

    /// The mounts that this user has made.
    pub(crate) fn of_user(uid: u32) -> Vec<StackedMount> {
        let mounts = fuse::listed(SUBTYPE).into_iter();
        let own = mounts.filter(|mount| mount.user == uid);
        own.map(|listed| StackedMount { listed }).collect()
    }

    /// The user who mounted.
    pub(crate) fn user(&self) -> u32 {
        self.listed.user
    }

    /// The mount of a lower directory, the last one that counts.
    pub(crate) fn of_lower(lower: &Path) -> Option<StackedMount> {
        let mounts = fuse::listed(SUBTYPE).into_iter().rev();
        let mut mounts = mounts.filter(|mount| Path::new(&mount.source) == lower);
        let listed = mounts.find(is_credible)?;
        Some(StackedMount { listed })
    }

    /// The mount that a path is on, if it is on one. The last name is no link that is followed.
    pub(crate) fn find(path: &Path) -> Result<Option<StackedMount>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = rustix::fs::open(path, flags, Mode::empty());
        let held = held.map_err(|error| match error {
            Errno::NOENT => failed(path, FailureKind::NotFound, &"there is no such file"),
            Errno::ACCESS => failed(path, FailureKind::Permission, &error),
            error => failed(path, FailureKind::Device, &error),
        })?;
        StackedMount::on(held, path)
    }

    /// The mount that an open file is on, by the number that the kernel gives its file system. `path` is its name in
    /// errors. A mount of another user with a strange lower directory is an error.
    pub(crate) fn on(held: impl AsFd, path: &Path) -> Result<Option<StackedMount>> {
        // Asks nothing of the process of the mount, which may hang or refuse root.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let found = rustix::fs::statx(held, "", flags, StatxFlags::empty())
            .map_err(|error| failed(path, FailureKind::Device, &error))?;
        let device = (found.stx_dev_major == 0).then_some(found.stx_dev_minor);
        let mut mounts = fuse::listed(SUBTYPE).into_iter().rev();
        let Some(listed) = mounts.find(|mount| Some(mount.device) == device) else {
            return Ok(None);
        };
        if is_credible(&listed) {
            return Ok(Some(StackedMount { listed }));
        }
        let why = format!(
            "it is on a mount of the user {}, and {} belongs to another user",
            listed.user, listed.source
        );
        Err(failed(path, FailureKind::Permission, &why))
    }

    /// Returns whether nothing can be changed in it.
    pub(crate) fn is_read_only(&self) -> bool {
        self.listed.options.iter().any(|option| option == "ro")
    }

    /// The lower directory.
    pub(crate) fn lower(&self) -> &Path {
        Path::new(&self.listed.source)
    }

    /// Has the process of the mount do something.
    pub(crate) fn ask(&self, request: &Request, secret: Option<&Secret>) -> Result<ControlAnswer> {
        let lost = |error: std::io::Error| {
            let place = self.listed.path.display();
            Failure::other(format!("the process of the mount on {place}: {error}"))
        };
        let receive =
            |talk: &mut TimedStream| match wire::receive_up_to(talk, ANSWER_MAX).map_err(lost)? {
                ControlAnswer::Failed(failure) => Err(failure),
                answer => Ok(answer),
            };
        let mut talk = self.connect()?;
        // Whether it takes a request of this user.
        receive(&mut talk)?;
        wire::send(&mut talk, request).map_err(lost)?;
        if let Some(secret) = secret {
            wire::send_secret(&mut talk, secret).map_err(lost)?;
        }
        talk.until = Instant::now() + WORK;
        receive(&mut talk)
    }

    fn connect(&self) -> Result<TimedStream> {
        let place = self.listed.path.display();
        let refused = || {
            let why = format!("{place}: only root and the user who mounted it change its keys");
            Failure::new(FailureKind::Permission, why)
        };
        let name = socket_name(self.listed.device);
        for dir in self.directories() {
            let socket = dir.join(DIRECTORY).join(&name);
            let talk = match TimedStream::connect(&socket, Instant::now() + PATIENCE) {
                Ok(talk) => talk,
                Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(refused()),
                Err(_) => continue,
            };
            // What another user has put there would get the keys.
            let peer = rustix::net::sockopt::socket_peercred(&talk.stream);
            return match peer {
                Ok(peer) if peer.uid.as_raw() == self.listed.user => Ok(talk),
                _ => Err(refused()),
            };
        }
        Err(Failure::new(
            FailureKind::NotFound,
            format!("{place}: its keys cannot be changed while it is mounted"),
        ))
    }

    /// The possible locations of sockets of the user who mounted.
    fn directories(&self) -> Vec<PathBuf> {
        let user = self.listed.user;
        if user == 0 {
            return vec![SYSTEM_DIR.into()];
        }
        let own = (rustix::process::geteuid().as_raw() == user).then(runtime_dir);
        let usual = [
            format!("/run/user/{user}/strongroom").into(),
            format!("/tmp/strongroom-{user}").into(),
        ];
        own.into_iter().chain(usual).collect()
    }
}
