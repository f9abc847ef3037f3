//! The outcomes of an operation on the tree.

/// Why an operation on the tree stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A page is not in memory.
    Miss(u64),
    /// The operation was refused.
    Fail(vfs::Error),
}

impl From<vfs::Error> for Stop {
    fn from(error: vfs::Error) -> Stop {
        Stop::Fail(error)
    }
}

/// The outcome of a step on the tree.
pub(crate) type Step<T> = std::result::Result<T, Stop>;

/// The outcome of one try.
pub(crate) enum Attempt<T> {
    /// The operation is done.
    Done {
        /// What the operation returned.
        value: T,
        /// Whether it changed anything.
        changed: bool,
        /// How many pages became dirty.
        dirtied: usize,
    },
    /// A page must be read first.
    Miss {
        /// The slot of the page.
        slot: u64,
        /// For [`super::Tree::fetch`].
        evictions: u64,
    },
}
