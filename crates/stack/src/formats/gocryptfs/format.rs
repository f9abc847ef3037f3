//! gocryptfs as a [`DirectoryFormat`].

use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use cipher::Random;
use secret::Key;
use vfs::{Error, Kind, Result};

use super::attributes::AttributeKey;
use super::config::{CONFIG_NAME, Config};
use super::contents::{self, ContentKey};
use super::error;
use super::names::{DIR_IV_NAME, DirIv, EntryName, GocryptfsNameKey, NAME_MAX};
use crate::formats::{DirectoryFormat, FileLayout, LongNames, LowerName, NodePlan, Sought};
use crate::lower::Entry;

/// The longest target of a link in the lower directory, in bytes.
pub(super) const TARGET_MAX: usize = 4095;

/// gocryptfs, with its master key.
pub struct GocryptfsFormat {
    contents: ContentKey,
    /// None if names are clear.
    names: Option<GocryptfsNameKey>,
    attributes: AttributeKey,
    dir_iv: bool,
    random: Arc<dyn Random>,
}

/// An inode: of files there is nothing to know.
#[derive(Debug)]
pub struct GocryptfsNode {
    /// The IV of a directory; nothing while its file is missing.
    iv: OnceLock<DirIv>,
    is_root: bool,
}

impl GocryptfsNode {
    fn new(iv: DirIv, is_root: bool) -> GocryptfsNode {
        GocryptfsNode {
            iv: iv.into(),
            is_root,
        }
    }

    fn iv(&self) -> Result<&DirIv> {
        self.iv.get().ok_or(Error::Io)
    }
}

impl GocryptfsFormat {
    /// With the master key that [`Config::unlock`] gave.
    ///
    /// # Errors
    /// Those of the ciphers and of locked memory.
    pub fn new(
        config: &Config,
        master: &Key,
        random: Arc<dyn Random>,
    ) -> std::result::Result<GocryptfsFormat, error::Error> {
        let features = config.features();
        let key = config.content_key(master)?;
        let name_key = config.name_key(master)?;
        let names = match features.names {
            Some(names) => Some(GocryptfsNameKey::new(names, &name_key)?),
            None => None,
        };
        let raw64 = features.names.is_some_and(|names| names.raw64);
        Ok(GocryptfsFormat {
            contents: ContentKey::new(features.content, &key, random.clone())?,
            names,
            attributes: AttributeKey::new(raw64, &name_key)?,
            dir_iv: features.names.is_some_and(|names| names.dir_iv),
            random,
        })
    }

    /// The files of a new directory.
    ///
    /// # Errors
    /// `Io` without random numbers.
    pub fn new_directory(&self) -> Result<NodePlan<GocryptfsNode>> {
        let mut iv = [0; 16];
        let mut files = Vec::new();
        if self.dir_iv {
            self.random.fill(&mut iv).map_err(|_| Error::Io)?;
            files.push((DIR_IV_NAME, iv.to_vec()));
        }
        Ok(NodePlan {
            node: GocryptfsNode::new(iv, false),
            xattrs: Vec::new(),
            files,
        })
    }

    fn dir_iv(&self, entry: &Entry) -> Result<DirIv> {
        if !self.dir_iv {
            return Ok([0; 16]);
        }
        let iv = entry.read_small(DIR_IV_NAME.as_bytes(), 16)?;
        if iv.is_empty() {
            // A power cut took it before it was synced.
            return Err(Error::NotFound);
        }
        let iv: DirIv = iv.try_into().map_err(|_| Error::Io)?;
        // All names of directories without an IV would be alike, so this one was lost.
        if iv == [0; 16] {
            return Err(Error::Io);
        }
        Ok(iv)
    }
}

impl DirectoryFormat for GocryptfsFormat {
    type Node = GocryptfsNode;

