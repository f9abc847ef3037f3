//! The entry of a dataset or snapshot in the dataset table.

use std::collections::BTreeMap;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::format::codec::{ValueReader, ValueWriter};
use crate::format::logs::log_head::{HeadRecord, LogHead};
use crate::format::records::pointer::RecordPtr;

const MAGIC: u32 = u32::from_le_bytes(*b"DSET");
const VERSION: u16 = 1;

/// Values of a property are no longer than this.
pub const PROPERTY_MAX: usize = 8192;

/// The bytes that properties take in an entry.
pub(crate) fn text_bytes(props: &BTreeMap<String, String>) -> usize {
    let texts = props.iter();
    texts.map(|(key, value)| key.len() + value.len() + 4).sum()
}

/// The kind of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DatasetKind {
    /// Files.
    FileSystem = 1,
    /// A block device.
    Volume = 2,
    /// An earlier state of one of these.
    Snapshot = 3,
}

/// The key blocks with the wrapped keys of a dataset, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyringRef {
    /// The blocks of the key area.
    pub blocks: Vec<u32>,
    /// Bytes in all of them.
    pub len: u32,
    /// BLAKE3 of the bytes, cut to 128 bits.
    pub checksum: [u8; 16],
}

/// A dataset or snapshot, in the clear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The number of the entry in this pool, never used again.
    pub id: u64,
    /// The number of the entry everywhere.
    pub guid: u64,
    /// Shared by a dataset, its snapshots and their clones.
    pub family: u64,
    /// The dataset above; of a snapshot, its dataset. 0 for the root of the pool.
    pub parent: u64,
    /// The last part of its name.
    pub name: String,
    /// The kind of the entry.
    pub kind: DatasetKind,
    /// The transaction group that made it. A snapshot has the records that were born in it or before.
    pub created_txg: u64,
    /// The time when the entry was created, in seconds since 1970.
    pub created: u64,
    /// The cipher suite of its records, 0 if they are clear.
    pub suite: u8,
    /// The dataset whose key slots unwrap its keys; itself if it has slots; 0 if it is clear.
    pub key_root: u64,
    /// The wrapped keys.
    pub keyring: Option<KeyringRef>,
    /// The roots of its arrays, by [`crate::ArrayKind`].
    pub roots: [RecordPtr; 2],
    /// Counts the seals. After a rollback it is the snapshot's again, until the next seal.
    pub sequence: u64,
    /// The highest count that a rollback took away: the next seal's is above it, so that no two
    /// states of a dataset share one.
    pub sequence_past: u64,
    /// Made by the key holder over the identities of the roots.
    pub seal: [u8; 32],
    /// The snapshot before it, 0 if there is none.
    pub prev_snap: u64,
    /// The transaction group in which that snapshot was made.
    pub prev_snap_txg: u64,
    /// The next snapshot, or the dataset itself, for a snapshot.
    pub next: u64,
    /// The snapshot it was cloned from.
    pub origin: u64,
    /// Records that it no longer has and the snapshot before it has, by the oldest snapshot that has
    /// them.
    pub deadlist: RecordPtr,
    /// Bytes in the deadlist.
    pub dead_bytes: u64,
    /// Bytes on disk that it reaches.
    pub referenced: u64,
    /// The bytes on disk that a dataset and its snapshots take together.
    pub used: u64,
    /// Bytes of its records before compression.
    pub logical: u64,
    /// The beginning of the log.
    pub log: LogHead,
    /// Properties that are set here.
    pub props: BTreeMap<String, String>,
}

/// The numbers of an entry, as they lie on disk before its texts.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct EntryNumbers {
    numbers: [[u8; 8]; 17],
    seal: [u8; 32],
    roots: [RecordPtr; 2],
    deadlist: RecordPtr,
    log: HeadRecord,
}

