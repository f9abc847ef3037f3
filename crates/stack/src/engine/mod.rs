//! The engine: a [`vfs::FileSystem`] over a lower directory in some format.
//!
//! Layers, lowest first:
//! - `state`: listed names, inodes that the front end knows, clients, locks, and small files of the format;
//! - `stacked_directory`: the file system, and finding names in it;
//! - `keys`: inodes when keys come and go;
//! - `sizes` and `contents`: bytes of files; `attributes`, `make`, `moves`: the rest;
//! - `serve`: all of it as a [`vfs::FileSystem`];
//! - `reverse`: the file system of the reverse mode;
//! - `view`: both for a front end.

mod attributes;
mod contents;
mod keys;
mod make;
mod moves;
mod reverse;
mod serve;
mod sizes;
mod stacked_directory;
mod state;
mod view;

pub use reverse::view::ReverseView;
pub use stacked_directory::StackedDirectory;
pub use state::client::{ClientRefusal, DirectoryClient};
pub use state::format_file::{add, prepare, replace};
pub use state::inode::Options;
pub use view::StackedView;
