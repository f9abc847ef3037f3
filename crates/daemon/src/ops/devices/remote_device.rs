//! Lends devices of the daemon to a command that works on a header itself: volumes, exports of other servers, and
//! the headers of open containers. The requests to the device go over the command's connection. The loan ends with
//! the connection.

use std::io::{ErrorKind, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, DeviceAccess};
use protocol::api::{
    BorrowedDevice, DaemonAnswer, DeviceAnswer, DeviceRequest, DeviceUse, FailureKind,
};
use protocol::device_name::DeviceName;
use protocol::wire;

use crate::failure::{Failure, Result};
use crate::ops::mappings::commands::USER;
use crate::state::callers::channel::{DataChannel, Dialogue};
use crate::state::daemon::Daemon;
use crate::state::devices::mapping_table::HeaderLoan;

/// The time that a change of a header waits for another program that has its file locked.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest request, in bytes.
const REQUEST_MAX: u32 = 256;

/// A lent device, and the part of it that may be changed.
struct Loan {
    device: Arc<dyn BlockDevice>,
    /// Writes must end before this offset.
    writable: u64,
    /// The loan of the header, if the container on the device is open.
    header: Option<HeaderLoan>,
}

impl Daemon {
    /// Lends a device to the other end of a connection.
    pub(crate) fn lend(
        &self,
        device: &Path,
        how: DeviceUse,
        data: &Arc<dyn DataChannel>,
    ) -> Result<()> {
        let _running = self.transfers.begin(data)?;
        let loan = self.loan(device, how)?;
        let file = loan.header.as_ref().and_then(|header| header.file.as_ref());
        let locked = file.map(|file| file.lock(PATIENCE)).transpose()?;
        let served = loan.serve(&mut *data.dialogue());
        if loan.header.is_some() && how == DeviceUse::ChangeHeader {
            self.read_header_again(device, locked);
        }
        served.map_err(|error| Failure::other(format!("the caller went away: {error}")))
    }

    fn loan(&self, device: &Path, how: DeviceUse) -> Result<Loan> {
        if let Some(header) = self.header_loan(device, how)? {
            return Ok(Loan {
                device: Arc::clone(header.device()),
                writable: match how {
                    DeviceUse::Look => 0,
                    DeviceUse::ChangeHeader | DeviceUse::Own => header.len(),
                },
                header: Some(header),
            });
        }
        let (access, writable) = match how {
            DeviceUse::Look => (DeviceAccess::ReadOnly, 0),
            DeviceUse::ChangeHeader | DeviceUse::Own => (DeviceAccess::Exclusive, u64::MAX),
        };
        let device: Arc<dyn BlockDevice> = match (DeviceName::parse(device).of_blocks()?, access) {
            (DeviceName::Volume(volume), DeviceAccess::ReadOnly) => {
                Arc::new(self.look_at_volume(volume, USER)?)
            }
            (name, _) if name.is_lent() => self.open(name, access, USER)?,
            _ => {
                return Err(Failure::new(
                    FailureKind::NotFound,
                    format!("no mapping of this daemon is on {}", device.display()),
                ));
            }
        };
        Ok(Loan {
            device,
            writable,
            header: None,
        })
    }
}

impl Loan {
    /// Serves requests until the other end says that it is done, or is gone.
    fn serve(&self, mut caller: &mut dyn Dialogue) -> std::io::Result<()> {
        let sectors = self.device.sector_sizes();
        let device = BorrowedDevice {
            name: self.device.name(),
            size: self.device.size(),
            logical: sectors.logical,
            physical: sectors.physical,
        };
        wire::send(&mut caller, &DaemonAnswer::Lent(device))?;
        let mut piece = Vec::new();
        loop {
            let request = match wire::receive_up_to(&mut caller, REQUEST_MAX) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                request => request?,
            };
            let done = match request {
                DeviceRequest::End => return Ok(()),
                DeviceRequest::Read { offset, len } => {
                    piece.resize((len as usize).min(wire::DATA_MAX), 0);
                    self.device.read_at(offset, &mut piece)
                }
                DeviceRequest::Write { offset } => {
                    wire::receive_piece(&mut caller, &mut piece)?;
                    self.write(offset, &piece)
                }
                DeviceRequest::Flush => self.device.flush(),
            };
            let answer = match &done {
                Ok(()) => DeviceAnswer::Done,
                Err(error) => DeviceAnswer::Failed {
                    message: error.to_string(),
                    is_no_space: error.is_no_space(),
                },
            };
            wire::send(&mut caller, &answer)?;
            if let (DeviceRequest::Read { .. }, Ok(())) = (&request, &done) {
                wire::send_piece(&mut caller, &piece)?;
            }
        }
    }

    fn write(&self, offset: u64, piece: &[u8]) -> block::Result<()> {
        let len = piece.len() as u64;
        let end = offset.checked_add(len);
        if self.writable == 0 {
            let device = self.device.name();
            return Err(block::Error::ReadOnly { device });
        }
        if end.is_none_or(|end| end > self.writable) {
            return Err(block::Error::OutOfRange {
                device: format!("the header on {}", self.device.name()),
                offset,
                len,
                size: self.writable,
            });
        }
        self.device.write_at(offset, &[IoSlice::new(piece)])
    }
}
