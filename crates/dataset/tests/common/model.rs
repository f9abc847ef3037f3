//! A file system in plain maps, random operations on both it and a real one, and their comparison.

use std::collections::BTreeMap;

use vfs::{
    Caller, Error, Fallocate, FileSystem, Ino, Kind, NewNode, ROOT, RenameMode, Result, Seek,
    SetAttr, SetXattr,
};

use super::Dice;

pub type Id = u64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub kind: Kind,
    pub mode: u16,
    pub nlink: u32,
    pub contents: Vec<u8>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub children: BTreeMap<Vec<u8>, Id>,
}

/// What should be there.
#[derive(Clone, Debug)]
pub struct Model {
    pub nodes: BTreeMap<Id, Node>,
    next: Id,
}

impl Model {
    pub fn new() -> Model {
        let root = Node {
            kind: Kind::Directory,
            mode: 0o755,
            nlink: 2,
            contents: Vec::new(),
            xattrs: BTreeMap::new(),
            children: BTreeMap::new(),
        };
        Model {
            nodes: BTreeMap::from([(0, root)]),
            next: 1,
        }
    }

    fn add(&mut self, parent: Id, name: &[u8], kind: Kind, mode: u16) -> Id {
        let id = self.next;
        self.next += 1;
        let node = Node {
            kind,
            mode,
            nlink: if kind == Kind::Directory { 2 } else { 1 },
            contents: Vec::new(),
            xattrs: BTreeMap::new(),
            children: BTreeMap::new(),
        };
        self.nodes.insert(id, node);
        let dir = self.nodes.get_mut(&parent).unwrap();
        dir.children.insert(name.to_vec(), id);
        dir.nlink += u32::from(kind == Kind::Directory);
        id
    }

    fn unlink(&mut self, parent: Id, name: &[u8]) {
        let dir = self.nodes.get_mut(&parent).unwrap();
        let id = dir.children.remove(name).unwrap();
        if self.nodes[&id].kind == Kind::Directory {
            self.nodes.remove(&id);
            self.nodes.get_mut(&parent).unwrap().nlink -= 1;
            return;
        }
        let node = self.nodes.get_mut(&id).unwrap();
        node.nlink -= 1;
        if node.nlink == 0 {
            self.nodes.remove(&id);
        }
    }

    fn is_below(&self, id: Id, above: Id) -> bool {
        id == above
            || self.nodes[&above]
                .children
                .values()
                .any(|child| self.nodes[child].kind == Kind::Directory && self.is_below(id, *child))
    }
}

/// Everything that can be seen of a file system, by path.
pub type Picture = BTreeMap<Vec<u8>, Seen>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub kind: Kind,
    pub mode: u16,
    pub nlink: u32,
    pub contents: Vec<u8>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Model {
    pub fn picture(&self) -> Picture {
        let mut picture = Picture::new();
        self.picture_below(0, b"", &mut picture);
        picture
    }

    fn picture_below(&self, id: Id, path: &[u8], picture: &mut Picture) {
        let node = &self.nodes[&id];
        picture.insert(
            path.to_vec(),
            Seen {
                kind: node.kind,
                mode: node.mode,
                nlink: node.nlink,
                contents: node.contents.clone(),
                xattrs: node.xattrs.clone(),
            },
        );
        for (name, child) in &node.children {
            self.picture_below(*child, &[path, b"/", name].concat(), picture);
        }
    }
}

/// Looks at everything in a file system, and checks that different ways of looking agree.
pub fn look(fs: &dyn FileSystem) -> Picture {
    let mut picture = Picture::new();
    look_below(fs, ROOT, b"", &mut picture);
    picture
}

pub fn read_all(fs: &dyn FileSystem, ino: Ino, offset: u64, len: u64) -> Vec<u8> {
    let mut all = Vec::new();
    let mut at = offset;
    while (all.len() as u64) < len {
        let want = (len - all.len() as u64).min(1 << 20) as u32;
        let before = all.len();
        for piece in fs.read(ino, at, want).unwrap() {
            all.extend_from_slice(&piece);
        }
        if all.len() == before {
            break;
        }
        at += (all.len() - before) as u64;
    }
    all
}

