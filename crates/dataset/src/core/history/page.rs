//! A page of the history of seals: a record of `pages`.

use pool::PastSeal;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const MAGIC: [u8; 8] = *b"SR-SEALS";
const VERSION: u32 = 1;
pub(crate) const PAGE_BYTES: usize = 4096;
/// The seals of a full page.
pub(crate) const SEALS_MAX: usize = (PAGE_BYTES - size_of::<Front>()) / PastSeal::BYTES;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Front {
    magic: [u8; 8],
    version: U32,
    count: U32,
    base: U64,
    reserved: U64,
}

const _: () = assert!(size_of::<Front>() == 32 && SEALS_MAX == 169);

/// A page of the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SealPage {
    /// The number of the page that the history begins with. Pages before it are of another history.
    pub(crate) base: u64,
    /// Seals in ascending order of sequences.
    pub(crate) seals: Vec<PastSeal>,
}

impl SealPage {
    pub(crate) fn encode(&self) -> Vec<u8> {
        debug_assert!(self.seals.len() <= SEALS_MAX, "a page has one size");
        debug_assert!(self.seals.is_sorted_by(|a, b| a.sequence < b.sequence));
        let front = Front {
            magic: MAGIC,
            version: VERSION.into(),
            count: (self.seals.len() as u32).into(),
            base: self.base.into(),
            reserved: 0.into(),
        };
        let mut bytes = front.as_bytes().to_vec();
        for seal in &self.seals {
            bytes.extend(seal.to_bytes());
        }
        bytes.resize(PAGE_BYTES, 0);
        bytes
    }

    /// Reads page number `number`; `None` if the bytes are none.
    pub(crate) fn decode(bytes: &[u8], number: u64) -> Option<SealPage> {
        let (front, rest) = Front::read_from_prefix(bytes).ok()?;
        let count = front.count.get() as usize;
        let is_page = bytes.len() == PAGE_BYTES
            && front.magic == MAGIC
            && front.version.get() == VERSION
            && (1..=SEALS_MAX).contains(&count)
            && front.base.get() <= number;
        let (seals, _) = rest.as_chunks::<{ PastSeal::BYTES }>();
        let seals: Vec<PastSeal> = seals.iter().take(count).map(PastSeal::from_bytes).collect();
        let ascend = seals.is_sorted_by(|a, b| a.sequence < b.sequence);
        (is_page && ascend).then(|| SealPage {
            base: front.base.get(),
            seals,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_total() {
        for count in [1, 2, SEALS_MAX] {
            let seals = (1..=count as u64).map(|n| PastSeal::new(n, &[n as u8; 32]));
            let page = SealPage {
                base: 3,
                seals: seals.collect(),
            };
            let bytes = page.encode();
            assert_eq!(SealPage::decode(&bytes, 3), Some(page));
            assert_eq!(SealPage::decode(&bytes, 2), None);
            assert_eq!(SealPage::decode(&bytes[..4095], 3), None);
        }
        let bytes = SealPage::default().encode();
        assert_eq!(SealPage::decode(&bytes, 0), None);
        for bit in 0..400 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let _ = SealPage::decode(&bad, 0);
        }
    }
}
