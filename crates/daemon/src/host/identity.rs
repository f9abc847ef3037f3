//! The identity of this machine, for pools that several machines can reach.

use std::path::Path;

use block::Claimant;
use pool::Host;

use crate::host::callers::users::host_name;

/// The context of the derivation, so that other programs derive other numbers from the same file.
const CONTEXT: &str = "strongroom 2026 hostid of a machine";

/// The name and number of this machine.
pub(crate) fn this_host() -> Host {
    Host {
        id: host_id(Path::new("/etc")),
        name: host_name(),
    }
}

/// The identity of this boot of the machine, which reserves the devices of a pool.
pub(crate) fn this_claimant(pool_guid: u64) -> Claimant {
    let host = this_host();
    Claimant::new((host.id, &host.name), &boot_id(), pool_guid)
}

/// The kernel's name of this boot of the machine; empty if it has none.
pub(crate) fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// The hostid from the files in this directory: 4 bytes in `hostid`, as `zgenhostid` writes them, otherwise derived
/// from `machine-id`. 0 if there is neither.
fn host_id(etc: &Path) -> u32 {
    let hostid = std::fs::read(etc.join("hostid")).ok();
    if let Some(bytes) = hostid.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()) {
        return u32::from_ne_bytes(bytes);
    }
    let machine = std::fs::read_to_string(etc.join("machine-id")).unwrap_or_default();
    let machine = machine.trim();
    // A machine without a number of its own has nothing or "uninitialized" there.
    if machine.len() != 32 || !machine.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return 0;
    }
    let [a, b, c, d, ..] = cipher::derive_key(CONTEXT, machine.as_bytes());
    u32::from_le_bytes([a, b, c, d]).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostid_goes_before_machine_id() {
        let etc = tempfile::tempdir().unwrap();
        let put = |name: &str, bytes: &[u8]| std::fs::write(etc.path().join(name), bytes).unwrap();
        assert_eq!(host_id(etc.path()), 0);
        put("machine-id", b"uninitialized\n");
        assert_eq!(host_id(etc.path()), 0);
        put("machine-id", b"0123456789abcdef0123456789abcdef\n");
        let derived = host_id(etc.path());
        assert_ne!(derived, 0);
        put("machine-id", b"0123456789abcdef0123456789abcdee\n");
        assert_ne!(host_id(etc.path()), derived);
        // What is cut short is no number.
        put("hostid", &[1, 2]);
        assert_ne!(host_id(etc.path()), 0);
        put("hostid", &0x0bad_cafe_u32.to_ne_bytes());
        assert_eq!(host_id(etc.path()), 0x0bad_cafe);
    }
}
