//! The answers of devices that only read and write.

use std::io::IoSlice;

use crate::{BlockDevice, Claim, Error, Result};

/// Refuses to reserve `device`, which is no disk.
///
/// # Errors
/// [`Error::NoReservations`], always.
pub fn claim(device: &dyn BlockDevice) -> Result<Claim> {
    Err(Error::NoReservations {
        device: device.name(),
        reason: "only disks have persistent reservations".into(),
    })
}

/// Reads a range, and returns whether all its bytes are zeros.
///
/// # Errors
/// As [`BlockDevice::read_at`].
pub fn is_blank(device: &dyn BlockDevice, offset: u64, len: usize) -> Result<bool> {
    let mut bytes = vec![0; len];
    device.read_at(offset, &mut bytes)?;
    Ok(bytes.iter().all(|byte| *byte == 0))
}

/// Writes zeros over a range.
///
/// # Errors
/// As [`BlockDevice::write_at`].
pub fn overwrite(device: &dyn BlockDevice, offset: u64, len: u64) -> Result<()> {
    const CHUNK: usize = 1 << 20;
    static ZEROS: [u8; CHUNK] = [0; CHUNK];
    let mut done = 0;
    while done < len {
        let n = CHUNK.min(usize::try_from(len - done).unwrap_or(CHUNK));
        device.write_at(offset + done, &[IoSlice::new(&ZEROS[..n])])?;
        done += n as u64;
    }
    Ok(())
}
