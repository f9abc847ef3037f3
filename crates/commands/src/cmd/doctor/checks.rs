//! The checks of the machine, and advice.

use std::time::SystemTime;

use console::show::size;
use serde::Serialize;

use super::machine::{CAP_IPC_LOCK, CAP_SYS_ADMIN, Machine};

/// Locked memory for some hundred datasets with their keys.
const LOCKED_MIN: u64 = 8 << 20;
/// Memory for a small daemon, and one password hash of the default cost.
const MEMORY_MIN: u64 = 256 << 20;
/// Threads of a few mounts.
const THREADS_MIN: u64 = 512;
/// Open files for a few mounts, exports and connections.
const FILES_MIN: u64 = 4096;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Ok,
    Warning,
    Problem,
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Problem => "problem",
        }
    }
}

/// The finding of a check, and advice.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MachineCheck {
    pub(super) check: &'static str,
    pub(super) state: State,
    pub(super) found: String,
    pub(super) advice: Option<String>,
}

impl MachineCheck {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> MachineCheck {
        MachineCheck {
            check,
            state: State::Ok,
            found: found.into(),
            advice: None,
        }
    }

    pub(super) fn warning(check: &'static str, found: String, advice: &str) -> MachineCheck {
        MachineCheck {
            check,
            state: State::Warning,
            found,
            advice: Some(advice.into()),
        }
    }

    pub(super) fn problem(check: &'static str, found: String, advice: &str) -> MachineCheck {
        MachineCheck {
            state: State::Problem,
            ..MachineCheck::warning(check, found, advice)
        }
    }
}

pub(super) fn all(machine: &Machine) -> Vec<MachineCheck> {
    vec![
        fuse(machine),
        locked_memory(machine),
        swap(machine),
        hibernation(machine),
        memory(machine),
        threads(machine),
        files(machine),
        processor(),
        clock(),
    ]
}

fn fuse(machine: &Machine) -> MachineCheck {
    const NAME: &str = "fuse";
    if let Err(error) = machine.open_fuse() {
        return MachineCheck::problem(
            NAME,
            format!("/dev/fuse does not open: {error}"),
            "load the module with 'modprobe fuse'; give a container '--device /dev/fuse'. \
             Volumes and exports work without it",
        );
    }
    match machine.is_root {
        true if !machine.has_capability(CAP_SYS_ADMIN) => MachineCheck::problem(
            NAME,
            "root has no CAP_SYS_ADMIN and cannot mount".into(),
            "give the container '--cap-add SYS_ADMIN'",
        ),
        false if !machine.has_mount_helper() => MachineCheck::problem(
            NAME,
            "fusermount3 is missing, or is not setuid root".into(),
            "install the package fuse3, so that users can mount",
        ),
        _ => MachineCheck::ok(NAME, "datasets can be mounted"),
    }
}

fn locked_memory(machine: &Machine) -> MachineCheck {
    const NAME: &str = "locked-memory";
    const ADVICE: &str = "set LimitMEMLOCK=infinity in the unit of the daemon, or a 'memlock' line in \
                          /etc/security/limits.conf";
    if machine.has_capability(CAP_IPC_LOCK) {
        return MachineCheck::ok(NAME, "no limit for keys");
    }
    match machine.limit("Max locked memory") {
        Some((None, _)) => MachineCheck::ok(NAME, "no limit for keys"),
        Some((Some(limit), _)) if limit >= LOCKED_MIN => {
            MachineCheck::ok(NAME, format!("{} for keys", size::human(limit)))
        }
        Some((Some(0), _)) => MachineCheck::problem(
            NAME,
            "no memory can be locked, so no key can be loaded".into(),
            ADVICE,
        ),
        Some((Some(limit), _)) => MachineCheck::warning(
            NAME,
            format!("{} for keys; many datasets need more", size::human(limit)),
            ADVICE,
        ),
        None => MachineCheck::warning(NAME, "the limit is not known".into(), ADVICE),
    }
}

fn swap(machine: &Machine) -> MachineCheck {
    const NAME: &str = "swap";
    let swaps = machine.swaps();
    let plain: Vec<&str> = swaps
        .iter()
        .filter(|swap| !swap.is_safe)
        .map(|swap| swap.name.as_str())
        .collect();
    match (swaps.is_empty(), plain.is_empty()) {
        (true, _) => MachineCheck::ok(NAME, "none"),
        (_, true) => MachineCheck::ok(NAME, "encrypted, or in memory"),
        _ => MachineCheck::warning(
            NAME,
            format!("not encrypted: {}", plain.join(", ")),
            "decrypted data of programs and of the daemon's cache can reach this disk; keys cannot. \
             Encrypt swap with a new key at each start: 'swap' in crypttab(5)",
        ),
    }
}

fn hibernation(machine: &Machine) -> MachineCheck {
    const NAME: &str = "hibernation";
    match machine.hibernates() {
        false => MachineCheck::ok(NAME, "off"),
        true => MachineCheck::warning(
            NAME,
            "the machine can store its memory on a disk, with loaded keys".into(),
            "unload keys before hibernation, or switch it off: 'systemctl mask hibernate.target'",
        ),
    }
}

