//! Mappings without their key: suspended by one command, resumed by another that has the key.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use block::FileLock;
use luks::{Container, FailureGuard, Mapping};
use protocol::api::{DeviceUse, FailureKind, command};
use secret::Secret;

use crate::failure::{Failure, Result};
use crate::ops::mappings::key::{counted, unlock};
use crate::state::callers::channel::Channel;
use crate::state::daemon::Daemon;
use crate::state::devices::mapping_table::{HeaderLoan, MappingPart, OpenMapping};
use crate::state::exports::device::Exportable;

/// The time to wait for another program that has the file of the header locked.
const PATIENCE: Duration = Duration::from_secs(10);

/// The container of a mapping. Nobody changes it while this exists.
struct LockedContainer {
    container: Container,
    lock: Option<FileLock>,
    _loan: HeaderLoan,
}

impl Daemon {
    /// Wipes the key of a mapping. Its requests wait then.
    pub(crate) fn suspend_mapping(&self, name: &str) -> Result<()> {
        let (mapping, device) = self.mapping_of_container(name)?;
        if mapping.is_suspended() {
            return Err(Failure::usage(format!(
                "the mapping '{name}' is suspended already"
            )));
        }
        self.refuse_under_pool(name)?;
        let held = self.hold_container(&device)?;
        Ok(mapping.suspend(&held.container)?)
    }

    /// Gives a mapping its key again.
    pub(crate) fn resume_mapping(
        self: &Arc<Self>,
        what: &command::LuksResume,
        channel: &mut dyn Channel,
    ) -> Result<()> {
        let name = &what.name;
        let (mapping, device) = self.mapping_of_container(name)?;
        if !mapping.is_suspended() {
            return Err(Failure::usage(format!(
                "the mapping '{name}' is not suspended"
            )));
        }
        drop(mapping);
        let open = |given: &Secret| self.resume_with(what, &device, given);
        let slot = unlock(&device, what.with_key_file, channel, open)?;
        // The mapping may have been closed meanwhile.
        let _ = self.mappings.with_open(name, |open| {
            open.slot = Some(slot);
            Ok(())
        });
        // What could not be offered while it was suspended.
        self.restore_offers();
        Ok(())
    }

    /// Says which key slot it was.
    fn resume_with(&self, what: &command::LuksResume, device: &str, given: &Secret) -> Result<u32> {
        let mut held = self.hold_container(device)?;
        // It may have been closed while the passphrase was asked for.
        let (mapping, _) = self.mapping_of_container(&what.name)?;
        let container = &held.container;
        if container.is_in_reencryption() {
            let keys = counted(self, device, container.unlock_both(given))?;
            mapping.resume_in_reencryption(container, &keys)?;
            // Other programs must not continue it below the mapping.
            self.read_header_again(Path::new(device), held.lock.take());
            return Ok(keys.slot);
        }
        let unlocked = counted(self, device, container.unlock(given, what.key_slot))?;
        mapping.resume(container, &unlocked.key)?;
        Ok(unlocked.slot)
    }

    /// An open mapping, and its device.
    fn mapping_of_container(&self, name: &str) -> Result<(Arc<Mapping>, String)> {
        self.mappings.with_open(name, |open| match open.on {
            None => Err(Failure::usage(format!(
                "the mapping '{name}' has no header to recognise its key by, so it is not suspended: close it"
            ))),
            Some(_) => Ok((Arc::clone(&open.mapping), open.device.clone())),
        })
    }

    /// Takes the container that is open on a device. It cannot be closed while the result exists.
    fn hold_container(&self, device: &str) -> Result<LockedContainer> {
        let loan = self.header_loan(Path::new(device), DeviceUse::ChangeHeader)?;
        let loan = loan.ok_or_else(|| {
            Failure::new(
                FailureKind::NotFound,
                format!("{device} is not open any more"),
            )
        })?;
        let lock = { loan.file.as_ref() }.map(|file| file.lock(PATIENCE));
        Ok(LockedContainer {
            lock: lock.transpose()?,
            container: Container::look(Arc::clone(loan.device()))?,
            _loan: loan,
        })
    }

    /// Makes the requests for a suspended mapping fail while this user, if it is the only one, is ended by force.
    /// Otherwise the end would wait for a key.
    pub(crate) fn fail_suspended(&self, device: &Exportable, user: &str) -> Option<FailureGuard> {
        let Exportable::Luks(name) = device else {
            return None;
        };
        let users = self
            .mappings
            .leases
            .users(&MappingPart::Mapping(name.clone()));
        let fail = |open: &mut OpenMapping| match open.mapping.is_suspended() && users == [user] {
            true => Ok(Some(open.mapping.fail_while_suspended())),
            false => Ok(None),
        };
        self.mappings.with_open(name, fail).ok().flatten()
    }

    /// Refuses to detach a device of the kernel from a suspended mapping: what the kernel has to write would wait.
    pub(crate) fn may_detach_suspended(&self, device: &Exportable) -> Result<()> {
        let Exportable::Luks(name) = device else {
            return Ok(());
        };
        let mapping = |open: &mut OpenMapping| Ok(Arc::clone(&open.mapping));
        match self.mappings.with_open(name, mapping) {
            Ok(mapping) => Daemon::check_not_suspended(name, &mapping),
            Err(_) => Ok(()),
        }
    }

    /// Refuses to end the daemon while a suspended mapping is in use: its users could not write what they have.
    pub(crate) fn may_end_suspended(&self) -> Result<()> {
        let used = self.mappings.map_open(|name, open| {
            let part = MappingPart::Mapping(name.to_owned());
            let users = self.mappings.leases.users(&part).into_iter();
            let mut users = users.filter(|_| open.mapping.is_suspended());
            users.next().map(|user| (name.to_owned(), user))
        });
        match used.first() {
            None => Ok(()),
            Some((name, user)) => Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "the mapping '{name}' is suspended, and {user} uses it; resume it: strongroom luks resume {name}"
                ),
            )),
        }
    }

    /// Makes all requests for suspended mappings fail from now on, because the daemon ends.
    pub(crate) fn give_up_suspended(&self) {
        self.cut_suspended_devices();
        self.mappings.map_open(|name, open| {
            if open.mapping.is_suspended() {
                tracing::warn!(mapping = name, "it is suspended; requests that wait fail");
            }
            // A mapping may be suspended while the daemon ends.
            open.mapping.give_up();
            None::<()>
        });
    }

    /// Refuses to use a mapping that is suspended: the new user would wait.
    pub(super) fn check_not_suspended(name: &str, mapping: &Mapping) -> Result<()> {
        match mapping.is_suspended() {
            false => Ok(()),
            true => Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "the mapping '{name}' is suspended; resume it first: strongroom luks resume {name}"
                ),
            )),
        }
    }
}
