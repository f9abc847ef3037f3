//! Names of devices that are volumes of pools.

use std::path::Path;

/// What names of devices begin with that are volumes of pools.
pub(crate) const PREFIX: &str = "volume:";

/// The volume that a name of a device means, if it is one.
pub(crate) fn name_at(path: &Path) -> Option<&str> {
    path.to_str()?.strip_prefix(PREFIX)
}

/// Whether it can be the name of a volume, or of a snapshot of one: a pool has no other datasets without a slash.
pub(crate) fn is_name(text: &str) -> bool {
    pool::DatasetName::parse(text).is_ok_and(|name| !name.path.is_empty())
}