fn look_below(fs: &dyn FileSystem, ino: Ino, path: &[u8], picture: &mut Picture) {
    let attr = fs.getattr(ino).unwrap();
    let contents = match attr.kind {
        Kind::File => {
            let contents = read_all(fs, ino, 0, attr.size + 1);
            assert_eq!(
                contents.len() as u64,
                attr.size,
                "{}",
                String::from_utf8_lossy(path)
            );
            check_holes(fs, ino, &contents);
            contents
        }
        Kind::Symlink => fs.readlink(ino).unwrap(),
        _ => Vec::new(),
    };
    let mut xattrs = BTreeMap::new();
    for name in fs.listxattr(ino).unwrap() {
        let value = fs.getxattr(ino, &name).unwrap();
        xattrs.insert(name, value);
    }
    let seen = Seen {
        kind: attr.kind,
        mode: attr.mode,
        nlink: attr.nlink,
        contents,
        xattrs,
    };
    picture.insert(path.to_vec(), seen);
    if attr.kind == Kind::Directory {
        let children = list(fs, ino);
        assert_eq!(attr.size, children.len() as u64 + 2);
        for (name, child) in children {
            let found = fs.lookup(ino, &name).unwrap();
            assert_eq!(found.ino, child);
            look_below(fs, child, &[path, b"/", &name].concat(), picture);
            fs.forget(child, 1);
        }
    }
}

/// The names in a directory, a few at a time.
pub fn list(fs: &dyn FileSystem, ino: Ino) -> BTreeMap<Vec<u8>, Ino> {
    let mut all = BTreeMap::new();
    let mut cookie = 0;
    loop {
        let mut some = 0;
        fs.readdir(ino, cookie, false, &mut |entry| {
            if some == 3 {
                return false;
            }
            some += 1;
            cookie = entry.cookie;
            if entry.name != b"." && entry.name != b".." {
                let twice = all.insert(entry.name.to_vec(), entry.ino);
                assert!(twice.is_none(), "listed twice");
            }
            true
        })
        .unwrap();
        if some == 0 {
            return all;
        }
    }
}

/// What `seek` calls a hole reads as zeros, and data and holes cover the file.
fn check_holes(fs: &dyn FileSystem, ino: Ino, contents: &[u8]) {
    let size = contents.len() as u64;
    let mut at = 0;
    while at < size {
        let data = match fs.seek(ino, at, Seek::Data) {
            Ok(data) => data,
            Err(Error::NoSuchAddress) => size,
            Err(error) => panic!("{error}"),
        };
        assert!(
            contents[at as usize..data as usize].iter().all(|b| *b == 0),
            "data in a hole"
        );
        if data == size {
            break;
        }
        let hole = fs.seek(ino, data, Seek::Hole).unwrap();
        assert!(hole > data);
        at = hole;
    }
}

/// Random operations on a model and a file system.
pub struct Driver {
    pub dice: Dice,
    pub model: Model,
    /// The largest file.
    pub size_max: u64,
    log: Vec<String>,
}

const NAMES: u64 = 12;

impl Driver {
    pub fn new(seed: u64) -> Driver {
        Driver {
            dice: Dice(seed),
            model: Model::new(),
            size_max: 600_000,
            log: Vec::new(),
        }
    }

    fn name(&mut self) -> Vec<u8> {
        let n = self.dice.below(NAMES);
        match n {
            0 => vec![0xff; 255],
            _ => format!("name-{n}").into_bytes(),
        }
    }

    pub fn pick(&mut self, kind: Option<Kind>) -> Option<(Id, Vec<u8>)> {
        let mut paths = Vec::new();
        collect(&self.model, 0, &mut Vec::new(), &mut paths);
        paths.retain(|(id, _)| kind.is_none_or(|kind| self.model.nodes[id].kind == kind));
        if paths.is_empty() {
            return None;
        }
        let index = self.dice.below(paths.len() as u64) as usize;
        Some(paths.swap_remove(index))
    }

