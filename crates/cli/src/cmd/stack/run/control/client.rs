//! The side of commands.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use daemon::Failure;
use fuse::Listed;
use keys::Talk;
use protocol::api::FailureKind;
use protocol::client::{SYSTEM_DIR, runtime_dir};
use protocol::wire;
use rustix::fs::minor;
use rustix::io::Errno;
use secret::Secret;

use super::messages::{ANSWER_MAX, Answer, DIRECTORY, PATIENCE, Request, socket_name};
use crate::cmd::stack::run::mounts::{SUBTYPE, resolved};
use crate::outcome::LocalResult as Result;

/// How long an answer may take: what programs have written is written back before a key goes.
const WORK: Duration = Duration::from_secs(300);

/// A mount of an encrypted directory.
pub(crate) struct Mounted {
    listed: Listed,
}

impl Mounted {
    /// The mount that a path is on. Only those who may look into a mount find it by what is in it.
    pub(crate) fn of(path: &Path) -> Result<Mounted> {
        Mounted::find(path)?.ok_or_else(|| {
            let why = "it is on no mount of an encrypted directory";
            Failure::new(FailureKind::NotFound, format!("{}: {why}", path.display()))
        })
    }

    /// The mount on this mountpoint, the last one.
    pub(crate) fn at(mountpoint: &Path) -> Option<Mounted> {
        let place = resolved(mountpoint);
        let mut mounts = fuse::listed(SUBTYPE).into_iter().rev();
        let listed = mounts.find(|mount| mount.path == place)?;
        Some(Mounted { listed })
    }

    /// The mounts that this user has made.
    pub(crate) fn of_user(uid: u32) -> Vec<Mounted> {
        let mounts = fuse::listed(SUBTYPE).into_iter();
        let own = mounts.filter(|mount| mount.user == uid);
        own.map(|listed| Mounted { listed }).collect()
    }

    /// The user who mounted.
    pub(crate) fn user(&self) -> u32 {
        self.listed.user
    }

    /// The mount of a lower directory, the last one.
    pub(crate) fn of_lower(lower: &Path) -> Option<Mounted> {
        let mut mounts = fuse::listed(SUBTYPE).into_iter().rev();
        let listed = mounts.find(|mount| Path::new(&mount.source) == lower)?;
        Some(Mounted { listed })
    }

    /// The mount that a path is on, if it is on one.
    pub(crate) fn find(path: &Path) -> Result<Option<Mounted>> {
        let failed = |kind, why: &dyn std::fmt::Display| {
            Failure::new(kind, format!("{}: {why}", path.display()))
        };
        let mut mounts = fuse::listed(SUBTYPE).into_iter().rev();
        let place = resolved(path);
        if let Some(listed) = mounts.clone().find(|mount| mount.path == place) {
            return Ok(Some(Mounted { listed }));
        }
        let found = rustix::fs::lstat(path).map_err(|error| match error {
            Errno::NOENT => failed(FailureKind::NotFound, &"there is no such file"),
            Errno::ACCESS => failed(FailureKind::Permission, &error),
            error => failed(FailureKind::Device, &error),
        })?;
        let device = (rustix::fs::major(found.st_dev) == 0).then(|| minor(found.st_dev));
        let listed = mounts.find(|mount| Some(mount.device) == device);
        Ok(listed.map(|listed| Mounted { listed }))
    }

    /// The lower directory.
    pub(crate) fn lower(&self) -> &Path {
        Path::new(&self.listed.source)
    }

    /// Has the process of the mount do something.
    pub(crate) fn ask(&self, request: &Request, secret: Option<&Secret>) -> Result<Answer> {
        let lost = |error: std::io::Error| {
            let place = self.listed.path.display();
            Failure::other(format!("the process of the mount on {place}: {error}"))
        };
        let receive = |talk: &mut Talk| match wire::receive_up_to(talk, ANSWER_MAX).map_err(lost)? {
            Answer::Failed(failure) => Err(failure.into()),
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

    fn connect(&self) -> Result<Talk> {
        let place = self.listed.path.display();
        let refused = || {
            let why = format!("{place}: only root and the user who mounted it change its keys");
            Failure::new(FailureKind::Permission, why)
        };
        let name = socket_name(self.listed.device);
        for dir in self.directories() {
            let socket = dir.join(DIRECTORY).join(&name);
            let talk = match Talk::connect(&socket, Instant::now() + PATIENCE) {
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

    /// Where the sockets of the user who mounted can be.
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
