//! A device that the daemon lends to a command, as the command has it.

use std::io::{Error as IoError, ErrorKind, IoSlice};
use std::os::unix::net::UnixStream;

use block::{BlockDevice, SectorSizes};
use parking_lot::Mutex;

use crate::api::{Answer, BorrowedDevice, DeviceAnswer, DeviceRequest};
use crate::wire;

/// A volume of a pool, or the header of a container that is open. It is returned when this is dropped.
pub struct Borrowed {
    stream: Mutex<UnixStream>,
    is: BorrowedDevice,
}

impl Borrowed {
    pub(crate) fn new(stream: UnixStream, is: BorrowedDevice) -> Borrowed {
        let stream = Mutex::new(stream);
        Borrowed { stream, is }
    }

    /// Has something done that goes with a piece of data, or fills one.
    fn ask(
        &self,
        operation: &'static str,
        (offset, len): (u64, u64),
        talk: impl FnOnce(&mut UnixStream) -> std::io::Result<DeviceAnswer>,
    ) -> block::Result<()> {
        let source = match talk(&mut self.stream.lock()) {
            Ok(DeviceAnswer::Done) => return Ok(()),
            Ok(DeviceAnswer::Failed {
                message,
                is_no_space: true,
            }) => IoError::new(ErrorKind::StorageFull, message),
            Ok(DeviceAnswer::Failed { message, .. }) => IoError::other(message),
            Err(error) => IoError::new(error.kind(), format!("the daemon went away: {error}")),
        };
        Err(block::Error::Io {
            device: self.is.name.clone(),
            operation,
            offset,
            len,
            source,
        })
    }

    fn read_piece(&self, offset: u64, out: &mut [u8]) -> block::Result<()> {
        let len = out.len() as u32;
        self.ask("read", (offset, len.into()), |stream| {
            wire::send(stream, &DeviceRequest::Read { offset, len })?;
            let answer = wire::receive(stream)?;
            if let DeviceAnswer::Done = answer {
                let mut piece = Vec::new();
                wire::receive_piece(stream, &mut piece)?;
                match piece.len() == out.len() {
                    true => out.copy_from_slice(&piece),
                    false => return Err(ErrorKind::InvalidData.into()),
                }
            }
            Ok(answer)
        })
    }

    fn write_piece(&self, offset: u64, piece: &[u8]) -> block::Result<()> {
        self.ask("write", (offset, piece.len() as u64), |stream| {
            wire::send(stream, &DeviceRequest::Write { offset })?;
            wire::send_piece(stream, piece)?;
            wire::receive(stream)
        })
    }
}

impl BlockDevice for Borrowed {
    fn size(&self) -> u64 {
        self.is.size
    }

    fn sector_sizes(&self) -> SectorSizes {
        SectorSizes {
            logical: self.is.logical,
            physical: self.is.physical,
        }
    }

    fn name(&self) -> String {
        self.is.name.clone()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> block::Result<()> {
        let mut pieces = buf.chunks_mut(wire::DATA_MAX).enumerate();
        pieces
            .try_for_each(|(n, piece)| self.read_piece(offset + (n * wire::DATA_MAX) as u64, piece))
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
        let mut at = offset;
        for piece in pieces.iter().flat_map(|piece| piece.chunks(wire::DATA_MAX)) {
            self.write_piece(at, piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn flush(&self) -> block::Result<()> {
        self.ask("flush", (0, 0), |stream| {
            wire::send(stream, &DeviceRequest::Flush)?;
            wire::receive(stream)
        })
    }

    /// Nothing that is written to a header is discarded.
    fn discard(&self, _: u64, _: u64) -> block::Result<()> {
        Ok(())
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let stream = self.stream.get_mut();
        // Whoever wants it next is not told that it is in use still.
        if wire::send(stream, &DeviceRequest::End).is_ok() {
            let _: std::io::Result<Answer> = wire::receive(stream);
        }
    }
}
