//! pefs as a [`DirectoryFormat`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use cipher::Random;
use vfs::{Error, Kind, Result};

use super::database::config::{CONFIG_NAME, DATABASE_NAME};
use super::key::{KeyId, PefsKey};
use super::names::{self, FileTweak, NAME_MAX};
use crate::formats::{DirectoryFormat, FileLayout, LongNames, LowerName, NodePlan, SizeIn, Sought};
use crate::lower::Entry;

/// Plain bytes of a sector, and of what is stored for it.
const SECTOR: usize = 4096;

/// The longest name as the lower directory has it, in bytes.
const RAW_NAME_MAX: usize = 255;

/// The longest target of a link, in bytes.
const TARGET_MAX: usize = 766;

/// pefs, with the keys that are there.
pub struct PefsFormat {
    /// The first one is for what enters a directory without a key.
    keys: RwLock<Vec<Arc<PefsKey>>>,
    /// The number of key changes. It changes while the keys are locked.
    epoch: AtomicU64,
    random: Arc<dyn Random>,
}

/// An inode. The default is one that is not encrypted, as the root.
#[derive(Debug, Default)]
pub struct PefsNode {
    sealed: Option<EncryptedName>,
    /// True if the inode had a key that was removed. Its stored bytes are shown, and are not for writing.
    has_lost_key: bool,
}

/// The key and tweak of an inode with an encrypted name. Others are as they are in the lower directory.
#[derive(Debug)]
struct EncryptedName {
    key: Arc<PefsKey>,
    tweak: FileTweak,
}

impl PefsFormat {
    /// Without a key.
    pub fn new(random: Arc<dyn Random>) -> PefsFormat {
        PefsFormat {
            keys: RwLock::default(),
            epoch: AtomicU64::new(0),
            random,
        }
    }

    /// Appends a key.
    ///
    /// # Errors
    /// `Exists` if one with this id is there.
    pub fn add_key(&self, key: PefsKey) -> Result<()> {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if keys.iter().any(|other| other.id() == key.id()) {
            return Err(Error::Exists);
        }
        keys.push(Arc::new(key));
        self.epoch.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Takes a key away, from open files too.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn remove_key(&self, id: KeyId) -> Result<()> {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let at = keys.iter().position(|key| key.id() == id);
        keys.remove(at.ok_or(Error::NotFound)?).remove();
        self.epoch.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// The keys, in their order.
    pub fn keys(&self) -> Vec<Arc<PefsKey>> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.clone()
    }

    /// Decrypts a stored name under one of the keys: that of its directory first, then the later ones, then
    /// the earlier ones.
    fn open_name(&self, dir: &PefsNode, lower: &[u8]) -> Option<(EncryptedName, Vec<u8>)> {
        let keys = self.keys();
        let is_of_dir = |key: &Arc<PefsKey>| {
            dir.sealed
                .as_ref()
                .is_some_and(|dir| Arc::ptr_eq(&dir.key, key))
        };
        let first = keys.iter().position(is_of_dir).unwrap_or_default();
        let (earlier, later) = keys.split_at(first);
        later.iter().chain(earlier).find_map(|key| {
            let (tweak, plain) = key.names.open(lower)?;
            let key = key.clone();
            Some((EncryptedName { key, tweak }, plain))
        })
    }

    /// The node and the lower name of a directory of this name under another key.
    ///
    /// # Errors
    /// `NotFound` without such a key; `Invalid` for a directory that has it, or has none.
    pub fn under_key(
        &self,
        dir: &PefsNode,
        id: KeyId,
        plain: &[u8],
    ) -> Result<(PefsNode, Vec<u8>)> {
        let mut keys = self.keys().into_iter();
        let key = keys.find(|key| key.id() == id).ok_or(Error::NotFound)?;
        match dir.key() {
            Some(had) if had.id() != id => {}
            _ => return Err(Error::Invalid),
        }
        let sealed = self.seal_new(key)?;
        let lower = sealed.key.check()?.names.seal(&sealed.tweak, plain)?;
        Ok((sealed.into(), lower))
    }

    /// A new tweak under a key.
    fn seal_new(&self, key: Arc<PefsKey>) -> Result<EncryptedName> {
        let mut tweak = FileTweak::default();
        self.random.fill(&mut tweak).map_err(|_| Error::Io)?;
        Ok(EncryptedName { key, tweak })
    }

    /// The key of what is made in a directory.
    fn key_in(&self, dir: &PefsNode) -> Result<Arc<PefsKey>> {
        match &dir.sealed {
            Some(dir) => dir.key.check().map(|_| dir.key.clone()),
            None => self.keys().first().cloned().ok_or(Error::ReadOnly),
        }
    }
}

impl PefsNode {
    /// The key that it is encrypted with, unless it was removed.
    pub fn key(&self) -> Option<&Arc<PefsKey>> {
        let sealed = self.sealed.as_ref()?;
        sealed.key.check().ok().map(|_| &sealed.key)
    }

