//! Requests as the kernel writes them, and malformed ones.

use zerocopy::IntoBytes;

use super::*;

/// A request with its header, and the bytes it starts with after that.
fn message(opcode: u32, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let header = abi::InHeader {
        len: (40 + body.len()) as u32,
        opcode,
        unique: 0x1122_3344_5566_7788,
        nodeid: 42,
        uid: 1000,
        gid: 100,
        pid: 7,
        total_extlen: 0,
        padding: 0,
    };
    [header.as_bytes(), &body].concat()
}

fn parsed(bytes: &[u8]) -> Option<Request<'_>> {
    Request::parse(bytes, true).ok()
}

/// Returns a request of each kind.
fn all() -> Vec<Vec<u8>> {
    let name: &[u8] = b"name\0";
    let zeros: &[u8] = &[0; 128];
    let of = |opcode, len: usize, names: &[&[u8]]| {
        let mut parts = vec![&zeros[..len]];
        parts.extend_from_slice(names);
        message(opcode, &parts)
    };
    let init = abi::InitIn {
        major: 7,
        minor: 45,
        max_readahead: 131_072,
        flags: u32::MAX,
    };
    let ext = abi::InitInExt {
        flags2: 0x10,
        ..Default::default()
    };
    let write = abi::WriteIn {
        size: 5,
        offset: 99,
        write_flags: abi::WRITE_KILL_SUIDGID,
        flags: 0o10001,
        ..Default::default()
    };
    let setxattr = abi::SetxattrIn {
        size: 3,
        flags: 1,
        setxattr_flags: 1,
        padding: 0,
    };
    let forgets = [(1u64, 2u64), (3, 4)];
    let forgets: Vec<u8> = forgets
        .iter()
        .flat_map(|&(ino, n)| [ino.to_ne_bytes(), n.to_ne_bytes()].concat())
        .collect();
    let ioctl = abi::IoctlIn {
        cmd: abi::ioctl::SETFLAGS,
        in_size: 4,
        ..Default::default()
    };
    vec![
        message(op::INIT, &[init.as_bytes(), ext.as_bytes()]),
        message(op::LOOKUP, &[name]),
        of(op::FORGET, 8, &[]),
        message(op::BATCH_FORGET, &[&2u32.to_ne_bytes(), &[0; 4], &forgets]),
        of(op::GETATTR, 16, &[]),
        of(op::STATX, 24, &[]),
        of(op::SETATTR, 88, &[]),
        message(op::READLINK, &[]),
        message(op::SYMLINK, &[name, b"to/there\0"]),
        of(op::MKNOD, 16, &[name]),
        of(op::MKDIR, 8, &[name]),
        message(op::UNLINK, &[name]),
        message(op::RMDIR, &[name]),
        of(op::RENAME, 8, &[name, b"new\0"]),
        of(op::RENAME2, 16, &[name, b"new\0"]),
        of(op::LINK, 8, &[name]),
        of(op::CREATE, 16, &[name]),
        of(op::TMPFILE, 16, &[b"/\0"]),
        of(op::OPEN, 8, &[]),
        of(op::OPENDIR, 8, &[]),
        of(op::RELEASE, 24, &[]),
        of(op::RELEASEDIR, 24, &[]),
        of(op::FLUSH, 24, &[]),
        of(op::READ, 40, &[]),
        message(op::WRITE, &[write.as_bytes(), b"hello"]),
        of(op::FSYNC, 16, &[]),
        of(op::FSYNCDIR, 16, &[]),
        of(op::SYNCFS, 8, &[]),
        of(op::READDIR, 40, &[]),
        of(op::READDIRPLUS, 40, &[]),
        message(op::STATFS, &[]),
        of(op::ACCESS, 8, &[]),
        message(op::SETXATTR, &[setxattr.as_bytes(), b"user.x\0", b"abc"]),
        of(op::GETXATTR, 8, &[name]),
        of(op::LISTXATTR, 8, &[]),
        message(op::REMOVEXATTR, &[name]),
        of(op::FALLOCATE, 32, &[]),
        message(op::IOCTL, &[ioctl.as_bytes(), &[0x10, 0, 0, 0]]),
        of(op::LSEEK, 24, &[]),
        of(op::COPY_FILE_RANGE, 56, &[]),
        of(op::COPY_FILE_RANGE_64, 56, &[]),
        of(op::INTERRUPT, 8, &[]),
        message(op::DESTROY, &[]),
        of(op::NOTIFY_REPLY, 40, &[]),
    ]
}

#[test]
fn every_operation_is_read() {
    for bytes in all() {
        let request = parsed(&bytes).expect("a good request");
        assert!(
            !matches!(request.op, FuseOperation::Unknown),
            "{:?}",
            request.header
        );
        assert_eq!((request.header.nodeid, request.header.uid), (42, 1000));
    }
    assert!(matches!(
        parsed(&message(9999, &[b"?"])).unwrap().op,
        FuseOperation::Unknown
    ));
}

