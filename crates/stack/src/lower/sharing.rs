//! The guarantees of a lower directory that clients on several machines share.

use std::path::Path;

use vfs::Result;

use super::Entry;

/// The guarantees of a lower directory for clients on several machines.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Locks hold between machines, and a read under a lock can come from the server.
    Coherent,
    /// Locks hold between machines, but a read can be older than the lock; and why.
    Cached(&'static str),
    /// Locks hold on one machine only; and why.
    Unlocked(&'static str),
}

/// Translators of a client of GlusterFS that answer from a cache of their own, which `O_DIRECT` does not pass.
const CACHING: [&str; 2] = ["performance/quick-read", "performance/md-cache"];

const GLUSTER: &str = "this volume caches small files or attributes (`gluster volume set VOLUME \
                       performance.quick-read off`, `performance.stat-prefetch off`)";

/// File systems of FUSE without locks between machines.
const UNLOCKED: [&str; 6] = [
    "fuse.sshfs",
    "fuse.rclone",
    "fuse.s3fs",
    "fuse.gcsfuse",
    "fuse.curlftpfs",
    "virtiofs",
];

/// A file system as the kernel describes it.
struct MountLine {
    at: String,
    kind: String,
    options: String,
}

impl Sharing {
    /// The guarantees of the file system of a directory. One that is not known is taken for coherent.
    pub(crate) fn of(dir: &Entry) -> Result<Sharing> {
        let device = dir.device()?;
        let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
        let table = String::from_utf8_lossy(&table);
        let mut mounted = table.lines().filter_map(|line| mounted(line, &device));
        Ok(mounted
            .next_back()
            .map_or(Sharing::Coherent, |it| it.sharing()))
    }
}

impl MountLine {
    fn sharing(&self) -> Sharing {
        let has = |option: &str| self.options.split(',').any(|it| it == option);
        match self.kind.as_str() {
            "nfs" | "nfs4"
                if ["nolock", "local_lock=all", "local_lock=posix"]
                    .iter()
                    .any(|it| has(it)) =>
            {
                Sharing::Unlocked("it is mounted with `nolock` or `local_lock`")
            }
            "cifs" | "smb3" if has("nobrl") => Sharing::Unlocked("it is mounted with `nobrl`"),
            "cifs" | "smb3" if has("cache=loose") => {
                Sharing::Cached("it is mounted with `cache=loose`")
            }
            "9p" => Sharing::Unlocked("most servers of 9p do not hold locks"),
            "fuse.glusterfs" if self.caches() => Sharing::Cached(GLUSTER),
            kind if UNLOCKED.contains(&kind) => {
                Sharing::Unlocked("its file system has no locks between machines")
            }
            _ => Sharing::Coherent,
        }
    }

    /// Returns whether a client of GlusterFS has caches of its own.
    fn caches(&self) -> bool {
        let graph = Path::new(&self.at).join(".meta/graphs/active");
        // What cannot be asked may have them.
        let Ok(translators) = std::fs::read_dir(graph) else {
            return true;
        };
        translators.flatten().any(|translator| {
            let kind = std::fs::read_to_string(translator.path().join("type"));
            kind.is_ok_and(|kind| CACHING.contains(&kind.trim()))
        })
    }
}

/// A line of `/proc/self/mountinfo`, if it is of this device.
fn mounted(line: &str, device: &str) -> Option<MountLine> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ').skip(2);
    (fields.next()? == device).then_some(())?;
    let at = fields.nth(1)?;
    let mut described = after.split(' ');
    Some(MountLine {
        at: unescaped(at),
        kind: described.next()?.to_owned(),
        options: described.nth(1)?.to_owned(),
    })
}

/// A path in which the kernel writes some bytes as three octal digits.
fn unescaped(path: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(path.to_owned(), |path, (octal, byte)| {
        path.replace(octal, byte)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str, options: &str) -> Sharing {
        let line =
            format!("36 35 0:52 / /mnt/a\\040b rw,relatime shared:1 - {kind} server:/x {options}");
        assert!(mounted(&line, "0:5").is_none());
        let mounted = mounted(&line, "0:52").expect("a line of this device");
        assert_eq!(mounted.at, "/mnt/a b");
        mounted.sharing()
    }

    #[test]
    fn file_systems_by_their_options() {
        assert_eq!(of("nfs4", "rw,vers=4.2,local_lock=none"), Sharing::Coherent);
        assert_eq!(of("ceph", "rw"), Sharing::Coherent);
        for (kind, options) in [
            ("nfs", "rw,nolock,local_lock=all"),
            ("nfs", "rw,local_lock=posix"),
            ("cifs", "rw,nobrl"),
            ("9p", "rw"),
            ("fuse.sshfs", "rw,user_id=0"),
            ("virtiofs", "rw"),
        ] {
            let sharing = of(kind, options);
            assert!(
                matches!(sharing, Sharing::Unlocked(_)),
                "{kind}: {sharing:?}"
            );
        }
        let loose = of("cifs", "rw,cache=loose");
        assert!(matches!(loose, Sharing::Cached(_)), "{loose:?}");
        // No client of GlusterFS answers there.
        let unknown = of("fuse.glusterfs", "rw");
        assert!(matches!(unknown, Sharing::Cached(_)), "{unknown:?}");
    }
}
