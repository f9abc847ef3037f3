//! The root of a pool: the content of its superblock.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::error::{Error, Result};
use crate::format::records::pointer::{RecordPtr, SLOT_LIMIT};
use crate::format::superblock::config::NO_GROUP;
use crate::format::superblock::features::{FEATURE_CHECKPOINT, FEATURE_HOST_IDS, FEATURES_KNOWN};

/// A pool that knows of several members has at most so many devices.
pub(crate) const DEVICES_MAX: usize = 512;

/// The highest sequence that is remembered for a rewind. It counts seals, so none gets there by counting.
const RECEIVED_MAX: u64 = 1 << 61;

/// A retention ends in at most so many seconds: 60 years, twice the time that a command accepts.
const RETENTION_LIMIT: u64 = 60 * 366 * 86_400;

/// The state of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PoolState {
    /// Imported, or not exported when its host stopped.
    Active = 1,
    /// Exported: any host may import it.
    Exported = 2,
    /// Destroyed.
    Destroyed = 3,
}

/// A machine that imports pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The number of the host; 0 if it has none. Two machines may have the same name, and should not have the same
    /// number.
    pub id: u32,
    /// The name of the host.
    pub name: String,
}

/// A host without a number.
impl From<&str> for Host {
    fn from(name: &str) -> Host {
        Host {
            id: 0,
            name: name.into(),
        }
    }
}

/// The savings of dedup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DedupInfo {
    /// Records that are shared, or could be.
    pub records: u64,
    /// Bytes that they take.
    pub stored: u64,
    /// Bytes that they would take if each pointer had its own.
    pub referenced: u64,
}

/// The superblock's payload.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct PoolRoot {
    /// Features a program must know to open the pool.
    pub(crate) features_required: U64,
    /// Features a program may ignore.
    pub(crate) features_optional: U64,
    /// The time when this commit was made, in seconds since 1970.
    pub(crate) time: U64,
    /// The time when the pool was created.
    pub(crate) created: U64,
    /// A [`PoolState`].
    pub(crate) state: U32,
    /// The number of groups of devices.
    pub(crate) groups: U32,
    /// The id that the next dataset or snapshot gets.
    pub(crate) next_id: U64,
    /// The dataset table.
    pub(crate) datasets: RecordPtr,
    /// The segment table.
    pub(crate) table: RecordPtr,
    /// The bitmaps of the segments.
    pub(crate) bitmaps: RecordPtr,
    pub(crate) history: RecordPtr,
    /// The queue of destroyed datasets that are being freed.
    pub(crate) async_free: RecordPtr,
    /// The devices, and the key blocks to wipe.
    pub(crate) config: RecordPtr,
    /// The checkpoint; empty if there is none.
    pub(crate) checkpoint: RecordPtr,
    /// Space for a root that a later version adds.
    reserved_root: RecordPtr,
    /// The remap table.
    pub(crate) remap: RecordPtr,
    /// The dedup table.
    pub(crate) dedup: RecordPtr,
    /// The slot of `history` that is being filled.
    pub(crate) history_slot: U64,
    /// The slot that the next entry of `async_free` gets.
    pub(crate) async_free_slot: U64,
    name_len: U32,
    host_len: U32,
    name: [u8; 256],
    host: [u8; 256],
    /// The import that this commit belongs to; 0 without
    /// [`FEATURE_REDUNDANT`](crate::format::superblock::features::FEATURE_REDUNDANT).
    pub(crate) epoch: U64,
    /// A bit for each device in the configuration: it did not get all of this commit.
    pub(crate) missed: [u8; DEVICES_MAX / 8],
    /// The number of buckets of the dedup table.
    pub(crate) dedup_buckets: U64,
    /// The number of records in it, the bytes that they take, and those that they would if each pointer had its own.
    dedup_info: [U64; 3],
    /// The number of pages of the remap table.
    pub(crate) remap_pages: U64,
    /// The number of the host; 0 if it has none.
    host_id: U32,
    /// The beginning of the hash of `host`. If it is another one, a program that does not know of numbers has changed
    /// the name, and `host_id` is of an earlier host.
    host_mark: U32,
    /// 1: the checkpoint is abandoned, and its space may be used again. 0 otherwise.
    checkpoint_ends: U32,
    /// The highest sequence that came with a stream since the checkpoint; 0 without a checkpoint.
    received_sequence: U64,
    /// The latest time that the pool believes, in seconds since 1970; 0 without
    /// [`FEATURE_RETENTION`](crate::format::superblock::features::FEATURE_RETENTION).
    pub(crate) pool_time: U64,
    /// The latest end of a retention in the pool, by its own time; 0 without that feature.
    pub(crate) retained_until: U64,
    reserved: [u8; 108],
}