#[test]
fn arguments_are_where_they_belong() {
    let all = all();
    let op = |number: u32| {
        let bytes = all
            .iter()
            .find(|bytes| bytes[4..8] == number.to_ne_bytes())
            .unwrap();
        parsed(bytes).unwrap().op
    };
    let FuseOperation::Init { version, flags } = op(op::INIT) else {
        panic!()
    };
    assert_eq!((version, flags), ((7, 45), 0x10_ffff_ffff));
    let FuseOperation::Ioctl { cmd, data, len } = op(op::IOCTL) else {
        panic!()
    };
    assert_eq!((cmd, data, len), (0x4008_6602, &[0x10, 0, 0, 0][..], 0));
    let FuseOperation::Write {
        offset,
        flags,
        open_flags,
        data,
    } = op(op::WRITE)
    else {
        panic!()
    };
    assert_eq!(
        (offset, flags, open_flags, data),
        (99, abi::WRITE_KILL_SUIDGID, 0o10001, &b"hello"[..])
    );
    let FuseOperation::Symlink { name, target } = op(op::SYMLINK) else {
        panic!()
    };
    assert_eq!((name, target), (&b"name"[..], &b"to/there"[..]));
    let FuseOperation::Rename { name, new_name, .. } = op(op::RENAME2) else {
        panic!()
    };
    assert_eq!((name, new_name), (&b"name"[..], &b"new"[..]));
    let FuseOperation::BatchForget(forgets) = op(op::BATCH_FORGET) else {
        panic!()
    };
    assert_eq!(forgets.iter().collect::<Vec<_>>(), [(1, 2), (3, 4)]);
    let FuseOperation::Setxattr {
        name,
        value,
        flags,
        ext_flags,
    } = op(op::SETXATTR)
    else {
        panic!()
    };
    assert_eq!(
        (name, value, flags, ext_flags),
        (&b"user.x"[..], &b"abc"[..], 1, 1)
    );
}

#[test]
fn the_short_form_of_setxattr() {
    let set = abi::SetxattrInCompat { size: 3, flags: 2 };
    let bytes = message(op::SETXATTR, &[set.as_bytes(), b"user.x\0", b"abc"]);
    let Ok(Request { op, .. }) = Request::parse(&bytes, false) else {
        panic!()
    };
    assert!(matches!(
        op,
        FuseOperation::Setxattr {
            name: b"user.x",
            value: b"abc",
            flags: 2,
            ext_flags: 0
        }
    ));
}

#[test]
fn an_old_kernel_has_one_word_of_flags() {
    let init = abi::InitIn {
        major: 7,
        minor: 31,
        max_readahead: 0,
        flags: 1,
    };
    let bytes = message(op::INIT, &[init.as_bytes()]);
    assert!(matches!(
        parsed(&bytes).unwrap().op,
        FuseOperation::Init {
            version: (7, 31),
            flags: 1
        }
    ));
}

#[test]
fn names_that_are_none_are_refused() {
    for name in [&b"\0"[..], b"a/b\0", b"no end", b""] {
        assert!(parsed(&message(op::LOOKUP, &[name])).is_none(), "{name:?}");
    }
    for name in [&b".\0"[..], b"..\0"] {
        assert!(parsed(&message(op::UNLINK, &[name])).is_none(), "{name:?}");
        // For file handles.
        assert!(parsed(&message(op::LOOKUP, &[name])).is_some(), "{name:?}");
    }
    assert!(parsed(&message(op::LOOKUP, &[b"...\0"])).is_some());
    assert!(parsed(&message(op::LOOKUP, &[b"\xff\x01\0"])).is_some());
}

#[test]
fn extensions_are_cut_off() {
    let mut bytes = message(op::CREATE, &[&[0; 16], b"name\0\0\0\0", &[9; 16]]);
    bytes[36..38].copy_from_slice(&2u16.to_ne_bytes());
    assert!(matches!(
        parsed(&bytes).unwrap().op,
        FuseOperation::Create { name: b"name", .. }
    ));
    bytes[36..38].copy_from_slice(&u16::MAX.to_ne_bytes());
    assert!(Request::parse(&bytes, true).is_err());
}

#[test]
fn lengths_that_are_not_true_are_refused() {
    let write = abi::WriteIn {
        size: u32::MAX,
        ..Default::default()
    };
    assert!(parsed(&message(op::WRITE, &[write.as_bytes(), b"short"])).is_none());
    let count = u32::MAX.to_ne_bytes();
    assert!(parsed(&message(op::BATCH_FORGET, &[&count, &[0; 4], &[0; 64]])).is_none());
    for len in [0u32, 39, 41, 1000, u32::MAX] {
        let mut bytes = message(op::STATFS, &[]);
        bytes[..4].copy_from_slice(&len.to_ne_bytes());
        assert!(Request::parse(&bytes, true).is_err(), "{len}");
    }
}

/// Reads the parts of a request that the parser leaves for later.
fn exhaust(bytes: &[u8], setxattr_ext: bool) {
    match Request::parse(bytes, setxattr_ext) {
        Ok(Request {
            op: FuseOperation::BatchForget(forgets),
            ..
        }) => {
            assert!(forgets.iter().count() <= bytes.len());
        }
        Ok(_) => {}
        Err(MalformedRequest { header }) => assert_eq!(header.is_none(), bytes.len() < 40),
    }
}

#[test]
fn truncated_requests_are_errors_at_worst() {
    for bytes in all() {
        for end in 0..bytes.len() {
            exhaust(&bytes[..end], true);
            let mut cut = bytes[..end].to_vec();
            if end >= 4 {
                // The same with a length that agrees.
                cut[..4].copy_from_slice(&(end as u32).to_ne_bytes());
                exhaust(&cut, end % 2 == 0);
            }
        }
    }
}

#[test]
fn damaged_requests_are_errors_at_worst() {
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let all = all();
    for round in 0..200_000u64 {
        let mut bytes = all[next() as usize % all.len()].clone();
        for _ in 0..=next() % 6 {
            let at = next() as usize % bytes.len();
            bytes[at] = next() as u8;
        }
        exhaust(&bytes, round % 2 == 0);
        // Nothing but noise, for each operation.
        let noise: Vec<u8> = (0..next() % 160).map(|_| next() as u8).collect();
        let mut bytes = message((round % 70) as u32, &[&noise]);
        exhaust(&bytes, round % 2 == 0);
        bytes.truncate(next() as usize % (bytes.len() + 1));
        exhaust(&bytes, round % 2 == 0);
    }
}