    /// One random operation, after which model and file system agree about its outcome.
    pub fn step(&mut self, fs: &dyn FileSystem) {
        match self.dice.below(100) {
            0..=14 => self.make(fs),
            15..=44 => self.write(fs),
            45..=52 => self.truncate(fs),
            53..=60 => self.fallocate(fs),
            61..=68 => self.remove(fs),
            69..=76 => self.rename(fs),
            77..=80 => self.link(fs),
            81..=86 => self.xattr(fs),
            87..=89 => self.chmod(fs),
            90..=95 => self.copy(fs),
            _ => self.read(fs),
        }
    }

    fn say(&mut self, what: String) {
        self.log.push(what);
        if self.log.len() > 40 {
            self.log.remove(0);
        }
    }

    pub fn log(&self) -> String {
        self.log.join("\n")
    }

    fn make(&mut self, fs: &dyn FileSystem) {
        let (dir, path) = self.pick(Some(Kind::Directory)).unwrap();
        let name = self.name();
        let kind = match self.dice.below(8) {
            0..=1 => Kind::Directory,
            2 => Kind::Symlink,
            3 => Kind::Fifo,
            _ => Kind::File,
        };
        self.say(format!("make {kind:?} {} in {}", show(&name), show(&path)));
        let parent = resolve(fs, &path);
        let node = NewNode {
            kind,
            mode: 0o640,
            umask: 0o022,
            rdev: 0,
        };
        let caller = Caller { uid: 5, gid: 6 };
        let target = b"some/where".repeat(1 + self.dice.below(100) as usize);
        let result = match kind {
            Kind::Directory => fs.mkdir(&caller, parent, &name, &node),
            Kind::Symlink => fs.symlink(&caller, parent, &name, &target),
            _ => fs.mknod(&caller, parent, &name, &node),
        };
        let exists = self.model.nodes[&dir].children.contains_key(&name);
        match result {
            Ok(attr) => {
                assert!(!exists, "made although it exists");
                fs.forget(attr.ino, 1);
                let mode = if kind == Kind::Symlink { 0o777 } else { 0o640 };
                let id = self.model.add(dir, &name, kind, mode);
                if kind == Kind::Symlink {
                    self.model.nodes.get_mut(&id).unwrap().contents = target;
                }
            }
            Err(error) => assert!(exists && error == Error::Exists, "{error}"),
        }
    }

    fn offset(&mut self) -> u64 {
        match self.dice.below(5) {
            0 => self.dice.below(3000),
            1 => self.dice.below(20) * 4096,
            2 => self.dice.below(self.size_max / 131_072) * 131_072,
            _ => self.dice.below(self.size_max),
        }
    }

    fn len(&mut self) -> u64 {
        match self.dice.below(6) {
            0 => 1 + self.dice.below(100),
            1 => 4096,
            2 => 131_072,
            3 => 1 + self.dice.below(3000),
            _ => 1 + self.dice.below(self.size_max / 4),
        }
    }

    fn write(&mut self, fs: &dyn FileSystem) {
        let Some((id, path)) = self.pick(Some(Kind::File)) else {
            return;
        };
        let offset = self.offset();
        let len = self.len().min(self.size_max.saturating_sub(offset)).max(1);
        let fill = self.dice.below(256) as u8;
        let data: Vec<u8> = (0..len)
            .map(|i| fill.wrapping_add((i / 13) as u8))
            .collect();
        self.say(format!("write {} {offset}+{len} ({fill})", show(&path)));
        fs.write(resolve(fs, &path), offset, &data, false).unwrap();
        let contents = &mut self.model.nodes.get_mut(&id).unwrap().contents;
        put(contents, offset, &data);
    }

