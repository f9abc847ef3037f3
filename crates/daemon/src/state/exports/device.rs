//! The kinds of devices that can be exported.

use std::path::{Path, PathBuf};

use protocol::device_name::DeviceName;
use protocol::nbd_uri::NbdUri;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};
use crate::state::devices::device_name;

/// An exportable device, by its name. Another kind is another variant, and an arm in each of these functions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Exportable {
    /// A file or a disk.
    File(PathBuf),
    /// An open LUKS mapping, by its name.
    Luks(String),
    /// A volume, or a snapshot of one, by its name.
    Volume(String),
    /// An export of another NBD server, by its address.
    Nbd(String),
}

impl Exportable {
    /// Parses the name of a device in a command.
    pub(crate) fn parse(text: &str) -> Result<Exportable> {
        let text = match DeviceName::parse(text) {
            DeviceName::Luks(name) => return Ok(Exportable::Luks(name.into())),
            DeviceName::Path(path) if path.has_root() => {
                return Ok(Exportable::File(path.into()));
            }
            DeviceName::Path(_) => text,
            DeviceName::Volume(name) => name,
            name @ DeviceName::Nbd(_) => return Ok(Exportable::Nbd(name.canonical()?)),
            name @ (DeviceName::Object(_) | DeviceName::Unsupported(_)) => {
                name.of_blocks()?;
                text
            }
        };
        match device_name::is_name(text) {
            true => Ok(Exportable::Volume(text.into())),
            false => Err(Failure::usage(format!(
                "'{text}' cannot be exported: name a volume, as in tank/disk, a file or a disk by its path, as in \
                 /dev/sdb or ./{text}, or a mapping as luks:NAME"
            ))),
        }
    }

    /// The name for opening.
    pub(crate) fn name(&self) -> DeviceName<'_> {
        match self {
            Exportable::File(path) => DeviceName::Path(path),
            Exportable::Luks(name) => DeviceName::Luks(name),
            Exportable::Volume(name) => DeviceName::Volume(name),
            Exportable::Nbd(name) => DeviceName::Nbd(name),
        }
    }

    /// The name in reports.
    pub(crate) fn shown(&self) -> String {
        match self {
            Exportable::Volume(name) => name.clone(),
            _ => self.name().to_string(),
        }
    }

    /// Returns whether the device is at one of these paths.
    pub(crate) fn is_at(&self, paths: &[PathBuf]) -> bool {
        match self {
            Exportable::File(path) => paths.iter().any(|other| device_name::is_same(path, other)),
            Exportable::Luks(_) => false,
            Exportable::Volume(_) => false,
            Exportable::Nbd(name) => {
                let name = Path::new(name);
                paths.iter().any(|other| device_name::is_same(name, other))
            }
        }
    }

    /// The default name of an export of it.
    pub(crate) fn default_name(&self) -> String {
        match self {
            Exportable::File(path) => {
                let name = path.file_name().unwrap_or_default();
                name.to_string_lossy().into_owned()
            }
            Exportable::Luks(name) => name.clone(),
            Exportable::Volume(name) => name.clone(),
            Exportable::Nbd(name) => NbdUri::parse(name).map_or(String::new(), |uri| uri.export),
        }
    }
}