const _: () = assert!(size_of::<PoolRoot>() == 2120);
const _: () = assert!(size_of::<PoolRoot>() <= store::layout::PAYLOAD_MAX);

impl PoolRoot {
    /// The root of an empty pool.
    pub(crate) fn new(name: &str, groups: u32, created: u64) -> PoolRoot {
        let mut root = PoolRoot::new_zeroed();
        root.created = created.into();
        root.groups = groups.into();
        root.next_id = 1.into();
        root.set_name(name);
        root.set_state(PoolState::Active);
        root
    }

    /// Reads a root, which may have features that this program does not know.
    pub(crate) fn read(payload: &[u8]) -> Result<PoolRoot> {
        let bad = |detail: &str| Error::inconsistent("superblock", detail);
        let (root, _) = PoolRoot::read_from_prefix(payload).map_err(|_| bad("it is cut short"))?;
        // A damaged end would keep the pool for ever, because nobody can end a retention earlier.
        let (until, time) = (root.retained_until.get(), root.pool_time.get());
        if until > time.saturating_add(RETENTION_LIMIT) {
            return Err(bad("a retention ends after more than 60 years"));
        }
        Ok(root)
    }

    /// Reads a root and checks that this program can open its pool.
    pub(crate) fn decode(payload: &[u8]) -> Result<PoolRoot> {
        let bad = |detail: &str| Error::inconsistent("superblock", detail);
        let root = PoolRoot::read(payload)?;
        let unknown = root.features_required.get() & !FEATURES_KNOWN;
        if unknown != 0 {
            return Err(Error::UnknownFeatures { bits: unknown });
        }
        // Far from where counting on would overflow.
        let counters = [root.next_id, root.history_slot, root.async_free_slot];
        let counters = counters
            .into_iter()
            .chain([root.dedup_buckets, root.remap_pages]);
        if counters.into_iter().any(|n| n.get() >= SLOT_LIMIT / 2) {
            return Err(bad("its counters are impossible"));
        }
        if root.groups.get() > u32::from(NO_GROUP) {
            return Err(bad("it has too many groups"));
        }
        if root.state().is_none() || root.text(&root.name, root.name_len).is_none() {
            return Err(bad("its state or name is impossible"));
        }
        if root.checkpoint.is_empty() == root.has_checkpoint() {
            return Err(bad("it is unclear whether there is a checkpoint"));
        }
        Ok(root)
    }

    /// Returns whether an earlier state of the pool is kept.
    pub(crate) fn has_checkpoint(&self) -> bool {
        self.features_required.get() & FEATURE_CHECKPOINT != 0
    }

    /// Returns whether the checkpoint is abandoned. Then only its record is left, and its space may have been used
    /// again.
    pub(crate) fn ends_checkpoint(&self) -> bool {
        self.has_checkpoint() && self.checkpoint_ends.get() != 0
    }

    /// Abandons the checkpoint. Its record stays until the next commit.
    pub(crate) fn end_checkpoint(&mut self) {
        self.checkpoint_ends = 1.into();
    }

