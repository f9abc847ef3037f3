//! The second-level cache: sealed records and nodes on devices that are faster than those of the pool.
//!
//! A thread writes records that were read from the pool to the cache device, without a change. Readers find them by
//! checksum. So no key is needed, and a hit is always right: bytes with another checksum are a miss. The pool has all
//! data too, and no thread waits for a write to a cache device. If the device fails, the pool stops using it. The index
//! is in memory only. So the cache is empty after an import, and it never has an older state than the pool.

mod device;
mod devices;
mod index;

pub(crate) use device::CacheDevice;
pub(crate) use devices::CacheDevices;
pub use devices::SecondaryCache;
