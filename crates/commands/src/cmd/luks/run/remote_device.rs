//! A device that the daemon lends, as a block device.

use std::io::IoSlice;

use block::{BlockDevice, SectorSizes};
use protocol::client::RemoteDevice;

/// A volume of a pool, or the header of a container that is open.
pub(super) struct BorrowedStorage(pub(super) RemoteDevice);

impl BorrowedStorage {
    fn failed(
        &self,
        operation: &'static str,
        (offset, len): (u64, u64),
        source: std::io::Error,
    ) -> block::Error {
        block::Error::Io {
            device: self.name(),
            operation,
            offset,
            len,
            source,
        }
    }
}

impl BlockDevice for BorrowedStorage {
    block::plain_device!();

    fn size(&self) -> u64 {
        self.0.about().size
    }

    fn sector_sizes(&self) -> SectorSizes {
        SectorSizes {
            logical: self.0.about().logical,
            physical: self.0.about().physical,
        }
    }

    fn name(&self) -> String {
        self.0.about().name.clone()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> block::Result<()> {
        let range = (offset, buf.len() as u64);
        let read = self.0.read(offset, buf);
        read.map_err(|error| self.failed("read", range, error))
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
        let mut at = offset;
        for piece in pieces {
            let range = (at, piece.len() as u64);
            let written = self.0.write(at, piece);
            written.map_err(|error| self.failed("write", range, error))?;
            at += range.1;
        }
        Ok(())
    }

    fn flush(&self) -> block::Result<()> {
        let flushed = self.0.flush();
        flushed.map_err(|error| self.failed("flush", (0, 0), error))
    }

    /// A discard of a header changes no data.
    fn discard(&self, _: u64, _: u64) -> block::Result<()> {
        Ok(())
    }
}
