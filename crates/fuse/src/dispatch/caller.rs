//! Decides if a caller may keep set-user-ID and set-group-ID bits of a file that it changes.
//!
//! The kernel goes by a capability, which a request does not name. Where mounts may be idmapped, a request does not
//! even name the user. So this looks at the process, which waits for the answer meanwhile. One that cannot be seen from
//! here, or is in another user namespace, may not.

use std::fs;

/// `CAP_FSETID`, as a bit.
const FSETID: u64 = 1 << 4;

/// The rights of a caller that the kernel itself would check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallerRights {
    /// True if the caller has `CAP_FSETID` and keeps all bits.
    pub(crate) fsetid: bool,
    groups: Vec<u32>,
}

impl CallerRights {
    /// Returns the rights of a thread.
    pub(crate) fn of(pid: u32) -> CallerRights {
        let user_namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/user")).ok();
        let thread = pid.to_string();
        let own = user_namespace("self");
        // Number 0 is a thread that is not visible here. A thread of the kernel, as of its NFS server, has no program, and
        // acts with rights of others.
        let is_program = fs::read_link(format!("/proc/{thread}/exe")).is_ok();
        if pid == 0 || own.is_none() || user_namespace(&thread) != own || !is_program {
            return CallerRights::default();
        }
        let status = fs::read_to_string(format!("/proc/{thread}/status"));
        status.map_or_else(
            |_| CallerRights::default(),
            |status| CallerRights::read(&status),
        )
    }

    fn read(status: &str) -> CallerRights {
        let line = |name: &str| {
            let mut lines = status.lines();
            let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.unwrap_or_default().split_ascii_whitespace()
        };
        let effective = line("CapEff").next();
        let effective = effective.and_then(|hex| u64::from_str_radix(hex, 16).ok());
        // The last of four is for files.
        let group = line("Gid").nth(3);
        let groups = group.into_iter().chain(line("Groups"));
        CallerRights {
            fsetid: effective.unwrap_or(0) & FSETID != 0,
            groups: groups.filter_map(|id| id.parse().ok()).collect(),
        }
    }

    pub(crate) fn is_in(&self, group: u32) -> bool {
        self.groups.contains(&group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_read_as_proc_has_them() {
        let status = "Name:\tGid:\nUid:\t0\t0\t0\t0\nGid:\t1\t2\t3\t4\nGroups:\t5 60 \n\
                      CapPrm:\t000001ffffffffff\nCapEff:\t0000000000000010\n";
        let rights = CallerRights::read(status);
        assert!(rights.fsetid);
        assert!([4, 5, 60].into_iter().all(|group| rights.is_in(group)) && !rights.is_in(1));
        let few = CallerRights::read("CapPrm:\t0000000000000010\nCapEff:\t00000000ffffffef\n");
        assert_eq!(few, CallerRights::default());
        assert_eq!(CallerRights::read("CapEff"), CallerRights::default());
    }

    #[test]
    fn what_cannot_be_seen_has_no_rights() {
        assert_eq!(CallerRights::of(0), CallerRights::default());
        assert_eq!(CallerRights::of(u32::MAX), CallerRights::default());
        // Threads of the kernel, where they are visible: the one with number 2 starts the others.
        if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
            assert_eq!(CallerRights::of(2), CallerRights::default());
        }
        let own = CallerRights::of(std::process::id());
        assert!(own.is_in(rustix::process::getegid().as_raw()));
    }
}
