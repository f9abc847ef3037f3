//! What can be exported.

use std::path::PathBuf;
use std::sync::Arc;

use block::{Access, BlockDevice, FileDevice};
use serde::{Deserialize, Serialize};

use crate::api::Failure;
use crate::failure::Result;
use crate::state::Daemon;

/// A device of some kind, as it is named and remembered. A kind more is a variant here, and an arm in each of
/// these functions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Exportable {
    /// A file or a disk.
    File(PathBuf),
}

impl Exportable {
    /// What a command calls a device.
    pub(crate) fn parse(text: &str) -> Result<Exportable> {
        match text.starts_with('/') {
            true => Ok(Exportable::File(text.into())),
            false => Err(Failure::usage(format!(
                "'{text}' cannot be exported: name a file or a disk by its path, as in /dev/sdb or ./{text}"
            ))),
        }
    }

    /// The same for people.
    pub(crate) fn shown(&self) -> String {
        match self {
            Exportable::File(path) => path.display().to_string(),
        }
    }

    /// Whether it is at one of these paths.
    pub(crate) fn is_at(&self, paths: &[PathBuf]) -> bool {
        match self {
            Exportable::File(path) => paths.contains(path),
        }
    }

    /// What an export of it is called if nobody says otherwise.
    pub(crate) fn default_name(&self) -> String {
        match self {
            Exportable::File(path) => {
                let name = path.file_name().unwrap_or_default();
                name.to_string_lossy().into_owned()
            }
        }
    }
}

impl Daemon {
    /// Opens a device for an export, which has it until it drops it.
    pub(super) fn open_exportable(
        &self,
        device: &Exportable,
        read_only: bool,
    ) -> Result<Arc<dyn BlockDevice>> {
        match device {
            Exportable::File(path) => {
                let access = match read_only {
                    true => Access::ReadOnly,
                    false => Access::Exclusive,
                };
                Ok(Arc::new(FileDevice::open(path, access)?))
            }
        }
    }
}
