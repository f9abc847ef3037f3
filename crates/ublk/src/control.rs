//! Requests to the driver, at `/dev/ublk-control`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use zerocopy::{FromZeros, IntoBytes};

use crate::wire::abi::{ControlCommand, NO_QUEUE, UblkInfo, UblkParameters, control, feature};
use crate::wire::ring;
use crate::{Error, Result};

const PATH: &str = "/dev/ublk-control";

/// The way to the driver. Tests have another one.
pub(crate) trait ControlPort: Send + Sync {
    /// Sends a request, with bytes that the driver reads or fills.
    fn send(&self, code: u32, command: ControlCommand, buffer: &mut [u8]) -> io::Result<()>;
}

/// The file of the driver.
struct ControlFile(OwnedFd);

impl ControlPort for ControlFile {
    fn send(&self, code: u32, command: ControlCommand, buffer: &mut [u8]) -> io::Result<()> {
        ring::control(self.0.as_fd(), code, command, buffer).map(drop)
    }
}

/// The driver.
pub(crate) struct UblkDriver(Box<dyn ControlPort>);

impl UblkDriver {
    /// Opens the driver.
    ///
    /// # Errors
    /// [`Error::NoDriver`], [`Error::NotPermitted`], [`Error::NoRing`], or [`Error::OldDriver`].
    pub(crate) fn open() -> Result<UblkDriver> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = match rustix::fs::open(PATH, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::NODEV | Errno::NXIO) => return Err(Error::NoDriver),
            Err(Errno::ACCESS | Errno::PERM) => return Err(Error::NotPermitted),
            file => file.map_err(|errno| Error::Driver(errno.into()))?,
        };
        let driver = UblkDriver(Box::new(ControlFile(file)));
        match driver.features() {
            Err(error) if is(&error, Errno::PERM) || is(&error, Errno::ACCESS) => {
                Err(Error::NotPermitted)
            }
            Err(source) if is(&source, Errno::NOSYS) => Err(Error::NoRing { source }),
            Err(error) if is_shortage(&error) => Err(Error::Driver(error)),
            Err(_) => Err(Error::OldDriver),
            Ok(_) => Ok(driver),
        }
    }

    /// The features of the driver, a bit for each.
    pub(crate) fn features(&self) -> io::Result<u64> {
        let mut features = 0u64;
        self.send(control::FEATURES, u32::MAX, 0, features.as_mut_bytes())?;
        Ok(features)
    }

    /// Adds a device. The driver fills in what it has chosen.
    pub(crate) fn add(&self, info: &mut UblkInfo) -> io::Result<()> {
        self.send(control::ADD, info.device, 0, info.as_mut_bytes())
    }

    /// The facts about a device.
    pub(crate) fn info(&self, device: u32) -> io::Result<UblkInfo> {
        let mut info = UblkInfo::new_zeroed();
        self.send(control::DEVICE_INFO, device, 0, info.as_mut_bytes())?;
        Ok(info)
    }

    pub(crate) fn set_parameters(
        &self,
        device: u32,
        parameters: &mut UblkParameters,
    ) -> io::Result<()> {
        let bytes = parameters.as_mut_bytes();
        self.send(control::SET_PARAMETERS, device, 0, bytes)
    }

    pub(crate) fn parameters(&self, device: u32) -> io::Result<UblkParameters> {
        let mut parameters = UblkParameters::new_zeroed();
        parameters.len = size_of::<UblkParameters>() as u32;
        self.send(control::PARAMETERS, device, 0, parameters.as_mut_bytes())?;
        Ok(parameters)
    }

    /// Makes a device that is served a block device. This process serves it.
    pub(crate) fn start(&self, device: u32) -> io::Result<()> {
        self.send(control::START, device, own_process(), &mut [])
    }

    /// Begins to serve a device that has lost its process.
    pub(crate) fn start_recovery(&self, device: u32) -> io::Result<()> {
        self.send(control::START_RECOVERY, device, 0, &mut [])
    }

    /// Gives the requests that waited to this process.
    pub(crate) fn end_recovery(&self, device: u32) -> io::Result<()> {
        self.send(control::END_RECOVERY, device, own_process(), &mut [])
    }

    /// Tells programs of another size.
    pub(crate) fn update_size(&self, device: u32, sectors: u64) -> io::Result<()> {
        match self.features()? & feature::UPDATE_SIZE {
            0 => Err(Errno::OPNOTSUPP.into()),
            _ => self.send(control::UPDATE_SIZE, device, sectors, &mut []),
        }
    }

    /// Ends the block device. Requests that wait for a process fail.
    pub(crate) fn stop(&self, device: u32) -> io::Result<()> {
        self.send(control::STOP, device, 0, &mut [])
    }

    /// Gives the number of a device free, when the last program that has it open is gone.
    pub(crate) fn delete(self, device: u32) -> io::Result<()> {
        match self.send(control::DELETE_LATER, device, 0, &mut []) {
            Err(error) if is_unknown_command(&error) => {}
            deleted => return deleted,
        }
        // It waits for these programs.
        let delete = move || {
            if let Err(error) = self.send(control::DELETE, device, 0, &mut []) {
                tracing::warn!(device, %error, "the number of the device is not free");
            }
        };
        threads::start("ublk-delete", delete).map(drop)
    }

    fn send(&self, code: u32, device: u32, data: u64, buffer: &mut [u8]) -> io::Result<()> {
        let command = ControlCommand {
            device,
            queue: NO_QUEUE,
            data,
            ..ControlCommand::default()
        };
        self.0.send(code, command, buffer)
    }
}

