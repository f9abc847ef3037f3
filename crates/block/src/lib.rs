//! The interface of block devices, and devices in files, disks and memory.
//!
//! Each provider of a [`BlockDevice`] (a file, a volume, a LUKS mapping) works with each user of one (a pool, an NBD
//! export).
//!
//! What a device guarantees:
//! - A write is durable once a later [`BlockDevice::flush`] has returned.
//! - A write that has not been flushed may survive a power cut completely, in part (some sectors) or not at
//!   all, in any order. [`fault::FaultDevice`] produces each of these outcomes on demand.
//!
//! Layers, lowest first:
//! - `error`, `size`: errors, and sizes for people;
//! - `reservation`: claims of disks that several machines reach;
//! - `interface`: the trait;
//! - `ownership`: locks on files and disks;
//! - `file`, `devices`: the devices, which do not depend on each other;
//! - `serving`: memory of servers.

#[macro_use]
mod interface;
mod devices;
mod error;
mod file;
mod ownership;
mod reservation;
mod serving;
mod size;

pub use devices::memory::MemoryDevice;
pub use devices::meter::{DeviceMeter, MeteredDevice};
pub use devices::shared_disk::{DiskView, SharedDisk};
pub use devices::{fault, gate};
pub use error::{Error, Loss, Result};
pub use file::{DeviceAccess, FileDevice};
pub use interface::atomic::AtomicDevice;
pub use interface::device::{BlockDevice, IoMode, RangeStatus, SectorSizes};
pub(crate) use interface::device::{check_range, total};
pub use interface::plain;
pub use ownership::owner::FileLock;
pub use reservation::{Claim, Claimant, Registrar, RegistrarAnswer, Registrations};
pub use serving::helper_budget::HelperBudget;
pub use serving::loss_notice::LossNotice;
pub use serving::transfer::{
    TransferBuffer, TransferClaim, TransferOrigin, TransferPool, TransferShare,
};
pub use size::human_size;
