//! Mounts of volumes with files.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use protocol::api::{MountPermissions, command};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::mounts::{self, KernelMount, ServedFiles};
use super::target::{MountTarget, open_own, taken};
use crate::driver::CsiDriver;
use crate::names::{VolumeId, shown};
use crate::status::{GrpcStatus, Result};
use crate::volumes::VolumeDataset;

impl CsiDriver {
    /// The directory where the daemon mounts a volume.
    pub(super) fn mount_dir(&self, id: &VolumeId) -> PathBuf {
        self.settings.mounts.join(id.as_str())
    }

    /// The dataset and mount of a volume with files, as the daemon serves it.
    pub(super) fn served(&self, id: &VolumeId) -> Result<ServedFiles> {
        let dataset = id.dataset(&self.settings.parent);
        let device = self.daemon.mount_of(&dataset)?.map(|row| row.device);
        Ok(ServedFiles { dataset, device })
    }

    /// The root of the daemon's mount of a volume, if the driver sees it. A daemon that ended may have left it.
    pub(super) fn own_mount(
        &self,
        id: &VolumeId,
        files: &ServedFiles,
    ) -> Result<Option<(OwnedFd, KernelMount)>> {
        let root = match open_own(self.mount_dir(id)) {
            Ok(root) => root,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(std::io::Error::from(error).into()),
        };
        let above = open_own(&self.settings.mounts).map_err(std::io::Error::from)?;
        let mount = mounts::at(&root, above)?.filter(|mount| files.has(mount, &root));
        Ok(mount.map(|mount| (root, mount)))
    }

    /// Has a volume at a path, with these options besides those of the dataset. A path of a container has a guard.
    pub(super) fn show_files(
        &self,
        volume: &VolumeDataset,
        (target, is_guarded): (&MountTarget, bool),
        flags: MountFlags,
    ) -> Result<()> {
        let (source, mount, files) = self.mount_files(volume)?;
        let flags = mount.flags | flags;
        match target.mounted()? {
            None => {}
            Some(there) if !target.has(&files, &there) => return Err(taken(&there.place)),
            Some(there) if there.device == mount.device => {
                return match there.flags == flags {
                    true => Ok(()),
                    false => Err(taken(&there.place)),
                };
            }
            // What a daemon left that ended.
            Some(_) => target.unmount(|there| target.has(&files, there))?,
        }
        let is_new = target.make_dir()?;
        if is_guarded {
            target.guard(true)?;
        }
        let flags = (flags != mount.flags).then_some(flags);
        target.mount(source.as_fd(), flags).inspect_err(|_| {
            if is_new {
                let _ = target.remove();
            }
        })
    }

    /// Has the daemon mount a volume, if it is not. Returns the root of the mount.
    fn mount_files(&self, volume: &VolumeDataset) -> Result<(OwnedFd, KernelMount, ServedFiles)> {
        let dataset = volume.id.dataset(&self.settings.parent);
        let dir = self.mount_dir(&volume.id);
        let there = self.daemon.mount_of(&dataset)?;
        if there.is_none() {
            self.daemon.call(command::Mount {
                name: Some(dataset.clone()),
                dir: Some(dir.clone()),
                load_keys: true,
                read_only: false,
                overlay: false,
                give_up_log: false,
                // Containers get device nodes from their runtime.
                allowed: MountPermissions {
                    devices: Some(false),
                    ..MountPermissions::default()
                },
            })?;
        }
        let files = self.served(&volume.id)?;
        let own = self.own_mount(&volume.id, &files)?;
        let (root, mount) = own.ok_or_else(|| {
            let place = there.map_or_else(|| dir.display().to_string(), |there| there.dir);
            GrpcStatus::precondition(format!(
                "'{dataset}' is mounted at {}, which the driver does not see as {}: unmount it, and give the daemon \
                 and the driver that directory with bidirectional mount propagation",
                shown(&place),
                dir.display()
            ))
        })?;
        Ok((root, mount, files))
    }
}
