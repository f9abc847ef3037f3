//! The outcomes of an operation on the tree.

/// The reason why an operation on the tree stopped.
#[derive(Debug)]
pub(crate) enum TreeStop {
    /// A page is not in memory.
    Miss(u64),
    /// The operation was refused.
    Fail(vfs::Error),
}

impl From<vfs::Error> for TreeStop {
    fn from(error: vfs::Error) -> TreeStop {
        TreeStop::Fail(error)
    }
}

/// The outcome of a step on the tree.
pub(crate) type TreeStep<T> = std::result::Result<T, TreeStop>;

/// The outcome of one try.
pub(crate) enum TreeAttempt<T> {
    /// The operation is done.
    Done {
        /// The result of the operation.
        value: T,
        /// True if it changed anything.
        changed: bool,
        /// The number of pages that became dirty.
        dirtied: usize,
    },
    /// A page must be read first.
    Miss {
        /// The slot of the page.
        slot: u64,
        /// For [`super::MetadataTree::fetch`].
        evictions: u64,
    },
}
