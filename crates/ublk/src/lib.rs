//! Makes block devices those of this kernel, `/dev/ublkbN`, by its driver `ublk_drv`.
//!
//! The kernel puts requests into queues, and a thread of this process serves each queue through an `io_uring`. A request
//! costs no system call of its own, and no socket carries its data. [`UblkAttachment`] is a device that this process
//! serves, and [`UblkDevice`] one by its number, which may wait for a process.
//!
//! A device outlives its process: the kernel keeps its requests, and the next process serves them
//! ([`UblkAttachment::take_up`]). So a change is answered when it outlives the process too ([`block::BlockDevice::settle`]).
//!
//! Layers, lowest first:
//! - `error`: failures;
//! - `wire`: structures and numbers of the driver, and rings;
//! - `serve`: requests, helpers and queues;
//! - `control`: requests to the driver;
//! - `device`: a device by its number;
//! - `attachment`: a device that is served.

mod attachment;
mod control;
mod device;
mod error;
mod serve;
mod wire;

pub use attachment::{UblkAttachment, UblkOptions};
pub use device::UblkDevice;
pub use error::{Error, Result};
