//! The entry of a log: a clear header, the places of records that it points to, if there are any, and the sealed
//! payload.

use twox_hash::XxHash3_128;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::format::logs::log_state::{Link, PrecedingState, State};
use crate::format::records::pointer::{RECORD_MAX, RecordIdentity, RecordLocation};

const MAGIC: [u8; 8] = *b"SR-LOGE3";
/// Entries with this one are not bound to a state. They are read, and no longer written.
const UNBOUND_MAGIC: [u8; 8] = *b"SR-LOGE2";
/// Entries with this one have a BLAKE3 of the payload. They are read, and no longer written.
const SLOW_MAGIC: [u8; 8] = *b"SR-LOGEN";

/// Bytes of the header of an entry; with its payload it is whole units.
pub const LOG_HEADER: usize = 192;

/// Bytes of the header that the checksum covers.
const COVERED: usize = LOG_HEADER - 32;

/// Bytes that the place of a record takes before the payload.
pub const LOG_PLACE: usize = size_of::<RecordLocation>();

/// An entry points to at most so many records.
pub const LOG_PLACES_MAX: usize = 1024;

/// An entry is no longer than this.
pub(crate) const ENTRY_MAX: usize = RECORD_MAX as usize + store::UNIT as usize;

/// The clear header of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryHead {
    pub(crate) pool: u64,
    pub(crate) dataset: u64,
    /// The ring since it was set up.
    pub(crate) chain: u64,
    /// The number of the entry in the chain.
    pub(crate) sequence: u64,
    /// Entries up to this one were durable when it was written.
    pub(crate) flushed: u64,
    /// Bytes with header, places and payload.
    pub(crate) len: u32,
    /// The number of records that the entry points to.
    pub(crate) places: u32,
    /// The identity of the sealed payload.
    pub(crate) identity: RecordIdentity,
    /// The state that the entry continues; `None` of an entry of an older program.
    pub(crate) bound: Option<PrecedingState>,
}

/// The place of an entry in a log, for its seal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// The name of the log.
    pub chain: u64,
    /// The number of the entry in it.
    pub sequence: u64,
    /// The bytes that the seal has to bind: the place, what the entry continues, and the records that it points to.
    /// `None` of an entry of an older program.
    pub associated: Option<Vec<u8>>,
}

impl LogPosition {
    pub(crate) fn of(head: &EntryHead, places: &[RecordLocation]) -> LogPosition {
        LogPosition {
            chain: head.chain,
            sequence: head.sequence,
            associated: head.associated(places),
        }
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct LogEntryHeader {
    magic: [u8; 8],
    pool: U64,
    dataset: U64,
    chain: U64,
    sequence: U64,
    flushed: U64,
    len: U32,
    places: U32,
    reserved: [u8; 8],
    identity: RecordIdentity,
    state: State,
    link: Link,
    checksum: [u8; 32],
}

const _: () = assert!(size_of::<LogEntryHeader>() == LOG_HEADER);

impl EntryHead {
    /// The header as it goes before places and payload.
    pub(crate) fn encode(&self, payload: &[u8]) -> [u8; LOG_HEADER] {
        let bound = self.bound.unwrap_or_default();
        let mut bytes = LogEntryHeader {
            magic: self.bound.map_or(UNBOUND_MAGIC, |_| MAGIC),
            pool: self.pool.into(),
            dataset: self.dataset.into(),
            chain: self.chain.into(),
            sequence: self.sequence.into(),
            flushed: self.flushed.into(),
            len: self.len.into(),
            places: self.places.into(),
            reserved: [0; 8],
            identity: self.identity,
            state: bound.state,
            link: bound.link,
            checksum: [0; 32],
        };
        bytes.checksum = sum(bytes.as_bytes(), payload);
        zerocopy::transmute!(bytes)
    }

    /// Reads a header at the beginning of `bytes`. Its payload is not looked at.
    pub(crate) fn decode(bytes: &[u8]) -> Option<EntryHead> {
        let (bytes, _) = LogEntryHeader::ref_from_prefix(bytes).ok()?;
        let len = bytes.len.get() as usize;
        let places = bytes.places.get() as usize;
        let fits = places <= LOG_PLACES_MAX
            && len > LOG_HEADER + places * LOG_PLACE
            && len <= ENTRY_MAX
            && len.is_multiple_of(store::UNIT as usize);
        let bound = match bytes.magic {
            MAGIC => Some(PrecedingState {
                state: bytes.state,
                link: bytes.link,
            }),
            UNBOUND_MAGIC | SLOW_MAGIC => None,
            _ => return None,
        };
        fits.then(|| EntryHead {
            pool: bytes.pool.get(),
            dataset: bytes.dataset.get(),
            chain: bytes.chain.get(),
            sequence: bytes.sequence.get(),
            flushed: bytes.flushed.get(),
            len: bytes.len.get(),
            places: bytes.places.get(),
            identity: bytes.identity,
            bound,
        })
    }

    /// Returns the bytes that the seal binds besides the payload; `None` of an entry of an older program.
    pub(crate) fn associated(&self, places: &[RecordLocation]) -> Option<Vec<u8>> {
        let PrecedingState { state, link } = self.bound?;
        let numbers = [self.dataset, self.chain, self.sequence, self.flushed];
        let mut bytes = numbers.map(u64::to_le_bytes).concat();
        bytes.extend(state);
        bytes.extend(link);
        bytes.extend(places.iter().flat_map(|place| place.checksum));
        Some(bytes)
    }

    /// Returns the offset of the payload.
    pub(crate) fn payload(&self) -> usize {
        LOG_HEADER + self.places as usize * LOG_PLACE
    }

    /// The places of the records that it points to, of an entry that is cut off no earlier than behind
    /// them.
    pub(crate) fn places<'a>(&self, entry: &'a [u8]) -> &'a [RecordLocation] {
        let bytes = entry.get(LOG_HEADER..self.payload());
        bytes.map_or(&[], |bytes| {
            <[RecordLocation]>::ref_from_bytes(bytes).unwrap_or(&[])
        })
    }
}

