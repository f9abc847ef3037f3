//! Protectors on another file system than the policies that they open.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use console::outcome::Result;
use keys::kernel;
use protocol::api::Failure;
use rustix::io::Errno;
use stack::formats::fscrypt::tool::{
    Config, Descriptor, Error, MetadataStore, ProtectorEntry, ProtectorLink,
};

use super::keyring::PolicyKeyring;
use super::place::{self, failure};

/// The location of new login protectors for a place: on the root file system if the kernel encrypts at the place. The
/// PAM module of the tool looks for them there.
pub(super) fn login_place(place: &Path) -> Result<PathBuf> {
    let takes_part =
        |directory: &fs::File| matches!(kernel::policy(directory), Ok(_) | Err(Errno::NODATA));
    match PolicyKeyring::of_place(place)? {
        PolicyKeyring::Kernel(_, directory) if takes_part(&directory) => place::root(),
        _ => fs::canonicalize(place).map_err(|error| place::io(place, &error)),
    }
}

/// Has the metadata in `place` lead to a protector on the file system that is mounted at `there`. Returns whether that
/// is new.
pub(super) fn add(
    (place, store): (&Path, &MetadataStore),
    there: &Path,
    descriptor: &Descriptor,
    config: &Config,
    owner: Option<u32>,
) -> Result<bool> {
    let failed = |error| failure(&place.display().to_string(), error);
    match store.protector(descriptor) {
        Err(Error::NotFound(_)) => {}
        Err(error) => return Err(failed(error)),
        Ok(ProtectorEntry::Here(_)) => {
            let message = format!("{}: the protector is here too", place.display());
            return Err(Failure::other(message));
        }
        Ok(ProtectorEntry::Linked(_)) => {
            let (known, _) = place::follow(place, store, descriptor, config)?;
            return match known == there {
                true => Ok(false),
                false => Err(Failure::other(format!(
                    "{}: the link to the protector leads to {}",
                    place.display(),
                    known.display()
                ))),
            };
        }
    }
    let link = ProtectorLink {
        uuid: uuid(there),
        path: there.to_str().map(str::to_owned),
    };
    if link == ProtectorLink::default() {
        let message = format!("{} has no UUID, and its path is no text", there.display());
        return Err(Failure::other(message));
    }
    let put = store.put_link(descriptor, &link, owner);
    put.map(|()| true).map_err(failed)
}

/// The UUID of a file system. Btrfs has another device number than its disk, and so none is found.
fn uuid(mountpoint: &Path) -> Option<String> {
    let device = fs::metadata(mountpoint).ok()?.dev();
    let known = fs::read_dir("/dev/disk/by-uuid").ok()?;
    let mut known = known.flatten();
    let found =
        known.find(|entry| fs::metadata(entry.path()).is_ok_and(|disk| disk.rdev() == device))?;
    found.file_name().into_string().ok()
}
