//! A file system in memory: small, and honest about what POSIX asks.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use vfs::{
    Attr, Caller, DirEntry, Error, Fallocate, FileSystem, Ino, Kind, NewNode, ROOT, ReadPieces,
    Result, Seek, SetAttr, SetTime, SetXattr, StatFs, Trust,
};

use super::nodes::{Body, Directory, Nodes, now};

/// Looking this name up panics.
pub const PANIC: &[u8] = b"panic";

type Hook = dyn Fn(&'static str, Ino) + Send + Sync;

/// The file system.
pub struct MemFs {
    nodes: Mutex<Nodes>,
    /// Signalled whenever lookups are given back.
    forgotten: Condvar,
    /// Called, without locks, before reads, writes and fsyncs.
    hook: Mutex<Option<std::sync::Arc<Hook>>>,
    trusts: Mutex<BTreeMap<Ino, Trust>>,
    /// The content that reads return instead of the written one. Of a written file then only the size is kept.
    ready: Option<Bytes>,
}

impl MemFs {
    pub fn new() -> MemFs {
        let mut nodes = Nodes {
            next: ROOT,
            all: BTreeMap::new(),
            synced: 0,
        };
        let caller = Caller {
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
        };
        nodes.add(
            &caller,
            Kind::Directory,
            0o777,
            0,
            Body::Directory(Directory {
                parent: ROOT,
                last_cookie: 2,
                ..Directory::default()
            }),
        );
        MemFs {
            nodes: Mutex::new(nodes),
            forgotten: Condvar::new(),
            hook: Mutex::new(None),
            trusts: Mutex::default(),
            ready: None,
        }
    }

    /// Keeps names and attributes, and stores no contents.
    pub fn null() -> MemFs {
        MemFs {
            ready: Some(Bytes::from(vec![0x55; 1 << 20])),
            ..MemFs::new()
        }
    }

    /// Calls `hook` before each read, write, fsync and sync.
    pub fn set_hook(&self, hook: impl Fn(&'static str, Ino) + Send + Sync + 'static) {
        *self.hook.lock() = Some(std::sync::Arc::new(hook));
    }

    fn call_hook(&self, what: &'static str, ino: Ino) {
        let hook = self.hook.lock().clone();
        if let Some(hook) = hook {
            hook(what, ino);
        }
    }

    /// Says how long the kernel may keep the names in `ino` and its attributes.
    pub fn set_trust(&self, ino: Ino, trust: Trust) {
        self.trusts.lock().insert(ino, trust);
    }

    /// Returns the number of inodes, with and without names.
    pub fn inodes(&self) -> usize {
        self.nodes.lock().all.len()
    }

    /// Returns the number of calls of `sync`.
    pub fn synced(&self) -> u64 {
        self.nodes.lock().synced
    }

    /// Lookups of everything but the root.
    pub fn lookups(&self) -> u64 {
        self.nodes.lock().lookups()
    }

    /// Waits until what is forgotten leaves this many inodes; false if it takes too long.
    pub fn wait_for_inodes(&self, count: usize) -> bool {
        let mut nodes = self.nodes.lock();
        while nodes.all.len() != count {
            if self.forgotten.wait_for(&mut nodes, PATIENCE).timed_out() {
                return false;
            }
        }
        true
    }

    /// Waits until no lookups are left; false if it takes too long.
    pub fn wait_for_no_lookups(&self) -> bool {
        self.wait_for_lookups(0)
    }

    /// Waits until no more than `max` lookups are left; false if it takes too long.
    pub fn wait_for_lookups(&self, max: u64) -> bool {
        let mut nodes = self.nodes.lock();
        while nodes.lookups() > max {
            if self.forgotten.wait_for(&mut nodes, PATIENCE).timed_out() {
                return false;
            }
        }
        true
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

fn kill_suidgid(attr: &mut Attr) {
    attr.mode &= !0o4000;
    if attr.mode & 0o010 != 0 {
        attr.mode &= !0o2000;
    }
}

/// The permission bits that an access ACL means.
fn mode_of_acl(acl: &[u8], mode: u16) -> u16 {
    let entries = acl.get(4..).unwrap_or_default().chunks_exact(8);
    let entries = entries.map(|e| (u16::from_le_bytes([e[0], e[1]]), u16::from(e[2]) & 7));
    let find = |tag| {
        entries
            .clone()
            .find(|&(t, _)| t == tag)
            .map(|(_, permissions)| permissions)
    };
    let user = find(1).unwrap_or(mode >> 6 & 7);
    let group = find(0x10).or_else(|| find(4)).unwrap_or(mode >> 3 & 7);
    let other = find(0x20).unwrap_or(mode & 7);
    mode & 0o7000 | user << 6 | group << 3 | other
}

const ACCESS_ACL: &[u8] = b"system.posix_acl_access";

impl FileSystem for MemFs {
    vfs::methods! { self;
        getattr(ino) => Ok(self.nodes.lock().get(ino)?.attr);
        readlink(ino) => match &self.nodes.lock().get(ino)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(Error::Invalid),
        };
        mknod(caller, parent, name, new) => self.nodes.lock().make(caller, parent, Some(name), new);
        tmpfile(caller, parent, new) => self.nodes.lock().make(caller, parent, None, new);
        mkdir(caller, parent, name, new) => self.nodes.lock().make(caller, parent, Some(name), new);
        unlink(parent, name) => self.nodes.lock().remove(parent, name, false);
        rmdir(parent, name) => self.nodes.lock().remove(parent, name, true);
        rename(parent, name, new_parent, new_name, mode) =>
            self.nodes.lock().rename((parent, name), (new_parent, new_name), mode);
        statfs() =>
            Ok(StatFs {
                block_size: 4096,
                blocks: 1000,
                blocks_free: 600,
                blocks_available: 500,
                files: 100,
                files_free: 50,
                name_max: 255,
            });
        listxattr(ino) => Ok(self.nodes.lock().get(ino)?.xattrs.keys().cloned().collect());
    }

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        assert!(name != PANIC, "asked to panic");
        let mut nodes = self.nodes.lock();
        let ino = match name {
            b"." => parent,
            _ => nodes.find(parent, name)?,
        };
        nodes.look(ino)
    }

    fn forget(&self, ino: Ino, count: u64) {
        let mut nodes = self.nodes.lock();
        if let Ok(node) = nodes.get(ino) {
            node.lookups = node.lookups.strict_sub(count);
            nodes.reap(ino);
        }
        self.forgotten.notify_all();
    }

    fn forget_all(&self) {
        let mut nodes = self.nodes.lock();
        nodes.all.values_mut().for_each(|node| node.lookups = 0);
        nodes.all.retain(|_, node| node.attr.nlink > 0);
        self.forgotten.notify_all();
    }

    fn trust(&self, ino: Ino) -> Trust {
        self.trusts
            .lock()
            .get(&ino)
            .copied()
            .unwrap_or(Trust::Lasting)
    }

    fn generation(&self, found: &Attr) -> u64 {
        found.btime.nanos.into()
    }

    fn setattr(&self, _: &Caller, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let mut nodes = self.nodes.lock();
        if let Some(size) = set.size {
            let (attr, contents) = nodes.file(ino)?;
            contents.truncate(size);
            (attr.size, attr.blocks) = (size, contents.blocks());
            attr.mtime = now();
        }
        let attr = &mut nodes.get(ino)?.attr;
        let time = |time| match time {
            SetTime::Now => now(),
            SetTime::At(time) => time,
        };
        attr.mode = set.mode.unwrap_or(attr.mode);
        attr.uid = set.uid.unwrap_or(attr.uid);
        attr.gid = set.gid.unwrap_or(attr.gid);
        attr.atime = set.atime.map_or(attr.atime, time);
        attr.mtime = set.mtime.map_or(attr.mtime, time);
        attr.ctime = set.ctime.unwrap_or_else(now);
        if set.kill_suidgid {
            kill_suidgid(attr);
        }
        Ok(*attr)
    }

    fn symlink(&self, caller: &Caller, parent: Ino, name: &[u8], target: &[u8]) -> Result<Attr> {
        let mut nodes = self.nodes.lock();
        let new = NewNode::new(Kind::Symlink, 0o777);
        let body = Body::Symlink(target.to_vec());
        let attr = nodes.make_body(caller, parent, Some(name), &new, body)?;
        let node = nodes.get(attr.ino)?;
        node.attr.size = target.len() as u64;
        Ok(node.attr)
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        let mut nodes = self.nodes.lock();
        if nodes.find(parent, name).is_ok() {
            return Err(Error::Exists);
        }
        nodes.enter(parent, name, ino)?;
        let attr = &mut nodes.get(ino)?.attr;
        attr.nlink += 1;
        attr.ctime = now();
        nodes.look(ino)
    }

    fn read(&self, ino: Ino, offset: u64, len: u32) -> Result<ReadPieces> {
        self.call_hook("read", ino);
        let mut nodes = self.nodes.lock();
        let (attr, contents) = nodes.file(ino)?;
        attr.atime = now();
        let end = attr.size.min(offset.saturating_add(len.into()));
        Ok(match &self.ready {
            Some(ready) => {
                let len = end.saturating_sub(offset) as usize;
                vec![ready.slice(..len.min(ready.len()))]
            }
            None => contents.pieces(offset, end),
        })
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], kill: bool) -> Result<()> {
        self.call_hook("write", ino);
        let mut nodes = self.nodes.lock();
        let (attr, contents) = nodes.file(ino)?;
        if self.ready.is_none() {
            contents.write(offset, data);
        }
        attr.size = attr.size.max(offset + data.len() as u64);
        attr.blocks = contents.blocks();
        (attr.mtime, attr.ctime) = (now(), now());
        if kill {
            kill_suidgid(attr);
        }
        Ok(())
    }

    fn fsync(&self, ino: Ino, _: bool) -> Result<()> {
        self.call_hook("fsync", ino);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.call_hook("sync", 0);
        self.nodes.lock().synced += 1;
        Ok(())
    }

    fn fallocate(&self, ino: Ino, offset: u64, len: u64, mode: Fallocate) -> Result<()> {
        let mut nodes = self.nodes.lock();
        let (attr, contents) = nodes.file(ino)?;
        match mode {
            _ if self.ready.is_some() => {}
            Fallocate::Allocate { .. } => contents.allocate(offset, offset + len),
            Fallocate::Punch | Fallocate::Zero { .. } => contents.punch(offset, offset + len),
        }
        if let Fallocate::Allocate { keep_size: false } | Fallocate::Zero { keep_size: false } =
            mode
        {
            attr.size = attr.size.max(offset + len);
        }
        attr.blocks = contents.blocks();
        Ok(())
    }

    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        let mut nodes = self.nodes.lock();
        let (attr, contents) = nodes.file(ino)?;
        contents
            .seek(offset, attr.size, what == Seek::Data)
            .ok_or(Error::NoSuchAddress)
    }

    fn copy_range(&self, from: Ino, at: u64, to: Ino, to_at: u64, len: u64) -> Result<u64> {
        let mut nodes = self.nodes.lock();
        let (attr, contents) = nodes.file(from)?;
        let end = attr.size.min(at + len);
        let copied: Vec<Bytes> = contents.pieces(at, end);
        let (attr, contents) = nodes.file(to)?;
        let mut position = to_at;
        for piece in &copied {
            contents.write(position, piece);
            position += piece.len() as u64;
        }
        attr.size = attr.size.max(position);
        attr.blocks = contents.blocks();
        Ok(position - to_at)
    }

    fn readdir(
        &self,
        ino: Ino,
        cookie: u64,
        attrs: bool,
        emit: &mut dyn FnMut(&DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let mut nodes = self.nodes.lock();
        let directory = nodes.directory(ino)?;
        let dots = [
            (1, b".".to_vec(), ino),
            (2, b"..".to_vec(), directory.parent),
        ];
        // A reply holds fewer; the kernel asks for the rest.
        let entries = directory.entries.range(cookie + 1..).take(1000);
        let entries = entries.map(|(c, (name, i))| (*c, name.clone(), *i));
        let all: Vec<_> = dots
            .into_iter()
            .chain(entries)
            .filter(|(c, ..)| *c > cookie)
            .collect();
        for (cookie, name, ino) in all {
            let node = nodes.get(ino)?;
            let attr = (attrs && cookie > 2).then_some(node.attr);
            let entry = DirEntry {
                ino,
                kind: node.attr.kind,
                name: &name,
                cookie,
                attr,
            };
            if !emit(&entry) {
                break;
            }
            node.lookups += u64::from(attr.is_some());
        }
        Ok(())
    }

    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        let mut nodes = self.nodes.lock();
        let node = nodes.get(ino)?;
        match node.xattrs.contains_key(name) {
            true if how.create => return Err(Error::Exists),
            false if how.replace => return Err(Error::NoAttribute),
            _ => {}
        }
        if name == ACCESS_ACL {
            node.attr.mode = mode_of_acl(value, node.attr.mode);
            if how.kill_sgid {
                node.attr.mode &= !0o2000;
            }
        }
        node.xattrs.insert(name.to_vec(), value.to_vec());
        node.attr.ctime = now();
        Ok(())
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let mut nodes = self.nodes.lock();
        nodes
            .get(ino)?
            .xattrs
            .get(name)
            .cloned()
            .ok_or(Error::NoAttribute)
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        let mut nodes = self.nodes.lock();
        nodes
            .get(ino)?
            .xattrs
            .remove(name)
            .map(drop)
            .ok_or(Error::NoAttribute)
    }
}
