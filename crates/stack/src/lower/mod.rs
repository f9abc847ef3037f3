//! The lower directory, used by descriptor and never by path.

mod entry;
mod errno;
mod list;
mod rename;
mod replace;
mod server;
mod sharing;
mod watch;

pub use entry::Entry;
pub(crate) use errno::posix;
pub(crate) use list::{LowerDirEntry, kind, list, list_open};
pub(crate) use rename::rename_free;
pub(crate) use replace::{replace, sync};
pub(crate) use server::{aligned, close, read_direct, settle};
pub(crate) use sharing::Sharing;
pub(crate) use watch::{NewNames, Watch, Watches};
