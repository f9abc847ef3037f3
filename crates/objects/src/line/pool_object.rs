//! The object that describes the pool: it is made first, and never changed.

use twox_hash::XxHash3_128;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 8] = *b"SR-POOL1";
/// The newest version of the line that this program reads.
const VERSION: u32 = 1;

/// The facts about a device that never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceFacts {
    /// The guid of the device, in all its objects.
    pub(crate) guid: [u8; 16],
    /// The size in bytes.
    pub(crate) size: u64,
    /// The bytes of each of the two headers, at the start and at the end. They go into objects of their own.
    pub(crate) header_size: u64,
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
    sum: [u8; 16],
}

/// The size of the object in bytes.
pub(crate) const SIZE: usize = 64;
const SUMMED: usize = SIZE - 16;
const _: () = assert!(size_of::<FactsLayout>() == SIZE);

impl DeviceFacts {
    /// The bytes of the object.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut layout = FactsLayout {
            magic: MAGIC,
            version: VERSION.into(),
            reserved: 0.into(),
            guid: self.guid,
            size: self.size.into(),
            header_size: self.header_size.into(),
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
        let layout = FactsLayout::ref_from_bytes(bytes).map_err(|_| "it has another size")?;
        if layout.magic != MAGIC {
            return Err("it describes no pool");
        }
        if layout.version.get() != VERSION {
            return Err("a newer version made it");
        }
        if XxHash3_128::oneshot(&bytes[..SUMMED]).to_le_bytes() != layout.sum {
            return Err("its checksum is wrong");
        }
        let (size, header_size) = (layout.size.get(), layout.header_size.get());
        if header_size > size / 2 || size > i64::MAX as u64 {
            return Err("its sizes are impossible");
        }
        Ok(DeviceFacts {
            guid: layout.guid,
            size,
            header_size,
        })
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
        let facts = DeviceFacts {
            guid: [7; 16],
            size: 1 << 44,
            header_size: 1 << 20,
        };
        let bytes = facts.encode();
        assert_eq!(DeviceFacts::decode(&bytes), Ok(facts));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(DeviceFacts::decode(&damaged).is_err(), "bit {bit}");
        }
        assert!(DeviceFacts::decode(&bytes[1..]).is_err());
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
