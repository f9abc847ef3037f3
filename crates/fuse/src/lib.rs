//! Serves a [`vfs::FileSystem`] through the kernel's FUSE.
//!
//! [`FuseMount::new`] mounts, and starts the threads that serve. Dropping the [`FuseMount`] unmounts. This crate
//! speaks the kernel's protocol itself. Libraries lack `O_TMPFILE`, birth times, answers gathered from
//! several cached pieces, and buffers under the control of this program.
//!
//! What it guarantees:
//! - The directory that was checked gets the mount, even if its path changes meanwhile.
//! - Requests of the kernel are checked. A malformed request is refused.
//! - A panic in the file system fails one request, and the mount stays.
//!
//! Layers, lowest first:
//! - `error`, `options`: failures, and the settings of a mount;
//! - `wire`: one message: the structures of the protocol, requests and replies;
//! - `dispatch`: a request becomes a call of the file system;
//! - `threads`: the workers that serve;
//! - `mount`: the mount in the tree of directories.

mod dispatch;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod mount;
mod options;
mod threads;
mod wire;

pub use error::Error;
pub use mount::dead_mounts::{ListedMount, clear_dead, listed};
pub use mount::fuse_mount::FuseMount;
pub use mount::holder::MountHolder;
pub use mount::mountpoint::MountDirectory;
pub use mount::obstacles::Obstacles;
pub use options::{AccessTimePolicy, KernelCache, OpenReports, Options};
pub use threads::session::SessionEnd;
pub use wire::convert::NAMES_KEPT;
