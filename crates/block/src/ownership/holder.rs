//! Finds the process that uses a file or disk which cannot be opened, for the error message.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{major, minor};

pub(crate) const UNKNOWN: &str = "another process";

/// The process with a lock on an open file.
pub(crate) fn of_file(file: &Metadata) -> String {
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    match locks.lines().find_map(|line| locker(line, file)) {
        Some(pid) => process(pid),
        None => owner(&place(file)).map_or(UNKNOWN.into(), process),
    }
}

/// The process with the lock of an owner that begins at this byte of an open file.
pub(crate) fn of_lock(file: &Metadata, start: i64) -> String {
    let at = format!("{} {start}", place(file));
    owner(&at).map_or(UNKNOWN.into(), process)
}

/// The process with the lock of an owner on a file. `/proc/locks` does not know it.
fn owner(place: &str) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(|pid: &u32| {
        let open = std::fs::read_dir(format!("/proc/{pid}/fdinfo"));
        let mut open = open.into_iter().flatten().flatten();
        open.any(|entry| {
            let info = std::fs::read_to_string(entry.path()).unwrap_or_default();
            let mut lines = info.lines();
            lines.any(|line| line.contains(" OFDLCK ") && line.contains(&format!(" {place} ")))
        })
    })
}

/// Returns the file in the notation of locks in `/proc`.
fn place(file: &Metadata) -> String {
    let (major, minor, inode) = (major(file.dev()), minor(file.dev()), file.ino());
    format!("{major:02x}:{minor:02x}:{inode}")
}

/// Names the user of a disk which the kernel does not open exclusively.
pub(crate) fn of_disk(disk: &Metadata) -> String {
    let numbers = format!("{}:{}", major(disk.rdev()), minor(disk.rdev()));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounted = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(2);
        let is_it = fields.next() == Some(&numbers);
        is_it.then(|| fields.nth(1))?
    });
    if let Some(place) = mounted {
        return format!("the file system that is mounted at {place}");
    }
    let holders = std::fs::read_dir(format!("/sys/dev/block/{numbers}/holders"));
    let names = holders.into_iter().flatten().filter_map(|entry| {
        let name = entry.ok()?.file_name();
        name.into_string().ok()
    });
    match names.reduce(|all, name| all + ", " + &name) {
        Some(names) => format!("other devices: {names}"),
        None => of_file(disk),
    }
}

/// The process that a line of `/proc/locks` says has locked this file as a whole.
fn locker(line: &str, file: &Metadata) -> Option<u32> {
    let place = place(file);
    match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, "FLOCK", _, "WRITE", pid, at, ..] if at == place => pid.parse().ok(),
        _ => None,
    }
}

/// A process in words.
fn process(pid: u32) -> String {
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("process {pid} ({})", name.trim_end()),
        Err(_) => format!("process {pid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_other_files_and_of_waiters_are_passed_over() {
        let file = tempfile::tempfile().unwrap().metadata().unwrap();
        let at = format!(
            "{:02x}:{:02x}:{}",
            major(file.dev()),
            minor(file.dev()),
            file.ino()
        );
        for (line, pid) in [
            (
                format!("1: FLOCK  ADVISORY  WRITE 1234 {at} 0 EOF"),
                Some(1234),
            ),
            (format!("1: -> FLOCK  ADVISORY  WRITE 99 {at} 0 EOF"), None),
            (format!("1: POSIX  ADVISORY  WRITE 99 {at} 0 EOF"), None),
            ("1: FLOCK  ADVISORY  WRITE 99 fe:00:1 0 EOF".into(), None),
            (String::new(), None),
        ] {
            assert_eq!(locker(&line, &file), pid, "{line}");
        }
    }
}
