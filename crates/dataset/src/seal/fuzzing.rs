//! Forged records, as an attacker would make them, for the fuzzer.

use super::*;

/// The tag of a clear record, which anyone can make.
pub(crate) fn tag(
    family: u64,
    array: ArrayKind,
    compression: u8,
    logical_size: u32,
    payload: &[u8],
) -> [u8; 16] {
    let head = RecordHead {
        kind: array.into(),
        compression,
        logical_size,
    };
    clear_tag(&head.aad(family, 0, 0), payload).0
}

/// A payload of the same length for changed contents, if they fit it.
pub(crate) fn repack(
    how: u8,
    len: usize,
    payload: &[u8],
    change: &dyn Fn(&mut [u8]),
) -> Option<Vec<u8>> {
    if how == compression::NONE {
        let mut plain = payload.to_vec();
        change(&mut plain);
        return Some(plain);
    }
    let mut plain = unpack(how, payload, len)?;
    change(&mut plain);
    let compression = match how {
        1 => Compression::Lz4,
        _ => Compression::Zstd(3),
    };
    let (_, new) = pack(compression, &plain)?;
    let mut bytes = new.to_vec();
    if bytes.len() > payload.len() {
        return None;
    }
    bytes.resize(payload.len(), 0);
    Some(bytes)
}
