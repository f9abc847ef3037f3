//! The mounts of the kernel's list. Reading it asks nothing of a file system, so it works for dead ones too. The list
//! has the names of datasets, and not the daemons that serve them: the daemon says which mount is its own.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::mount::MountFlags;

use crate::demands::mount_flag;
use crate::status::{GrpcStatus, Result};

/// The type of mounted datasets.
const FILES: &str = "fuse.strongroom";
/// The type of what holds device nodes.
const DEVICES: &str = "devtmpfs";

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KernelMount {
    id: u64,
    /// The part of the file system that the mount shows.
    root: PathBuf,
    pub(super) place: PathBuf,
    pub(super) flags: MountFlags,
    /// The number of the file system. A dataset that is mounted again has another one.
    pub(super) device: String,
    kind: String,
    source: OsString,
}

impl KernelMount {
    /// Returns whether this is a whole dataset of this name. Another daemon may have one too.
    fn is_named(&self, name: &str) -> bool {
        self.kind == FILES && self.root.as_os_str() == "/" && self.source == *name
    }

    /// The number of the network block device whose node this shows.
    pub(super) fn kernel_device(&self) -> Option<u32> {
        let name = self.root.to_str()?.strip_prefix("/nbd")?;
        (self.kind == DEVICES).then(|| name.parse().ok())?
    }
}

/// The dataset of a volume, and what the daemon of the driver serves of it.
pub(super) struct ServedFiles {
    pub(super) dataset: String,
    /// The number of the daemon's mount.
    pub(super) device: Option<u32>,
}

impl ServedFiles {
    /// The mounts of the dataset, wherever they are.
    pub(super) fn mounts(&self) -> Result<Vec<KernelMount>> {
        let mut all = all()?;
        all.retain(|mount| self.serves(mount));
        Ok(all)
    }

    /// Returns whether a mount with this root is or was of the dataset. A mount without a server is of a daemon that
    /// ended. A mount that another daemon serves is not, whatever its name.
    pub(super) fn has(&self, mount: &KernelMount, root: impl AsFd) -> bool {
        mount.is_named(&self.dataset) && (self.serves(mount) || has_lost_server(root))
    }

    fn serves(&self, mount: &KernelMount) -> bool {
        let is_its = |device| mount.device == format!("0:{device}");
        mount.is_named(&self.dataset) && self.device.is_some_and(is_its)
    }
}

/// Returns whether the process that served a mount has ended.
fn has_lost_server(root: impl AsFd) -> bool {
    // Attributes may still be cached; this always asks.
    let asked = rustix::fs::fstatfs(root);
    matches!(asked, Err(Errno::NOTCONN | Errno::CONNABORTED))
}

/// The mounts that show the node of a network block device, such as `/dev/nbd0`.
pub(super) fn of_device(name: Option<&str>) -> Result<Vec<KernelMount>> {
    let Some(number) = name.and_then(number) else {
        return Ok(Vec::new());
    };
    let mut all = all()?;
    all.retain(|mount| mount.kernel_device() == Some(number));
    Ok(all)
}

/// The number in `/dev/nbd0`.
pub(super) fn number(device: &str) -> Option<u32> {
    device.strip_prefix("/dev/nbd")?.parse().ok()
}

fn all() -> Result<Vec<KernelMount>> {
    let text = std::fs::read("/proc/self/mountinfo")?;
    Ok(text
        .split(|byte| *byte == b'\n')
        .filter_map(parse)
        .collect())
}

/// The mount whose root this is, if it is one. `parent` is the directory that it is in.
pub(super) fn at(root: impl AsFd, parent: impl AsFd) -> Result<Option<KernelMount>> {
    let id = id_of(root)?;
    if id == id_of(parent)? {
        return Ok(None);
    }
    Ok(all()?.into_iter().find(|mount| mount.id == id))
}

/// The number of the mount that an open file is in. Other than `statx` it does not ask the file system.
fn id_of(file: impl AsFd) -> Result<u64> {
    let path = format!("/proc/self/fdinfo/{}", file.as_fd().as_raw_fd());
    let text = std::fs::read_to_string(path)?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("mnt_id:"));
    let id = lines.next().and_then(|id| id.trim().parse().ok());
    id.ok_or_else(|| GrpcStatus::internal("the kernel does not say in which mount a file is"))
}

/// A line of `mountinfo` (`proc_pid_mountinfo(5)`).
fn parse(line: &[u8]) -> Option<KernelMount> {
    let mut words = line.split(|byte| *byte == b' ');
    let id = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    let device = std::str::from_utf8(words.nth(1)?).ok()?.to_owned();
    let root = words.next()?;
    let place = words.next()?;
    let options = words.next()?;
    let mut rest = words.skip_while(|word| *word != b"-").skip(1);
    let kind = rest.next()?;
    let source = rest.next()?;
    Some(KernelMount {
        id,
        root: plain(root).into(),
        place: plain(place).into(),
        flags: std::str::from_utf8(options)
            .ok()?
            .split(',')
            .filter_map(mount_flag)
            .collect(),
        device,
        kind: std::str::from_utf8(kind).ok()?.to_owned(),
        source: plain(source),
    })
}

/// Undoes the octal escapes of spaces, tabs, newlines and backslashes.
fn plain(mut text: &[u8]) -> OsString {
    let mut out = Vec::with_capacity(text.len());
    while let Some((first, rest)) = text.split_first() {
        let digits = rest.get(..3).filter(|_| *first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                text = &rest[3..];
            }
            None => {
                out.push(*first);
                text = rest;
            }
        }
    }
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_apart() {
        let line = br"36 35 0:42 / /var/lib/a\040b ro,nosuid shared:7 master:1 - fuse.strongroom tank/csi/pvc-1 rw,user_id=0";
        let mount = parse(line).unwrap();
        assert_eq!(mount.place, PathBuf::from("/var/lib/a b"));
        let of = |dataset: &str, device| ServedFiles {
            dataset: dataset.into(),
            device,
        };
        assert!(of("tank/csi/pvc-1", Some(42)).serves(&mount));
        // Of another daemon.
        assert!(!of("tank/csi/pvc-1", Some(4)).serves(&mount));
        assert!(!of("tank/csi/pvc-1", None).serves(&mount));
        assert_eq!(mount.flags, MountFlags::RDONLY | MountFlags::NOSUID);
        assert!(!of("tank/csi/pvc", Some(42)).serves(&mount) && mount.kernel_device().is_none());
        let part = parse(br"36 35 0:42 /in /a rw - fuse.strongroom tank rw").unwrap();
        assert!(!of("tank", Some(42)).serves(&part) && part.flags.is_empty());
        let node = parse(br"37 35 0:5 /nbd12 /b rw - devtmpfs udev rw").unwrap();
        assert_eq!(node.kernel_device(), Some(12));
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"1 2 3"), None);
        assert_eq!(plain(br"\1"), r"\1");
    }
}
