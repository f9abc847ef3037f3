//! Devices on which many changes count together.

use crate::{BlockDevice, Result};

/// A device on which a batch of changes counts as a whole, or not at all, wherever the power is cut.
///
/// A batch may overwrite bytes that the state before it needs. A process that ends before the batch does leaves that state.
pub trait AtomicDevice: BlockDevice {
    /// Begins a batch. One that was not ended goes on, and its changes count with the next end.
    ///
    /// # Errors
    /// As [`BlockDevice::write_at`].
    fn begin_batch(&self) -> Result<()>;

    /// Ends the batch. All its changes are durable then, and no part of the medium has what was overwritten with
    /// [`BlockDevice::overwrite`].
    ///
    /// # Errors
    /// As [`BlockDevice::flush`]. It is not known then whether the batch counts.
    fn end_batch(&self) -> Result<()>;
}
