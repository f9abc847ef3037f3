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
//! Layers, lowest first: `error`; `device` (the trait), with the claims of `reservation`; `file`, `memory`, `metered`
//! [`gate`] and [`fault`] (the devices, which do not depend on each other); `shared` (a disk that several machines of a test
//! reach); `backing` (locks on what lies below a loop device), `lock`; `holder` (the process that has opened a file); `flusher`; `size` (sizes for people); `loss_notice` (what clients of a server have to be told); `transfer` (memory for
//! the data of clients on the network).

mod backing;
#[macro_use]
mod delegate;
mod device;
mod error;
pub mod fault;
mod file;
mod flusher;
pub mod gate;
mod holder;
mod lock;
#[cfg(test)]
mod loop_device;
mod loss_notice;
mod memory;
mod metered;
mod ordinary;
mod owner;
mod reservation;
mod shared;
mod size;
mod transfer;

pub use device::{BlockDevice, IoMode, SectorSizes, Status};
pub(crate) use device::{check_range, total};
pub use error::{Error, Loss, Result};
pub use file::{Access, FileDevice};
pub use flusher::{be_flusher, need_flushers};
pub use loss_notice::LossNotice;
pub use memory::MemoryDevice;
pub use metered::{DeviceMeter, Metered};
pub use ordinary::be_ordinary;
pub use owner::FileLock;
pub use reservation::{Answer, Claim, Claimant, Registered, Registrar};
pub use shared::{SharedDisk, View};
pub use size::human_size;
pub use transfer::{TransferBuffer, TransferClaim, TransferOrigin, TransferPool, TransferShare};
