//! A device of the kernel that this daemon serves, by either driver.

use std::sync::Arc;

use block::BlockDevice;
use nbd::Attachment;
use ublk::UblkAttachment;

use crate::failure::Result;

/// A device of the kernel that this daemon serves.
pub(crate) trait KernelAttachment: Send + Sync {
    /// The device that is served.
    fn device(&self) -> &Arc<dyn BlockDevice>;

    /// 1 if the kernel can use it.
    fn clients(&self) -> usize;

    /// Refuses if it is mounted, or part of another device.
    fn may_detach(&self) -> Result<()>;

    /// Ends it. With `force` also if it is in use.
    fn detach(&self, force: bool) -> Result<()>;

    /// Stops to answer. The kernel keeps the requests that are not answered.
    fn cut(&self);

    /// Leaves it to the next daemon: its requests wait. What was written is durable.
    fn leave(&self) -> Result<()>;

    /// Tells the kernel of the size that the device has now. False if the kernel has to be asked to attach it again.
    fn follow_size(&self) -> Result<bool>;
}

impl KernelAttachment for Attachment {
    fn device(&self) -> &Arc<dyn BlockDevice> {
        self.export().device()
    }

    fn clients(&self) -> usize {
        self.export().clients()
    }

    fn may_detach(&self) -> Result<()> {
        Ok(Attachment::may_detach(self)?)
    }

    fn detach(&self, force: bool) -> Result<()> {
        Ok(Attachment::detach(self, force)?)
    }

    fn cut(&self) {
        Attachment::cut(self);
    }

    fn leave(&self) -> Result<()> {
        Ok(Attachment::leave(self)?)
    }

    fn follow_size(&self) -> Result<bool> {
        Ok(false)
    }
}

impl KernelAttachment for UblkAttachment {
    fn device(&self) -> &Arc<dyn BlockDevice> {
        UblkAttachment::device(self)
    }

    fn clients(&self) -> usize {
        self.is_served().into()
    }

    fn may_detach(&self) -> Result<()> {
        Ok(UblkAttachment::may_detach(self)?)
    }

    fn detach(&self, force: bool) -> Result<()> {
        Ok(UblkAttachment::detach(self, force)?)
    }

    fn cut(&self) {
        UblkAttachment::cut(self);
    }

    fn leave(&self) -> Result<()> {
        Ok(UblkAttachment::leave(self)?)
    }

    fn follow_size(&self) -> Result<bool> {
        Ok(UblkAttachment::follow_size(self)?)
    }
}
