//! A checkpoint, as it is stored in the pool: the root of the kept state, and its key blocks.

use std::collections::BTreeSet;

use zerocopy::IntoBytes;

use crate::error::{Error, Result};
use crate::format::codec::{ValueReader, ValueWriter};
use crate::format::superblock::root::PoolRoot;

const MAGIC: u32 = u32::from_le_bytes(*b"CKPT");

/// A state of the whole pool that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// The transaction group that made this state durable.
    pub(crate) txg: u64,
    /// The root of this state.
    pub(crate) root: PoolRoot,
    /// The key blocks of its keyrings.
    pub(crate) key_blocks: BTreeSet<u32>,
}

impl Checkpoint {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = ValueWriter::default();
        w.u32(MAGIC).u32(self.key_blocks.len() as u32).u64(self.txg);
        w.bytes.extend_from_slice(self.root.as_bytes());
        for block in &self.key_blocks {
            w.u32(*block);
        }
        w.bytes
    }

    /// Reads a checkpoint of a state with this transaction group.
    pub(crate) fn decode(bytes: &[u8], now: u64) -> Result<Checkpoint> {
        let bad = |detail: &str| Error::inconsistent("checkpoint", detail);
        let parse = || {
            let mut r = ValueReader::new(bytes);
            let magic = r.u32()?;
            let count = r.u32()? as usize;
            let txg = r.u64()?;
            let root = r.bytes(size_of::<PoolRoot>())?;
            // At most as many as there are bytes for.
            let blocks = r.bytes(count.checked_mul(4)?)?.chunks_exact(4);
            let blocks = blocks.map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            (magic == MAGIC).then_some((txg, root, blocks.collect()))
        };
        let (txg, root, key_blocks) = parse().ok_or_else(|| bad("it cannot be read"))?;
        let root = PoolRoot::decode(root)?;
        if root.has_checkpoint() || txg == 0 || txg >= now {
            return Err(bad("its state is impossible"));
        }
        Ok(Checkpoint {
            txg,
            root,
            key_blocks,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::records::pointer::RecordPtr;

    fn sample() -> Checkpoint {
        Checkpoint {
            txg: 7,
            root: PoolRoot::new("tank", 2, 5),
            key_blocks: [3, 9].into(),
        }
    }

    #[test]
    fn round_trip_and_what_cannot_be_is_refused() {
        let bytes = sample().encode();
        assert_eq!(Checkpoint::decode(&bytes, 8).unwrap(), sample());
        let padded = crate::format::codec::pad(bytes.clone());
        assert_eq!(Checkpoint::decode(&padded, 8).unwrap(), sample());
        for len in 0..bytes.len() {
            assert!(Checkpoint::decode(&bytes[..len], 8).is_err());
        }
        assert!(
            Checkpoint::decode(&bytes, 7).is_err(),
            "it is of the future"
        );
        let mut count = bytes.clone();
        count[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Checkpoint::decode(&count, 8).is_err());
        let mut nested = sample();
        let mut ptr = RecordPtr::EMPTY;
        ptr.place.addr[0] =
            crate::format::records::pointer::Addr::new(store::SegmentId::new(0, 1), 0, 4096);
        nested.root.set_checkpoint(ptr);
        assert!(Checkpoint::decode(&nested.encode(), 8).is_err());
    }
}
