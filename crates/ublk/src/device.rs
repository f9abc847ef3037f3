//! A device of the kernel, by its number.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::control::{UblkDriver, is};
use crate::wire::abi::{UblkInfo, state};
use crate::{Error, Result};

/// A device of the kernel, by its number. It is there whether or not this process serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UblkDevice(pub u32);

impl UblkDevice {
    /// Reads `/dev/ublkbN`.
    pub fn parse(path: &str) -> Option<UblkDevice> {
        let number = path.strip_prefix("/dev/ublkb")?;
        let parsed = UblkDevice(number.parse().ok()?);
        (parsed.path() == Path::new(path)).then_some(parsed)
    }

    /// `/dev/ublkbN`.
    pub fn path(self) -> PathBuf {
        format!("/dev/ublkb{}", self.0).into()
    }

    /// Returns whether this crate made the device under this identity, and no other program did. One that has ended keeps
    /// its number until programs have closed it, and does not count.
    pub fn is_of(self, identity: u64) -> bool {
        let info = UblkDriver::open().and_then(|driver| self.info_of(&driver, identity));
        info.is_ok_and(|info| info.is_some_and(|info| info.state != state::DEAD))
    }

    /// Returns whether the device may be there under this identity. Unlike [`UblkDevice::is_of`], true if the kernel cannot be
    /// asked now: whatever guards its requests must not let go.
    pub fn may_be_of(self, identity: u64) -> bool {
        may_be_there(UblkDriver::open().and_then(|driver| self.info_of(&driver, identity)))
    }

    /// The facts about the device; `None` if it is not there, or not of this identity.
    fn info_of(self, driver: &UblkDriver, identity: u64) -> Result<Option<UblkInfo>> {
        match driver.info(self.0) {
            Ok(info) => Ok((info.identity == identity).then_some(info)),
            Err(error) if is(&error, Errno::NODEV) || is(&error, Errno::INVAL) => Ok(None),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Ends a device of this identity. Requests that wait fail.
    ///
    /// # Errors
    /// If the kernel does not do it.
    pub fn end(self, identity: u64) -> Result<()> {
        let driver = match UblkDriver::open() {
            Err(Error::NoDriver) => return Ok(()),
            driver => driver?,
        };
        if self.info_of(&driver, identity)?.is_none() {
            return Ok(());
        }
        self.unless_gone(driver.stop(self.0))?;
        self.unless_gone(driver.delete(self.0))
    }

    /// The result of a request; a device that has ended by itself is no error.
    fn unless_gone(self, done: io::Result<()>) -> Result<()> {
        match done {
            Err(error) if is(&error, Errno::NODEV) => Ok(()),
            done => done.map_err(|error| self.explain(error)),
        }
    }

    /// Refuses if a program has it open exclusively: it is mounted, or part of another device.
    ///
    /// # Errors
    /// [`Error::InUse`]
    pub fn may_end(self) -> Result<()> {
        self.claim().map(drop)
    }

    /// Keeps other programs from opening it exclusively, as to mount it. Fails if one has done so.
    pub(crate) fn claim(self) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        rustix::fs::open(self.path(), flags, Mode::empty())
            .map_err(|errno| self.explain(errno.into()))
    }

    /// The file by which a process serves the device.
    pub(crate) fn serving_file(self) -> Result<OwnedFd> {
        let path = format!("/dev/ublkc{}", self.0);
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| self.explain(errno.into()))
    }

    pub(crate) fn explain(self, error: io::Error) -> Error {
        let device = self.path().display().to_string();
        match () {
            () if is(&error, Errno::BUSY) => Error::InUse { device },
            () if is(&error, Errno::EXIST) => Error::Exists { device },
            () if is(&error, Errno::PERM) => Error::NotPermitted,
            () => Error::Kernel {
                device,
                source: error,
            },
        }
    }
}

fn may_be_there(info: Result<Option<UblkInfo>>) -> bool {
    match info {
        Ok(info) => info.is_some_and(|info| info.state != state::DEAD),
        // No device of this crate is there.
        Err(Error::NoDriver | Error::OldDriver) => false,
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_may_be_there_if_nobody_knows() {
        let info = |state| UblkInfo {
            state,
            ..UblkInfo::default()
        };
        assert!(may_be_there(Ok(Some(info(state::DEAD + 1)))));
        assert!(!may_be_there(Ok(Some(info(state::DEAD)))));
        assert!(!may_be_there(Ok(None)));
        assert!(!may_be_there(Err(Error::NoDriver)));
        assert!(may_be_there(Err(Error::Driver(Errno::MFILE.into()))));
        assert!(may_be_there(Err(Error::NotPermitted)));
    }

    #[test]
    fn a_device_has_one_name() {
        assert_eq!(UblkDevice::parse("/dev/ublkb12"), Some(UblkDevice(12)));
        for wrong in [
            "/dev/ublkb",
            "/dev/ublkb01",
            "/dev/ublkb+1",
            "/dev/ublkc0",
            "/dev/ublkb0p1",
            "/dev/nbd0",
            "ublkb0",
        ] {
            assert_eq!(UblkDevice::parse(wrong), None, "{wrong}");
        }
    }
}
