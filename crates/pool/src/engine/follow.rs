//! The image that follows the commits of the pool: how far it is.

use std::sync::Arc;

use parking_lot::Mutex;
use store::PoolImage;

/// The image of an imported pool.
#[derive(Default)]
pub(crate) struct FollowState {
    /// The image. `None` if the pool has none, or if its device could not be opened.
    pub(crate) image: Mutex<Option<Arc<PoolImage>>>,
    pub(crate) progress: Mutex<FollowProgress>,
    /// Held while a state is copied to the image.
    pub(crate) copying: Mutex<()>,
}

/// The progress of an image.
#[derive(Clone, Debug, Default)]
pub(crate) struct FollowProgress {
    /// The transaction group of the state that the image has, and the time of that commit. `None` before a copy has ended
    /// since the device was opened: until then it may have keys of earlier states.
    pub(crate) has: Option<(u64, u64)>,
    /// The time of the first commit that the image lacks.
    pub(crate) lacks_since: Option<u64>,
    /// The time of the first commit after the state that is being copied.
    pub(crate) lacks_next: Option<u64>,
    /// The reason why the last attempt failed.
    pub(crate) problem: Option<String>,
    /// The bytes that were copied since the import.
    pub(crate) copied: u64,
    /// The number of damaged records that could not be copied since the import, or since a copy of the whole pool.
    pub(crate) lost: u64,
    /// The time of the last commit, if the pool was imported from its image.
    pub(crate) imported: Option<u64>,
}

impl FollowState {
    /// Notes that a commit is durable.
    pub(crate) fn note_commit(&self, time: u64) {
        let mut progress = self.progress.lock();
        progress.lacks_since.get_or_insert(time);
        progress.lacks_next.get_or_insert(time);
    }
}
