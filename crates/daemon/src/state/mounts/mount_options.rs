//! How a command mounts a dataset.

use std::path::PathBuf;

use protocol::api::Allowed;
use vfs::Caller;

/// The options of a mount.
#[derive(Clone)]
pub(crate) struct MountRequest {
    /// The directory, if it is not that of the property.
    pub(crate) dir: Option<PathBuf>,
    pub(crate) read_only: bool,
    pub(crate) hiding: HidingPolicy,
    /// Gives up the entries of the log that are not of the present state.
    pub(crate) gives_up_log: bool,
    /// What the mount allows, where that differs from the properties.
    pub(crate) allowed: Allowed,
    /// The owner of the root directory of a new dataset.
    pub(crate) owner: Caller,
}

/// Whether a dataset may be mounted over files, which it hides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HidingPolicy {
    Allowed,
    Refused,
    /// As [`HidingPolicy::Refused`], for a caller who may know the names of the files.
    RefusedByName,
}
