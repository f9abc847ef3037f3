//! The decoders of a dataset's plaintext, for `fuzz/`.

use pool::{ArrayKind, PastSeal, RecordIdentity, RecordPtr};
use zerocopy::{FromBytes, IntoBytes};

use crate::core::history::page::{PAGE_BYTES as SEAL_PAGE, SealPage};
use crate::core::io::slots::extents::decode_dead;
use crate::fs::acl::Acl;
use crate::layout::{
    AttrValue, NameEntry, RecordExtent, SharedRun, XattrValue, decode_names, encode_names,
};
use crate::seal::{Compression, Sealer, fuzzing};
use crate::tree::Header;
use crate::tree::owners::OwnerAccount;
use crate::tree::{CELL_MAX, PAGE, PageKind, TreePage};

/// The number of decoders in [`value`].
pub const VALUES: u8 = 11;

/// Decodes a value of the tree, or the header, and uses what comes out.
pub fn value(kind: u8, bytes: &[u8]) {
    match kind {
        0 => {
            if let Some(header) = Header::decode(bytes) {
                assert_eq!(Header::decode(&header.encode()), Some(header));
            }
        }
        1 => {
            if let Some(attr) = AttrValue::decode(bytes) {
                let _ = (attr.kind(), attr.to_attr(1), attr.is_dir());
            }
        }
        2 => {
            let Some((record, value)) = bytes.split_first_chunk::<8>() else {
                return;
            };
            let record = u64::from_le_bytes(*record);
            if let Some(extent) = RecordExtent::decode(record, value) {
                assert!(extent.slot_of(extent.end() - 1) < pool::SLOT_LIMIT);
                let _ = extent.part(record, extent.end());
            }
        }
        3 => {
            if let Some(names) = decode_names(bytes) {
                assert_eq!(encode_names(&names), bytes);
            }
        }
        4 => {
            if let Some(value) = XattrValue::decode(bytes) {
                assert_eq!(XattrValue::decode(&value.encode()), Some(value));
            }
        }
        5 => {
            if let Some(mut acl) = Acl::decode(bytes) {
                assert_eq!(acl.encode(), bytes);
                let mode = acl.mode();
                let _ = (acl.inherit(0o700), acl.is_just_mode());
                acl.set_mode(0o751);
                assert!(mode <= 0o777);
                assert_eq!(Acl::decode(&acl.encode()), Some(acl));
            }
        }
        6 => {
            if let Some(run) = SharedRun::decode(7, bytes) {
                let _ = run.end();
            }
        }
        7 => {
            let _ = decode_dead(bytes);
        }
        8 => crate::core::log::steps::decode_all(bytes),
        9 => {
            if let Some(account) = OwnerAccount::decode(bytes) {
                assert_eq!(account.encode(), bytes);
            }
        }
        _ => {
            let mut whole = bytes.to_vec();
            whole.resize(SEAL_PAGE, 0);
            if let Some(page) = SealPage::decode(&whole, 7) {
                assert_eq!(SealPage::decode(&page.encode(), 7), Some(page));
            }
        }
    }
}

/// Takes a page if it is one, reads every cell of it, and changes it as `script` says.
pub fn page(bytes: &[u8], script: &[u8]) {
    let mut whole = vec![0; PAGE];
    let len = bytes.len().min(PAGE);
    // Cells lie at the end of a page, so the second half of short bytes goes there.
    let front = len.div_ceil(2);
    whole[..front].copy_from_slice(&bytes[..front]);
    whole[PAGE - (len - front)..].copy_from_slice(&bytes[front..len]);
    let Some(mut page) = TreePage::from_bytes(&whole) else {
        return;
    };
    for step in script.chunks_exact(4) {
        let inner = page.kind() == PageKind::Inner;
        check_page(&page);
        let key = &step[1..3];
        let value = match inner {
            true => vec![7; 8],
            false => vec![step[3]; usize::from(step[3]) * 8],
        };
        let index = usize::from(step[1]) % page.len().max(1);
        match step[0] % 4 {
            0 if page.len() > 0 => page.remove(index),
            1 if page.len() > 0 => {
                let _ = page.replace(index, &value);
            }
            2 if page.len() > 1 => {
                let at = usize::from(step[1]) % (page.len() + 1);
                let upper = page.split(at, 2 + 4 + key.len() + value.len());
                if upper.len() > 0 {
                    check_page(&upper);
                }
            }
            _ => match page.search(key) {
                Err(at) if page.fits(key, &value) => page.insert(at, key, &value),
                _ => {}
            },
        }
        if inner && page.len() == 0 {
            return;
        }
    }
    check_page(&page);
}

fn check_page(page: &TreePage) {
    for index in 0..page.len() {
        assert!(page.key(index).len() + page.value(index).len() <= CELL_MAX);
        assert_eq!(page.search(page.key(index)), Ok(index));
        if page.kind() == PageKind::Inner {
            let _ = (page.child(index), page.child_index(b"k"));
        }
    }
    assert!(page.used() <= PAGE);
    // Replacing a key may leave no free space for it; that is all that may go wrong.
    assert!(TreePage::from_bytes(page.bytes()).is_some() || page.len() == 0);
}

