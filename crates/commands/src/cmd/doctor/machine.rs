//! Facts about the machine, from the files in which Linux shows them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Bits of the mask of capabilities, from `linux/capability.h`.
pub(super) const CAP_IPC_LOCK: u32 = 14;
pub(super) const CAP_SYS_ADMIN: u32 = 21;

/// The program that mounts for users without privileges.
const MOUNT_HELPER: &str = "fusermount3";

/// A machine, seen by one of its processes.
pub(super) struct Machine {
    /// `/`, or a copy of such files.
    root: PathBuf,
    /// True if the user is root.
    pub(super) is_root: bool,
    /// The directories with programs.
    programs: Vec<PathBuf>,
}

/// A device or file for memory that is swapped out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Swap {
    pub(super) name: String,
    /// True if it is encrypted, or in memory.
    pub(super) is_safe: bool,
}

impl Machine {
    /// The machine, and the user of this process.
    pub(super) fn this() -> Machine {
        let programs = std::env::var_os("PATH").unwrap_or_default();
        Machine {
            root: "/".into(),
            is_root: rustix::process::geteuid().is_root(),
            programs: std::env::split_paths(&programs).collect(),
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok()
    }

    /// Opens the device of FUSE.
    pub(super) fn open_fuse(&self) -> std::io::Result<()> {
        let mut how = fs::File::options();
        how.read(true).write(true);
        how.open(self.path("/dev/fuse")).map(drop)
    }

    /// Returns whether a user without privileges can mount: the helper is installed, and runs as root.
    pub(super) fn has_mount_helper(&self) -> bool {
        let is_setuid = |dir: &PathBuf| {
            let dir = dir.strip_prefix("/").unwrap_or(dir);
            let path = self.root.join(dir).join(MOUNT_HELPER);
            fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o4000 != 0)
        };
        self.programs.iter().any(is_setuid)
    }

    /// Returns whether this process has a capability.
    pub(super) fn has_capability(&self, bit: u32) -> bool {
        let status = self.read("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask >> bit & 1 == 1)
    }

    /// The soft and the hard limit of this process by its name in `/proc/self/limits`. `None` is no limit.
    pub(super) fn limit(&self, name: &str) -> Option<(Option<u64>, Option<u64>)> {
        let limits = self.read("/proc/self/limits")?;
        let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
        let mut words = line.split_whitespace();
        let mut value = || match words.next()? {
            "unlimited" => Some(None),
            number => Some(Some(number.parse().ok()?)),
        };
        Some((value()?, value()?))
    }

    /// The devices that memory is swapped out to.
    pub(super) fn swaps(&self) -> Vec<Swap> {
        let swaps = self.read("/proc/swaps").unwrap_or_default();
        let names = swaps.lines().skip(1).filter_map(|line| {
            let name = line.split_whitespace().next()?;
            Some(name.to_owned())
        });
        names
            .map(|name| Swap {
                is_safe: self.is_safe_swap(&name),
                name,
            })
            .collect()
    }

    fn is_safe_swap(&self, name: &str) -> bool {
        let Some(device) = name.strip_prefix("/dev/") else {
            return false;
        };
        // Links in /dev/mapper and elsewhere lead to the name that sysfs has.
        let target = fs::canonicalize(self.path(name)).ok();
        let target = target.as_deref().and_then(Path::file_name);
        let device = target.and_then(|name| name.to_str()).unwrap_or(device);
        let uuid = self.read(&format!("/sys/class/block/{device}/dm/uuid"));
        device.starts_with("zram") || uuid.is_some_and(|uuid| uuid.starts_with("CRYPT-"))
    }

    /// Returns whether the machine can store its memory on a disk and switch itself off.
    pub(super) fn hibernates(&self) -> bool {
        let states = self.read("/sys/power/state").unwrap_or_default();
        let device = self.read("/sys/power/resume").unwrap_or_default();
        states.split_whitespace().any(|state| state == "disk")
            && !matches!(device.trim(), "" | "0:0")
    }

    /// Memory that programs can still get, in bytes: of the machine or of the control group.
    pub(super) fn memory(&self) -> Option<u64> {
        let facts = self.read("/proc/meminfo")?;
        let available = facts
            .lines()
            .find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let available = available.split_whitespace().next()?.parse::<u64>().ok()? << 10;
        let group = self.group_limit("memory.max");
        Some(group.map_or(available, |limit| limit.min(available)))
    }

    /// The lowest limit of this name in the control group of this process and in the groups above it.
    pub(super) fn group_limit(&self, name: &str) -> Option<u64> {
        let groups = self.read("/proc/self/cgroup")?;
        let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        let groups = Path::new(group.trim_start_matches('/')).ancestors();
        let limits = groups.filter_map(|group| {
            let path = Path::new("/sys/fs/cgroup").join(group).join(name);
            self.read(path.to_str()?)?.trim().parse::<u64>().ok()
        });
        limits.min()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A machine with these files.
    pub(in super::super) fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let dir = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = dir.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        let machine = Machine {
            root: dir.path().into(),
            is_root: false,
            programs: vec!["/usr/bin".into()],
        };
        (dir, machine)
    }

    #[test]
    fn swap_is_safe_if_it_is_encrypted_or_in_memory() {
        let (_dir, machine) = machine(&[
            (
                "/proc/swaps",
                "Filename Type Size Used Priority\n\
                 /dev/dm-0 partition 1 0 -2\n/dev/dm-1 partition 1 0 -2\n\
                 /dev/zram0 partition 1 0 -2\n/swapfile file 1 0 -2\n/dev/sda2 partition 1 0 -2\n",
            ),
            ("/sys/class/block/dm-0/dm/uuid", "CRYPT-PLAIN-swap\n"),
            ("/sys/class/block/dm-1/dm/uuid", "LVM-x\n"),
        ]);
        let safe: Vec<(String, bool)> = machine
            .swaps()
            .into_iter()
            .map(|swap| (swap.name, swap.is_safe))
            .collect();
        let wanted = [
            ("/dev/dm-0", true),
            ("/dev/dm-1", false),
            ("/dev/zram0", true),
            ("/swapfile", false),
            ("/dev/sda2", false),
        ];
        assert_eq!(
            safe,
            wanted.map(|(name, is_safe)| (name.to_owned(), is_safe))
        );
    }

    #[test]
    fn the_lowest_limit_of_the_groups_counts() {
        let (_dir, machine) = machine(&[
            ("/proc/self/cgroup", "0::/a/b\n"),
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/memory.max", "1048576\n"),
            (
                "/proc/meminfo",
                "MemTotal: 9 kB\nMemAvailable:    2048 kB\n",
            ),
        ]);
        assert_eq!(machine.memory(), Some(1 << 20));
        assert_eq!(machine.group_limit("pids.max"), None);
    }

    #[test]
    fn limits_and_capabilities_are_read() {
        let (_dir, machine) = machine(&[
            (
                "/proc/self/limits",
                "Limit                     Soft Limit           Hard Limit           Units\n\
                 Max locked memory         8388608              unlimited            bytes\n",
            ),
            ("/proc/self/status", "Name: x\nCapEff:\t0000000000004000\n"),
        ]);
        let limit = machine.limit("Max locked memory");
        assert_eq!(limit, Some((Some(8 << 20), None)));
        assert_eq!(machine.limit("Max open files"), None);
        assert!(machine.has_capability(CAP_IPC_LOCK));
        assert!(!machine.has_capability(CAP_SYS_ADMIN));
    }
}