    /// Keeps this state, or none.
    pub(crate) fn set_checkpoint(&mut self, checkpoint: RecordPtr) {
        self.checkpoint = checkpoint;
        self.checkpoint_ends = 0.into();
        self.received_sequence = 0.into();
        self.features_required &= !FEATURE_CHECKPOINT;
        if !checkpoint.is_empty() {
            self.features_required |= FEATURE_CHECKPOINT;
        }
    }

    /// Remembers a sequence that came with a stream, for a rewind to the checkpoint. Such a number can be of an attacker,
    /// and after the rewind all datasets can continue after it. So it does not come near the end of the numbers.
    pub(crate) fn note_received(&mut self, sequence: u64) {
        if self.has_checkpoint() {
            let highest = self.received_sequence().max(sequence);
            self.received_sequence = highest.min(RECEIVED_MAX).into();
        }
    }

    /// The highest sequence that came with a stream since the checkpoint.
    pub(crate) fn received_sequence(&self) -> u64 {
        self.received_sequence.get().min(RECEIVED_MAX)
    }

    /// Returns this root with the state of the pool from an earlier root. The identity, the host and the features of
    /// the pool stay, and no id is used again.
    pub(crate) fn rewound(&self, to: &PoolRoot) -> PoolRoot {
        let mut root = self.clone();
        root.next_id = self.next_id.get().max(to.next_id.get()).into();
        root.datasets = to.datasets;
        root.table = to.table;
        root.bitmaps = to.bitmaps;
        root.history = to.history;
        root.async_free = to.async_free;
        root.config = to.config;
        root.remap = to.remap;
        root.dedup = to.dedup;
        root.history_slot = to.history_slot;
        root.async_free_slot = to.async_free_slot;
        root.dedup_buckets = to.dedup_buckets;
        root.dedup_info = to.dedup_info;
        root.remap_pages = to.remap_pages;
        root.set_checkpoint(RecordPtr::EMPTY);
        root
    }

    /// Returns the roots of the arrays that describe the space.
    pub(crate) fn space(&self) -> (RecordPtr, RecordPtr) {
        (self.table, self.bitmaps)
    }

    pub(crate) fn state(&self) -> Option<PoolState> {
        match self.state.get() {
            1 => Some(PoolState::Active),
            2 => Some(PoolState::Exported),
            3 => Some(PoolState::Destroyed),
            _ => None,
        }
    }

    pub(crate) fn set_state(&mut self, state: PoolState) {
        self.state = (state as u32).into();
    }

    pub(crate) fn name(&self) -> String {
        self.text(&self.name, self.name_len).unwrap_or_default()
    }

    pub(crate) fn set_name(&mut self, name: &str) {
        self.name_len = put_text(&mut self.name, name);
    }

    /// Returns the savings of dedup.
    pub(crate) fn dedup_info(&self) -> DedupInfo {
        let [records, stored, referenced] = self.dedup_info.map(U64::get);
        DedupInfo {
            records,
            stored,
            referenced,
        }
    }

    pub(crate) fn set_dedup_info(&mut self, buckets: u64, info: &DedupInfo) {
        self.dedup_buckets = buckets.into();
        self.dedup_info = [info.records, info.stored, info.referenced].map(U64::new);
    }

    /// The name of the host that has it imported, or had it last.
    pub(crate) fn host(&self) -> String {
        self.text(&self.host, self.host_len).unwrap_or_default()
    }

    /// The host that has it imported, or had it last.
    pub(crate) fn last_host(&self) -> Host {
        Host {
            id: self.host_id(),
            name: self.host(),
        }
    }

    pub(crate) fn set_host(&mut self, host: &Host) {
        self.host_len = put_text(&mut self.host, &host.name);
        self.host_id = host.id.into();
        if host.id != 0 {
            let features = self.features_optional.get() | FEATURE_HOST_IDS;
            self.features_optional = features.into();
        }
        self.host_mark = self.mark_of_host();
    }

