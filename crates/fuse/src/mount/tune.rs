//! Limits of the kernel that suit a slow remote file system and not a local one.
//!
//! For each FUSE mount Linux starts with 128 KiB of read-ahead. It lets the mount have one hundredth of the dirty
//! memory, strictly, so that a stuck server cannot hold the memory of the machine. An engine on local disks can do
//! better with more, and root can ask for it. All of this is best effort.

use std::fs;

use crate::mount::mountinfo::Id;
use crate::options::Options;

/// Percent of the dirty memory that the mount may use.
const MAX_RATIO: &str = "100";

/// Raises the limits of a mount.
pub(crate) fn tune(id: Id, options: &Options) {
    let limits = [
        ("read_ahead_kb", (options.ahead() / 1024).to_string()),
        ("strict_limit", "0".to_owned()),
        ("max_ratio", MAX_RATIO.to_owned()),
    ];
    for (name, value) in limits {
        let file = format!("/sys/class/bdi/0:{}/{name}", id.connection);
        if let Err(error) = fs::write(&file, value) {
            tracing::debug!(file, %error, "limit left as it is");
        }
    }
}
