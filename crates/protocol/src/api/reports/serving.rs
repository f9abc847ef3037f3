//! Block devices that the daemon serves: exports and LUKS mappings.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// An export.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExportRow {
    /// The name of the export for clients.
    pub name: String,
    /// The device.
    pub device: String,
    /// A description for people; empty if none was given.
    pub description: String,
    /// The size in bytes; absent if the device is not open.
    pub size: Option<u64>,
    /// True if clients cannot change it.
    pub read_only: bool,
    /// The address: `unix:PATH` or `HOST:PORT`.
    pub listen: String,
    /// The address and the name of the export as a URI, which clients take.
    pub uri: String,
    /// The number of clients.
    pub connections: usize,
    /// The persistent reservation, if the export is a target of iSCSI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<ReservationRow>,
    /// The reason for which the device is not open.
    pub failure: Option<String>,
}

/// The persistent reservation of the unit of a target.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReservationRow {
    /// The number of initiators that have registered a key.
    pub registrations: usize,
    /// The type of the reservation, if there is one.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The initiators that hold it.
    pub holders: Vec<String>,
}

/// A session of an initiator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionRow {
    /// The target that it uses.
    pub target: String,
    /// The number of the session at the target.
    pub number: u16,
    /// The name of the initiator.
    pub initiator: String,
    /// The address of the initiator.
    pub address: String,
    /// True if it has registered a key for persistent reservations.
    #[serde(default)]
    pub registered: bool,
}

/// The targets and units that a pool serves by its file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HaReport {
    /// The pool.
    pub pool: String,
    /// The name of the file; absent if the pool is not served.
    pub file: Option<String>,
    /// The targets.
    pub targets: Vec<HaTargetRow>,
    /// The units, by number.
    pub units: Vec<HaUnitRow>,
}

/// A target that a pool serves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HaTargetRow {
    /// The name of the target for initiators.
    pub name: String,
    /// `ADDRESS:PORT`.
    pub portals: Vec<String>,
    /// `ADDRESS:PORT > ADDRESS:PORT`: portals that send initiators to others.
    pub redirects: Vec<String>,
    /// True if initiators prove a secret.
    pub chap: bool,
    /// The number of sessions.
    pub sessions: usize,
}

/// A volume that a pool serves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HaUnitRow {
    /// The name of the volume.
    pub volume: String,
    /// The number of the unit at the targets.
    pub lun: u16,
    /// The serial number, which never changes.
    pub serial: String,
    /// The targets that show it.
    pub targets: Vec<String>,
    /// The reason for which the unit is not served yet.
    pub waits: Option<String>,
}

/// A mapping without a header.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainMapping {
    /// The cipher, such as `aes-xts-plain64`.
    pub cipher: String,
    /// The length of the key, in bytes.
    pub key_len: usize,
    /// The hash that makes the key of a passphrase.
    pub hash: String,
    /// The beginning of the data, in bytes.
    pub offset: u64,
    /// The length of the data, in bytes; to the end of the device if absent.
    pub len: Option<u64>,
    /// The number of the first sector.
    pub skip: u64,
    /// The size of a sector of the encryption, in bytes.
    pub sector_size: u32,
}

/// The location of the key of a mapping that the daemon opens when it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum MappingKeyPlace {
    /// A person types it. At a start nobody does, so the mapping waits.
    Prompt,
    /// A part of a file that only the daemon's user can read.
    File {
        /// From the root.
        path: PathBuf,
        /// The offset of the key in the file, in bytes.
        offset: u64,
        /// The number of bytes of the key; to the end of the file if absent.
        len: Option<usize>,
    },
    /// An object in a PKCS#11 token.
    Pkcs11 {
        /// With the path of its module, and of the file with the PIN unless a person types that.
        uri: String,
    },
    /// Tokens in the header of the container that need no person.
    Token {
        /// Only this one.
        id: Option<u32>,
        /// Only those of this type.
        kind: Option<String>,
        /// The file of signatures of PCRs.
        signature: Option<PathBuf>,
    },
}

/// The form in which a mapping is to be served; what is absent stays.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MappingChange {
    /// True if reads are queued.
    pub read_workqueue: Option<bool>,
    /// True if writes are queued.
    pub write_workqueue: Option<bool>,
    /// True if queued requests are encrypted and decrypted on the thread that asks.
    pub same_cpu: Option<bool>,
    /// True if queued writes go to the device from one thread, sorted.
    pub sort_writes: Option<bool>,
    /// True if discards are passed on.
    pub allow_discards: Option<bool>,
}