/// Returns whether a header and its payload are as they were written.
pub(crate) fn is_whole(entry: &[u8]) -> bool {
    match entry.split_at_checked(LOG_HEADER) {
        Some((head, payload)) => sum(head, payload) == head[COVERED..],
        None => false,
    }
}

/// Returns a checksum against accidents: opening the payload detects a forgery by the tag. So the payload, which an
/// `fsync` waits for, has a hash that is quick.
fn sum(head: &[u8], payload: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&head[..COVERED]);
    if head.starts_with(&SLOW_MAGIC) {
        hasher.update(blake3::hash(payload).as_bytes());
    } else {
        hasher.update(&XxHash3_128::oneshot(payload).to_le_bytes());
    }
    hasher.finalize().into()
}

#[cfg(any(test, fuzzing))]
fn sample() -> EntryHead {
    EntryHead {
        pool: 1,
        dataset: 2,
        chain: 3,
        sequence: 4,
        flushed: 3,
        len: 4096,
        places: 0,
        identity: RecordIdentity::record([5; 24], [6; 16], 7, 8, 0, 3904),
        bound: Some(PrecedingState {
            state: [10; 16],
            link: [11; 16],
        }),
    }
}

#[cfg(fuzzing)]
pub(crate) mod fuzzing {
    use super::*;

    /// An entry whose header may say anything.
    pub(crate) fn decode(bytes: &[u8]) {
        if let Some(head) = EntryHead::decode(bytes) {
            let payload = &bytes[LOG_HEADER.min(bytes.len())..];
            let mut entry = head.encode(payload).to_vec();
            entry.extend_from_slice(payload);
            assert!(is_whole(&entry));
            assert_eq!(EntryHead::decode(&entry), Some(head));
            let _ = head.places(bytes).len();
        }
        let _ = is_whole(bytes);
    }

    pub(crate) fn sample_entry() -> Vec<u8> {
        sample().encode(&[9; 100]).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip_and_every_flipped_bit_is_noticed() {
        let head = sample();
        let payload = [9; 4096 - LOG_HEADER];
        let mut entry = head.encode(&payload).to_vec();
        entry.extend(payload);
        assert!(is_whole(&entry));
        assert_eq!(EntryHead::decode(&entry), Some(head));
        for bit in 0..entry.len() * 8 {
            entry[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_whole(&entry), "{bit}");
            entry[bit / 8] ^= 1 << (bit % 8);
        }
        for len in 0..LOG_HEADER {
            assert_eq!(EntryHead::decode(&entry[..len]), None);
            assert!(!is_whole(&entry[..len]));
        }
    }

    #[test]
    fn places_lie_before_the_payload() {
        let place = RecordLocation::new([Default::default(); 2], 7, [8; 16]);
        let head = EntryHead {
            places: 2,
            ..sample()
        };
        let mut entry = head.encode(&[]).to_vec();
        entry.extend([place, place].as_bytes());
        assert_eq!(head.places(&entry), [place, place]);
        assert_eq!(entry.len(), head.payload());
        let too_many = EntryHead {
            places: 1 + (4096 - LOG_HEADER as u32) / LOG_PLACE as u32,
            ..sample()
        };
        assert_eq!(EntryHead::decode(&too_many.encode(&[])), None);
    }

    #[test]
    fn entries_of_older_programs_are_read() {
        let payload = [9; 4096 - LOG_HEADER];
        let older = EntryHead {
            bound: None,
            ..sample()
        };
        let mut entry = older.encode(&payload).to_vec();
        assert_eq!(entry[..8], *b"SR-LOGE2");
        assert!(is_whole(&[&entry[..], &payload[..]].concat()));
        entry[..8].copy_from_slice(b"SR-LOGEN");
        assert!(!is_whole(&[&entry[..], &payload[..]].concat()));
        let covered = [&entry[..160], blake3::hash(&payload).as_bytes()].concat();
        entry[160..].copy_from_slice(blake3::hash(&covered).as_bytes());
        entry.extend(payload);
        assert!(is_whole(&entry));
        assert_eq!(EntryHead::decode(&entry), Some(older));
        assert_eq!(older.associated(&[]), None);
    }

    #[test]
    fn the_seal_binds_the_place_in_the_log_and_the_records() {
        let place = RecordLocation::new([Default::default(); 2], 7, [8; 16]);
        let head = EntryHead {
            places: 1,
            ..sample()
        };
        let bytes = head.associated(&[place]);
        let others = [
            EntryHead { dataset: 9, ..head },
            EntryHead { chain: 9, ..head },
            EntryHead {
                sequence: 9,
                ..head
            },
            EntryHead { flushed: 9, ..head },
            EntryHead {
                bound: Some(PrecedingState::default()),
                ..head
            },
        ];
        for other in others {
            assert_ne!(other.associated(&[place]), bytes, "{other:?}");
        }
        let other = RecordLocation::new([Default::default(); 2], 7, [9; 16]);
        assert_ne!(head.associated(&[other]), bytes);
        assert_ne!(head.associated(&[]), bytes);
    }
}
