//! Inodes in memory, and the names by which they are found.

use std::collections::BTreeMap;

use rustix::time::{ClockId, clock_gettime};
use vfs::{Attr, Caller, Error, Ino, Kind, NewNode, ROOT, RenameMode, Result, Time};

use super::contents::{Contents, PAGE};

pub struct Nodes {
    pub next: Ino,
    pub all: BTreeMap<Ino, Node>,
    pub synced: u64,
}

pub struct Node {
    pub attr: Attr,
    pub lookups: u64,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub body: Body,
}

pub enum Body {
    File(Contents),
    Directory(Directory),
    Symlink(Vec<u8>),
    Special,
}

#[derive(Default)]
pub struct Directory {
    pub parent: Ino,
    pub names: BTreeMap<Vec<u8>, u64>,
    /// By cookie, which only grows: a listing goes on where it was whatever happens meanwhile.
    pub entries: BTreeMap<u64, (Vec<u8>, Ino)>,
    pub last_cookie: u64,
}

pub fn now() -> Time {
    let now = clock_gettime(ClockId::Realtime);
    Time {
        secs: now.tv_sec,
        nanos: now.tv_nsec as u32,
    }
}

impl Nodes {
    pub fn lookups(&self) -> u64 {
        let others = self.all.iter().filter(|(ino, _)| **ino != ROOT);
        others.map(|(_, node)| node.lookups).sum()
    }

