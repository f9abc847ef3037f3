//! A file system in plain maps.

use std::collections::BTreeMap;
use std::sync::Arc;

use vfs::{Error, Kind, RenameMode, Result};

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

impl Node {
    fn new(kind: Kind, mode: u16) -> Node {
        Node {
            kind,
            mode,
            nlink: if kind == Kind::Directory { 2 } else { 1 },
            contents: Vec::new(),
            xattrs: BTreeMap::new(),
            children: BTreeMap::new(),
        }
    }

    fn is_seen_as(&self, seen: &Seen) -> bool {
        (self.kind, self.mode, self.nlink) == (seen.kind, seen.mode, seen.nlink)
            && self.contents == seen.contents
            && self.xattrs == seen.xattrs
    }
}

/// The expected files. Copies share what they have in common.
#[derive(Clone, Debug)]
pub struct Model {
    pub nodes: BTreeMap<Id, Arc<Node>>,
    next: Id,
}

/// The visible facts of a file system, by path.
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
    pub fn new() -> Model {
        let root = Node::new(Kind::Directory, 0o755);
        Model {
            nodes: BTreeMap::from([(0, Arc::new(root))]),
            next: 1,
        }
    }

    pub fn node_mut(&mut self, id: Id) -> &mut Node {
        Arc::make_mut(self.nodes.get_mut(&id).expect("it exists"))
    }

    pub fn add(&mut self, parent: Id, name: &[u8], kind: Kind, mode: u16) -> Id {
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, Arc::new(Node::new(kind, mode)));
        let dir = self.node_mut(parent);
        dir.children.insert(name.to_vec(), id);
        dir.nlink += u32::from(kind == Kind::Directory);
        id
    }

    pub fn unlink(&mut self, parent: Id, name: &[u8]) {
        let id = self.node_mut(parent).children.remove(name).unwrap();
        if self.nodes[&id].kind == Kind::Directory {
            self.nodes.remove(&id);
            self.node_mut(parent).nlink -= 1;
            return;
        }
        let node = self.node_mut(id);
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

    /// Renames, or says why that cannot be.
    pub fn rename(
        &mut self,
        (dir, name): (Id, &[u8]),
        (new_dir, new_name): (Id, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        let from = *self.nodes[&dir].children.get(name).ok_or(Error::NotFound)?;
        let to = self.nodes[&new_dir].children.get(new_name).copied();
        match (mode, to) {
            (RenameMode::NoReplace, Some(_)) => return Err(Error::Exists),
            (RenameMode::Exchange, None) => return Err(Error::NotFound),
            (_, Some(to)) if to == from => return Ok(()),
            _ => {}
        }
        let is_dir = |model: &Model, id: Id| model.nodes[&id].kind == Kind::Directory;
        let from_dir = is_dir(self, from);
        if from_dir && self.is_below(new_dir, from) {
            return Err(Error::Invalid);
        }
        match (mode, to) {
            (RenameMode::Exchange, Some(to)) => {
                let to_dir = is_dir(self, to);
                if to_dir && self.is_below(dir, to) {
                    return Err(Error::Invalid);
                }
                self.move_into(dir, name, to, to_dir, from_dir);
                self.move_into(new_dir, new_name, from, from_dir, to_dir);
                return Ok(());
            }
            (_, Some(to)) => match (from_dir, is_dir(self, to)) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                (true, true) if !self.nodes[&to].children.is_empty() => {
                    return Err(Error::NotEmpty);
                }
                _ => self.unlink(new_dir, new_name),
            },
            (_, None) => {}
        }
        let old = self.node_mut(dir);
        old.children.remove(name);
        old.nlink -= u32::from(from_dir);
        self.move_into(new_dir, new_name, from, from_dir, false);
        if let RenameMode::Whiteout(_) = mode {
            self.add(dir, name, Kind::CharDevice, 0);
        }
        Ok(())
    }

    fn move_into(&mut self, dir: Id, name: &[u8], id: Id, is_dir: bool, was_dir: bool) {
        let dir = self.node_mut(dir);
        dir.children.insert(name.to_vec(), id);
        dir.nlink += u32::from(is_dir);
        dir.nlink -= u32::from(was_dir);
    }

    /// Returns all inodes by path, directories before their entries.
    pub fn paths(&self) -> Vec<(Id, Vec<u8>)> {
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
        let mut paths = Vec::new();
        collect(self, 0, &mut Vec::new(), &mut paths);
        paths
    }

    pub fn picture(&self) -> Picture {
        let see = |(id, path)| {
            let node: &Node = &self.nodes[&id];
            let seen = Seen {
                kind: node.kind,
                mode: node.mode,
                nlink: node.nlink,
                contents: node.contents.clone(),
                xattrs: node.xattrs.clone(),
            };
            (path, seen)
        };
        self.paths().into_iter().map(see).collect()
    }

    /// Returns whether this is what is seen in a picture.
    pub fn is_seen_as(&self, picture: &Picture) -> bool {
        let paths = self.paths();
        let is_same = |(id, path): &(Id, Vec<u8>)| {
            let seen = picture.get(path);
            seen.is_some_and(|seen| self.nodes[id].is_seen_as(seen))
        };
        paths.len() == picture.len() && paths.iter().all(is_same)
    }
}

/// Panics with the first difference, if there is one.
pub fn assert_same(found: &Picture, expected: &Picture, context: &str) {
    let paths: std::collections::BTreeSet<_> = found.keys().chain(expected.keys()).collect();
    for path in paths {
        let (a, b) = (found.get(path), expected.get(path));
        if a != b {
            let brief = |seen: Option<&Seen>| {
                let seen = seen?;
                let xattrs: Vec<_> = seen
                    .xattrs
                    .keys()
                    .map(|key| String::from_utf8_lossy(key))
                    .collect();
                Some((
                    seen.kind,
                    seen.mode,
                    seen.nlink,
                    seen.contents.len(),
                    xattrs.join(" "),
                ))
            };
            let differ = a
                .zip(b)
                .and_then(|(a, b)| a.contents.iter().zip(&b.contents).position(|(a, b)| a != b));
            panic!(
                "{context}: {}: found {:?}, expected {:?}, first difference at {differ:?}",
                String::from_utf8_lossy(path),
                brief(a),
                brief(b)
            );
        }
    }
}