/// An open mapping.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MappingRow {
    /// The name of the mapping.
    pub name: String,
    /// `LUKS1`, `LUKS2` or `PLAIN`.
    pub kind: String,
    /// The file or disk.
    pub device: String,
    /// The device of the header, if it is a separate one.
    pub header: Option<String>,
    /// The UUID of the container.
    pub uuid: Option<String>,
    /// The key slot that opened it.
    pub slot: Option<u32>,
    /// The cipher, such as `aes-xts-plain64`.
    pub cipher: String,
    /// The provider of the cipher, such as `aws-lc`, where it can be chosen.
    #[serde(default)]
    pub provider: Option<String>,
    /// The length of its key.
    pub key_bits: usize,
    /// The size of a sector of the encryption, in bytes.
    pub sector_size: u32,
    /// The beginning of the data on the device, in bytes.
    pub offset: u64,
    /// The number of the first sector for the tweak.
    pub iv_offset: u64,
    /// The length of the data, in bytes.
    pub size: u64,
    /// True if writes are refused.
    pub read_only: bool,
    /// True if discards are passed on.
    pub allow_discards: bool,
    /// True if reads are queued.
    pub read_workqueue: bool,
    /// True if writes are queued.
    pub write_workqueue: bool,
    /// True if queued requests are encrypted and decrypted on the thread that asks.
    pub same_cpu: bool,
    /// True if queued writes go to the device from one thread, sorted.
    pub sort_writes: bool,
    /// True if sectors with tags are written without the journal.
    #[serde(default)]
    pub no_journal: bool,
    /// True if the journal of sectors with tags is not looked at.
    #[serde(default)]
    pub recovery: bool,
    /// True if its key is gone, and requests wait.
    #[serde(default)]
    pub suspended: bool,
    /// The progress of the re-encryption, if one is under way.
    pub reencryption: Option<MappingReencryption>,
    /// The number of users of the mapping.
    pub users: usize,
    /// True if the daemon opens it at each start.
    pub at_start: bool,
    /// The reason for which the daemon could not open the mapping. Then only its names and devices are known.
    pub waits: Option<String>,
    /// Reads on the thread that asked.
    pub read_inline: MappingTimes,
    /// Reads by the pool of threads.
    pub read_queued: MappingTimes,
    /// Writes on the thread that asked.
    pub write_inline: MappingTimes,
    /// Writes by the pool of threads.
    pub write_queued: MappingTimes,
}

/// The progress of the re-encryption of an open container, in bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct MappingReencryption {
    /// The bytes that are encrypted anew.
    pub done: u64,
    /// All data.
    pub total: u64,
    /// True if it goes on now.
    #[serde(default)]
    pub running: bool,
    /// The speed, in bytes a second.
    #[serde(default)]
    pub speed: Option<u64>,
    /// The time until the end, in seconds.
    #[serde(default)]
    pub seconds_left: Option<u64>,
}

/// The requests that a mapping served in one form.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MappingTimes {
    /// Requests.
    pub count: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// The number of requests that failed.
    pub errors: u64,
    /// The longest time of the fastest half, in nanoseconds.
    pub p50_ns: Option<u64>,
    /// The longest time of the fastest 99 of 100.
    pub p99_ns: Option<u64>,
    /// The longest time of the fastest 999 of 1000.
    pub p999_ns: Option<u64>,
}

/// The use that the borrower of a device makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceUse {
    /// Reads its header, even while it is in use.
    Look,
    /// Changes its header in ways that leave an open container as it is.
    ChangeHeader,
    /// Uses it alone.
    Own,
}

/// A device that is lent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BorrowedDevice {
    /// The name of the device in messages.
    pub name: String,
    /// The size of the device, in bytes.
    pub size: u64,
    /// The logical sector size, in bytes.
    pub logical: u32,
    /// The physical sector size, in bytes.
    pub physical: u32,
}

/// A request to a borrowed device.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceRequest {
    /// Read: if that is done, data follows the answer.
    Read {
        /// From where, in bytes.
        offset: u64,
        /// The length, in bytes; no more than a piece of data.
        len: u32,
    },
    /// Write the data that follows.
    Write {
        /// The offset to write to, in bytes.
        offset: u64,
    },
    /// Make what was written durable.
    Flush,
    /// Take the device back.
    End,
}

/// The answer to a request to a device.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceAnswer {
    /// The request succeeded.
    Done,
    /// The request failed.
    Failed {
        /// The error.
        message: String,
        /// True if there was no free space.
        is_no_space: bool,
    },
}
