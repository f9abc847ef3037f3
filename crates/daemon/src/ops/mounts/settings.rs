//! The settings of open datasets and mounts, from properties and mount options.

use std::sync::Arc;

use dataset::{Atime, PrimaryCache, Settings};
use fuse::KernelCache;
use pool::Entry;
use protocol::api::{AccessTimes, FailureKind, MountPermissions};

use crate::failure::{Failure, Result};
use crate::state::datasets::properties;
use crate::state::pools::active_pool::ActivePool;

impl ActivePool {
    /// The restrictions of a mount: those in the command, otherwise those in the properties.
    pub(crate) fn restrictions(
        &self,
        entry: &Entry,
        read_only: bool,
        allowed: &MountPermissions,
    ) -> Result<fuse::Options> {
        let is_on = |said: Option<bool>, property| match said {
            Some(said) => Ok(said),
            None => properties::effective(&self.pool, entry, property).map(|(v, _)| v == "on"),
        };
        let settings = self.settings_of(entry, read_only, allowed)?;
        Ok(fuse::Options {
            read_only,
            kernel_cache: match settings.primary_cache {
                PrimaryCache::All => KernelCache::All,
                PrimaryCache::Metadata => KernelCache::Metadata,
                PrimaryCache::None => KernelCache::Names,
            },
            access_times: match settings.atime {
                Atime::Off => fuse::AccessTimePolicy::Never,
                Atime::Relative => fuse::AccessTimePolicy::Relative,
                Atime::On => fuse::AccessTimePolicy::Always,
            },
            nodiratime: allowed.directory_times == Some(false),
            noexec: !is_on(allowed.exec, "exec")?,
            nosuid: !is_on(allowed.setuid, "setuid")?,
            nodev: !is_on(allowed.devices, "devices")?,
            ..fuse::Options::default()
        })
    }

    /// The settings for the files of a mount.
    pub(crate) fn settings_of(
        &self,
        entry: &Entry,
        read_only: bool,
        allowed: &MountPermissions,
    ) -> Result<Settings> {
        let mut settings = properties::settings(&self.pool, entry)?;
        settings.read_only |= read_only;
        settings.atime = match allowed.access_times {
            None => settings.atime,
            Some(AccessTimes::Never) => Atime::Off,
            Some(AccessTimes::Relative) => Atime::Relative,
            Some(AccessTimes::Always) => Atime::On,
        };
        Ok(settings)
    }

    /// Updates open datasets after new datasets with reservations were made: this space is not free for the others.
    /// Without reservations nothing is updated, because there can be thousands of open datasets.
    pub(crate) fn apply_reservations(&self, made: &[Arc<Entry>]) -> Result<Vec<Failure>> {
        match made.iter().any(|entry| entry.reserves()) {
            true => self.apply_settings(),
            false => Ok(Vec::new()),
        }
    }

    /// Makes open datasets follow their present properties. Returns failures for those that could not be updated. If the
    /// kernel refuses the flags of a mount, the other mounts follow, and this is the failure.
    pub(crate) fn apply_settings(&self) -> Result<Vec<Failure>> {
        let mut failures = Vec::new();
        let mut mounted_otherwise = Vec::new();
        for (id, device) in self.volumes.lock().iter() {
            let entry = self.pool.entry(*id)?;
            if let Some(volume) = device.volume().as_ref() {
                let settings = properties::settings(&self.pool, &entry)?;
                volume.dataset().set_settings(settings);
            }
        }
        let mut refused = Ok(());
        for (id, state) in self.mounts.lock().iter() {
            let entry = self.pool.entry(*id)?;
            let settings = self.settings_of(&entry, state.read_only, &state.allowed)?;
            let before = state.dataset.settings().primary_cache;
            state.dataset.set_settings(settings);
            let options = self.restrictions(&entry, state.read_only, &state.allowed)?;
            if before != settings.primary_cache && options.kernel_cache != state.kernel_cache {
                mounted_otherwise.push((*id, options.kernel_cache));
            }
            match state.mount.follow(&options) {
                Err(error @ fuse::Error::OptionsCovered(_)) => failures.push(error.into()),
                followed => refused = refused.and(followed),
            }
            if let Some(mounted) = &state.mounted {
                let (snapdir, _) = properties::effective(&self.pool, &entry, "snapdir")?;
                mounted.set_visible(snapdir == "visible");
            }
        }
        failures.extend(self.to_mount_again(&mounted_otherwise)?);
        failures.extend(self.follow_sharenfs());
        refused?;
        Ok(failures)
    }

    /// Tells of mounts that keep the kernel's cache which they have until they are mounted again.
    fn to_mount_again(&self, mounts: &[(u64, KernelCache)]) -> Result<Option<Failure>> {
        let Some((first, cache)) = mounts.first() else {
            return Ok(None);
        };
        let name = self.pool.name_of(*first)?;
        let more = match mounts.len() - 1 {
            0 => String::new(),
            more => format!(" ({more} more mounts are alike)"),
        };
        let keeps = match cache {
            KernelCache::All => "does not keep contents of its files",
            KernelCache::Metadata | KernelCache::Names => {
                "keeps in its own memory what is read there"
            }
        };
        let why = format!(
            "'{name}' is mounted: the kernel {keeps} as before, until it is mounted again: strongroom \
             unmount {name}, then strongroom mount {name}{more}"
        );
        Ok(Some(Failure::new(FailureKind::Busy, why)))
    }
}
