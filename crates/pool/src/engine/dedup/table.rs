//! The dedup table on disk: which records are shared, and by how many pointers.
//!
//! The table is an array of *buckets*. The first bytes of the nonce of a record determine its bucket. The nonce of a
//! shared record is a keyed hash of its contents, so the buckets fill evenly. The number of buckets grows one by one
//! (linear hashing): new bucket *n* takes a part of the records of the bucket whose number is *n* without the highest
//! bit. The length of a bucket depends on its records.

use std::sync::Arc;

use quick_cache::sync::Cache;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::error::{Error, Result};
use crate::format::codec::{ValueReader, ValueWriter};
use crate::format::records::extent::StoredExtent;
use crate::format::records::pointer::{
    Addr, RecordIdentity, RecordLocation, RecordPtr, ShareId, ShareMark,
};
use crate::storage::array::walk;
use crate::storage::reader::PoolReader;

const MAGIC: u32 = u32::from_le_bytes(*b"DDUP");

/// The average number of records in a bucket at which a bucket is added.
pub(super) const BUCKET_LOAD: u64 = 48;

/// Buckets kept in memory.
const CACHED_BUCKETS: usize = 2048;

impl ShareId {
    /// The bits that choose the bucket.
    fn hash(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes[..7].copy_from_slice(&self.mark);
        u64::from_le_bytes(bytes)
    }

    pub(super) fn bucket(&self, buckets: u64) -> u64 {
        bucket_of(self.hash(), buckets)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct SharedRecord {
    /// A keyed hash of the contents.
    pub(super) nonce: [u8; 24],
    /// BLAKE3 of the bytes on disk, cut to 128 bits.
    pub(super) checksum: [u8; 16],
    /// The place of its only copy.
    pub(super) addr: Addr,
    /// The number of pointers to it.
    pub(super) count: U64,
}

const _: () = assert!(size_of::<SharedRecord>() == 64);

impl SharedRecord {
    pub(crate) fn share(&self) -> ShareId {
        ShareId {
            mark: mark_of(&self.nonce),
            addr: self.addr,
        }
    }

    pub(crate) fn extent(&self) -> StoredExtent {
        StoredExtent::of(&self.addr)
    }

    /// The place in a pointer to it.
    pub(crate) fn pointer(&self) -> RecordPtr {
        let identity = RecordIdentity::record(self.nonce, [0; 16], 0, 0, 0, self.addr.size());
        RecordPtr {
            place: RecordLocation::new([self.addr, Addr::default()], 1, self.checksum),
            identity,
        }
    }

    /// Returns the number of pointers to the record.
    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }

    fn is_consistent(&self) -> bool {
        let (size, offset) = (self.addr.size(), self.addr.offset());
        let whole = |n: u32| n.is_multiple_of(store::UNIT);
        size > 0
            && whole(size)
            && whole(offset)
            && offset.checked_add(size).is_some()
            && self.count() < 1 << 62
    }
}

/// The part of a nonce that a pointer has.
pub(crate) fn mark_of(nonce: &[u8; 24]) -> ShareMark {
    let mut mark = [0; 7];
    mark.copy_from_slice(&nonce[..7]);
    mark
}

/// The bucket of a record, if there are `buckets` of them, at least one.
fn bucket_of(hash: u64, buckets: u64) -> u64 {
    debug_assert!(buckets > 0, "there is at least one bucket");
    let doubled = buckets.next_power_of_two();
    let bucket = hash & (doubled - 1);
    if bucket < buckets {
        bucket
    } else {
        bucket & (doubled / 2 - 1)
    }
}

/// The bucket that is split when bucket `new` is added.
pub(super) fn split_of(new: u64) -> u64 {
    debug_assert!(new > 0, "the first bucket splits no other one");
    let doubled = (new + 1).next_power_of_two();
    new & (doubled / 2 - 1)
}

pub(super) fn encode(bucket: &[SharedRecord]) -> Vec<u8> {
    let mut w = ValueWriter::default();
    w.u32(MAGIC).u32(bucket.len() as u32);
    for shared in bucket {
        w.value(shared);
    }
    w.bytes
}

/// The records of a bucket; `None` if the bytes are not one.
fn decode(bytes: &[u8]) -> Option<Vec<SharedRecord>> {
    let mut r = ValueReader::new(bytes);
    if r.u32()? != MAGIC {
        return None;
    }
    let count = r.u32()? as usize;
    if count > bytes.len() / size_of::<SharedRecord>() {
        return None;
    }
    let all: Vec<SharedRecord> = (0..count).map(|_| r.value()).collect::<Option<_>>()?;
    all.iter().all(SharedRecord::is_consistent).then_some(all)
}

/// The buckets of a pool that are in memory.
pub(super) struct Buckets(Cache<[u8; 16], Arc<Vec<SharedRecord>>>);

impl Default for Buckets {
    fn default() -> Buckets {
        Buckets(Cache::new(CACHED_BUCKETS))
    }
}

impl Buckets {
    pub(super) fn get(
        &self,
        disk: &PoolReader,
        root: &RecordPtr,
        bucket: u64,
    ) -> Result<Arc<Vec<SharedRecord>>> {
        let ptr = walk::get(disk, root, bucket)?;
        if ptr.is_empty() {
            return Ok(Arc::default());
        }
        if let Some(known) = self.0.get(&ptr.place.checksum) {
            return Ok(known);
        }
        let bytes = disk.clear_record(&ptr)?;
        let shared = decode(&bytes)
            .ok_or_else(|| Error::inconsistent("dedup table", "a bucket cannot be read"))?;
        let shared = Arc::new(shared);
        self.0.insert(ptr.place.checksum, Arc::clone(&shared));
        Ok(shared)
    }

