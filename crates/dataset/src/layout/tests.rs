use super::*;

#[test]
fn keys_sort_by_inode_then_kind_then_number() {
    let keys = [
        orphan_key(9),
        dead_key(1),
        dead_key(256),
        owner_key(1, 7),
        owner_key(1, 300),
        owner_key(2, 0),
        attr_key(1),
        inline_key(1),
        extent_key(1, 2),
        extent_key(1, 300),
        xattr_key(1, b"user.a"),
        entry_key(1, 7),
        attr_key(2),
        attr_key(256),
    ];
    assert!(keys.is_sorted());
    assert_eq!(suffix_number(&keys[9], 1, KeyKind::Extent), Some(300));
    assert_eq!(suffix(&keys[10], 1, KeyKind::Xattr), Some(&b"user.a"[..]));
    assert_eq!(suffix(&keys[10], 2, KeyKind::Xattr), None);
    assert_eq!(dataset_number(&keys[2], KeyKind::Dead), Some(256));
    assert_eq!(owner_suffix(&keys[4]), Some((1, 300)));
    assert_eq!(owner_suffix(&keys[6]), None);
    assert_eq!(attr_ino(&keys[13]), Some(256));
    assert_eq!(attr_ino(&keys[7]), None);
}

/// The bytes of format 1. They never change.
#[test]
fn golden_bytes() {
    let mut attr = AttrValue::new(Kind::File, 0o4755, 131_072, Time { secs: -1, nanos: 5 });
    attr.nlink = 2.into();
    attr.uid = 3.into();
    attr.gid = 4.into();
    attr.rdev = 5.into();
    attr.size = 6.into();
    attr.allocated = 7.into();
    attr.parent = 8.into();
    attr.entries = 9.into();
    let time = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 5, 0, 0, 0];
    let mut expected = vec![0xed, 0x09, 8, 1, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0];
    expected.extend([5, 0, 0, 0, 0, 0, 2, 0]);
    for n in 6..=9u64 {
        expected.extend(n.to_le_bytes());
    }
    expected.extend(time.repeat(4));
    expected.extend([0; 24]);
    assert_eq!(attr.as_bytes(), expected);
    assert_eq!(AttrValue::decode(&expected), Some(attr));
}

#[test]
fn attributes_that_cannot_be_do_no_harm() {
    let mut attr = AttrValue::new(Kind::File, 0o644, 4096, Time::default());
    attr.allocated = u64::MAX.into();
    attr.entries = u64::MAX.into();
    attr.size = INLINE_MAX.into();
    let read = AttrValue::decode(attr.as_bytes()).unwrap();
    assert_eq!(read.to_attr(1).blocks, u64::MAX.div_ceil(512));
    attr.size = (INLINE_MAX + 1).into();
    assert_eq!(AttrValue::decode(attr.as_bytes()), None);
    let mut dir = AttrValue::new(Kind::Directory, 0o755, 4096, Time::default());
    dir.entries = u64::MAX.into();
    assert_eq!(dir.to_attr(1).size, u64::MAX);
}

#[test]
fn values_round_trip_and_decoding_is_total() {
    let names = vec![
        NameEntry {
            ino: 5,
            kind: Kind::File,
            name: b"a".to_vec(),
        },
        NameEntry {
            ino: 6,
            kind: Kind::Directory,
            name: vec![0xff; 255],
        },
    ];
    let bytes = encode_names(&names);
    assert_eq!(decode_names(&bytes), Some(names));
    for len in 1..bytes.len() {
        if len != 11 {
            assert_eq!(decode_names(&bytes[..len]), None, "{len}");
        }
    }
    let extent = RecordExtent {
        record: 1,
        slot: 2,
        count: 3,
        shared: true,
    };
    assert_eq!(RecordExtent::decode(1, &extent.encode()), Some(extent));
    assert_eq!(RecordExtent::decode(u64::MAX, &extent.encode()), None);
    assert_eq!(RecordExtent::decode(1, &[0xff; 24]), None);
    let run = SharedRun {
        slot: 1,
        count: 2,
        owners: 3,
    };
    assert_eq!(SharedRun::decode(1, &run.encode()), Some(run));
    for value in [
        XattrValue::Here(vec![1, 2]),
        XattrValue::Record { slot: 7, len: 9 },
    ] {
        assert_eq!(XattrValue::decode(&value.encode()), Some(value));
    }
    assert_eq!(SharedRun::decode(u64::MAX - 5, &run.encode()), None);
    assert_eq!(XattrValue::decode(&[]), None);
    assert_eq!(XattrValue::decode(&[1, 2]), None);
    assert_eq!(AttrValue::decode(&[0; 128]), None);
}