fn memory(machine: &Machine) -> MachineCheck {
    const NAME: &str = "memory";
    match machine.memory() {
        Some(bytes) if bytes >= MEMORY_MIN => {
            MachineCheck::ok(NAME, format!("{} available", size::human(bytes)))
        }
        Some(bytes) => MachineCheck::warning(
            NAME,
            format!("only {} available", size::human(bytes)),
            "a passphrase needs 64 MiB to be hashed; start the daemon with a small --cache-size",
        ),
        None => MachineCheck::warning(NAME, "not known".into(), "mount /proc"),
    }
}

fn threads(machine: &Machine) -> MachineCheck {
    const NAME: &str = "threads";
    let user = machine.limit("Max processes").and_then(|(soft, _)| soft);
    let user = if machine.is_root { None } else { user };
    let group = machine.group_limit("pids.max");
    match user.into_iter().chain(group).min() {
        None => MachineCheck::ok(NAME, "no limit"),
        Some(limit) if limit >= THREADS_MIN => MachineCheck::ok(NAME, format!("up to {limit}")),
        Some(limit) => MachineCheck::warning(
            NAME,
            format!("up to {limit}; each mount needs 18 to 66"),
            "set TasksMax=infinity in the unit; give a container a larger '--pids-limit'",
        ),
    }
}

fn files(machine: &Machine) -> MachineCheck {
    const NAME: &str = "open-files";
    match machine.limit("Max open files") {
        Some((_, None)) => MachineCheck::ok(NAME, "no limit"),
        Some((_, Some(hard))) if hard >= FILES_MIN => {
            MachineCheck::ok(NAME, format!("up to {hard}"))
        }
        Some((_, Some(hard))) => MachineCheck::warning(
            NAME,
            format!("up to {hard}"),
            "set LimitNOFILE=524288 in the unit, or a 'nofile' line in /etc/security/limits.conf",
        ),
        None => MachineCheck::warning(NAME, "not known".into(), "mount /proc"),
    }
}

fn processor() -> MachineCheck {
    const NAME: &str = "processor";
    let hardware = cipher::hardware();
    if !hardware.disabled.is_empty() {
        return MachineCheck::warning(
            NAME,
            hardware.to_string(),
            "remove OPENSSL_ia32cap and STRONGROOM_HWCAP from the environment of the daemon",
        );
    }
    match hardware.aes {
        true => MachineCheck::ok(NAME, hardware.to_string()),
        false => MachineCheck::warning(
            NAME,
            hardware.to_string(),
            "use encryption=xchacha20-poly1305, which needs no AES instructions; give a virtual \
             machine the processor of the host",
        ),
    }
}

/// A clock before the time of this program is wrong.
fn clock() -> MachineCheck {
    const NAME: &str = "clock";
    let program = std::env::current_exe().and_then(std::fs::metadata);
    let made = program.and_then(|program| program.modified());
    match made {
        Ok(made) if made > SystemTime::now() => MachineCheck::warning(
            NAME,
            "the clock is earlier than this program".into(),
            "set the clock: times of files and snapshots, and certificates of key servers, depend on it",
        ),
        _ => MachineCheck::ok(NAME, "plausible"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::tests::machine;
    use super::*;

    #[test]
    fn a_machine_without_anything_has_problems_that_name_the_way_out() {
        let (_dir, machine) = machine(&[("/proc/self/limits", "Max locked memory 0 0 bytes\n")]);
        for check in [fuse(&machine), locked_memory(&machine)] {
            assert_eq!(check.state, State::Problem, "{check:?}");
            assert!(check.advice.is_some(), "{check:?}");
        }
    }

    #[test]
    fn swap_on_a_disk_is_a_warning_that_names_it() {
        let (_dir, machine) = machine(&[("/proc/swaps", "Filename\n/swap.img file 1 0 -2\n")]);
        let check = swap(&machine);
        assert_eq!(check.state, State::Warning);
        assert!(check.found.contains("/swap.img"), "{check:?}");
    }

    #[test]
    fn a_user_needs_the_mount_helper() {
        use std::os::unix::fs::PermissionsExt;
        let (dir, machine) = machine(&[("/dev/fuse", ""), ("/usr/bin/fusermount3", "")]);
        assert_eq!(fuse(&machine).state, State::Problem);
        let helper = dir.path().join("usr/bin/fusermount3");
        std::fs::set_permissions(helper, std::fs::Permissions::from_mode(0o4755)).expect("a mode");
        assert_eq!(fuse(&machine).state, State::Ok);
    }

    #[test]
    fn small_limits_of_a_container_are_warnings() {
        let (_dir, machine) = machine(&[
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/pids.max", "100\n"),
            ("/sys/fs/cgroup/memory.max", "67108864\n"),
            ("/proc/meminfo", "MemAvailable: 8388608 kB\n"),
            ("/proc/self/limits", "Max open files 1024 1024 files\n"),
        ]);
        for check in [threads(&machine), memory(&machine), files(&machine)] {
            assert_eq!(check.state, State::Warning, "{check:?}");
        }
    }
}
