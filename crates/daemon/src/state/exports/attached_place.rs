//! The devices of the kernel that exports have, by number.

use nbd::KernelDevice;
use ublk::UblkDevice;

use crate::failure::Result;
use crate::state::exports::listen::ListenAddress;
use crate::state::exports::registry::ExportDefinition;

/// The device of the kernel that an export has, or had, with the mark by which a later daemon recognizes it.
#[derive(Clone, Debug)]
pub(crate) enum AttachedPlace {
    Nbd(KernelDevice, String),
    Ublk(UblkDevice, u64),
}

impl AttachedPlace {
    /// The device of an export; `None` if it has none, or its number is not known.
    pub(crate) fn of(is: &ExportDefinition) -> Option<AttachedPlace> {
        let number = is.unit_number();
        match is.listen {
            ListenAddress::Kernel(index) => {
                Some(AttachedPlace::Nbd(KernelDevice(index?), nbd_identity(is)))
            }
            ListenAddress::Ublk(index) => Some(AttachedPlace::Ublk(UblkDevice(index?), number)),
            _ => None,
        }
    }

    /// Returns whether the device is there, and of this export. One of ublk counts as there if the kernel cannot be asked.
    pub(crate) fn is_there(&self) -> bool {
        match self {
            AttachedPlace::Nbd(device, identity) => device.is_of(identity),
            AttachedPlace::Ublk(device, identity) => device.may_be_of(*identity),
        }
    }

    /// Refuses if it is mounted, or part of another device.
    pub(crate) fn may_end(&self) -> Result<()> {
        match self {
            AttachedPlace::Nbd(device, _) => device.may_end()?,
            AttachedPlace::Ublk(device, _) => device.may_end()?,
        }
        Ok(())
    }

    /// Ends it, if it is of this export. Requests that wait fail.
    pub(crate) fn end(&self) -> Result<()> {
        match self {
            AttachedPlace::Nbd(device, identity) => device.end(identity)?,
            AttachedPlace::Ublk(device, identity) => device.end(*identity)?,
        }
        Ok(())
    }
}

/// The name by which a later daemon recognizes the NBD device of an export.
pub(crate) fn nbd_identity(is: &ExportDefinition) -> String {
    format!("strongroom-{:016x}", is.unit_number())
}