    fn truncate(&mut self, fs: &dyn FileSystem) {
        let Some((id, path)) = self.pick(Some(Kind::File)) else {
            return;
        };
        let size = if self.dice.below(4) == 0 {
            0
        } else {
            self.offset()
        };
        self.say(format!("truncate {} to {size}", show(&path)));
        let set = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        let attr = fs
            .setattr(&Caller::default(), resolve(fs, &path), &set)
            .unwrap();
        assert_eq!(attr.size, size);
        self.model
            .nodes
            .get_mut(&id)
            .unwrap()
            .contents
            .resize(size as usize, 0);
    }

    fn fallocate(&mut self, fs: &dyn FileSystem) {
        let Some((id, path)) = self.pick(Some(Kind::File)) else {
            return;
        };
        let (offset, len) = (self.offset(), self.len());
        let keep_size = self.dice.below(2) == 0;
        let mode = match self.dice.below(3) {
            0 => Fallocate::Allocate { keep_size },
            1 => Fallocate::Punch,
            _ => Fallocate::Zero { keep_size },
        };
        self.say(format!("fallocate {} {offset}+{len} {mode:?}", show(&path)));
        fs.fallocate(resolve(fs, &path), offset, len, mode).unwrap();
        let contents = &mut self.model.nodes.get_mut(&id).unwrap().contents;
        let size = contents.len();
        if !matches!(mode, Fallocate::Allocate { .. }) {
            let end = ((offset + len) as usize).min(size);
            contents[(offset as usize).min(size)..end.max((offset as usize).min(size))].fill(0);
        }
        let grows = matches!(
            mode,
            Fallocate::Allocate { keep_size: false } | Fallocate::Zero { keep_size: false }
        );
        if grows && size < (offset + len) as usize {
            contents.resize((offset + len) as usize, 0);
        }
    }

    fn remove(&mut self, fs: &dyn FileSystem) {
        let (dir, path) = self.pick(Some(Kind::Directory)).unwrap();
        let name = self.name();
        self.say(format!("remove {} in {}", show(&name), show(&path)));
        let parent = resolve(fs, &path);
        let target = self.model.nodes[&dir]
            .children
            .get(&name)
            .map(|id| self.model.nodes[id].clone());
        match target {
            None => assert_eq!(fs.unlink(parent, &name), Err(Error::NotFound)),
            Some(node) if node.kind == Kind::Directory => {
                assert_eq!(fs.unlink(parent, &name), Err(Error::IsDirectory));
                if node.children.is_empty() {
                    fs.rmdir(parent, &name).unwrap();
                    self.model.unlink(dir, &name);
                } else {
                    assert_eq!(fs.rmdir(parent, &name), Err(Error::NotEmpty));
                }
            }
            Some(_) => {
                assert_eq!(fs.rmdir(parent, &name), Err(Error::NotDirectory));
                fs.unlink(parent, &name).unwrap();
                self.model.unlink(dir, &name);
            }
        }
    }

    fn rename(&mut self, fs: &dyn FileSystem) {
        let (dir, path) = self.pick(Some(Kind::Directory)).unwrap();
        let (new_dir, new_path) = self.pick(Some(Kind::Directory)).unwrap();
        let (name, new_name) = (self.name(), self.name());
        let mode = match self.dice.below(4) {
            0 => RenameMode::NoReplace,
            1 => RenameMode::Exchange,
            _ => RenameMode::Replace,
        };
        self.say(format!(
            "rename {}/{} to {}/{} {mode:?}",
            show(&path),
            show(&name),
            show(&new_path),
            show(&new_name)
        ));
        let (parent, new_parent) = (resolve(fs, &path), resolve(fs, &new_path));
        let result = fs.rename(parent, &name, new_parent, &new_name, mode);
        let expected = self.model_rename(dir, &name, new_dir, &new_name, mode);
        assert_eq!(result, expected);
    }

