//! What an inspection returns.

use serde::{Deserialize, Serialize};

/// The structures of a pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Inspection {
    /// The pool's name and guid.
    pub pool: String,
    /// Its guid.
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
    /// Its transaction group.
    pub txg: u64,
    /// Seconds since 1970.
    pub time: u64,
    /// What became of the pool.
    pub state: String,
    /// The host.
    pub host: String,
    /// The number of the host; 0 if it has none, or it is not known.
    #[serde(default)]
    pub host_id: u32,
}

/// What is known of a dataset without its key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InspectedDataset {
    /// Its name.
    pub name: String,
    /// Its id in the pool.
    pub id: u64,
    /// Its guid.
    pub guid: u64,
    /// Its family.
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
    /// How many times it was sealed.
    pub sequence: u64,
    /// The seal, in hexadecimal.
    pub seal: String,
    /// The roots of its arrays.
    pub roots: Vec<PointerRow>,
    /// The keyring: generation by generation.
    pub keychain: Vec<KeychainRow>,
    /// Why the keyring cannot be read, if so.
    pub keychain_error: Option<String>,
    /// Some of its records, if asked for.
    pub records: Vec<PointerRow>,
    /// Its log, if it has one.
    #[serde(default)]
    pub log: Option<LogRow>,
}

/// What is known of a log without the key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogRow {
    /// Names the ring, in hexadecimal.
    pub chain: String,
    /// The number of its first entry.
    pub sequence: u64,
    /// The arrays hold everything up to this transaction group.
    pub base: u64,
    /// Where the first entry is in the first chunk.
    pub offset: u32,
    /// Its chunks.
    pub chunks: Vec<ChunkRow>,
    /// How many whole entries it has.
    pub count: u64,
    /// Whether an entry is damaged that had been durable.
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
    /// Its number in the chain.
    pub sequence: u64,
    /// Entries up to this one were durable when it was written.
    pub flushed: u64,
    /// `group/segment:offset`.
    pub place: String,
    /// Bytes, header included.
    pub size: u32,
    /// How many records it points to.
    pub records: u32,
    /// The generation of the keyring.
    pub generation: u32,
    /// Nonce and tag, in hexadecimal.
    pub identity: String,
}

/// A generation of a keyring.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeychainRow {
    /// Its number.
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
    /// When it was written.
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