    /// Returns whether the inode is encrypted with this key, or was before the key was removed.
    pub fn is_under(&self, id: KeyId) -> bool {
        let sealed = self.sealed.as_ref();
        sealed.is_some_and(|sealed| sealed.key.id() == id)
    }
}

impl From<EncryptedName> for PefsNode {
    fn from(sealed: EncryptedName) -> PefsNode {
        PefsNode {
            sealed: Some(sealed),
            has_lost_key: false,
        }
    }
}

impl EncryptedName {
    fn iv(&self, sector: u64) -> [u8; 16] {
        let offset = sector.wrapping_mul(SECTOR as u64);
        let mut iv = [0; 16];
        iv[..8].copy_from_slice(&offset.to_le_bytes());
        iv[8..].copy_from_slice(&self.tweak);
        iv
    }

    fn seal(&self, first: u64, sectors: &mut [u8]) -> Result<()> {
        let contents = &self.key.check()?.contents;
        let mut sectors = (first..).zip(sectors.chunks_mut(SECTOR));
        sectors
            .try_for_each(|(number, sector)| contents.encrypt(&self.iv(number), sector))
            .map_err(|_| Error::Io)
    }

    fn open(&self, first: u64, sectors: &mut [u8]) -> Result<()> {
        let contents = &self.key.check()?.contents;
        let mut sectors = (first..).zip(sectors.chunks_mut(SECTOR));
        sectors
            .try_for_each(|(number, sector)| contents.decrypt(&self.iv(number), sector))
            .map_err(|_| Error::Io)
    }
}

impl DirectoryFormat for PefsFormat {
    type Node = PefsNode;

    fn name(&self) -> &'static str {
        "pefs"
    }

    fn layout(&self) -> FileLayout {
        FileLayout {
            header: 0,
            before: 0,
            unit: SECTOR,
            after: 0,
            size: SizeIn::Lower,
        }
    }

    fn name_max(&self) -> u32 {
        NAME_MAX as u32
    }

    fn root(&self, _root: &Entry) -> Result<PefsNode> {
        Ok(PefsNode::default())
    }

    fn node(&self, dir: &PefsNode, lower: &[u8], _kind: Kind, _entry: &Entry) -> Result<PefsNode> {
        match (self.open_name(dir, lower), &dir.sealed) {
            (Some((sealed, _)), _) => Ok(sealed.into()),
            (None, None) => Ok(PefsNode::default()),
            (None, Some(_)) => Err(Error::NotFound),
        }
    }

    fn new_node(&self, dir: &PefsNode, _kind: Kind) -> Result<NodePlan<PefsNode>> {
        let sealed = self.seal_new(self.key_in(dir)?)?;
        Ok(NodePlan {
            node: sealed.into(),
            xattrs: Vec::new(),
            files: Vec::new(),
        })
    }

    fn plain_name(
        &self,
        dir: &PefsNode,
        lower: &[u8],
        _long: &LongNames<'_>,
    ) -> Result<Option<Vec<u8>>> {
        Ok(match (self.open_name(dir, lower), &dir.sealed) {
            (Some((_, plain)), _) => Some(plain),
            (None, None) => Some(lower.to_vec()),
            (None, Some(_)) => None,
        })
    }

    fn lower_name(&self, dir: &PefsNode, plain: &[u8]) -> Result<Sought> {
        let max = if dir.sealed.is_some() {
            NAME_MAX
        } else {
            RAW_NAME_MAX
        };
        match plain.len() <= max {
            true => Ok(Sought::Listed),
            false => Err(Error::NameTooLong),
        }
    }

    fn names_epoch(&self) -> Option<u64> {
        Some(self.epoch.load(Ordering::Acquire))
    }

