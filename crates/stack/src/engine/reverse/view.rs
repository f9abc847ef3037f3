//! The reverse mode: the ciphertext of a plain directory, in which nothing can be changed.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::FileType;
use rustix::io::Errno;
use vfs::{Attr, DirEntry, Error, Ino, Kind, ROOT, Result};

use crate::engine::attributes::shown;
use crate::engine::stacked_directory::{kind_of, number};
use crate::engine::state::inode::{LowerInode, LowerInodes, Options};
use crate::formats::LowerName;
use crate::formats::gocryptfs::{CONFIG_NAME, FileIvs, REVERSE_CONFIG_NAME, Reverse, ReverseName};
use crate::lower::{Entry, LowerDirEntry, kind, list, list_open, posix};

/// The mode of files that the plain directory does not have.
const MADE_MODE: u16 = 0o444;

/// A bit of cookies: the file beside the next entry, with its name, was listed.
const BESIDE: u64 = 1 << 63;

/// A view of a plain directory: its files as ciphertext.
pub struct ReverseView {
    pub(crate) keys: Reverse,
    pub(crate) inodes: LowerInodes<ReverseNode>,
    /// The number of the root in the plain directory.
    root_ino: u64,
    pub(crate) options: Options,
    /// The IVs of files with several names, that were read: the first name counts.
    linked: Mutex<HashMap<Ino, FileIvs>>,
}

/// The node of the view that an inode stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReverseNode {
    /// An entry of the plain directory, with its path in the view.
    Plain(Vec<u8>),
    /// The configuration, which is shown as it is.
    Config,
    /// A file that the plain directory does not have, with its contents.
    Made(Vec<u8>),
}

impl ReverseView {
    /// The view of a plain directory.
    ///
    /// # Errors
    /// Those of `stat`.
    pub fn new(entry: Entry, keys: Reverse, options: Options) -> Result<ReverseView> {
        let root_ino = entry.stat()?.stx_ino;
        let node = ReverseNode::Plain(Vec::new());
        let root = LowerInode::new(ROOT, Kind::Directory, entry, node);
        Ok(ReverseView {
            keys,
            inodes: LowerInodes::new(root, options),
            root_ino,
            options,
            linked: Mutex::default(),
        })
    }

    /// Looks a name up. The answer is one lookup.
    pub(crate) fn look_up(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        let dir = self.inodes.get(parent)?;
        let path = path(&dir)?;
        if dir.ino == ROOT && name == CONFIG_NAME.as_bytes() {
            let entry = dir.entry.entry(REVERSE_CONFIG_NAME.as_bytes())?;
            return self.enter(entry, None, ReverseNode::Config);
        }
        match self.keys.shown(path, name)? {
            ReverseName::DirIv => {
                let (_, contents) = self.keys.dir_iv_file(path).ok_or(Error::NotFound)?;
                self.enter_made(dir.entry.entry(b".")?, &join(path, name), contents)
            }
            ReverseName::Entry(plain) => {
                let found = self.keys.name(path, &plain)?;
                // Another spelling of the same base64, or the whole of a long name.
                match found.name == name && !is_config(&dir, &plain) {
                    true => self.enter_plain(&dir, name, &plain),
                    false => Err(Error::NotFound),
                }
            }
            ReverseName::Long => {
                let (plain, _) = self.find_long(&dir, |lower| lower.name == name)?;
                self.enter_plain(&dir, name, &plain)
            }
            ReverseName::LongName => {
                let is_it =
                    |lower: &LowerName| lower.long.as_ref().is_some_and(|long| long.name == name);
                let (plain, lower) = self.find_long(&dir, is_it)?;
                let long = lower.long.ok_or(Error::NotFound)?;
                self.enter_made(dir.entry.entry(&plain)?, &join(path, name), long.contents)
            }
        }
    }