/// Opens a clear record whose tag is made good, as anyone can: `bytes` begin with the compression
/// and the units that are promised.
pub fn record(bytes: &[u8]) {
    let Some(([how, units], payload)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let family = 3;
    // Up to one more than what a record may be.
    let len = (u32::from(*units) + 1) * 4096 + u32::from(*how >> 7);
    let how = how & 3;
    let mut payload = payload.to_vec();
    payload.resize(payload.len().next_multiple_of(4096), 0);
    let mut ptr = RecordPtr::EMPTY;
    let tag = fuzzing::tag(family, ArrayKind::Data, how, len, &payload);
    ptr.identity = RecordIdentity::record([0; 24], tag, 0, 0, how, len);
    let sealer = Sealer::clear(family);
    if let Ok(buffer) = sealer.open(ArrayKind::Data, &ptr, &payload) {
        assert_eq!(buffer.len(), len as usize);
    }
}

/// The tag of a clear record, which anyone can make. `array` is 0 or 1.
pub fn clear_tag(family: u64, array: u8, how: u8, len: u32, payload: &[u8]) -> [u8; 16] {
    let array = ArrayKind::ALL[usize::from(array & 1)];
    fuzzing::tag(family, array, how, len, payload)
}

/// A payload of the same length for changed contents, if they fit it.
pub fn repack(how: u8, len: usize, payload: &[u8], change: &dyn Fn(&mut [u8])) -> Option<Vec<u8>> {
    fuzzing::repack(how, len, payload, change)
}

/// Any pointer and any bytes.
pub fn pointer(bytes: &[u8]) {
    let Ok((ptr, payload)) = RecordPtr::read_from_prefix(bytes) else {
        return;
    };
    for array in ArrayKind::ALL {
        let _ = Sealer::clear(3).open(array, &ptr, payload);
    }
}

/// Values for the corpus.
pub fn value_samples() -> Vec<(u8, Vec<u8>)> {
    let now = vfs::Time { secs: 5, nanos: 6 };
    let attr = AttrValue::new(vfs::Kind::File, 0o644, 131_072, now);
    let extent = RecordExtent {
        record: 1,
        slot: 2,
        count: 3,
        shared: true,
    };
    let name = |ino, name: &[u8]| NameEntry {
        ino,
        kind: vfs::Kind::File,
        name: name.to_vec(),
    };
    let mut acl = 2u32.to_le_bytes().to_vec();
    for (tag, perm) in [(1u16, 7u16), (4, 5), (0x10, 6), (0x20, 1)] {
        acl.extend(tag.to_le_bytes());
        acl.extend(perm.to_le_bytes());
        acl.extend([0xff; 4]);
    }
    let seals = SealPage {
        base: 3,
        seals: (1..=2).map(|n| PastSeal::new(n, &[n as u8; 32])).collect(),
    };
    let run = SharedRun {
        slot: 7,
        count: 2,
        owners: 3,
    };
    vec![
        (0, Header::new([9; 32]).encode()[..88].to_vec()),
        (1, attr.as_bytes().to_vec()),
        (2, [&1u64.to_le_bytes()[..], &extent.encode()].concat()),
        (3, encode_names(&[name(5, b"a"), name(6, b"another")])),
        (4, XattrValue::Here(vec![1, 2]).encode()),
        (4, XattrValue::Record { slot: 7, len: 9 }.encode()),
        (5, acl),
        (6, run.encode()),
        (7, vec![1; 16]),
        (8, crate::core::log::steps::sample()),
        (9, (1..=4u64).flat_map(u64::to_le_bytes).collect()),
        (10, seals.encode()[..80].to_vec()),
    ]
}

/// Pages for the corpus, in the form of [`page`].
pub fn page_samples() -> Vec<Vec<u8>> {
    let mut leaf = TreePage::new(PageKind::Leaf);
    leaf.insert(0, b"a", b"value");
    leaf.insert(1, b"b", &[7; 40]);
    leaf.insert(2, b"c", b"");
    leaf.remove(1);
    let mut inner = TreePage::new(PageKind::Inner);
    inner.insert(0, b"", &2u64.to_le_bytes());
    inner.insert(1, b"k", &3u64.to_le_bytes());
    [leaf, inner]
        .iter()
        .map(|page| [&page.bytes()[..64], &page.bytes()[PAGE - 64..]].concat())
        .collect()
}

/// Compressed records for the corpus, in the form of [`record`].
pub fn record_samples() -> Vec<Vec<u8>> {
    let plain: Vec<u8> = (0..8192u32).map(|i| (i / 100) as u8).collect();
    let mut all = vec![vec![0, 0, 1, 2, 3]];
    for compression in [Compression::Lz4, Compression::Zstd(3)] {
        let mut out = vec![0; 4000];
        if let Some((how, len)) = compression.compress(&plain, &mut out) {
            let head = [how, 1];
            all.push([&head[..], &(len as u32).to_le_bytes(), &out[..len]].concat());
        }
    }
    all
}
