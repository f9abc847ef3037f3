//! A device in memory, for tests and benchmarks.

use std::io::IoSlice;
use std::sync::RwLock;

use crate::{BlockDevice, Result, SectorSizes, check_range, total};

/// A device whose bytes live in memory and are lost with it.
pub struct MemoryDevice {
    bytes: RwLock<Vec<u8>>,
    size: u64,
}

impl MemoryDevice {
    /// A device of `size` zero bytes.
    pub fn new(size: usize) -> MemoryDevice {
        MemoryDevice::from_bytes(vec![0; size])
    }

    /// A device that holds `bytes`.
    pub fn from_bytes(bytes: Vec<u8>) -> MemoryDevice {
        let size = bytes.len() as u64;
        MemoryDevice {
            bytes: RwLock::new(bytes),
            size,
        }
    }

    /// A copy of what it holds.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bytes
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .clone()
    }
}

impl BlockDevice for MemoryDevice {
    plain_methods!(refresh_size claim check_unreserved waits_on_write would_wait io_mode);
    plain_methods!(settle drop_cached begin_anew is_blank status_at overwrite);

    fn size(&self) -> u64 {
        self.size
    }

    fn sector_sizes(&self) -> SectorSizes {
        SectorSizes::COMMON
    }

    fn name(&self) -> String {
        "memory".into()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_range(self, offset, buf.len() as u64)?;
        let bytes = self.bytes.read().unwrap_or_else(|p| p.into_inner());
        let start = offset as usize;
        buf.copy_from_slice(&bytes[start..start + buf.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        check_range(self, offset, total(pieces))?;
        let mut bytes = self.bytes.write().unwrap_or_else(|p| p.into_inner());
        let mut at = offset as usize;
        for piece in pieces {
            bytes[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        check_range(self, offset, len)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        check_range(self, offset, len)?;
        let mut bytes = self.bytes.write().unwrap_or_else(|p| p.into_inner());
        let start = offset as usize;
        bytes[start..start + len as usize].fill(0);
        Ok(())
    }

    fn zero_fast(&self, offset: u64, len: u64) -> Result<bool> {
        self.zero(offset, len).map(|()| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_was_written_in_pieces() {
        let device = MemoryDevice::new(16);
        device
            .write_at(3, &[IoSlice::new(b"abc"), IoSlice::new(b"de")])
            .unwrap();
        let mut buf = [0; 7];
        device.read_at(2, &mut buf).unwrap();
        assert_eq!(&buf, b"\0abcde\0");
    }

    #[test]
    fn refuses_ranges_outside() {
        let device = MemoryDevice::new(16);
        assert!(device.read_at(10, &mut [0; 7]).is_err());
        assert!(device.write_at(u64::MAX, &[IoSlice::new(b"x")]).is_err());
        assert!(device.zero(15, 2).is_err());
    }
}
