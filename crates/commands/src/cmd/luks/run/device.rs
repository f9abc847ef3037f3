//! The device that a header is on.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::{BlockDevice, DeviceAccess, FileDevice};
use cipher::SystemRandom;
use console::outcome::Result;
use console::session::{Session, absolute, device_path};
use luks::Container;
use protocol::api::{DeviceUse, Failure, FailureKind};
use protocol::device_name::DeviceName;

use super::remote_device::BorrowedStorage;
use crate::cmd::luks::args::LuksContainer;

/// The time that a command waits for others that change the same header.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of times that it looks whether they are done.
const STEP: Duration = Duration::from_millis(50);

/// A device, and the file behind it unless it is borrowed.
#[derive(Clone)]
pub(super) struct OwnDevice {
    pub(super) device: Arc<dyn BlockDevice>,
    pub(super) file: Option<Arc<FileDevice>>,
}

impl OwnDevice {
    pub(super) fn of_file(file: FileDevice) -> OwnDevice {
        let file = Arc::new(file);
        OwnDevice {
            device: Arc::clone(&file) as _,
            file: Some(file),
        }
    }

    fn borrowed(device: BorrowedStorage) -> OwnDevice {
        OwnDevice {
            device: Arc::new(device),
            file: None,
        }
    }
}

/// A device with a header, or for one, that no other command has meanwhile.
pub(super) fn own(path: &Path, session: &Session) -> Result<OwnDevice> {
    wait(Duration::ZERO, || device_now(path, DeviceUse::Own, session))
}

/// A device with a header, or for one. A volume or remote export is borrowed from the daemon, and so is what the
/// daemon has open, if that can be. Who changes keys waits for others that do.
pub(super) fn device(
    path: &Path,
    how: DeviceUse,
    session: &Session,
) -> Result<Arc<dyn BlockDevice>> {
    let patience = match how {
        DeviceUse::ChangeHeader => PATIENCE,
        DeviceUse::Look | DeviceUse::Own => Duration::ZERO,
    };
    wait(patience, || device_now(path, how, session)).map(|opened| opened.device)
}

/// The reason why there is no device.
enum DeviceRefusal {
    /// Another process has locked it, perhaps for a moment only.
    Locked(Failure),
    Failed(Failure),
}

impl DeviceRefusal {
    fn failed(failure: impl Into<Failure>) -> DeviceRefusal {
        DeviceRefusal::Failed(failure.into())
    }
}

/// Tries again while another process has it, for no longer than `limit`.
fn wait<T>(
    limit: Duration,
    attempt: impl Fn() -> std::result::Result<T, DeviceRefusal>,
) -> Result<T> {
    let begun = Instant::now();
    let mut is_told = false;
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(DeviceRefusal::Locked(failure)) if begun.elapsed() < limit => {
                if !std::mem::replace(&mut is_told, true) {
                    eprintln!("strongroom: {}; waiting", failure.message);
                }
                std::thread::sleep(STEP);
            }
            Err(DeviceRefusal::Locked(failure) | DeviceRefusal::Failed(failure)) => {
                return Err(failure);
            }
        }
    }
}

fn device_now(
    path: &Path,
    how: DeviceUse,
    session: &Session,
) -> std::result::Result<OwnDevice, DeviceRefusal> {
    let name = DeviceName::parse(path).of_blocks();
    if name.map_err(DeviceRefusal::failed)?.is_lent() {
        let name = device_path(path).map_err(DeviceRefusal::failed)?;
        let borrowed = session.borrow(&name, how).map_err(DeviceRefusal::failed)?;
        return Ok(OwnDevice::borrowed(BorrowedStorage(borrowed)));
    }
    let access = match how {
        DeviceUse::Look => DeviceAccess::ReadOnly,
        DeviceUse::ChangeHeader | DeviceUse::Own => DeviceAccess::Exclusive,
    };
    let busy = match FileDevice::open(path, access) {
        Ok(opened) => return Ok(OwnDevice::of_file(opened)),
        Err(error @ block::Error::Busy { .. }) => error,
        Err(error) => return Err(DeviceRefusal::failed(error)),
    };
    let path = absolute(path).map_err(DeviceRefusal::failed)?;
    match session.borrow_running(&path, how) {
        Ok(device) => Ok(OwnDevice::borrowed(BorrowedStorage(device))),
        Err(failure) if failure.kind == FailureKind::Busy => Err(DeviceRefusal::failed(failure)),
        // It is not the daemon that has it.
        Err(_) => Err(DeviceRefusal::Locked(busy.into())),
    }
}

/// The header, to look at.
pub(super) fn look(container: &LuksContainer, session: &Session) -> Result<Container> {
    let header = device(container.header_device(), DeviceUse::Look, session)?;
    Ok(Container::look(header)?)
}

/// The header, to change.
pub(super) fn open(
    container: &LuksContainer,
    how: DeviceUse,
    session: &Session,
) -> Result<Container> {
    let header = device(container.header_device(), how, session)?;
    let container = Container::open(header, &SystemRandom)?;
    // Before passphrases are asked for in vain.
    container.check_writable()?;
    Ok(container)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn waiting_has_an_end_and_other_failures_are_not_waited_for() {
        let tried = Cell::new(0);
        let fails = |why: fn(Failure) -> DeviceRefusal| {
            tried.set(tried.get() + 1);
            Err::<(), _>(why(Failure::other("no")))
        };
        assert!(wait(Duration::ZERO, || fails(DeviceRefusal::Locked)).is_err());
        assert_eq!(tried.get(), 1);
        assert!(wait(PATIENCE, || fails(DeviceRefusal::Failed)).is_err());
        assert_eq!(tried.get(), 2);
        let second = wait(PATIENCE, || match tried.get() {
            2 => fails(DeviceRefusal::Locked),
            _ => Ok(()),
        });
        assert!(second.is_ok() && tried.get() == 3);
    }
}