fn own_process() -> u64 {
    rustix::process::getpid()
        .as_raw_nonzero()
        .get()
        .unsigned_abs()
        .into()
}

/// The driver has several answers for a command that it does not know, one of them a number of the kernel alone
/// (`ENOTSUPP`).
fn is_unknown_command(error: &io::Error) -> bool {
    const ENOTSUPP: i32 = 524;
    is(error, Errno::OPNOTSUPP) || is(error, Errno::INVAL) || error.raw_os_error() == Some(ENOTSUPP)
}

pub(crate) fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// Returns whether an error says that this process or the machine has too little of something now.
fn is_shortage(error: &io::Error) -> bool {
    let of = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN];
    of.into_iter().any(|errno| is(error, errno))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A driver that notes the requests, refuses some codes, and fills in the number of a device.
    #[derive(Default)]
    struct FakeDriver {
        sent: Mutex<Vec<(u32, u32, u64)>>,
        refused: Vec<(u32, Errno)>,
    }

    impl ControlPort for Arc<FakeDriver> {
        fn send(&self, code: u32, command: ControlCommand, buffer: &mut [u8]) -> io::Result<()> {
            assert_eq!(command.queue, NO_QUEUE);
            let mut sent = self.sent.lock().unwrap();
            sent.push((code, command.device, command.data));
            if let Some((_, errno)) = self.refused.iter().find(|(refused, _)| *refused == code) {
                return Err((*errno).into());
            }
            if code == control::ADD {
                let mut info = UblkInfo::new_zeroed();
                info.as_mut_bytes().copy_from_slice(buffer);
                info.device = 7;
                buffer.copy_from_slice(info.as_bytes());
            }
            if code == control::FEATURES {
                buffer.copy_from_slice(feature::UPDATE_SIZE.as_bytes());
            }
            Ok(())
        }
    }

    #[test]
    fn a_device_has_the_number_that_the_driver_chose() {
        let fake = Arc::new(FakeDriver::default());
        let driver = UblkDriver(Box::new(Arc::clone(&fake)));
        let mut info = UblkInfo {
            device: crate::wire::abi::ANY_DEVICE,
            identity: 5,
            ..UblkInfo::default()
        };
        driver.add(&mut info).unwrap();
        assert_eq!((info.device, info.identity), (7, 5));
        driver.start(7).unwrap();
        driver.update_size(7, 99).unwrap();
        driver.delete(7).unwrap();
        let process = u64::from(std::process::id());
        let sent = fake.sent.lock().unwrap();
        let expected = [
            (control::ADD, u32::MAX, 0),
            (control::START, 7, process),
            (control::FEATURES, u32::MAX, 0),
            (control::UPDATE_SIZE, 7, 99),
            (control::DELETE_LATER, 7, 0),
        ];
        assert_eq!(*sent, expected);
    }

    /// Kernels before 6.9 cannot delete later.
    #[test]
    fn an_old_driver_deletes_at_once() {
        for errno in [
            Errno::OPNOTSUPP,
            Errno::INVAL,
            Errno::from_raw_os_error(524),
        ] {
            let fake = Arc::new(FakeDriver {
                refused: vec![(control::DELETE_LATER, errno)],
                ..FakeDriver::default()
            });
            UblkDriver(Box::new(Arc::clone(&fake))).delete(3).unwrap();
            // The thread that deletes has a clone of the driver, and drops it last.
            while Arc::strong_count(&fake) > 1 {
                std::thread::yield_now();
            }
            let sent = fake.sent.lock().unwrap();
            assert_eq!(sent.last(), Some(&(control::DELETE, 3, 0)));
        }
    }

    #[test]
    fn a_driver_without_sizes_says_so() {
        let fake = Arc::new(FakeDriver {
            refused: vec![(control::FEATURES, Errno::OPNOTSUPP)],
            ..FakeDriver::default()
        });
        let driver = UblkDriver(Box::new(fake));
        assert!(driver.update_size(1, 1).is_err());
    }
}
