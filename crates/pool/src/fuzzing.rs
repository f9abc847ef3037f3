//! The decoders of a pool's own records, for `fuzz/`.

use store::{SegmentId, UNIT};
use zerocopy::{FromBytes, IntoBytes};

use crate::engine::dedup;
use crate::engine::frees::deadlist;
use crate::format::datasets::bookmark::SnapshotBookmark;
use crate::format::datasets::entry::Entry;
use crate::format::jobs::free_job::FreeJob;
use crate::format::logs::log_head::LogHead;
use crate::format::records::extent::StoredExtent;
use crate::format::records::node::ArrayNode;
use crate::format::records::pointer::{Addr, RecordLocation, RecordPtr};
use crate::format::stream::{Begin, Package, ResumeToken};
use crate::format::superblock::config::Config;
use crate::format::superblock::history_line;
use crate::format::superblock::root::PoolRoot;
use crate::storage::gang::{Bounds, CHECKSUM, Gang, MAP_LEN, mark_of};
use crate::storage::remap::RemapPage;
use crate::storage::space::{Bitmap, SegmentEntry};
use crate::{DatasetName, check_pool_name};

/// The number of decoders that [`decode`] knows.
pub const DECODERS: u8 = 15;

/// Decodes `bytes` as one kind of record, and uses what comes out.
pub fn decode(kind: u8, bytes: &[u8]) {
    match kind {
        0 => {
            if let Some(entry) = Entry::decode(bytes) {
                assert_eq!(Entry::decode(&entry.encode()), Some(entry));
            }
        }
        1 => node(bytes),
        2 => {
            let _ = history_line::HistoryRecord::decode(bytes);
        }
        3 => {
            if let Some(config) = Config::decode(bytes) {
                assert_eq!(Config::decode(&config.encode()), Some(config));
            }
        }
        4 => {
            if let Some(job) = FreeJob::decode(bytes) {
                assert_eq!(FreeJob::decode(&job.encode()), Some(job));
            }
        }
        5 => {
            for entry in deadlist::decode_chunk(bytes).unwrap_or_default() {
                let _ = entry.place().allocated();
            }
        }
        6 => {
            let _ = deadlist::Sublist::decode(bytes).map(|sublist| sublist.bytes());
        }
        7 => {
            if let Ok(root) = PoolRoot::decode(bytes) {
                let _ = (root.name(), root.host(), root.state());
                let _ = crate::Superblock::decode(1, bytes).expect("decoded just now");
            }
        }
        8 => bitmap(bytes),
        9 => {
            for chunk in bytes.chunks_exact(size_of::<SegmentEntry>()) {
                let _ = SegmentEntry::read_from_bytes(chunk);
            }
        }
        11 => gang_map(bytes),
        12 => crate::format::logs::log_entry::fuzzing::decode(bytes),
        13 => dedup::decode_for_fuzzing(bytes),
        14 => remap_page(bytes),
        _ => {
            if let Ok(name) = std::str::from_utf8(bytes) {
                let _ = (DatasetName::parse(name), check_pool_name(name));
            }
        }
    }
}

fn node(bytes: &[u8]) {
    let Ok((node, _)) = ArrayNode::read_from_prefix(bytes) else {
        return;
    };
    for child in &node.children {
        let _ = (child.is_consistent(), child.is_empty(), child.level());
        let _ = child.place.allocated();
    }
    for level in [1, 12, 255] {
        let _ = node.identity(level);
    }
}

fn remap_page(bytes: &[u8]) {
    let bounds = Bounds {
        groups: vec![(8, store::Shape::WHOLE); 2],
        units: 256,
    };
    if let Some(page) = RemapPage::decode(bytes, &bounds) {
        let again = page.encode(&bounds).expect("pieces of the pool");
        assert_eq!(RemapPage::decode(&again, &bounds), Some(page));
    }
}

/// A map with these contents and a checksum that fits, of a record of as many units as it says.
fn gang_map(bytes: &[u8]) {
    let mut map = bytes.to_vec();
    map.resize(MAP_LEN - CHECKSUM, 0);
    let units = u32::from(map[8]).max(1);
    let sum = blake3::hash(&map);
    map.extend_from_slice(sum.as_bytes());
    let addr = [0, 1].map(|index| Addr::new(SegmentId::new(0, index), 0, units * UNIT));
    let place = RecordLocation::new(addr, 1, [0; 16]).with_gang_mark(Some(mark_of(&map)));
    let bounds = Bounds {
        groups: vec![(8, store::Shape::WHOLE); 2],
        units: 256,
    };
    if let Some(gang) = Gang::decode(&map, &place, &bounds) {
        for copy in 0..2 {
            let len: usize = gang.runs(copy).iter().map(|run| run.bytes.len()).sum();
            assert_eq!(len, place.disk_size() as usize);
        }
    }
}

