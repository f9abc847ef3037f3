//! A request as the kernel would send it, for `fuzz/`.

use vfs::FileSystem;
use zerocopy::IntoBytes;

use crate::dispatch::inode_limit::Crowd;
use crate::dispatch::serve::{Dispatcher, ReplyContent};
use crate::options::{KernelCache, OpenReports};
use crate::wire::abi;
use crate::wire::directory::DirectoryPage;
use crate::wire::request::{FuseOperation, Request};

/// Reads a request and has `fs` serve it. `out` gets the answer.
pub fn request(fs: &dyn FileSystem, bytes: &[u8], setxattr_ext: bool, out: &mut Vec<u8>) {
    let Ok(request) = Request::parse(bytes, setxattr_ext) else {
        return;
    };
    if let FuseOperation::BatchForget(forgets) = request.op {
        assert!(forgets.iter().count() * 16 <= bytes.len());
    }
    let crowd = Crowd::new(4);
    let server = Dispatcher {
        fs,
        later: &|_| {},
        hears: OpenReports::Neither,
        kernel_cache: KernelCache::All,
        direct: None,
        crowd: Some(&crowd),
    };
    if let Ok(ReplyContent::Pieces(pieces, max)) = server.serve(&request, out) {
        let len: usize = pieces.iter().map(bytes::Bytes::len).sum();
        out.extend(pieces.concat().get(..len.min(max)).unwrap_or_default());
    }
}

/// Reads the kernel's list of mounts.
pub fn mount_list(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.for_each(crate::mount::dead_mounts::read_line);
}

/// A request with `body` after its header.
pub fn message(opcode: u32, nodeid: u64, body: &[u8]) -> Vec<u8> {
    let header = abi::InHeader {
        len: (size_of::<abi::InHeader>() + body.len()) as u32,
        opcode,
        unique: 1,
        nodeid,
        uid: 0,
        gid: 0,
        pid: 1,
        total_extlen: 0,
        padding: 0,
    };
    [header.as_bytes(), body].concat()
}

/// A page of a listing takes what fits, whatever its limit.
pub fn listing(limit: usize, plus: bool, names: &[&[u8]]) {
    let mut out = Vec::new();
    let entry = |_: &[u8], _: &vfs::Attr| abi::EntryOut::default();
    let plus = plus.then_some(&entry as &dyn Fn(&[u8], &vfs::Attr) -> abi::EntryOut);
    let mut page = DirectoryPage::new(&mut out, limit, plus);
    for name in names {
        let entry = vfs::DirEntry {
            ino: 1,
            kind: vfs::Kind::File,
            name,
            cookie: 1,
            attr: None,
        };
        if !page.push(&entry) {
            break;
        }
    }
    assert!(out.len() <= limit);
}
