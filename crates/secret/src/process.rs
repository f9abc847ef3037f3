//! Keeps the memory of the process out of files.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

use crate::{Error, Result};

/// Forbids core dumps of this process, and that other processes of the same user read its memory.
///
/// Sets `RLIMIT_CORE` to zero, for good, and the dumpable attribute to 0, which also stops `ptrace`
/// and makes root the owner of the files in `/proc/self` (prctl(2), `PR_SET_DUMPABLE`). Call it at
/// start, before there are secrets. Locked memory is kept out of core files anyway; this covers the
/// copies on stacks and in buffers.
///
/// # Errors
/// [`Error::Harden`].
pub fn harden_process() -> Result<()> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none).map_err(|error| Error::Harden {
        what: "the core file limit",
        source: error.into(),
    })?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|error| Error::Harden {
        what: "the dumpable attribute",
        source: error.into(),
    })
}
