//! Serves a [`vfs::FileSystem`] through the kernel's FUSE.
//!
//! [`Mount::new`] mounts and starts the threads that serve; dropping the [`Mount`] unmounts. The
//! wire protocol is spoken here directly, not through a library, for what libraries do not have:
//! `O_TMPFILE`, birth times, answers gathered from several cached pieces, and buffers under our
//! control.
//!
//! Layers, from the kernel up: `abi` (structures), `buffer`, `request` and `reply` (one message),
//! `handshake` (what is agreed), `serve` with `convert` and `directory` (one request, one call),
//! `session` (threads), `mount` with `place`, `attach`, `dead`, `helper`, `tune` and `elsewhere` (the mount
//! itself).

mod abi;
mod attach;
mod buffer;
mod convert;
mod crew;
mod dead;
mod directory;
mod elsewhere;
mod error;
mod follow;
#[cfg(fuzzing)]
pub mod fuzzing;
mod handshake;
mod helper;
mod mount;
mod options;
mod place;
mod reply;
mod request;
mod seek;
mod serve;
mod session;
mod tune;

pub use dead::{Dead, clear_dead};
pub use elsewhere::Holder;
pub use error::Error;
pub use mount::Mount;
pub use options::{AccessTimes, Options};
pub use place::Place;
pub use session::End;
