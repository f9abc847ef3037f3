//! The options of a command that mounts a dataset.

use std::path::PathBuf;

use protocol::api::MountPermissions;
use vfs::Caller;

#[derive(Clone)]
pub(crate) struct MountRequest {
    /// The directory, if it is not that of the property.
    pub(crate) dir: Option<PathBuf>,
    pub(crate) read_only: bool,
    pub(crate) hiding: HidingPolicy,
    /// Gives up the entries of the log that are not of the present state.
    pub(crate) gives_up_log: bool,
    /// The rights of the mount, where they differ from the properties.
    pub(crate) allowed: MountPermissions,
    /// The owner of the root directory of a new dataset.
    pub(crate) owner: Caller,
}

/// The right to mount a dataset over files, which it hides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HidingPolicy {
    Allowed,
    Refused,
    /// Mounting over files is refused, and the caller may know the names of the files.
    RefusedByName,
}
