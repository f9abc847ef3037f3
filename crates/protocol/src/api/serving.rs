//! Block devices that the daemon serves: exports and LUKS mappings.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// An export.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExportRow {
    /// What clients call it.
    pub name: String,
    /// The device.
    pub device: String,
    /// A description for people; empty if none was given.
    pub description: String,
    /// How large it is, in bytes; absent if it is not open.
    pub size: Option<u64>,
    /// Whether clients cannot change it.
    pub read_only: bool,
    /// Where it is offered: `unix:PATH` or `HOST:PORT`.
    pub listen: String,
    /// The address and the name of the export as a URI, which clients take.
    pub uri: String,
    /// How many use it.
    pub connections: usize,
    /// Who has reserved it, if it is a target of iSCSI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<ReservationRow>,
    /// Why it is not open.
    pub failure: Option<String>,
}

/// Who has reserved the unit of a target.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReservationRow {
    /// How many initiators have registered a key.
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
    /// Its number there.
    pub number: u16,
    /// The name of the initiator.
    pub initiator: String,
    /// Its address.
    pub address: String,
    /// Whether it has registered a key for persistent reservations.
    #[serde(default)]
    pub registered: bool,
}

/// What a pool serves by its file.
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
    /// Its name for initiators.
    pub name: String,
    /// `ADDRESS:PORT`.
    pub portals: Vec<String>,
    /// `ADDRESS:PORT > ADDRESS:PORT`: portals that send initiators to others.
    pub redirects: Vec<String>,
    /// Whether initiators prove a secret.
    pub chap: bool,
    /// How many sessions there are.
    pub sessions: usize,
}

/// A volume that a pool serves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HaUnitRow {
    /// Its name.
    pub volume: String,
    /// Its number at the targets.
    pub lun: u16,
    /// Its serial number, which never changes.
    pub serial: String,
    /// The targets that show it.
    pub targets: Vec<String>,
    /// Why it is not served yet.
    pub waits: Option<String>,
}

/// A mapping without a header.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainMapping {
    /// As `aes-xts-plain64`.
    pub cipher: String,
    /// The length of the key, in bytes.
    pub key_len: usize,
    /// What makes it of a passphrase.
    pub hash: String,
    /// Where data begins, in bytes.
    pub offset: u64,
    /// How long it is, in bytes; to the end of the device if absent.
    pub len: Option<u64>,
    /// The number of the first sector.
    pub skip: u64,
    /// What is encrypted as one, in bytes.
    pub sector_size: u32,
}

/// Where the daemon finds the key of a mapping when it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum MappingKeyPlace {
    /// A person types it. At a start nobody does, so the mapping waits.
    Prompt,
    /// A part of a file that only the daemon's user can read.
    File {
        /// From the root.
        path: PathBuf,
        /// How many bytes come before it.
        offset: u64,
        /// How many bytes it has; to the end of the file if absent.
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

/// How a mapping is to be served; what is absent stays.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MappingChange {
    /// Whether reads are queued.
    pub read_workqueue: Option<bool>,
    /// Whether writes are queued.
    pub write_workqueue: Option<bool>,
    /// Whether queued requests are encrypted and decrypted on the thread that asks.
    pub same_cpu: Option<bool>,
    /// Whether queued writes go to the device from one thread, sorted.
    pub sort_writes: Option<bool>,
    /// Whether discards are passed on.
    pub allow_discards: Option<bool>,
}

/// An open mapping.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MappingRow {
    /// Its name.
    pub name: String,
    /// `LUKS1`, `LUKS2` or `PLAIN`.
    pub kind: String,
    /// The file or disk.
    pub device: String,
    /// Where the header is, if elsewhere.
    pub header: Option<String>,
    /// The UUID of the container.
    pub uuid: Option<String>,
    /// The key slot that opened it.
    pub slot: Option<u32>,
    /// As `aes-xts-plain64`.
    pub cipher: String,
    /// Who computes the cipher, as `aws-lc`, where that can be chosen.
    #[serde(default)]
    pub provider: Option<String>,
    /// The length of its key.
    pub key_bits: usize,
    /// What is encrypted as one, in bytes.
    pub sector_size: u32,
    /// Where data begins on the device, in bytes.
    pub offset: u64,
    /// The number of the first sector for the tweak.
    pub iv_offset: u64,
    /// How long it is, in bytes.
    pub size: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether discards are passed on.
    pub allow_discards: bool,
    /// Whether reads are queued.
    pub read_workqueue: bool,
    /// Whether writes are queued.
    pub write_workqueue: bool,
    /// Whether queued requests are encrypted and decrypted on the thread that asks.
    pub same_cpu: bool,
    /// Whether queued writes go to the device from one thread, sorted.
    pub sort_writes: bool,
    /// Whether sectors with tags are written without the journal.
    #[serde(default)]
    pub no_journal: bool,
    /// Whether the journal of sectors with tags is not looked at.
    #[serde(default)]
    pub recovery: bool,
    /// Whether its key is gone, and requests wait.
    #[serde(default)]
    pub suspended: bool,
    /// How far its re-encryption is, if one is under way.
    pub reencryption: Option<MappingReencryption>,
    /// How many use it.
    pub users: usize,
    /// Whether the daemon opens it at each start.
    pub at_start: bool,
    /// Why it is not open, if the daemon could not open it. Then only its names and devices are known.
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

/// How far the re-encryption of a container is that is open, in bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct MappingReencryption {
    /// What is encrypted anew.
    pub done: u64,
    /// All data.
    pub total: u64,
    /// Whether it goes on now.
    #[serde(default)]
    pub running: bool,
    /// How fast it goes on, in bytes a second.
    #[serde(default)]
    pub speed: Option<u64>,
    /// How long it will take from now on, in seconds.
    #[serde(default)]
    pub seconds_left: Option<u64>,
}

/// What a mapping served in one form.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MappingTimes {
    /// Requests.
    pub count: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// How many failed.
    pub errors: u64,
    /// What half of them took at most, in nanoseconds.
    pub p50_ns: Option<u64>,
    /// What 99 of 100 took at most.
    pub p99_ns: Option<u64>,
    /// What 999 of 1000 took at most.
    pub p999_ns: Option<u64>,
}

/// What the borrower of a device does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Borrowing {
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
    /// What it is called in messages.
    pub name: String,
    /// Its size, in bytes.
    pub size: u64,
    /// Its logical sectors, in bytes.
    pub logical: u32,
    /// Its physical ones.
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
        /// How much, in bytes; no more than a piece of data.
        len: u32,
    },
    /// Write the data that follows.
    Write {
        /// Where to, in bytes.
        offset: u64,
    },
    /// Make what was written durable.
    Flush,
    /// Take the device back.
    End,
}

/// What came of a request to a device.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceAnswer {
    /// It is done.
    Done,
    /// It is not.
    Failed {
        /// What happened.
        message: String,
        /// Whether there was no free space.
        is_no_space: bool,
    },
}
