//! The object that describes the pool: it is made first, and never changed.
//!
//! The limits in it are those of all writers and takers. A taker with a smaller window than the writer before it would
//! leave numbers free that this writer may still use.

use twox_hash::XxHash3_128;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::log_object::DATA_MAX;

const MAGIC: [u8; 8] = *b"SR-POOL1";
/// The version of the line that this program reads.
const VERSION: u32 = 2;
/// The largest window. Each import after a crash makes so many objects.
const WINDOW_MAX: u32 = 1024;
/// The longest time before a removal.
const REMOVAL_MAX: u32 = 30 * 24 * 3600;

/// The facts about a device that never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceFacts {
    /// The guid of the device, in all its objects.
    pub(crate) guid: [u8; 16],
    /// The size in bytes.
    pub(crate) size: u64,
    /// The bytes of each of the two headers, at the start and at the end. They go into objects of their own.
    pub(crate) header_size: u64,
    /// The most numbers that a writer uses without an answer.
    pub(crate) window: u32,
    /// The most bytes of data in an object.
    pub(crate) data: u32,
    /// The seconds after which an object is removed that no import needs.
    pub(crate) removal: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FactsLayout {
    magic: [u8; 8],
    version: U32,
    reserved: U32,
    guid: [u8; 16],
    size: U64,
    header_size: U64,
    window: U32,
    data: U32,
    removal: U32,
    reserved_end: U32,
    sum: [u8; 16],
}

/// The size of the object in bytes.
pub(crate) const SIZE: usize = 80;
const SUMMED: usize = SIZE - 16;
const _: () = assert!(size_of::<FactsLayout>() == SIZE);

impl DeviceFacts {
    /// A new device with the limits of this version.
    pub(crate) fn new(guid: [u8; 16], size: u64, header_size: u64) -> DeviceFacts {
        DeviceFacts {
            guid,
            size,
            header_size,
            window: 64,
            data: DATA_MAX as u32,
            removal: 600,
        }
    }

    /// The bytes of the object.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut layout = FactsLayout {
            magic: MAGIC,
            version: VERSION.into(),
            reserved: 0.into(),
            guid: self.guid,
            size: self.size.into(),
            header_size: self.header_size.into(),
            window: self.window.into(),
            data: self.data.into(),
            removal: self.removal.into(),
            reserved_end: 0.into(),
            sum: [0; 16],
        };
        layout.sum = XxHash3_128::oneshot(&layout.as_bytes()[..SUMMED]).to_le_bytes();
        layout.as_bytes().to_vec()
    }

    /// Reads the object.
    ///
    /// # Errors
    /// The reason why it describes no pool that this program can read.
    pub(crate) fn decode(bytes: &[u8]) -> Result<DeviceFacts, &'static str> {
        let (magic, rest) = bytes.split_first_chunk().ok_or("it is too short")?;
        let (version, _) = rest.split_first_chunk().ok_or("it is too short")?;
        if *magic != MAGIC {
            return Err("it describes no pool");
        }
        if u32::from_le_bytes(*version) != VERSION {
            return Err("another version made it");
        }
        let layout = FactsLayout::ref_from_bytes(bytes).map_err(|_| "it has another size")?;
        if XxHash3_128::oneshot(&bytes[..SUMMED]).to_le_bytes() != layout.sum {
            return Err("its checksum is wrong");
        }
        let (size, header_size) = (layout.size.get(), layout.header_size.get());
        if header_size > size / 2 || size > i64::MAX as u64 {
            return Err("its sizes are impossible");
        }
        let (window, data) = (layout.window.get(), layout.data.get());
        let removal = layout.removal.get();
        let is_known = (1..=WINDOW_MAX).contains(&window)
            && (1..=DATA_MAX as u32).contains(&data)
            && removal <= REMOVAL_MAX
            && layout.reserved.get() == 0
            && layout.reserved_end.get() == 0;
        if !is_known {
            return Err("its limits are none of this version");
        }
        Ok(DeviceFacts {
            guid: layout.guid,
            size,
            header_size,
            window,
            data,
            removal,
        })
    }

    /// Makes the checksum, the magic number and the version of an object right.
    #[cfg(fuzzing)]
    pub(crate) fn repair(bytes: &mut Vec<u8>) {
        bytes.resize(SIZE, 0);
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let sum = XxHash3_128::oneshot(&bytes[..SUMMED]).to_le_bytes();
        bytes[SUMMED..].copy_from_slice(&sum);
    }

    /// Returns whether a byte lies in a header.
    pub(crate) fn is_header(&self, offset: u64) -> bool {
        offset < self.header_size || offset >= self.size - self.header_size
    }

    /// The end of the part, header or not, in which a byte lies.
    pub(crate) fn end_of_part(&self, offset: u64) -> u64 {
        let back = self.size - self.header_size;
        match offset {
            _ if offset < self.header_size => self.header_size,
            _ if offset < back => back,
            _ => self.size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_as_they_were_written_and_each_flipped_bit_is_found() {
        let facts = DeviceFacts::new([7; 16], 1 << 44, 1 << 20);
        let bytes = facts.encode();
        assert_eq!(DeviceFacts::decode(&bytes), Ok(facts));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(DeviceFacts::decode(&damaged).is_err(), "bit {bit}");
        }
        assert!(DeviceFacts::decode(&bytes[1..]).is_err());
        let none = |change: fn(&mut DeviceFacts)| {
            let mut facts = facts;
            change(&mut facts);
            assert!(DeviceFacts::decode(&facts.encode()).is_err(), "{facts:?}");
        };
        none(|facts| facts.window = 0);
        none(|facts| facts.window = WINDOW_MAX + 1);
        none(|facts| facts.data = DATA_MAX as u32 + 1);
        none(|facts| facts.removal = REMOVAL_MAX + 1);
        none(|facts| facts.header_size = facts.size);
        let parts = [
            (0, 1 << 20),
            (1 << 20, (1 << 44) - (1 << 20)),
            ((1 << 44) - 1, 1 << 44),
        ];
        for (offset, end) in parts {
            assert_eq!(facts.end_of_part(offset), end);
        }
        assert!(facts.is_header(0) && !facts.is_header(1 << 20) && facts.is_header((1 << 44) - 1));
    }
}
