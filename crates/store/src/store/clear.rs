//! Makes a device that belonged to a pool one that belongs to none.

use block::BlockDevice;

use crate::Result;
use crate::group::member::read_label;
use crate::store::cache::{self, is_cache};

/// Writes zeros over the label of a device, and over superblocks and wrapped keys beside it, and flushes. Of a
/// cache device, over its label.
///
/// # Errors
/// [`Error::NotAPool`](crate::Error::NotAPool) without a label;
/// [`Error::DamagedLabel`](crate::Error::DamagedLabel) if no copy of it is whole, so that it is unknown where the
/// keys are; [`Error::Device`](crate::Error::Device).
pub fn clear_label(device: &dyn BlockDevice) -> Result<()> {
    if is_cache(device)? {
        device.overwrite(0, cache::START)?;
        return Ok(device.flush()?);
    }
    let label = read_label(device)?;
    let (header, end) = (label.header_size.get(), label.device_size.get());
    // Neither end keeps the other from being overwritten. A device that became smaller has lost the back one.
    let front = device.overwrite(0, header.min(device.size()));
    let back = match end <= device.size() && header <= end {
        true => device.overwrite(end - header, header),
        false => Ok(()),
    };
    let flushed = device.flush();
    Ok(front.and(back).and(flushed)?)
}
