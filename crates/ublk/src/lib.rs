//! Makes block devices those of this kernel, `/dev/ublkbN`, by its driver `ublk_drv`.
//!
//! The kernel puts requests into queues, and a thread of this process serves each queue through an `io_uring`. A request
//! costs no system call of its own, and no socket carries its data.
//!
//! Layers, lowest first:
//! - `error`: failures;
//! - `wire`: structures and numbers of the driver, and rings;
//! - `serve`: requests, helpers and queues;
//! - `control`: requests to the driver;
//! - `device`: a device by its number.

// The layers above come with the next changes.
#![allow(dead_code)]

mod control;
mod device;
mod error;
mod serve;
mod wire;

pub use device::UblkDevice;
pub use error::{Error, Result};
