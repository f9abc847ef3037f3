//! A block device on an object store.
//!
//! The device is a log, the *line*: immutable objects with consecutive numbers, each with the runs of bytes that were
//! written. A map in memory says in which object each byte lies. An import reads the headers of the line again. The only
//! thing asked of a store is that it makes an object if there is none of that name, and otherwise refuses.
//!
//! Asynchronous code stays inside this crate. It runs on any executor, so that one seed replays a whole simulated run.
//!
//! Layers, lowest first:
//! - `error`: errors;
//! - [`store`]: what is asked of a store and of time, addresses, the stores of providers;
//! - `line`: the bytes of objects;
//! - `device`: the block device.

mod device;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod line;
pub mod store;

pub use device::{ObjectDevice, StoreMonitor, StoreOutage};
pub use error::{Error, Result};
pub use store::address::{StoreAddress, StoreProvider};
pub use store::waits::{OutageObserver, StorePatience};