impl Entry {
    /// The record that holds the entry, not yet padded.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let numbers = [
            self.id,
            self.guid,
            self.family,
            self.parent,
            self.created_txg,
            self.created,
            self.key_root,
            self.sequence,
            self.prev_snap,
            self.prev_snap_txg,
            self.next,
            self.origin,
            self.dead_bytes,
            self.referenced,
            self.used,
            self.logical,
            self.sequence_past,
        ];
        let fixed = EntryNumbers {
            numbers: numbers.map(u64::to_le_bytes),
            seal: self.seal,
            roots: self.roots,
            deadlist: self.deadlist,
            log: self.log.to_record(),
        };
        let mut w = ValueWriter::default();
        w.u32(MAGIC).u16(VERSION).u8(self.kind as u8).u8(self.suite);
        w.value(&fixed).text(&self.name);
        encode_keyring(&mut w, self.keyring.as_ref());
        w.u16(self.props.len() as u16);
        for (key, value) in &self.props {
            w.text(key).text(value);
        }
        w.bytes
    }

    /// Reads an entry; `None` if the bytes are not one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Entry> {
        let mut r = ValueReader::new(bytes);
        if r.u32()? != MAGIC || r.u16()? != VERSION {
            return None;
        }
        let kind = match r.u8()? {
            1 => DatasetKind::FileSystem,
            2 => DatasetKind::Volume,
            3 => DatasetKind::Snapshot,
            _ => return None,
        };
        let suite = r.u8()?;
        let fixed: EntryNumbers = r.value()?;
        let mut numbers = fixed.numbers.map(u64::from_le_bytes).into_iter();
        let mut n = || numbers.next();
        Some(Entry {
            kind,
            suite,
            id: n()?,
            guid: n()?,
            family: n()?,
            parent: n()?,
            created_txg: n()?,
            created: n()?,
            key_root: n()?,
            sequence: n()?,
            prev_snap: n()?,
            prev_snap_txg: n()?,
            next: n()?,
            origin: n()?,
            dead_bytes: n()?,
            referenced: n()?,
            used: n()?,
            logical: n()?,
            sequence_past: n()?,
            seal: fixed.seal,
            roots: fixed.roots,
            deadlist: fixed.deadlist,
            log: LogHead::from_record(&fixed.log)?,
            name: r.text()?,
            keyring: decode_keyring(&mut r)?,
            props: decode_props(&mut r)?,
        })
        .filter(Entry::volume_fits)
    }

    /// Returns whether anything was ever committed to it.
    pub fn was_written(&self) -> bool {
        self.sequence != 0 || self.roots.iter().any(|root| !root.is_empty())
    }

    /// Returns whether it is a snapshot.
    pub fn is_snapshot(&self) -> bool {
        self.kind == DatasetKind::Snapshot
    }
}

fn encode_keyring(w: &mut ValueWriter, keyring: Option<&KeyringRef>) {
    let none = KeyringRef::default();
    let keyring = keyring.unwrap_or(&none);
    w.u16(keyring.blocks.len() as u16).u32(keyring.len);
    w.value(&keyring.checksum);
    for block in &keyring.blocks {
        w.u32(*block);
    }
}

fn decode_keyring(r: &mut ValueReader<'_>) -> Option<Option<KeyringRef>> {
    let count = r.u16()?;
    let len = r.u32()?;
    let checksum = r.value()?;
    let blocks = (0..count).map(|_| r.u32()).collect::<Option<Vec<u32>>>()?;
    Some((count > 0).then_some(KeyringRef {
        blocks,
        len,
        checksum,
    }))
}

fn decode_props(r: &mut ValueReader<'_>) -> Option<BTreeMap<String, String>> {
    let count = r.u16()?;
    (0..count).map(|_| Some((r.text()?, r.text()?))).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> Entry {
        Entry {
            id: 1,
            guid: 2,
            family: 3,
            parent: 4,
            name: "home".into(),
            kind: DatasetKind::FileSystem,
            created_txg: 5,
            created: 6,
            suite: 1,
            key_root: 7,
            keyring: Some(KeyringRef {
                blocks: vec![8, 9],
                len: 5000,
                checksum: [10; 16],
            }),
            roots: [RecordPtr::EMPTY; 2],
            sequence: 11,
            seal: [12; 32],
            prev_snap: 13,
            prev_snap_txg: 14,
            next: 15,
            origin: 16,
            deadlist: RecordPtr::EMPTY,
            dead_bytes: 17,
            referenced: 18,
            used: 19,
            logical: 20,
            sequence_past: 21,
            log: crate::format::logs::log_head::sample(),
            props: BTreeMap::from([("compression".into(), "zstd-3".into())]),
        }
    }

    #[test]
    fn round_trip() {
        let entry = sample();
        assert_eq!(Entry::decode(&entry.encode()), Some(entry.clone()));
        let bare = Entry {
            keyring: None,
            props: BTreeMap::new(),
            ..entry
        };
        assert_eq!(
            Entry::decode(&crate::format::codec::pad(bare.encode())),
            Some(bare)
        );
    }

    #[test]
    fn cut_and_changed_bytes_never_panic() {
        let bytes = sample().encode();
        for len in 0..bytes.len() {
            assert_eq!(Entry::decode(&bytes[..len]), None, "{len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let _ = Entry::decode(&bad);
        }
    }
}
