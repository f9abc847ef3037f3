//! The header of a dataset: the counters for new numbers. It is the record in slot 0 of the array `pages`, sealed like
//! every page.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::seal_runs::SealRuns;

const MAGIC: [u8; 8] = *b"SR-FILES";
const VERSION: u32 = 1;

/// Bytes of the record.
pub(crate) const HEADER_SIZE: usize = 4096;

/// The counters of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The slot that the next page of the tree gets.
    pub(crate) next_page: u64,
    /// The number that the next inode gets.
    pub(crate) next_ino: u64,
    /// The slot of `data` that the next file gets.
    pub(crate) next_data: u64,
    pub(crate) inodes: u64,
    /// The key of the hash that orders names.
    pub(crate) name_key: [u8; 32],
    /// True if the tree has accounts of users and groups.
    pub(crate) counts_owners: bool,
    /// True if inodes may have flags that forbid changes.
    pub(crate) has_file_flags: bool,
    /// The slots of the history of seals.
    pub(crate) seal_runs: SealRuns,
}

/// [`Header::counts_owners`]
const FLAG_OWNERS: u32 = 1;
/// [`Header::has_file_flags`]
const FLAG_FILE_FLAGS: u32 = 2;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct HeaderBytes {
    magic: [u8; 8],
    version: U32,
    reserved: U32,
    next_page: U64,
    next_ino: U64,
    next_data: U64,
    inodes: U64,
    name_key: [u8; 32],
    flags: U32,
    reserved2: U32,
    seal_runs: [U64; SealRuns::MAX],
}

const _: () = assert!(size_of::<HeaderBytes>() == 280);

impl Header {
    /// The header of an empty dataset.
    pub(crate) fn new(name_key: [u8; 32]) -> Header {
        Header {
            next_page: crate::layout::ROOT_SLOT + 1,
            next_ino: vfs::ROOT,
            next_data: 0,
            inodes: 0,
            name_key,
            counts_owners: false,
            has_file_flags: false,
            seal_runs: SealRuns::default(),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let bytes = HeaderBytes {
            magic: MAGIC,
            version: VERSION.into(),
            reserved: 0.into(),
            next_page: self.next_page.into(),
            next_ino: self.next_ino.into(),
            next_data: self.next_data.into(),
            inodes: self.inodes.into(),
            name_key: self.name_key,
            flags: ((u32::from(self.counts_owners) * FLAG_OWNERS)
                | (u32::from(self.has_file_flags) * FLAG_FILE_FLAGS))
                .into(),
            reserved2: 0.into(),
            seal_runs: self.seal_runs.starts.map(Into::into),
        };
        let mut record = vec![0; HEADER_SIZE];
        record[..size_of::<HeaderBytes>()].copy_from_slice(bytes.as_bytes());
        record
    }

    pub(crate) fn decode(record: &[u8]) -> Option<Header> {
        let (bytes, _) = HeaderBytes::read_from_prefix(record).ok()?;
        if bytes.magic != MAGIC || bytes.version.get() != VERSION {
            return None;
        }
        let header = Header {
            next_page: bytes.next_page.get(),
            next_ino: bytes.next_ino.get(),
            next_data: bytes.next_data.get(),
            inodes: bytes.inodes.get(),
            name_key: bytes.name_key,
            counts_owners: bytes.flags.get() & FLAG_OWNERS != 0,
            has_file_flags: bytes.flags.get() & FLAG_FILE_FLAGS != 0,
            seal_runs: SealRuns {
                starts: bytes.seal_runs.map(U64::get),
            },
        };
        let fits = header.next_page < pool::SLOT_LIMIT / 2
            && header.inodes < crate::layout::INO_LIMIT
            && header.next_data < pool::SLOT_LIMIT
            && header.next_ino < crate::layout::INO_LIMIT
            && header.seal_runs.are_below(header.next_page);
        fits.then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_total() {
        let header = Header {
            next_page: 5,
            next_ino: 6,
            next_data: 7,
            inodes: 8,
            name_key: [9; 32],
            counts_owners: true,
            has_file_flags: true,
            seal_runs: SealRuns::default(),
        };
        let record = header.encode();
        assert_eq!(Header::decode(&record), Some(header));
        assert_eq!(Header::decode(&record[..279]), None);
        let mut bad = record;
        bad[16..24].fill(0xff);
        assert_eq!(Header::decode(&bad), None);
    }
}