/// The first two bytes choose a run, so that what was decoded is changed too.
fn bitmap(bytes: &[u8]) {
    let Some(([start, len], map)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let (start, len) = (u32::from(*start), u32::from(*len));
    for units in [70, 256] {
        if let Some(mut map) = Bitmap::from_bytes(map, units) {
            let before = map.count();
            let _ = map.find(start, len.max(1));
            if map.set(start, len) {
                assert_eq!(map.count(), before + len);
                assert!(map.clear(start, len));
            }
            assert_eq!(map.count(), before);
            assert!(Bitmap::from_bytes(&map.to_bytes(), units) == Some(map));
        }
    }
}

/// Reads streams, the first frame of one, and tokens.
pub fn stream(kind: u8, bytes: &[u8]) {
    match kind {
        0 => crate::format::stream::read_all(bytes),
        1 => crate::format::stream::read_all(&crate::format::stream::made_to_fit(bytes)),
        2 => {
            if let Ok(begin) = Begin::decode(bytes) {
                let again = Begin::decode(&begin.encode());
                assert!(again.is_ok_and(|again| again == begin));
            }
            if let Ok(package) = Package::decode(bytes) {
                assert_eq!(package.encode(), bytes);
            }
        }
        _ => {
            let text = std::str::from_utf8(bytes).unwrap_or_default();
            if let Some(token) = ResumeToken::parse(text) {
                assert_eq!(ResumeToken::parse(&token.to_string()), Some(token));
            }
            if let Some(bookmark) = SnapshotBookmark::decode(text) {
                assert_eq!(bookmark.encode(), text);
            }
        }
    }
}

/// Inputs for [`stream`].
pub fn stream_samples() -> Vec<(u8, Vec<u8>)> {
    let streams = crate::format::stream::samples();
    let token = ResumeToken {
        to_guid: 1,
        from_guid: 2,
        name: "tank/a@s".into(),
        next: crate::StreamPosition::START,
        plain: false,
    };
    let plain = ResumeToken {
        plain: true,
        ..token.clone()
    };
    let tokens = [token, plain].map(|token| (3, token.to_string().into_bytes()));
    let mut all = Vec::from(tokens);
    for whole in streams {
        let begin = whole[160..].to_vec();
        all.extend([(0, whole.clone()), (1, whole), (2, begin)]);
    }
    all
}

/// Returns an encoding of each kind, for the corpus.
pub fn samples() -> Vec<(u8, Vec<u8>)> {
    let entry = Entry {
        id: 3,
        guid: 2,
        family: 3,
        parent: 1,
        name: "home".into(),
        kind: crate::DatasetKind::FileSystem,
        created_txg: 5,
        created: 6,
        suite: 1,
        key_root: 7,
        keyring: Some(crate::KeyringRef {
            blocks: vec![8, 9],
            len: 5000,
            checksum: [10; 16],
        }),
        roots: [RecordPtr::EMPTY; 2],
        sequence: 11,
        sequence_past: 0,
        seal: [12; 32],
        prev_snap: 0,
        prev_snap_txg: 0,
        next: 0,
        origin: 0,
        deadlist: RecordPtr::EMPTY,
        dead_bytes: 0,
        referenced: 18,
        used: 19,
        logical: 20,
        log: LogHead {
            chain: 7,
            sequence: 8,
            base: 9,
            state: [10; 16],
            before: [11; 16],
            offset: 4096,
            chunks: vec![Addr::new(SegmentId::new(0, 5), 8192, 65536)],
        },
        props: [("compression".into(), "zstd-3".into())].into(),
    };
    let piece = |index, start, units| StoredExtent {
        segment: SegmentId::new(0, index),
        start,
        units,
    };
    let gang = Gang {
        copies: [
            vec![piece(2, 4, 2), piece(3, 9, 1)],
            vec![piece(4, 1, 1), piece(4, 8, 2)],
        ],
    };
    let bounds = Bounds {
        groups: vec![(8, store::Shape::WHOLE); 2],
        units: 256,
    };
    let mut gang_map = gang.encode(&bounds).expect("few pieces");
    gang_map.truncate(64);
    let line = history_line::HistoryLine {
        time: 1,
        txg: 2,
        internal: false,
        uid: Some(0),
        object: 7,
        who: "root on host".into(),
        text: "strongroom create tank".into(),
    };
    let job = FreeJob {
        what: crate::format::jobs::free_job::FreeTarget::Tree { min_birth: 3 },
        root: RecordPtr::EMPTY,
        cursor: 9,
    };
    let mut map = Bitmap::new(256);
    let _ = map.set(3, 60);
    let bitmap = [&[7, 9], &map.to_bytes()[..]].concat();
    vec![
        (0, entry.encode()),
        (1, ArrayNode::empty().as_bytes().to_vec()),
        (
            2,
            [history_line::HistoryHead::default().encode(), line.encode()].concat(),
        ),
        (3, Config::default().encode()),
        (4, job.encode()),
        (5, [&[2, 0, 0, 0, 0, 0, 0, 0][..], &[1; 96]].concat()),
        (6, vec![0; 152]),
        (7, PoolRoot::new("tank", 1, 5).as_bytes().to_vec()),
        (8, bitmap),
        (9, SegmentEntry::new(2, 9).as_bytes().to_vec()),
        (10, b"tank/home/ann@monday".to_vec()),
        (11, gang_map),
        (12, crate::format::logs::log_entry::fuzzing::sample_entry()),
        (13, dedup::sample_bucket()),
        (14, RemapPage::sample().encode(&bounds).expect("few pieces")),
    ]
}
