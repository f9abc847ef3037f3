//! Mounts in the kernel's list: those that a killed daemon left behind, and those of other processes.

use std::fs;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::error::Error;
use crate::mount::attach;
use crate::mount::helper;
use crate::mount::holder::{self, MountHolder};
use crate::mount::mountinfo::{self, unescaped};
use crate::mount::open_directory::has_lost_server;
use crate::options::Options;

/// A mount, as the kernel's list had it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedMount {
    number: u64,
    /// The number of its device, as [`crate::FuseMount::number`].
    pub device: u32,
    /// The user whose process serves it.
    pub user: u32,
    /// The source of the mount.
    pub source: String,
    /// The path of the mount.
    pub path: PathBuf,
    /// The options of the mount, such as `ro`.
    pub options: Vec<String>,
}

/// Takes away mounts of this process's user whose server was killed: those of a type that are asked for. A mount of another user may have any name and is left alone.
pub fn clear_dead(subtype: &str, is_ours: impl Fn(&ListedMount) -> bool) -> Vec<ListedMount> {
    let user = rustix::process::geteuid().as_raw();
    // The last come first: they may be in others.
    let listed = listed(subtype).into_iter().rev();
    listed
        .filter(|dead| dead.user == user && is_ours(dead) && clear(dead))
        .collect()
}

/// The mounts of a type, of all users.
pub fn listed(subtype: &str) -> Vec<ListedMount> {
    let list = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let lines = list.split(|byte| *byte == b'\n');
    lines.filter_map(|line| parse(line, subtype)).collect()
}

impl ListedMount {
    /// Has the mount follow other values of `read_only`, `nosuid`, `nodev`, `noexec`, `access_times` and
    /// `nodiratime`, also if another process serves it.
    ///
    /// # Errors
    /// [`Error::Covered`] if it is not what its path leads to; [`Error::Writing`] if files are open for writing that
    /// is to end; [`Error::Mount`] if the kernel refuses: it allows that to root only.
    pub fn follow(&self, options: &Options) -> Result<(), Error> {
        let root = attach::spot(&self.path).and_then(|spot| spot.open().ok());
        let root = root
            .filter(|root| mountinfo::id_of(root).is_some_and(|id| id.mount == self.number))
            .ok_or_else(|| Error::Covered(self.path.clone()))?;
        attach::change(&root, &self.path, options)
    }

    /// Unmounts it, also if another process serves it. With `lazily` it may be in use: it disappears at once, and is
    /// served until its last file is closed.
    pub fn unmount(&self, lazily: bool) -> Result<(), Error> {
        self.unmount_here(lazily)?;
        match holder::holder(self.device, Some(&self.source)) {
            Some(holder @ MountHolder::Process { .. }) => Err(Error::InUseElsewhere {
                path: self.path.clone(),
                holder: Some(holder),
            }),
            // The caller sees what is here in the list.
            Some(MountHolder::Here(_)) | None => Ok(()),
        }
    }

    fn unmount_here(&self, lazily: bool) -> Result<(), Error> {
        let covered = || Error::Covered(self.path.clone());
        let spot = attach::spot(&self.path).ok_or_else(covered)?;
        let id = attach::id_at(&spot).filter(|id| id.mount == self.number);
        let id = id.ok_or_else(covered)?;
        if !rustix::process::geteuid().is_root() {
            return helper::unmount(&self.path, lazily);
        }
        let done = match lazily {
            true => spot.open().and_then(|root| attach::hide(&root)),
            false => attach::unmount(&spot),
        };
        done.map_err(|cause| match (cause, mountinfo::inside(id)) {
            (Errno::BUSY, Some(inside)) => Error::Inside {
                path: self.path.clone(),
                inside,
            },
            (Errno::BUSY, None) => Error::Busy(self.path.clone()),
            (cause, _) => Error::Unmount {
                path: self.path.clone(),
                cause,
            },
        })
    }
}

fn clear(dead: &ListedMount) -> bool {
    let Some(spot) = attach::spot(&dead.path) else {
        return false;
    };
    let Ok(root) = spot.open() else { return false };
    let is_it = mountinfo::id_of(&root).is_some_and(|id| id.mount == dead.number);
    if !is_it || !has_lost_server(&root) {
        return false;
    }
    let cleared = match attach::detach(&root) {
        Err(Errno::PERM) => helper::unmount(&dead.path, true).is_ok(),
        result => result.is_ok(),
    };
    tracing::info!(path = %dead.path.display(), source = dead.source, cleared, "a mount without a server");
    cleared
}

/// A line of the kernel's list: number, two numbers, root, directory, options, words, a dash, type,
/// source, options of the file system.
fn parse(line: &[u8], subtype: &str) -> Option<ListedMount> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let text = |at: usize| {
        fields
            .get(at)
            .and_then(|field| std::str::from_utf8(field).ok())
    };
    let dash = fields.iter().position(|field| *field == b"-")?;
    (text(dash + 1)?.strip_prefix("fuse.") == Some(subtype)).then_some(())?;
    let mut options = text(dash + 3)?.split(',');
    let user = options.find_map(|option| option.strip_prefix("user_id="))?;
    let user = user.parse().ok()?;
    Some(ListedMount {
        number: text(0)?.parse().ok()?,
        device: text(2)?.split_once(':')?.1.parse().ok()?,
        user,
        source: unescaped(fields.get(dash + 2)?).to_str()?.to_owned(),
        path: unescaped(fields.get(4)?),
        options: text(5)?.split(',').map(str::to_owned).collect(),
    })
}

/// Reads a line of the kernel's list.
#[cfg(fuzzing)]
pub(crate) fn read_line(line: &[u8]) {
    let _ = parse(line, "strongroom");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernels_list() {
        let line = |kind: &str, user: u32| {
            let line = format!(
                "47 27 0:44 / /a\\040b ro,nosuid shared:1 - {kind} tank/a rw,user_id={user},group_id=0"
            );
            parse(line.as_bytes(), "strongroom")
        };
        let ours = line("fuse.strongroom", 12).unwrap();
        assert_eq!((ours.number, ours.user, &*ours.source), (47, 12, "tank/a"));
        assert_eq!(ours.path, PathBuf::from("/a b"));
        assert_eq!(ours.options, ["ro", "nosuid"]);
        assert_eq!(line("fuse.sshfs", 12), None);
        assert_eq!(parse(b"", "strongroom"), None);
    }
}