    fn model_rename(
        &mut self,
        dir: Id,
        name: &[u8],
        new_dir: Id,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        let model = &mut self.model;
        let from = *model.nodes[&dir]
            .children
            .get(name)
            .ok_or(Error::NotFound)?;
        let to = model.nodes[&new_dir].children.get(new_name).copied();
        match (mode, to) {
            (RenameMode::NoReplace, Some(_)) => return Err(Error::Exists),
            (RenameMode::Exchange, None) => return Err(Error::NotFound),
            (_, Some(to)) if to == from => return Ok(()),
            _ => {}
        }
        let is_dir = |model: &Model, id: Id| model.nodes[&id].kind == Kind::Directory;
        let from_dir = is_dir(model, from);
        if from_dir && model.is_below(new_dir, from) {
            return Err(Error::Invalid);
        }
        if mode == RenameMode::Exchange {
            let to = to.unwrap();
            let to_dir = is_dir(model, to);
            if to_dir && model.is_below(dir, to) {
                return Err(Error::Invalid);
            }
            model
                .nodes
                .get_mut(&dir)
                .unwrap()
                .children
                .insert(name.to_vec(), to);
            model
                .nodes
                .get_mut(&new_dir)
                .unwrap()
                .children
                .insert(new_name.to_vec(), from);
            model.nodes.get_mut(&dir).unwrap().nlink += u32::from(to_dir);
            model.nodes.get_mut(&dir).unwrap().nlink -= u32::from(from_dir);
            model.nodes.get_mut(&new_dir).unwrap().nlink += u32::from(from_dir);
            model.nodes.get_mut(&new_dir).unwrap().nlink -= u32::from(to_dir);
            return Ok(());
        }
        if let Some(to) = to {
            match (from_dir, is_dir(model, to)) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                (true, true) if !model.nodes[&to].children.is_empty() => {
                    return Err(Error::NotEmpty);
                }
                _ => model.unlink(new_dir, new_name),
            }
        }
        let dir = model.nodes.get_mut(&dir).unwrap();
        dir.children.remove(name);
        dir.nlink -= u32::from(from_dir);
        let new_dir = model.nodes.get_mut(&new_dir).unwrap();
        new_dir.children.insert(new_name.to_vec(), from);
        new_dir.nlink += u32::from(from_dir);
        Ok(())
    }

    fn link(&mut self, fs: &dyn FileSystem) {
        let Some((id, path)) = self.pick(Some(Kind::File)) else {
            return;
        };
        let (dir, dir_path) = self.pick(Some(Kind::Directory)).unwrap();
        let name = self.name();
        self.say(format!(
            "link {} to {}/{}",
            show(&path),
            show(&dir_path),
            show(&name)
        ));
        let result = fs.link(resolve(fs, &path), resolve(fs, &dir_path), &name);
        if self.model.nodes[&dir].children.contains_key(&name) {
            assert_eq!(result.err(), Some(Error::Exists));
        } else {
            fs.forget(result.unwrap().ino, 1);
            self.model
                .nodes
                .get_mut(&dir)
                .unwrap()
                .children
                .insert(name, id);
            self.model.nodes.get_mut(&id).unwrap().nlink += 1;
        }
    }

    fn xattr(&mut self, fs: &dyn FileSystem) {
        let (id, path) = self.pick(None).unwrap();
        let name = format!("user.{}", self.dice.below(4)).into_bytes();
        let ino = resolve(fs, &path);
        let len = match self.dice.below(4) {
            0 => 10_000 + self.dice.below(50_000),
            _ => self.dice.below(2100),
        };
        let xattrs = &mut self.model.nodes.get_mut(&id).unwrap().xattrs;
        let had = xattrs.contains_key(&name);
        match self.dice.below(3) {
            0 => {
                let result = fs.removexattr(ino, &name);
                assert_eq!(result, if had { Ok(()) } else { Err(Error::NoAttribute) });
                xattrs.remove(&name);
            }
            n => {
                let value = vec![n as u8; len as usize];
                let how = SetXattr {
                    create: self.dice.below(4) == 0,
                    ..SetXattr::default()
                };
                let result = fs.setxattr(ino, &name, &value, how);
                if how.create && had {
                    assert_eq!(result, Err(Error::Exists));
                } else {
                    result.unwrap();
                    xattrs.insert(name, value);
                }
            }
        }
        self.say(format!("xattr of {}", show(&path)));
    }

    fn chmod(&mut self, fs: &dyn FileSystem) {
        let (id, path) = self.pick(None).unwrap();
        let mode = self.dice.below(0o1000) as u16;
        self.say(format!("chmod {} {mode:o}", show(&path)));
        let set = SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        };
        fs.setattr(&Caller::default(), resolve(fs, &path), &set)
            .unwrap();
        self.model.nodes.get_mut(&id).unwrap().mode = mode;
    }

    fn copy(&mut self, fs: &dyn FileSystem) {
        let Some((from, from_path)) = self.pick(Some(Kind::File)) else {
            return;
        };
        let Some((to, to_path)) = self.pick(Some(Kind::File)) else {
            return;
        };
        let (from_offset, to_offset) = match self.dice.below(3) {
            0 => (0, 0),
            1 => (self.dice.below(4) * 131_072, self.dice.below(4) * 131_072),
            _ => (self.offset(), self.offset()),
        };
        let len = if self.dice.below(2) == 0 {
            self.size_max
        } else {
            self.len()
        };
        let size = self.model.nodes[&from].contents.len() as u64;
        let len = len.min(size.saturating_sub(from_offset));
        let overlaps = from == to && from_offset < to_offset + len && to_offset < from_offset + len;
        if overlaps {
            return;
        }
        self.say(format!(
            "copy {} {from_offset}+{len} to {} {to_offset}",
            show(&from_path),
            show(&to_path)
        ));
        let (source, target) = (resolve(fs, &from_path), resolve(fs, &to_path));
        let mut done = 0;
        while done < len {
            let n = fs.copy_range(
                source,
                from_offset + done,
                target,
                to_offset + done,
                len - done,
            );
            let n = n.unwrap();
            assert!(n > 0 && n <= len - done);
            done += n;
        }
        let data = self.model.nodes[&from].contents
            [(from_offset.min(size)) as usize..(from_offset.min(size) + len) as usize]
            .to_vec();
        put(
            &mut self.model.nodes.get_mut(&to).unwrap().contents,
            to_offset,
            &data,
        );
    }

    fn read(&mut self, fs: &dyn FileSystem) {
        let Some((id, path)) = self.pick(Some(Kind::File)) else {
            return;
        };
        let (offset, len) = (self.offset(), self.len());
        let contents = &self.model.nodes[&id].contents;
        let start = (offset as usize).min(contents.len());
        let end = ((offset + len) as usize).min(contents.len());
        let found = read_all(fs, resolve(fs, &path), offset, len);
        assert!(
            found == contents[start..end],
            "read {} {offset}+{len}",
            show(&path)
        );
    }
}

fn collect(model: &Model, id: Id, path: &mut Vec<u8>, paths: &mut Vec<(Id, Vec<u8>)>) {
    paths.push((id, path.clone()));
    for (name, child) in &model.nodes[&id].children {
        let len = path.len();
        path.push(b'/');
        path.extend_from_slice(name);
        collect(model, *child, path, paths);
        path.truncate(len);
    }
}

fn show(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(40).collect()
}

fn put(contents: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let end = offset as usize + data.len();
    if !data.is_empty() && contents.len() < end {
        contents.resize(end, 0);
    }
    if !data.is_empty() {
        contents[offset as usize..end].copy_from_slice(data);
    }
}

/// The inode at a path, without a lookup left behind.
pub fn resolve(fs: &dyn FileSystem, path: &[u8]) -> Ino {
    let mut ino = ROOT;
    for name in path.split(|b| *b == b'/').filter(|name| !name.is_empty()) {
        ino = fs
            .lookup(ino, name)
            .unwrap_or_else(|error| panic!("{}: {error}", show(path)))
            .ino;
        fs.forget(ino, 1);
    }
    ino
}
