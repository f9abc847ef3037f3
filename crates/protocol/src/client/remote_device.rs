//! A device that the daemon lends to a command.

use std::io::{Error, ErrorKind, Result};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use crate::api::{BorrowedDevice, DaemonAnswer, DeviceAnswer, DeviceRequest};
use crate::wire;

/// A volume of a pool, or the header of a container that is open. It is returned when this is dropped.
pub struct RemoteDevice {
    stream: Mutex<UnixStream>,
    is: BorrowedDevice,
}

impl RemoteDevice {
    pub(super) fn new(stream: UnixStream, is: BorrowedDevice) -> RemoteDevice {
        let stream = Mutex::new(stream);
        RemoteDevice { stream, is }
    }

    /// Returns the name, size and sectors of the device.
    pub fn about(&self) -> &BorrowedDevice {
        &self.is
    }

    /// Fills `buf` with what is at `offset`.
    ///
    /// # Errors
    /// If the daemon or its device fails.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut pieces = buf.chunks_mut(wire::DATA_MAX).enumerate();
        pieces
            .try_for_each(|(n, piece)| self.read_piece(offset + (n * wire::DATA_MAX) as u64, piece))
    }

    /// Writes `data` at `offset`.
    ///
    /// # Errors
    /// [`ErrorKind::StorageFull`] without free space; otherwise as [`RemoteDevice::read`].
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut pieces = data.chunks(wire::DATA_MAX).enumerate();
        pieces.try_for_each(|(n, piece)| {
            let offset = offset + (n * wire::DATA_MAX) as u64;
            self.ask(|stream| {
                wire::send(stream, &DeviceRequest::Write { offset })?;
                wire::send_piece(stream, piece)?;
                wire::receive(stream)
            })
        })
    }

    /// Makes what was written durable.
    ///
    /// # Errors
    /// As [`RemoteDevice::write`].
    pub fn flush(&self) -> Result<()> {
        self.ask(|stream| {
            wire::send(stream, &DeviceRequest::Flush)?;
            wire::receive(stream)
        })
    }

    fn read_piece(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let len = out.len() as u32;
        self.ask(|stream| {
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

    /// Sends a request, and with it or its answer a piece of data.
    fn ask(&self, talk: impl FnOnce(&mut UnixStream) -> Result<DeviceAnswer>) -> Result<()> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        match talk(&mut stream) {
            Ok(DeviceAnswer::Done) => Ok(()),
            Ok(DeviceAnswer::Failed {
                message,
                is_no_space: true,
            }) => Err(Error::new(ErrorKind::StorageFull, message)),
            Ok(DeviceAnswer::Failed { message, .. }) => Err(Error::other(message)),
            Err(error) => Err(Error::new(
                error.kind(),
                format!("the daemon went away: {error}"),
            )),
        }
    }
}

impl Drop for RemoteDevice {
    fn drop(&mut self) {
        let stream = self
            .stream
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        // So that the next command does not find it still in use.
        if wire::send(stream, &DeviceRequest::End).is_ok() {
            let _: Result<DaemonAnswer> = wire::receive(stream);
        }
    }
}
