//! The commands that serve devices: exports, targets and mappings.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::api::arguments::each_once;
use crate::api::reports::{DeviceUse, MappingChange, MappingKeyPlace, PlainMapping};

/// Offer a device to others.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NbdExport {
    /// The device, as `Exportable` in the daemon has it: an absolute path.
    pub device: String,
    /// The name of the export for clients; the last part of the path if absent.
    pub name: Option<String>,
    /// A description for people.
    pub description: Option<String>,
    /// True if clients cannot change it.
    #[serde(default)]
    pub read_only: bool,
    /// `unix:PATH` or `HOST:PORT`; a socket beside the daemon's if absent.
    pub listen: Option<String>,
    /// A directory with certificates, for TCP.
    pub tls_certificates: Option<PathBuf>,
}

/// Take an export back.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NbdUnexport {
    /// The export.
    pub name: String,
    /// Also from those who use it.
    #[serde(default)]
    pub force: bool,
}

/// Make a device one of the kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NbdAttach {
    /// The device, as `Exportable` in the daemon has it: an absolute path.
    pub device: String,
    /// `/dev/nbdN`; one that is free if absent.
    pub kernel: Option<String>,
    /// True if the kernel cannot change it.
    #[serde(default)]
    pub read_only: bool,
}

/// End a device of the kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NbdDetach {
    /// `/dev/nbdN`, or what is attached to it.
    pub device: String,
    /// Also if it is mounted.
    #[serde(default)]
    pub force: bool,
}

/// Offer a device to initiators.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IscsiExport {
    /// The device, as `Exportable` in the daemon has it: an absolute path.
    pub device: String,
    /// The name of the target; made of that of the device if absent.
    pub name: Option<String>,
    /// True if initiators cannot change it.
    #[serde(default)]
    pub read_only: bool,
    /// `ADDRESS:PORT`; port 3260 of this host only if absent.
    pub portal: Option<String>,
    /// Further portals, at which the target is offered too.
    #[serde(default)]
    pub more_portals: Vec<String>,
    /// The initiators that may log in; all if there are none.
    pub initiators: Vec<String>,
    /// `USER=LOCATION` of the secrets that they prove.
    pub chap: Vec<String>,
    /// The same of the target itself.
    pub own_chap: Option<String>,
    /// True if initiators need not authenticate themselves.
    #[serde(default)]
    pub open: bool,
    /// True if persistent reservations that are kept of the device are forgotten first.
    #[serde(default)]
    pub forget_reservations: bool,
    /// The serial number that initiators know from another storage.
    #[serde(default)]
    pub serial: Option<String>,
    /// The NAA designator that they know, in hexadecimal digits.
    #[serde(default)]
    pub naa: Option<String>,
    /// The size of a block, in bytes.
    #[serde(default)]
    pub block_size: Option<String>,
}

/// Take a target back.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IscsiUnexport {
    /// The target.
    pub name: String,
    /// Also from those who use it.
    #[serde(default)]
    pub force: bool,
}

/// End a session of an initiator.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IscsiKick {
    /// The target.
    pub target: String,
    /// The number of the session there.
    pub number: u16,
}

/// Serve what the file of a pool says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HaStart {
    /// The pool.
    pub pool: String,
    /// Only if it is served already.
    #[serde(default)]
    pub update: bool,
}

/// Serve nothing of a pool any more.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HaStop {
    /// The pool.
    pub pool: String,
}

/// Look whether the file of a pool can be followed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HaVerify {
    /// The pool.
    pub pool: String,
}

/// Look whether this machine could take a pool over.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HaCheck {
    /// The pool, which is usually imported on another machine.
    pub pool: String,
    /// Files, disks, or directories of such; the usual places if empty.
    pub search: Vec<PathBuf>,
}

/// Report the targets and units that a pool serves.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HaStatus {
    /// The pool.
    pub pool: String,
}

/// Open a container.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LuksOpen {
    /// The file or disk.
    pub device: PathBuf,
    /// The device of the header, if it is a separate one.
    pub header: Option<PathBuf>,
    /// The name of the mapping.
    pub name: String,
    /// True if what opens it is asked for as the contents of a key file. The caller reads that.
    #[serde(default)]
    pub with_key_file: bool,
    /// Only this key slot.
    pub key_slot: Option<u32>,
    /// True if writes are refused.
    #[serde(default)]
    pub read_only: bool,
    /// The form in which the mapping is served; the header decides what is absent.
    pub serving: MappingChange,
    /// The provider of the cipher, such as `aws-lc`.
    #[serde(default)]
    pub provider: Option<String>,
    /// True if the header is to say so from now on.
    #[serde(default)]
    pub persistent: bool,
    /// True if sectors with tags are written without the journal.
    #[serde(default)]
    pub no_journal: bool,
    /// True if the journal of sectors with tags is not looked at.
    #[serde(default)]
    pub recovery: bool,
    /// The parameters of the mapping, if there is no header.
    pub plain: Option<Box<PlainMapping>>,
    /// The location of the key at each start, if the daemon is to open the mapping then. The daemon uses it now too.
    pub at_start: Option<Box<MappingKeyPlace>>,
}

/// Close a mapping.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LuksClose {
    /// The mapping.
    pub name: String,
}

/// List the open mappings and their state.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LuksStatus {
    /// These; all if there are none.
    #[serde(deserialize_with = "each_once")]
    pub names: Vec<String>,
}

/// Change how a mapping is served.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LuksRefresh {
    /// The mapping.
    pub name: String,
    /// The settings that change.
    pub change: MappingChange,
    /// The provider of the cipher from now on, such as `aws-lc`.
    #[serde(default)]
    pub provider: Option<String>,
}

/// Make a mapping larger or smaller.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LuksResize {
    /// The mapping.
    pub name: String,
    /// The new size in bytes; the size of the device if absent.
    pub size: Option<u64>,
}

/// Go on with the re-encryption of a container that is open. It pauses when the caller says so or goes away.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LuksReencrypt {
    /// The mapping.
    pub name: String,
    /// True if what opens the container is asked for as the contents of a key file.
    #[serde(default)]
    pub with_key_file: bool,
    /// The longest hot zone, in bytes.
    pub zone: Option<u64>,
}

/// Wipe the key of a mapping; its requests wait.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LuksSuspend {
    /// The mapping.
    pub name: String,
}

/// Give a mapping its key again.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LuksResume {
    /// The mapping.
    pub name: String,
    /// True if what opens the container is asked for as the contents of a key file.
    #[serde(default)]
    pub with_key_file: bool,
    /// Only this key slot.
    pub key_slot: Option<u32>,
}

/// Lend the caller a volume, or the header of a container that is open.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LuksBorrow {
    /// The volume, or the path of the device that the header is on.
    pub device: PathBuf,
    /// The use of the device.
    pub how: DeviceUse,
}