    pub(super) fn remember(&self, ptr: &RecordPtr, bucket: Vec<SharedRecord>) {
        self.0.insert(ptr.place.checksum, Arc::new(bucket));
    }
}

/// Calls `f` with every shared record of a table.
pub(crate) fn each(
    disk: &PoolReader,
    root: &RecordPtr,
    f: &mut dyn FnMut(&SharedRecord),
) -> Result<()> {
    walk::each_record(disk, root, &mut |_, ptr| {
        let bucket = decode(&disk.clear_record(ptr)?)
            .ok_or_else(|| Error::inconsistent("dedup table", "a bucket cannot be read"))?;
        bucket.iter().for_each(&mut *f);
        Ok(())
    })
}

#[cfg(any(test, fuzzing))]
pub(crate) fn sample() -> SharedRecord {
    SharedRecord {
        nonce: [7; 24],
        checksum: [8; 16],
        addr: Addr::new(store::SegmentId::new(1, 2), 4096, 8192),
        count: 3.into(),
    }
}

#[cfg(fuzzing)]
pub(crate) mod fuzzing {
    use super::*;

    /// A bucket, and where its records belong.
    pub(crate) fn decode_for_fuzzing(bytes: &[u8]) {
        let Some(bucket) = decode(bytes) else { return };
        assert_eq!(decode(&encode(&bucket)).as_ref(), Some(&bucket));
        for shared in bucket {
            assert!(shared.share().bucket(77) < 77);
        }
    }

    pub(crate) fn sample_bucket() -> Vec<u8> {
        encode(&[sample(); 3])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_split_in_their_order() {
        for buckets in 1..100_u64 {
            for hash in 0..1000 {
                let (old, new) = (bucket_of(hash, buckets), bucket_of(hash, buckets + 1));
                assert!(old < buckets && new <= buckets);
                if old != new {
                    assert_eq!((new, old), (buckets, split_of(buckets)));
                }
            }
        }
    }

    #[test]
    fn buckets_round_trip_and_impossible_ones_are_refused() {
        let all = vec![sample(); 5];
        let bytes = encode(&all);
        assert_eq!(decode(&crate::format::codec::pad(bytes.clone())), Some(all));
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len]), None);
        }
        let mut count = bytes.clone();
        count[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(decode(&count), None);
        let mut place = bytes;
        place[8 + 40 + 8] = 1;
        assert_eq!(decode(&place), None);
    }
}
