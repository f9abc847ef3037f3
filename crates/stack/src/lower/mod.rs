//! The lower directory, used by descriptor and never by path.

mod entry;
mod errno;

pub use entry::Entry;
pub(crate) use errno::posix;
