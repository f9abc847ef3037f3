//! The block device: a line with a reader, perhaps a writer, and collection.

mod append;
mod batch;
mod block_device;
mod collect;
mod create;
mod line;
mod outage;
mod read_ahead;
mod reader;
mod scan;
mod take;
mod upload;

#[cfg(test)]
mod tests;

pub use block_device::ObjectDevice;
pub use outage::{StoreMonitor, StoreOutage};
