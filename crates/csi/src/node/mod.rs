//! The node: brings volumes to the paths at which containers see them.
//!
//! ```text
//!  stage:    the daemon mounts the dataset at MOUNTS/ID, and a clone of that mount is at the staging path;
//!            or the volume is attached to the kernel as /dev/nbdN
//!  publish:  one more clone of the mount, or of the device node, is at the target path
//! ```
//!
//! The modules, the lowest first: `mounts`, `target`; `files`, `device`; `stage`, `publish`, `about`.

mod about;
mod device;
mod files;
mod mounts;
mod publish;
mod stage;
pub(crate) mod target;