    /// The plain name in a directory whose name in the view is a certain one.
    fn find_long(
        &self,
        dir: &LowerInode<ReverseNode>,
        is_it: impl Fn(&LowerName) -> bool,
    ) -> Result<(Vec<u8>, LowerName)> {
        let path = path(dir)?;
        let mut found = None;
        list(&dir.entry, 0, |listed| {
            match self.keys.name(path, listed.name) {
                Ok(lower) if is_it(&lower) => found = Some((listed.name.to_vec(), lower)),
                _ => {}
            }
            Ok(found.is_none())
        })?;
        found.ok_or(Error::NotFound)
    }

    fn enter_plain(
        &self,
        dir: &LowerInode<ReverseNode>,
        name: &[u8],
        plain: &[u8],
    ) -> Result<Attr> {
        let path = join(path(dir)?, name);
        self.enter(dir.entry.entry(plain)?, None, ReverseNode::Plain(path))
    }

    /// Enters a file that is not in the plain directory, but beside this entry.
    fn enter_made(&self, beside: Entry, path: &[u8], contents: Vec<u8>) -> Result<Attr> {
        self.enter(beside, Some(made_ino(path)), ReverseNode::Made(contents))
    }

    /// Enters what was found. One lookup. Without a number it has that of the entry.
    fn enter(&self, entry: Entry, ino: Option<Ino>, node: ReverseNode) -> Result<Attr> {
        let stat = entry.stat()?;
        let ino = ino.unwrap_or_else(|| number(self.root_ino, stat.stx_ino));
        let kind = match node {
            ReverseNode::Made(_) => Kind::File,
            _ => kind(FileType::from_raw_mode(u32::from(stat.stx_mode))).ok_or(Error::Io)?,
        };
        let inode = match self.inodes.look_up(ino) {
            Some(known) if known.node == node && !matches!(node, ReverseNode::Made(_)) => known,
            Some(known) => {
                // By another path it has another ciphertext; but not if it has both paths.
                let moved = known.node != node && (kind == Kind::Directory || stat.stx_nlink < 2);
                let made = known.remade(entry, node, known.generation + u64::from(moved));
                (self.inodes.replace(&known, made)).inspect_err(|_| self.inodes.forget(ino, 1))?
            }
            None => self.inodes.enter(LowerInode::new(ino, kind, entry, node)),
        };
        self.attr(&inode)
            .inspect_err(|_| self.inodes.forget(ino, 1))
    }

    pub(crate) fn attr(&self, inode: &LowerInode<ReverseNode>) -> Result<Attr> {
        let stat = inode.entry.stat()?;
        let size = match (&inode.node, inode.kind) {
            (ReverseNode::Made(contents), _) => {
                let size = contents.len() as u64;
                return Ok(Attr {
                    mode: MADE_MODE,
                    nlink: 1,
                    blocks: size.div_ceil(512),
                    ..shown(&stat, inode.ino, Kind::File, size)
                });
            }
            (ReverseNode::Plain(_), Kind::File) => self.sealed_size(stat.stx_size)?,
            (ReverseNode::Plain(path), Kind::Symlink) => {
                inode.target_len(|| self.keys.target(path, &inode.entry.target()?))?
            }
            _ => stat.stx_size,
        };
        Ok(shown(&stat, inode.ino, inode.kind, size))
    }

    fn sealed_size(&self, plain: u64) -> Result<u64> {
        self.keys.layout().lower_size(plain).ok_or(Error::Io)
    }

    pub(crate) fn size_of(&self, ino: Ino) -> Result<u64> {
        Ok(self.attr(&*self.inodes.get(ino)?)?.size)
    }

    pub(crate) fn read_file(&self, ino: Ino, offset: u64, len: u32) -> Result<Vec<u8>> {
        let inode = self.inodes.get(ino)?;
        let len = len as usize;
        match &inode.node {
            ReverseNode::Made(contents) => {
                let start =
                    usize::try_from(offset).map_or(contents.len(), |at| at.min(contents.len()));
                let end = contents.len().min(start.saturating_add(len));
                Ok(contents[start..end].to_vec())
            }
            ReverseNode::Config => self.read_plain(&inode, offset, len),
            ReverseNode::Plain(path) => self.read_sealed(&inode, path, offset, len),
        }
    }