    /// The number of that host; 0 if it has none, or it is not known.
    pub(crate) fn host_id(&self) -> u32 {
        let has_ids = self.features_optional.get() & FEATURE_HOST_IDS != 0;
        match has_ids && self.host_mark == self.mark_of_host() {
            true => self.host_id.get(),
            false => 0,
        }
    }

    fn mark_of_host(&self) -> U32 {
        let hash = blake3::hash(self.host().as_bytes());
        let (mark, _) = U32::read_from_prefix(hash.as_bytes()).expect("a hash has 32 bytes");
        mark
    }

    /// Returns whether the device at this place in the configuration did not get all of this commit.
    pub(crate) fn has_missed(&self, device: usize) -> bool {
        self.missed
            .get(device / 8)
            .is_some_and(|byte| byte & (1 << (device % 8)) != 0)
    }

    fn text(&self, bytes: &[u8; 256], len: U32) -> Option<String> {
        let bytes = bytes.get(..len.get() as usize)?;
        String::from_utf8(bytes.to_vec()).ok()
    }
}

/// Keeps as much of a text as fits.
fn put_text(field: &mut [u8; 256], text: &str) -> U32 {
    let mut len = text.len().min(field.len());
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    *field = [0; 256];
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
    (len as u32).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::superblock::features::FEATURE_SCATTERED;

    #[test]
    fn round_trip() {
        let mut root = PoolRoot::new("tank", 2, 5);
        root.set_host(&"höst".into());
        let back = PoolRoot::decode(root.as_bytes()).unwrap();
        assert_eq!(back, root);
        assert_eq!((back.name(), back.host()), ("tank".into(), "höst".into()));
        assert_eq!(back.state(), Some(PoolState::Active));
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let mut root = PoolRoot::new("tank", 1, 5);
        let host = Host {
            id: 7,
            name: "é".repeat(200),
        };
        root.set_host(&host);
        assert_eq!((root.host(), root.host_id()), ("é".repeat(128), 7));
    }

    /// Encodes hosts as a program does that knows names only.
    #[test]
    fn a_number_goes_with_the_name_that_it_was_written_with() {
        let mut root = PoolRoot::new("tank", 1, 5);
        assert_eq!(root.host_id(), 0);
        root.set_host(&"a".into());
        assert_eq!((root.host_id(), root.features_optional.get()), (0, 0));
        root.set_host(&Host {
            id: 9,
            name: "a".into(),
        });
        assert_eq!((root.host_id(), root.features_optional.get()), (9, 2));
        root.host_len = put_text(&mut root.host, "b");
        assert_eq!(root.host_id(), 0);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let root = PoolRoot::new("tank", 2, 5);
        assert!(PoolRoot::decode(&root.as_bytes()[1..]).is_err());
        let mut unknown = root.clone();
        unknown.features_required = FEATURE_SCATTERED.into();
        assert!(PoolRoot::decode(unknown.as_bytes()).is_ok());
        unknown.features_required = (1 << 21 | FEATURE_SCATTERED).into();
        assert!(matches!(
            PoolRoot::decode(unknown.as_bytes()),
            Err(Error::UnknownFeatures { bits: 0x20_0000 })
        ));
        let mut state = root.clone();
        state.state = 9.into();
        assert!(PoolRoot::decode(state.as_bytes()).is_err());
        let mut counter = root.clone();
        counter.next_id = u64::MAX.into();
        assert!(PoolRoot::decode(counter.as_bytes()).is_err());
        let mut retained = root.clone();
        retained.pool_time = 1_800_000_000.into();
        retained.retained_until = (1_800_000_000 + RETENTION_LIMIT).into();
        assert!(PoolRoot::decode(retained.as_bytes()).is_ok());
        retained.retained_until += 1;
        assert!(PoolRoot::decode(retained.as_bytes()).is_err());
        let mut name = root;
        name.name_len = 257.into();
        assert!(PoolRoot::decode(name.as_bytes()).is_err());
    }
}