    pub fn add(&mut self, caller: &Caller, kind: Kind, mode: u16, rdev: u32, body: Body) -> Ino {
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
            rdev,
            size: 0,
            blocks: 0,
            is_passing: false,
            blksize: PAGE as u32,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
        };
        let node = Node {
            attr,
            lookups: 0,
            xattrs: BTreeMap::new(),
            body,
        };
        self.all.insert(ino, node);
        ino
    }

    pub fn get(&mut self, ino: Ino) -> Result<&mut Node> {
        self.all.get_mut(&ino).ok_or(Error::Stale)
    }

    pub fn directory(&mut self, ino: Ino) -> Result<&mut Directory> {
        match &mut self.get(ino)?.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Error::NotDirectory),
        }
    }

    pub fn file(&mut self, ino: Ino) -> Result<(&mut Attr, &mut Contents)> {
        let node = self.get(ino)?;
        match &mut node.body {
            Body::File(contents) => Ok((&mut node.attr, contents)),
            Body::Directory(_) => Err(Error::IsDirectory),
            _ => Err(Error::Invalid),
        }
    }

    pub fn find(&mut self, parent: Ino, name: &[u8]) -> Result<Ino> {
        let directory = self.directory(parent)?;
        let cookie = directory.names.get(name).ok_or(Error::NotFound)?;
        Ok(directory.entries[cookie].1)
    }

    pub fn look(&mut self, ino: Ino) -> Result<Attr> {
        let node = self.get(ino)?;
        node.lookups += 1;
        Ok(node.attr)
    }

    pub fn is_directory(&mut self, ino: Ino) -> Result<bool> {
        Ok(self.get(ino)?.attr.kind == Kind::Directory)
    }

    /// Gives `ino` a name; its link count is the caller's business.
    pub fn enter(&mut self, parent: Ino, name: &[u8], ino: Ino) -> Result<()> {
        if name.len() > 255 {
            return Err(Error::NameTooLong);
        }
        let child_is_directory = self.is_directory(ino)?;
        let directory = self.directory(parent)?;
        directory.last_cookie += 1;
        let cookie = directory.last_cookie;
        directory.names.insert(name.to_vec(), cookie);
        directory.entries.insert(cookie, (name.to_vec(), ino));
        if child_is_directory {
            self.directory(ino)?.parent = parent;
        }
        self.changed_directory(parent, i32::from(child_is_directory))
    }

    pub fn leave(&mut self, parent: Ino, name: &[u8]) -> Result<Ino> {
        let directory = self.directory(parent)?;
        let cookie = directory.names.remove(name).ok_or(Error::NotFound)?;
        let (_, ino) = directory.entries.remove(&cookie).ok_or(Error::NotFound)?;
        let child_is_directory = self.is_directory(ino)?;
        self.changed_directory(parent, -i32::from(child_is_directory))?;
        Ok(ino)
    }

    pub fn changed_directory(&mut self, ino: Ino, links: i32) -> Result<()> {
        let attr = &mut self.get(ino)?.attr;
        attr.nlink = attr.nlink.strict_add_signed(links);
        (attr.mtime, attr.ctime) = (now(), now());
        Ok(())
    }

    /// Takes a link from what has lost a name.
    pub fn drop_link(&mut self, ino: Ino) -> Result<()> {
        let node = self.get(ino)?;
        node.attr.ctime = now();
        node.attr.nlink -= if node.attr.kind == Kind::Directory {
            2
        } else {
            1
        };
        self.reap(ino);
        Ok(())
    }

    pub fn reap(&mut self, ino: Ino) {
        if self
            .all
            .get(&ino)
            .is_some_and(|node| node.attr.nlink == 0 && node.lookups == 0)
        {
            self.all.remove(&ino);
        }
    }

    pub fn make(
        &mut self,
        caller: &Caller,
        parent: Ino,
        name: Option<&[u8]>,
        new: &NewNode,
    ) -> Result<Attr> {
        if name.is_some_and(|name| name.len() > 255) {
            return Err(Error::NameTooLong);
        }
        if self.get(parent)?.attr.nlink == 0 {
            return Err(Error::NotFound);
        }
        let body = match new.kind {
            Kind::File => Body::File(Contents::default()),
            Kind::Directory => Body::Directory(Directory {
                last_cookie: 2,
                ..Directory::default()
            }),
            Kind::Symlink => return Err(Error::Invalid),
            _ => Body::Special,
        };
        self.make_body(caller, parent, name, new, body)
    }

    pub fn make_body(
        &mut self,
        caller: &Caller,
        parent: Ino,
        name: Option<&[u8]>,
        new: &NewNode,
        body: Body,
    ) -> Result<Attr> {
        match name.map(|name| self.find(parent, name)) {
            Some(Ok(_)) => return Err(Error::Exists),
            None | Some(Err(Error::NotFound)) => {}
            Some(Err(error)) => return Err(error),
        }
        let ino = self.add(caller, new.kind, new.mode & !new.umask, new.rdev, body);
        match name {
            Some(name) => self.enter(parent, name, ino)?,
            None => self.get(ino)?.attr.nlink = 0,
        }
        self.look(ino)
    }

    pub fn remove(&mut self, parent: Ino, name: &[u8], directory: bool) -> Result<()> {
        let ino = self.find(parent, name)?;
        match (self.is_directory(ino)?, directory) {
            (true, false) => return Err(Error::IsDirectory),
            (false, true) => return Err(Error::NotDirectory),
            (true, true) if !self.directory(ino)?.names.is_empty() => return Err(Error::NotEmpty),
            _ => {}
        }
        self.leave(parent, name)?;
        self.drop_link(ino)
    }

    pub fn rename(
        &mut self,
        (parent, name): (Ino, &[u8]),
        (new_parent, new_name): (Ino, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        let ino = self.find(parent, name)?;
        let target = match self.find(new_parent, new_name) {
            Ok(target) => Some(target),
            Err(Error::NotFound) => None,
            Err(error) => return Err(error),
        };
        match (mode, target) {
            (RenameMode::NoReplace, Some(_)) => return Err(Error::Exists),
            (RenameMode::Exchange, None) => return Err(Error::NotFound),
            (RenameMode::Exchange, Some(target)) => {
                self.leave(parent, name)?;
                self.leave(new_parent, new_name)?;
                self.enter(parent, name, target)?;
                return self.enter(new_parent, new_name, ino);
            }
            (_, Some(target)) if target == ino => return Ok(()),
            (_, Some(_)) => {
                let directory = self.is_directory(ino)?;
                self.remove(new_parent, new_name, directory)?;
            }
            (_, None) => {}
        }
        self.leave(parent, name)?;
        self.enter(new_parent, new_name, ino)?;
        self.get(ino)?.attr.ctime = now();
        if let RenameMode::Whiteout(owner) = mode {
            let whiteout = self.add(&owner, Kind::CharDevice, 0, 0, Body::Special);
            self.enter(parent, name, whiteout)?;
        }
        Ok(())
    }
}
