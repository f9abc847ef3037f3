//! The binary header of LUKS2: 4,096 bytes, big-endian, before each copy of the JSON area.
//!
//! "LUKS2 On-Disk Format Specification", version 1.1.4, section 2.

use cipher::Digest;
use zerocopy::byteorder::big_endian::{U16, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The length of the binary header, in bytes.
pub const BINARY_LEN: usize = 4096;

/// The first copy begins with this, and a LUKS1 header too.
pub const MAGIC: [u8; 6] = *b"LUKS\xba\xbe";

/// The second copy begins with this.
pub(crate) const SECOND_MAGIC: [u8; 6] = *b"SKUL\xba\xbe";

/// The lengths that a copy may have, with its JSON area. The second copy begins at the end of the first one.
pub const COPY_SIZES: [u64; 9] = [
    0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000,
];

/// The binary header.
#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Binary {
    pub(crate) magic: [u8; 6],
    pub(crate) version: U16,
    /// Bytes in this copy, with its JSON area.
    pub(crate) copy_len: U64,
    /// The number of changes so far.
    pub(crate) epoch: U64,
    pub(crate) label: [u8; 48],
    pub(crate) checksum_hash: [u8; 32],
    /// Random, and different in each copy.
    pub(crate) salt: [u8; 64],
    pub(crate) uuid: [u8; 40],
    pub(crate) subsystem: [u8; 48],
    /// The address of this copy, in bytes.
    pub(crate) offset: U64,
    pub(crate) padding: [u8; 184],
    /// The checksum of this header, with zeros in this field, and of the JSON area.
    pub(crate) checksum: [u8; 64],
    pub(crate) more_padding: [u8; 7 * 512],
}

const _: () = assert!(size_of::<Binary>() == BINARY_LEN);
const _: () = assert!(std::mem::offset_of!(Binary, uuid) == 168);
const _: () = assert!(std::mem::offset_of!(Binary, checksum) == 448);

/// The name of a copy of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderCopy {
    /// At the beginning of the device.
    First,
    /// Behind the first.
    Second,
}

impl HeaderCopy {
    /// Returns the address of this copy if each copy has `copy_len` bytes.
    pub(crate) fn offset(self, copy_len: u64) -> u64 {
        match self {
            HeaderCopy::First => 0,
            HeaderCopy::Second => copy_len,
        }
    }

    pub(crate) fn magic(self) -> [u8; 6] {
        match self {
            HeaderCopy::First => MAGIC,
            HeaderCopy::Second => SECOND_MAGIC,
        }
    }
}

impl Binary {
    /// A header of nothing yet, whose checksum is not right either.
    pub(crate) fn blank(which: HeaderCopy, copy_len: u64) -> Binary {
        let mut binary = Binary::new_zeroed();
        binary.magic = which.magic();
        binary.version = 2.into();
        binary.copy_len = copy_len.into();
        binary.offset = which.offset(copy_len).into();
        binary
    }

    /// Reads the binary header of the copy at `offset`. Its checksum is not looked at yet.
    pub(crate) fn decode(
        bytes: &[u8; BINARY_LEN],
        which: HeaderCopy,
        offset: u64,
    ) -> Result<Binary, String> {
        let binary = Binary::read_from_bytes(bytes).expect("the array is as long as the header");
        if binary.magic != which.magic() {
            return Err("it does not begin as one".into());
        }
        let version = binary.version.get();
        if version != 2 {
            return Err(format!("it is of version {version}, not 2"));
        }
        if binary.offset.get() != offset {
            let says = binary.offset.get();
            return Err(format!("it says that it is at {says}, and is at {offset}"));
        }
        let len = binary.copy_len.get();
        if !COPY_SIZES.contains(&len) || which.offset(len) != offset {
            return Err(format!("it cannot be {len} bytes long"));
        }
        Ok(binary)
    }

    /// Checks the checksum of this header and its JSON area.
    pub(crate) fn verify(&self, json: &[u8]) -> Result<(), String> {
        match self.sum(json)? == self.checksum {
            true => Ok(()),
            false => Err("its checksum is wrong".into()),
        }
    }

    /// Puts the checksum in its place.
    pub(crate) fn seal(&mut self, json: &[u8]) -> Result<(), String> {
        self.checksum = self.sum(json)?;
        Ok(())
    }

    fn sum(&self, json: &[u8]) -> Result<[u8; 64], String> {
        let name = text(&self.checksum_hash).ok_or("the name of its checksum is no text")?;
        let mut blank = self.clone();
        blank.checksum = [0; 64];
        let digest = Digest::from_name(&name)
            .ok_or_else(|| format!("its checksum is '{name}', which is not known here"))?;
        let hash = digest.hash(&[blank.as_bytes(), json]);
        let mut sum = [0; 64];
        sum[..hash.len()].copy_from_slice(&hash);
        Ok(sum)
    }
}

/// Text in a field that is filled up with zeros, if it is ended by one.
pub(crate) fn text(field: &[u8]) -> Option<String> {
    let end = field.iter().position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(&field[..end]).ok()?;
    Some(text.to_owned())
}

/// Text in a field that is for people: what is no UTF-8 in it is shown as U+FFFD.
pub(crate) fn lossy_text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&field[..end.unwrap_or(field.len())]).into_owned()
}

/// A field that holds text; `None` if it does not fit, with a zero behind it.
pub(crate) fn field<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut field = [0; N];
    let fits = text.len() < N && !text.as_bytes().contains(&0);
    fits.then(|| field[..text.len()].copy_from_slice(text.as_bytes()))?;
    Some(field)
}
