//! Serves a [`vfs::FileSystem`] through the kernel's FUSE.
//!
//! [`Mount::new`] mounts, and starts the threads that serve. Dropping the [`Mount`] unmounts. This crate
//! speaks the kernel's protocol itself. Libraries lack `O_TMPFILE`, birth times, answers gathered from
//! several cached pieces, and buffers under the control of this program.
//!
//! What it guarantees:
//! - The directory that was checked gets the mount, even if its path changes meanwhile.
//! - Requests of the kernel are checked. A malformed request is refused.
//! - A panic in the file system fails one request, and the mount stays.
//!
//! Layers, lowest first:
//! - `abi`, `errno`, `error`, `options`: structures of the protocol, errors, options;
//! - `buffer`, `caller`, `request`, `reply`, `convert`, `directory`: one message;
//! - `handshake`: the features that both sides use;
//! - `direct`, `ioctl`, `later` and `serve`: a request becomes a call of the file system;
//! - `workers`, `affinity`, `session`: the threads that serve;
//! - `opened`, `guard`, `obstacles`, `place`, `attach`, `helper`, `dead`, `tune`, `elsewhere`, then `mount`: the mount itself.

mod abi;
mod affinity;
mod attach;
mod buffer;
mod caller;
mod convert;
mod crowd;
mod dead;
mod direct;
mod directory;
mod elsewhere;
mod errno;
mod error;
mod foreign;
#[cfg(fuzzing)]
pub mod fuzzing;
mod guard;
mod handshake;
mod helper;
mod ioctl;
mod later;
mod mount;
mod mountinfo;
mod obstacles;
mod opened;
mod options;
mod place;
mod reply;
mod request;
mod serve;
mod session;
mod tune;
mod workers;
mod yielding;

pub use dead::{Listed, clear_dead, listed};
pub use elsewhere::Holder;
pub use error::Error;
pub use mount::Mount;
pub use obstacles::Obstacles;
pub use options::{AccessTimes, Hears, KernelCache, Options};
pub use place::Place;
pub use session::End;