    /// Reads ciphertext: the blocks that have some of these bytes, and the header before them.
    fn read_sealed(
        &self,
        inode: &Arc<LowerInode<ReverseNode>>,
        path: &[u8],
        offset: u64,
        len: usize,
    ) -> Result<Vec<u8>> {
        let stat = inode.entry.stat()?;
        let end = (self.sealed_size(stat.stx_size)?).min(offset.saturating_add(len as u64));
        if offset >= end {
            return Ok(Vec::new());
        }
        let ivs = self.ivs(inode.ino, path, stat.stx_nlink);
        let layout = self.keys.layout();
        let (header, unit) = (layout.header as u64, layout.lower_unit() as u64);
        let first = offset.saturating_sub(header) / unit;
        let blocks = end
            .saturating_sub(header)
            .div_ceil(unit)
            .saturating_sub(first);
        let plain_len = blocks as usize * layout.unit;
        let plain = self.read_plain(inode, first * layout.unit as u64, plain_len)?;
        let mut sealed = Vec::with_capacity(layout.header + blocks as usize * unit as usize);
        for block in plain.chunks(layout.unit) {
            sealed.resize(sealed.len() + layout.before, 0);
            sealed.extend_from_slice(block);
            sealed.resize(sealed.len() + layout.after, 0);
        }
        self.keys.seal(&ivs, first, &mut sealed)?;
        let skip = match offset < header {
            true => {
                sealed.splice(..0, self.keys.header(&ivs));
                offset
            }
            false => offset - header - first * unit,
        };
        // It can have become shorter.
        let skip = sealed.len().min(skip as usize);
        let mut sealed = sealed.split_off(skip);
        sealed.truncate((end - offset) as usize);
        Ok(sealed)
    }

    /// The IVs of a file, which make its ciphertext unlike others. A file with several names has those of the first
    /// one that it was read by.
    fn ivs(&self, ino: Ino, path: &[u8], links: u32) -> FileIvs {
        let mut linked = self.linked.lock();
        match linked.get(&ino) {
            Some(ivs) => *ivs,
            None if links > 1 => *linked.entry(ino).or_insert_with(|| FileIvs::new(path)),
            None => FileIvs::new(path),
        }
    }