    fn name(&self) -> &'static str {
        "gocryptfs"
    }

    fn layout(&self) -> FileLayout {
        self.contents.layout()
    }

    fn name_max(&self) -> u32 {
        NAME_MAX as u32
    }

    fn root(&self, root: &Entry) -> Result<GocryptfsNode> {
        let iv = self.dir_iv(root)?;
        Ok(GocryptfsNode::new(iv, true))
    }

    fn node(
        &self,
        _dir: &GocryptfsNode,
        _lower: &[u8],
        kind: Kind,
        entry: &Entry,
    ) -> Result<GocryptfsNode> {
        let iv = match kind {
            Kind::Directory => match self.dir_iv(entry) {
                // Making or removing it was interrupted: if it is empty it is listed so, and can be removed.
                Err(Error::NotFound) => OnceLock::new(),
                iv => iv?.into(),
            },
            _ => [0; 16].into(),
        };
        Ok(GocryptfsNode { iv, is_root: false })
    }

    fn learn(&self, node: &GocryptfsNode, entry: &Entry) -> Result<()> {
        if node.iv.get().is_some() {
            return Ok(());
        }
        let iv = self.dir_iv(entry).map_err(|_| Error::Io)?;
        // Another thread has read the same.
        let _ = node.iv.set(iv);
        Ok(())
    }

    fn new_node(&self, _dir: &GocryptfsNode, kind: Kind) -> Result<NodePlan<GocryptfsNode>> {
        if kind == Kind::Directory {
            return self.new_directory();
        }
        Ok(NodePlan {
            node: GocryptfsNode::new([0; 16], false),
            xattrs: Vec::new(),
            files: Vec::new(),
        })
    }

    fn plain_name(
        &self,
        dir: &GocryptfsNode,
        lower: &[u8],
        long: &LongNames<'_>,
    ) -> Result<Option<Vec<u8>>> {
        if dir.is_root && lower == CONFIG_NAME.as_bytes() {
            return Ok(None);
        }
        let Some(names) = &self.names else {
            return Ok(Some(lower.to_vec()));
        };
        match names.stored(lower) {
            EntryName::Own => Ok(None),
            EntryName::Whole(whole) => names.open(dir.iv()?, whole).map(Some),
            EntryName::Long(file) => {
                let whole = long(&file)?;
                match names.is_long(lower, &whole) {
                    true => names.open(dir.iv()?, &whole).map(Some),
                    false => Err(Error::Io),
                }
            }
        }
    }

    fn lower_name(&self, dir: &GocryptfsNode, plain: &[u8]) -> Result<Sought> {
        match &self.names {
            Some(names) => names.seal(dir.iv()?, plain).map(Sought::At),
            None if plain.len() > NAME_MAX => Err(Error::NameTooLong),
            None if dir.is_root && plain == CONFIG_NAME.as_bytes() => Err(Error::NotFound),
            None => Ok(Sought::At(LowerName {
                name: plain.to_vec(),
                long: None,
            })),
        }
    }

    fn new_name(
        &self,
        dir: &GocryptfsNode,
        plain: &[u8],
        _node: &GocryptfsNode,
    ) -> Result<LowerName> {
        match self.lower_name(dir, plain) {
            Ok(Sought::At(name)) => Ok(name),
            Ok(Sought::Listed) => Err(Error::Io),
            // The name of the configuration, in a directory with clear names.
            Err(Error::NotFound) => Err(Error::NotPermitted),
            Err(error) => Err(error),
        }
    }

    fn seal_target(&self, _node: &GocryptfsNode, target: &[u8]) -> Result<Vec<u8>> {
        let Some(names) = &self.names else {
            return Ok(target.to_vec());
        };
        let sealed = self.contents.seal_value(target)?;
        let stored = names.base64().encode(sealed).into_bytes();
        match stored.len() {
            ..=TARGET_MAX => Ok(stored),
            _ => Err(Error::NameTooLong),
        }
    }

    fn open_target(&self, _node: &GocryptfsNode, stored: &[u8]) -> Result<Vec<u8>> {
        match &self.names {
            Some(names) => {
                let sealed = names.base64().decode(stored).map_err(|_| Error::Io)?;
                self.contents.open_value(sealed)
            }
            None => Ok(stored.to_vec()),
        }
    }

    fn new_header(&self, _node: &GocryptfsNode) -> Result<Vec<u8>> {
        self.contents.new_header()
    }

    fn check_header(&self, _node: &GocryptfsNode, header: &[u8]) -> Result<()> {
        contents::file_id(header).map(drop)
    }

    fn seal(
        &self,
        _node: &GocryptfsNode,
        header: &[u8],
        first: u64,
        units: &mut [u8],
    ) -> Result<()> {
        self.contents.seal(header, first, units)
    }

    fn open(
        &self,
        _node: &GocryptfsNode,
        header: &[u8],
        first: u64,
        units: &mut [u8],
    ) -> Result<()> {
        self.contents.open(header, first, units)
    }

    fn own_files(&self) -> &'static [&'static str] {
        match self.dir_iv {
            true => &[DIR_IV_NAME],
            false => &[],
        }
    }

    fn lower_xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        self.attributes.lower(name)
    }

    fn plain_xattr(&self, lower: Vec<u8>) -> Option<Vec<u8>> {
        self.attributes.plain(&lower)
    }

    fn seal_xattr(&self, name: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        self.attributes.seal(&self.contents, name, value)
    }

    fn open_xattr(&self, name: &[u8], stored: Vec<u8>) -> Result<Vec<u8>> {
        self.attributes.open(&self.contents, name, stored)
    }

    // One key is there as long as the view, so the checks of keys have nothing to refuse.

    fn keys_change(&self) -> bool {
        false
    }

    fn heeds_opens(&self) -> bool {
        false
    }

    fn closed(&self, _node: &GocryptfsNode) {}

    fn renewed(&self, _: &GocryptfsNode, _: &GocryptfsNode, _: &[u8]) -> Option<GocryptfsNode> {
        None
    }

    fn check_change(&self) -> Result<()> {
        Ok(())
    }

    fn check_write(&self, _node: &GocryptfsNode) -> Result<()> {
        Ok(())
    }

    fn check_key(&self, _node: &GocryptfsNode) -> Result<()> {
        Ok(())
    }

    // `plain_xattr` shows encrypted attributes only, so no other one is hidden by name.
    fn is_own_xattr(&self, _name: &[u8]) -> bool {
        false
    }
}
