//! A file system that stores nothing: how fast can FUSE be?
//!
//! ```text
//! null_fs MOUNTPOINT [threads=N] [writeback=yes] [read_ahead=BYTES]
//!         [work=MICROSECONDS] [wait=MICROSECONDS] [allow_other]
//! ```
//!
//! Names and sizes are kept in memory, reads are answered from one ready buffer, writes are
//! dropped; with `work` each read and write keeps a processor busy for so long, with `wait` it only
//! takes so long. Runs until it is unmounted, and then prints how often each operation was asked
//! for.

use std::collections::{BTreeMap, HashMap};
use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use vfs::{
    Attr, Caller, DirEntry, Error, Fallocate, FileSystem, Ino, Kind, NewNode, ROOT, ReadPieces,
    RenameMode, Result, Seek, SetAttr, SetTime, SetXattr, StatFs, Time,
};

fn main() -> ExitCode {
    let mut options = fuse::Options {
        fs_name: "null".to_owned(),
        ..fuse::Options::default()
    };
    let mut mountpoint = None;
    let (mut work, mut wait) = (Duration::ZERO, Duration::ZERO);
    for argument in env::args().skip(1) {
        match argument.split_once('=') {
            Some(("threads", count)) => options.threads = count.parse().ok(),
            Some(("writeback", value)) => options.writeback_cache = value == "yes",
            Some(("read_ahead", value)) => options.read_ahead = value.parse().unwrap_or(0),
            Some(("work", value)) => work = Duration::from_micros(value.parse().unwrap_or(0)),
            Some(("wait", value)) => wait = Duration::from_micros(value.parse().unwrap_or(0)),
            _ if argument == "allow_other" => options.allow_other = true,
            _ => mountpoint = Some(PathBuf::from(argument)),
        }
    }
    let Some(mountpoint) = mountpoint else {
        eprintln!("usage: null_fs MOUNTPOINT [OPTION=VALUE]...");
        return ExitCode::from(2);
    };
    let fs = Arc::new(NullFs::new(work, wait));
    let mount = match fuse::Mount::new(fs, &mountpoint, &options) {
        Ok(mount) => mount,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    mount.wait();
    for (name, count) in mount.requests() {
        println!("{name} {count}");
    }
    ExitCode::SUCCESS
}

/// As much as one request asks for.
const READY: usize = 1 << 20;

struct NullFs {
    work: Duration,
    wait: Duration,
    ready: Bytes,
    nodes: Mutex<Nodes>,
}

struct Nodes {
    next: Ino,
    nodes: HashMap<Ino, Node>,
}

struct Node {
    attr: Attr,
    lookups: u64,
    names: HashMap<Vec<u8>, u64>,
    /// By cookie.
    entries: BTreeMap<u64, (Vec<u8>, Ino)>,
}

fn now() -> Time {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    Time {
        secs: now.tv_sec,
        nanos: now.tv_nsec as u32,
    }
}

impl NullFs {
    fn new(work: Duration, wait: Duration) -> NullFs {
        let mut nodes = Nodes {
            next: ROOT,
            nodes: HashMap::new(),
        };
        nodes.add(&Caller::default(), Kind::Directory, 0o777);
        NullFs {
            work,
            wait,
            ready: Bytes::from(vec![0x55; READY]),
            nodes: Mutex::new(nodes),
        }
    }
}

impl NullFs {
    fn work(&self) {
        if !self.wait.is_zero() {
            std::thread::sleep(self.wait);
        }
        let begin = Instant::now();
        while begin.elapsed() < self.work {
            std::hint::spin_loop();
        }
    }
}

impl Nodes {
    fn add(&mut self, caller: &Caller, kind: Kind, mode: u16) -> Ino {
        let ino = self.next;
        self.next += 1;
        let now = now();
        let attr = Attr {
            ino,
            kind,
            mode,
            nlink: if kind == Kind::Directory { 2 } else { 1 },
            uid: caller.uid,
            gid: caller.gid,
            rdev: 0,
            size: 0,
            blocks: 0,
            blksize: 4096,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
        };
        self.nodes.insert(
            ino,
            Node {
                attr,
                lookups: 0,
                names: HashMap::new(),
                entries: BTreeMap::new(),
            },
        );
        ino
    }

    fn get(&mut self, ino: Ino) -> Result<&mut Node> {
        self.nodes.get_mut(&ino).ok_or(Error::Stale)
    }

    fn look(&mut self, ino: Ino) -> Result<Attr> {
        let node = self.get(ino)?;
        node.lookups += 1;
        Ok(node.attr)
    }

    fn enter(&mut self, parent: Ino, name: &[u8], ino: Ino) -> Result<()> {
        let dir = self.get(parent)?;
        let cookie = dir.entries.last_key_value().map_or(3, |(last, _)| last + 1);
        dir.names.insert(name.to_vec(), cookie);
        dir.entries.insert(cookie, (name.to_vec(), ino));
        Ok(())
    }

    fn leave(&mut self, parent: Ino, name: &[u8]) -> Result<Ino> {
        let dir = self.get(parent)?;
        let cookie = dir.names.remove(name).ok_or(Error::NotFound)?;
        let (_, ino) = dir.entries.remove(&cookie).ok_or(Error::NotFound)?;
        Ok(ino)
    }

    fn unlink(&mut self, parent: Ino, name: &[u8]) -> Result<()> {
        let ino = self.leave(parent, name)?;
        let node = self.get(ino)?;
        node.attr.nlink = 0;
        if node.lookups == 0 {
            self.nodes.remove(&ino);
        }
        Ok(())
    }

    fn make(&mut self, caller: &Caller, parent: Ino, name: &[u8], node: &NewNode) -> Result<Attr> {
        if self.get(parent)?.names.contains_key(name) {
            return Err(Error::Exists);
        }
        let ino = self.add(caller, node.kind, node.mode & !node.umask);
        self.enter(parent, name, ino)?;
        self.look(ino)
    }
}

impl FileSystem for NullFs {
    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        let mut nodes = self.nodes.lock();
        let dir = nodes.get(parent)?;
        let cookie = dir.names.get(name).ok_or(Error::NotFound)?;
        let ino = dir.entries[cookie].1;
        nodes.look(ino)
    }

    fn forget(&self, ino: Ino, count: u64) {
        let mut nodes = self.nodes.lock();
        if let Ok(node) = nodes.get(ino) {
            node.lookups -= count;
            if node.lookups == 0 && node.attr.nlink == 0 {
                nodes.nodes.remove(&ino);
            }
        }
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        Ok(self.nodes.lock().get(ino)?.attr)
    }

    fn setattr(&self, _: &Caller, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let mut nodes = self.nodes.lock();
        let attr = &mut nodes.get(ino)?.attr;
        let time = |time| match time {
            SetTime::Now => now(),
            SetTime::At(time) => time,
        };
        attr.mode = set.mode.unwrap_or(attr.mode);
        attr.uid = set.uid.unwrap_or(attr.uid);
        attr.gid = set.gid.unwrap_or(attr.gid);
        attr.size = set.size.unwrap_or(attr.size);
        attr.atime = set.atime.map_or(attr.atime, time);
        attr.mtime = set.mtime.map_or(attr.mtime, time);
        attr.ctime = set.ctime.unwrap_or_else(now);
        Ok(*attr)
    }

    fn readlink(&self, _: Ino) -> Result<Vec<u8>> {
        Err(Error::Invalid)
    }

    fn mknod(&self, caller: &Caller, parent: Ino, name: &[u8], node: &NewNode) -> Result<Attr> {
        self.nodes.lock().make(caller, parent, name, node)
    }

    fn tmpfile(&self, _: &Caller, _: Ino, _: &NewNode) -> Result<Attr> {
        Err(Error::NotSupported)
    }

    fn mkdir(&self, caller: &Caller, parent: Ino, name: &[u8], node: &NewNode) -> Result<Attr> {
        self.nodes.lock().make(caller, parent, name, node)
    }

    fn symlink(&self, _: &Caller, _: Ino, _: &[u8], _: &[u8]) -> Result<Attr> {
        Err(Error::NotSupported)
    }

    fn link(&self, _: Ino, _: Ino, _: &[u8]) -> Result<Attr> {
        Err(Error::NotSupported)
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.nodes.lock().unlink(parent, name)
    }

    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.nodes.lock().unlink(parent, name)
    }

    fn rename(
        &self,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        _: RenameMode,
    ) -> Result<()> {
        let mut nodes = self.nodes.lock();
        let ino = nodes.leave(parent, name)?;
        let _ = nodes.unlink(new_parent, new_name);
        nodes.enter(new_parent, new_name, ino)
    }

    fn read(&self, ino: Ino, offset: u64, len: u32) -> Result<ReadPieces> {
        self.work();
        let size = self.nodes.lock().get(ino)?.attr.size;
        let len = size.saturating_sub(offset).min(len.into()) as usize;
        Ok(vec![self.ready.slice(..len.min(READY))])
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], _: bool) -> Result<()> {
        self.work();
        let mut nodes = self.nodes.lock();
        let attr = &mut nodes.get(ino)?.attr;
        attr.size = attr.size.max(offset + data.len() as u64);
        attr.mtime = now();
        Ok(())
    }

    fn fsync(&self, _: Ino, _: bool) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn fallocate(&self, ino: Ino, offset: u64, len: u64, mode: Fallocate) -> Result<()> {
        if mode == (Fallocate::Allocate { keep_size: false }) {
            let mut nodes = self.nodes.lock();
            let attr = &mut nodes.get(ino)?.attr;
            attr.size = attr.size.max(offset + len);
        }
        Ok(())
    }

    fn seek(&self, _: Ino, _: u64, _: Seek) -> Result<u64> {
        Err(Error::NotImplemented)
    }

    fn copy_range(&self, _: Ino, _: u64, _: Ino, _: u64, _: u64) -> Result<u64> {
        Err(Error::NotSupported)
    }

    fn readdir(
        &self,
        ino: Ino,
        cookie: u64,
        attrs: bool,
        emit: &mut dyn FnMut(&DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let mut nodes = self.nodes.lock();
        for (number, name) in [(1, &b"."[..]), (2, b"..")] {
            let entry = DirEntry {
                ino,
                kind: Kind::Directory,
                name,
                cookie: number,
                attr: None,
            };
            if cookie < number && !emit(&entry) {
                return Ok(());
            }
        }
        let dir = nodes.get(ino)?;
        let rest: Vec<_> = dir.entries.range(cookie + 1..).take(1000).collect();
        let rest: Vec<_> = rest
            .into_iter()
            .map(|(c, (n, i))| (*c, n.clone(), *i))
            .collect();
        for (cookie, name, ino) in rest {
            let node = nodes.get(ino)?;
            let entry = DirEntry {
                ino,
                kind: node.attr.kind,
                name: &name,
                cookie,
                attr: attrs.then_some(node.attr),
            };
            if !emit(&entry) {
                break;
            }
            node.lookups += u64::from(attrs);
        }
        Ok(())
    }

    fn statfs(&self) -> Result<StatFs> {
        Ok(StatFs {
            block_size: 4096,
            blocks: 1 << 30,
            blocks_free: 1 << 30,
            blocks_available: 1 << 30,
            files: 1 << 30,
            files_free: 1 << 30,
            name_max: 255,
        })
    }

    fn setxattr(&self, _: Ino, _: &[u8], _: &[u8], _: SetXattr) -> Result<()> {
        Err(Error::NotSupported)
    }

    fn getxattr(&self, _: Ino, _: &[u8]) -> Result<Vec<u8>> {
        Err(Error::NoAttribute)
    }

    fn listxattr(&self, _: Ino) -> Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    fn removexattr(&self, _: Ino, _: &[u8]) -> Result<()> {
        Err(Error::NoAttribute)
    }
}