    /// Reads a file of the plain directory. Less only at its end.
    fn read_plain(
        &self,
        inode: &Arc<LowerInode<ReverseNode>>,
        offset: u64,
        len: usize,
    ) -> Result<Vec<u8>> {
        let file = self.inodes.file(inode)?;
        let mut bytes = vec![0; len];
        let mut done = 0;
        while done < len {
            match rustix::io::pread(&file, &mut bytes[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(Errno::INTR) => {}
                Err(error) => return Err(posix(error)),
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    /// Lists a directory. The file with the IV is beside the entry `.`, the one with a long name beside the
    /// entry with that name, and comes before it.
    pub(crate) fn read_dir(
        &self,
        ino: Ino,
        cookie: u64,
        attrs: bool,
        emit: &mut dyn FnMut(&DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let dir = self.inodes.get(ino)?;
        let path = path(&dir)?;
        let mut before = cookie & !BESIDE;
        let mut beside_done = cookie & BESIDE != 0;
        list_open(&self.inodes.open_dir(&dir.entry)?, before, |listed| {
            let is_done = std::mem::take(&mut beside_done);
            let (name, beside) = match self.listed(&dir, path, listed.name) {
                Some(listed) => listed,
                None => return Ok(true),
            };
            if let (Some((name, contents)), false) = (beside, is_done) {
                let path = join(path, &name);
                let ino = made_ino(&path);
                let attr = match attrs {
                    true => {
                        let beside = dir.entry.entry(listed.name);
                        beside
                            .and_then(|beside| self.enter_made(beside, &path, contents))
                            .ok()
                    }
                    false => None,
                };
                let entry = DirEntry {
                    ino,
                    kind: Kind::File,
                    name: &name,
                    cookie: before | BESIDE,
                    attr,
                };
                if !self.emit(&entry, emit) {
                    return Ok(false);
                }
            }
            before = listed.cookie;
            self.emit_entry(&dir, &listed, &name, attrs, emit)
        })
    }

    /// The name that the view has for an entry, and the name and the contents of the file beside it;
    /// nothing if the entry is not shown.
    #[expect(clippy::type_complexity, reason = "an answer of one caller")]
    fn listed(
        &self,
        dir: &LowerInode<ReverseNode>,
        path: &[u8],
        plain: &[u8],
    ) -> Option<(Vec<u8>, Option<(Vec<u8>, Vec<u8>)>)> {
        let is_root = dir.ino == ROOT;
        match plain {
            b"." => {
                let beside = self.keys.dir_iv_file(path);
                Some((plain.to_vec(), beside.map(|(name, iv)| (name.to_vec(), iv))))
            }
            b".." => Some((plain.to_vec(), None)),
            _ if is_config(dir, plain) => Some((CONFIG_NAME.into(), None)),
            _ => {
                let lower = self.keys.name(path, plain).ok()?;
                // With clear names: it is hidden by the configuration.
                let is_hidden = is_root && lower.name == CONFIG_NAME.as_bytes();
                let long = lower.long.map(|long| (long.name, long.contents));
                (!is_hidden).then_some((lower.name, long))
            }
        }
    }

    fn emit_entry(
        &self,
        dir: &LowerInode<ReverseNode>,
        listed: &LowerDirEntry<'_>,
        name: &[u8],
        attrs: bool,
        emit: &mut dyn FnMut(&DirEntry<'_>) -> bool,
    ) -> Result<bool> {
        let is_dot = matches!(listed.name, b"." | b"..");
        let attr = match attrs && !is_dot {
            true if is_config(dir, listed.name) => self.look_up(dir.ino, name).ok(),
            true => self.enter_plain(dir, name, listed.name).ok(),
            false => None,
        };
        let kind = match (&attr, listed.kind) {
            (Some(attr), _) => attr.kind,
            (None, Some(kind)) => kind,
            (None, None) => match kind_of(&dir.entry, listed.name) {
                Some(kind) => kind,
                None => return Ok(true),
            },
        };
        let ino = match listed.name {
            b".." if dir.ino == ROOT => ROOT,
            _ => number(self.root_ino, listed.ino),
        };
        let cookie = listed.cookie;
        Ok(self.emit(
            &DirEntry {
                ino,
                kind,
                name,
                cookie,
                attr,
            },
            emit,
        ))
    }

    /// Emits an entry, and gives its lookup back if it is not accepted.
    fn emit(&self, entry: &DirEntry<'_>, emit: &mut dyn FnMut(&DirEntry<'_>) -> bool) -> bool {
        let more = emit(entry);
        if let (false, Some(attr)) = (more, &entry.attr) {
            self.inodes.forget(attr.ino, 1);
        }
        more
    }
}

/// The path of a directory in the view.
fn path(dir: &LowerInode<ReverseNode>) -> Result<&[u8]> {
    match &dir.node {
        ReverseNode::Plain(path) if dir.kind == Kind::Directory => Ok(path),
        _ => Err(Error::NotDirectory),
    }
}

fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match dir {
        b"" => name.to_vec(),
        dir => [dir, b"/", name].concat(),
    }
}

/// Returns whether this is the plain name of the configuration.
fn is_config(dir: &LowerInode<ReverseNode>, plain: &[u8]) -> bool {
    dir.ino == ROOT && plain == REVERSE_CONFIG_NAME.as_bytes()
}

/// The number of a file that the plain directory does not have: by its path, and none of a plain file.
fn made_ino(path: &[u8]) -> Ino {
    let hash = cipher::Digest::Sha256.hash(&[path]);
    u64::from_be_bytes(*hash.first_chunk().expect("8 bytes of 32")) | 1 << 63
}
