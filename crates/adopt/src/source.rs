//! The directory that is copied. An encrypted one is shown in clear to this process, read-only, while it is copied.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use console::session::{other, usage};
use fuse::FuseMount;
use homes::stack::run::{EncryptionFormat, encrypted, show_gocryptfs};
use protocol::api::Failure;

use crate::args::Adopt;
use crate::copy::node::FileNode;
use crate::place;

pub(crate) enum CopySource {
    Plain(PathBuf),
    Shown(PrivateMount),
}

/// A private mount, which ends with this.
pub(crate) struct PrivateMount {
    mount: Option<FuseMount>,
    place: PathBuf,
}

impl CopySource {
    pub(crate) fn open(args: &Adopt) -> Result<CopySource, Failure> {
        let dir = &args.source;
        match encrypted(dir)? {
            Some(EncryptionFormat::Gocryptfs) => {
                PrivateMount::new(dir, args.passfile.as_deref()).map(CopySource::Shown)
            }
            Some(EncryptionFormat::Other(format)) => Err(usage(format!(
                "'{}' is encrypted by {format}: mount it first, 'strongroom stack mount --read-only', and name the \
                 directory where it is mounted",
                dir.display()
            ))),
            None if args.passfile.is_some() => Err(usage(format!(
                "'{}' is not a directory of gocryptfs: it has no gocryptfs.conf. Leave out --passfile",
                dir.display()
            ))),
            None => Ok(CopySource::Plain(dir.clone())),
        }
    }

    /// The directory with the files in clear.
    pub(crate) fn dir(&self) -> Result<FileNode, Failure> {
        match self {
            CopySource::Plain(dir) => place::open(dir),
            CopySource::Shown(shown) => place::open(&shown.place),
        }
    }
}

impl PrivateMount {
    fn new(dir: &Path, passfile: Option<&Path>) -> Result<PrivateMount, Failure> {
        let place = private_dir()?;
        let mut shown = PrivateMount { mount: None, place };
        shown.mount = Some(show_gocryptfs(dir, passfile, &shown.place)?);
        Ok(shown)
    }
}

impl Drop for PrivateMount {
    fn drop(&mut self) {
        drop(self.mount.take());
        let _ = std::fs::remove_dir(&self.place);
    }
}

/// A new directory for this user only.
fn private_dir() -> Result<PathBuf, Failure> {
    let above = std::env::temp_dir();
    let process = std::process::id();
    for number in 0_u32.. {
        let place = above.join(format!("strongroom-adopt-{process}-{number}"));
        match DirBuilder::new().mode(0o700).create(&place) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(other(format!("cannot make '{}': {error}", place.display())));
            }
            Ok(()) => return Ok(place),
        }
    }
    Err(other(format!("'{}' has no free name", above.display())))
}
