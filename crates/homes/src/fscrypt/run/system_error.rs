//! Errors of the kernel, as commands report them.

use std::path::Path;

use protocol::api::{Failure, FailureKind};

/// The failure for an error of the kernel.
pub(super) fn io(path: &Path, error: &std::io::Error) -> Failure {
    use rustix::io::Errno;
    let why = match Errno::from_io_error(error) {
        Some(Errno::NODATA) => "it is not encrypted".to_owned(),
        Some(Errno::OPNOTSUPP) => {
            "encryption is not enabled on its file system; for ext4: tune2fs -O encrypt".to_owned()
        }
        Some(Errno::NOTTY) => "its file system has no encryption of the kernel".to_owned(),
        Some(Errno::NOTEMPTY) => "it is not empty".to_owned(),
        Some(Errno::NOKEY) => "its key is not loaded".to_owned(),
        _ => error.to_string(),
    };
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => FailureKind::NotFound,
        std::io::ErrorKind::PermissionDenied => FailureKind::Permission,
        std::io::ErrorKind::AlreadyExists => FailureKind::Exists,
        std::io::ErrorKind::StorageFull => FailureKind::NoSpace,
        _ => FailureKind::Other,
    };
    Failure::new(kind, format!("{}: {why}", path.display()))
}