    fn new_name(&self, dir: &PefsNode, plain: &[u8], node: &PefsNode) -> Result<LowerName> {
        let own = [CONFIG_NAME, DATABASE_NAME].map(str::as_bytes);
        // It would take the place of the file of the format, and be encrypted: all keys of chains would be lost.
        if dir.sealed.is_none() && node.sealed.is_some() && own.contains(&plain) {
            return Err(Error::NotPermitted);
        }
        let name = match (&node.sealed, &dir.sealed) {
            (Some(node), Some(dir)) if !Arc::ptr_eq(&node.key, &dir.key) => {
                return Err(Error::CrossDevice);
            }
            (Some(node), _) => node.key.check()?.names.seal(&node.tweak, plain)?,
            (None, Some(_)) => return Err(Error::CrossDevice),
            (None, None) if self.keys().is_empty() => return Err(Error::ReadOnly),
            (None, None) if plain.len() > RAW_NAME_MAX => return Err(Error::NameTooLong),
            (None, None) => plain.to_vec(),
        };
        Ok(LowerName { name, long: None })
    }

    fn seal_target(&self, node: &PefsNode, target: &[u8]) -> Result<Vec<u8>> {
        let Some(node) = &node.sealed else {
            return Ok(target.to_vec());
        };
        if target.len() > TARGET_MAX {
            return Err(Error::NameTooLong);
        }
        let mut sealed = target.to_vec();
        node.seal(0, &mut sealed)?;
        Ok(names::encode(&sealed))
    }

    fn open_target(&self, node: &PefsNode, stored: &[u8]) -> Result<Vec<u8>> {
        let Some(node) = &node.sealed else {
            return Ok(stored.to_vec());
        };
        let mut target = names::decode(stored).ok_or(Error::Io)?;
        node.open(0, &mut target)?;
        // A target that was changed decrypts to anything.
        match target.contains(&0) {
            true => Err(Error::Io),
            false => Ok(target),
        }
    }

    fn keys_change(&self) -> bool {
        true
    }

    fn renewed(&self, node: &PefsNode, dir: &PefsNode, lower: &[u8]) -> Option<PefsNode> {
        match (node.key(), self.open_name(dir, lower)) {
            (Some(_), _) => None,
            (None, Some((sealed, _))) => Some(sealed.into()),
            (None, None) if node.sealed.is_none() => None,
            (None, None) => Some(PefsNode {
                sealed: None,
                has_lost_key: true,
            }),
        }
    }

    fn check_change(&self) -> Result<()> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        match keys.is_empty() {
            true => Err(Error::ReadOnly),
            false => Ok(()),
        }
    }

    fn check_write(&self, node: &PefsNode) -> Result<()> {
        match node.has_lost_key {
            true => Err(Error::ReadOnly),
            false => Ok(()),
        }
    }

    fn check_key(&self, node: &PefsNode) -> Result<()> {
        let Some(node) = &node.sealed else {
            return Ok(());
        };
        node.key.check().map(drop)
    }

    fn seal(&self, node: &PefsNode, _header: &[u8], first: u64, units: &mut [u8]) -> Result<()> {
        let Some(node) = &node.sealed else {
            return Ok(());
        };
        node.seal(first, units)
    }

    fn open(&self, node: &PefsNode, _header: &[u8], first: u64, units: &mut [u8]) -> Result<()> {
        let Some(node) = &node.sealed else {
            return Ok(());
        };
        node.open(first, units)
    }

    fn heeds_opens(&self) -> bool {
        false
    }

    fn closed(&self, _node: &PefsNode) {}

    // The node of a directory follows from its name alone.
    fn learn(&self, _node: &PefsNode, _entry: &Entry) -> Result<()> {
        Ok(())
    }

    // Files have no headers.
    fn check_header(&self, _node: &PefsNode, _header: &[u8]) -> Result<()> {
        Ok(())
    }

    fn is_own_xattr(&self, _name: &[u8]) -> bool {
        false
    }

    // Extended attributes are in clear, as with pefs on FreeBSD.
    fn lower_xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        Ok(name.to_vec())
    }

    fn seal_xattr(&self, _name: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        Ok(value.to_vec())
    }

    fn open_xattr(&self, _name: &[u8], stored: Vec<u8>) -> Result<Vec<u8>> {
        Ok(stored)
    }
}
