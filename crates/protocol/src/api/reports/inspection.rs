//! The answer to an inspection.

use serde::{Deserialize, Serialize};

/// The structures of a pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Inspection {
    /// The pool's name and guid.
    pub pool: String,
    /// The guid of the pool.
    pub guid: u64,
    /// Superblocks, the newest first.
    pub superblocks: Vec<SuperblockRow>,
    /// Datasets and snapshots.
    pub datasets: Vec<InspectedDataset>,
    /// Bytes for records, and free.
    pub total: u64,
    /// Bytes free.
    pub free: u64,
    /// The check, if one was asked for.
    pub check: Option<CheckRow>,
}

/// A superblock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SuperblockRow {
    /// The transaction group of the superblock.
    pub txg: u64,
    /// Seconds since 1970.
    pub time: u64,
    /// The state of the pool: in use, exported or destroyed.
    pub state: String,
    /// The host.
    pub host: String,
    /// The number of the host; 0 if it has none, or it is not known.
    #[serde(default)]
    pub host_id: u32,
}

/// The facts about a dataset that can be read without its key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InspectedDataset {
    /// The name of the dataset.
    pub name: String,
    /// The id of the dataset in the pool.
    pub id: u64,
    /// The guid of the dataset.
    pub guid: u64,
    /// The clone family of the dataset.
    pub family: u64,
    /// The transaction group that made it.
    pub created_txg: u64,
    /// The suite of its records.
    pub suite: String,
    /// The size of a volume and of its blocks, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<(u64, u32)>,
    /// Bytes that it reaches.
    pub referenced: u64,
    /// Bytes in its deadlist.
    pub dead: u64,
    /// The number of times it was sealed.
    pub sequence: u64,
    /// The seal, in hexadecimal.
    pub seal: String,
    /// The roots of its arrays.
    pub roots: Vec<PointerRow>,
    /// The keyring: generation by generation.
    pub keychain: Vec<KeychainRow>,
    /// The reason for which the keyring cannot be read, if so.
    pub keychain_error: Option<String>,
    /// Some of its records, if asked for.
    pub records: Vec<PointerRow>,
    /// The intent log, if the dataset has one.
    #[serde(default)]
    pub log: Option<LogRow>,
}

/// The facts about a log that can be read without the key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogRow {
    /// Names the ring, in hexadecimal.
    pub chain: String,
    /// The number of its first entry.
    pub sequence: u64,
    /// The arrays hold everything up to this transaction group.
    pub base: u64,
    /// The offset of the first entry in the first chunk.
    pub offset: u32,
    /// The chunks of the log.
    pub chunks: Vec<ChunkRow>,
    /// The number of whole entries it has.
    pub count: u64,
    /// True if an entry is damaged that had been durable.
    pub is_damaged: bool,
    /// Some of its entries, if asked for.
    pub entries: Vec<LogEntryRow>,
}

/// A run of units that a log lies in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChunkRow {
    /// `group/segment:offset`.
    pub place: String,
    /// Bytes.
    pub size: u32,
}

/// The clear header of an entry of a log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogEntryRow {
    /// The number of the entry in the chain.
    pub sequence: u64,
    /// Entries up to this one were durable when it was written.
    pub flushed: u64,
    /// `group/segment:offset`.
    pub place: String,
    /// Bytes, header included.
    pub size: u32,
    /// The number of records it points to.
    pub records: u32,
    /// The generation of the keyring.
    pub generation: u32,
    /// Nonce and tag, in hexadecimal.
    pub identity: String,
}

/// A generation of a keyring.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeychainRow {
    /// The number of the generation.
    pub generation: u32,
    /// The transaction group that made it.
    pub txg: u64,
    /// Bytes of its wrapped keys.
    pub wrapped_len: u64,
    /// The algorithm that wraps them.
    pub algorithm: String,
}

/// A record pointer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PointerRow {
    /// `pages` or `data`, and the slot where it is a record.
    pub what: String,
    /// Levels above the records.
    pub level: u8,
    /// `group/segment:offset` of each copy.
    pub places: Vec<String>,
    /// Bytes on disk of one copy.
    pub disk_size: u32,
    /// Bytes before compression.
    pub logical_size: u32,
    /// The transaction group in which the record was written.
    pub birth: u64,
    /// The generation of the keyring.
    pub generation: u32,
    /// The checksum, in hexadecimal.
    pub checksum: String,
    /// Nonce and tag of a record, or hash of a node, in hexadecimal.
    pub identity: String,
}

/// The outcome of a check.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckRow {
    /// Datasets and snapshots visited.
    pub datasets: u64,
    /// Records visited.
    pub records: u64,
    /// Nodes visited.
    pub nodes: u64,
    /// Bytes accounted for.
    pub bytes: u64,
    /// The first problem.
    pub findings: Vec<String>,
    /// The number of problems.
    pub count: u64,
}
