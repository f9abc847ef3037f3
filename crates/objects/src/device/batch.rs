//! Batches: changes that count together, or not at all.
//!
//! An import never sees a part of a batch. So a batch may overwrite what the state before it needs. Until its end is durable
//! nothing is collected: the objects that it makes dead are those of the present state of the device.

use std::sync::Arc;

use block::AtomicDevice;

use super::block_device::{ObjectDevice, finish};
use super::line::Line;
use crate::Result;

impl Line {
    /// Begins a batch. One that is open goes on.
    ///
    /// # Errors
    /// The failure of the line.
    pub(super) async fn begin_batch(self: &Arc<Self>) -> Result<()> {
        if self.state().batch.is_some() {
            return self.state().check();
        }
        if self.state().writer.is_none() {
            self.take().await?;
        }
        let collecting = Arc::clone(&self.collecting).lock_owned().await;
        let mut state = self.state();
        state.check()?;
        self.seal(&mut state);
        state.batch = Some(collecting);
        Ok(())
    }

    /// Ends the batch. All its changes are durable then, and what was overwritten is removed.
    ///
    /// # Errors
    /// The failure of the line. The batch counts or not.
    pub(super) async fn end_batch(self: &Arc<Self>) -> Result<()> {
        let end = self.when(|state| self.send_end(state)).await?;
        self.when(|state| {
            let writer = state.writer.as_mut()?;
            let is_done = writer.pending.range(..=end).next().is_none();
            is_done.then(|| writer.after = writer.after.max(end))
        })
        .await?;
        let collecting = self.state().batch.take();
        drop(collecting);
        self.flush().await
    }
}

impl AtomicDevice for ObjectDevice {
    fn begin_batch(&self) -> block::Result<()> {
        self.check_writable(0, 0)?;
        finish(&*self.line.executor, self.line.begin_batch())
            .map_err(|error| self.failed(error, "begin of a batch", 0, 0))
    }

    fn end_batch(&self) -> block::Result<()> {
        finish(&*self.line.executor, self.line.end_batch())
            .map_err(|error| self.failed(error, "end of a batch", 0, 0))
    }
}
