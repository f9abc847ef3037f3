//! The second-level cache: sealed records and nodes on devices that are faster than those of the pool.
//!
//! What was read from the pool is written there by a thread of its own, as it is, and found again by its
//! checksum. So it takes no key, and what is found is what was wanted, or nothing: bytes that have another
//! checksum are a miss. Nothing is written there first, and nothing waits for it to be written. A device
//! that fails is done without. What is where is in memory only: after an import the cache is empty, and
//! nothing in it can be older than the pool.

mod device;
mod devices;
mod index;

pub(crate) use device::CacheDevice;
pub(crate) use devices::CacheDevices;
pub use devices::SecondaryCache;
