//! fscrypt as a [`DirectoryFormat`].

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use cipher::Random;
use parking_lot::RwLock;
use vfs::{Error, Kind, Result};

use super::context::{EncryptionPolicy, InodeContext, KeyName, NONCE_LEN};
use super::inode_key::InodeKey;
use super::master_key::FscryptMasterKey;
use super::name::{self, NAME_MAX, NokeyName, StoredName};
use super::tool;
use crate::formats::{
    DirectoryFormat, FileLayout, LongName, LongNames, LowerName, NodePlan, SizeIn, Sought,
};
use crate::lower::{Entry, list};

/// The longest target of a link in the lower directory, in bytes.
const TARGET_MAX: usize = 4095;

/// The namespace of the extended attributes that hold contexts and sizes.
///
/// Their names are short: with four letters each, an inode of ext4 (256 bytes) holds both, and a file
/// takes no block more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrNamespace {
    /// `trusted.`: only root can read and change them.
    Trusted,
    /// `user.`: the owner of each file can.
    User,
}

impl XattrNamespace {
    /// The attribute with the context.
    pub const fn context(self) -> &'static str {
        match self {
            XattrNamespace::Trusted => "trusted.sr-c",
            XattrNamespace::User => "user.sr-c",
        }
    }

    /// The attribute with the size of a regular file.
    pub const fn size(self) -> &'static str {
        match self {
            XattrNamespace::Trusted => "trusted.sr-s",
            XattrNamespace::User => "user.sr-s",
        }
    }

    /// The space of the directory `root`, and its context, if it has one.
    ///
    /// # Errors
    /// `Io` for a damaged context; those of reading attributes.
    pub fn of(root: &Entry) -> Result<Option<(XattrNamespace, InodeContext)>> {
        for space in [XattrNamespace::Trusted, XattrNamespace::User] {
            if let Some(bytes) = root.xattr(space.context())? {
                let context = InodeContext::decode(&bytes).ok_or(Error::Io)?;
                return Ok(Some((space, context)));
            }
        }
        Ok(None)
    }
}

/// fscrypt, with the keys that are there.
pub struct FscryptFormat {
    space: XattrNamespace,
    keys: RwLock<FscryptKeys>,
    random: Arc<dyn Random>,
}

/// The master keys.
struct FscryptKeys {
    there: HashMap<KeyName, FscryptMasterKey>,
    /// The keys that were removed while files were open.
    leaving: HashSet<KeyName>,
}

/// The state of a master key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// No.
    Absent,
    /// Yes.
    Present,
    /// The key was removed while files were open, which keep their own keys until they are closed.
    Leaving,
}

/// An inode: its context, and its key once something needed it.
#[derive(Debug)]
pub struct FscryptNode {
    kind: Kind,
    /// Special files have none, nor has what is not encrypted. A directory can get one later.
    context: OnceLock<InodeContext>,
    key: RwLock<Option<Arc<InodeKey>>>,
}

impl FscryptNode {
    pub(super) fn new(kind: Kind, context: Option<InodeContext>) -> FscryptNode {
        FscryptNode {
            kind,
            context: context.map(OnceLock::from).unwrap_or_default(),
            key: RwLock::new(None),
        }
    }

    fn context(&self) -> Result<&InodeContext> {
        self.context.get().ok_or(Error::Invalid)
    }

    /// Returns whether it could be encrypted, and is not.
    fn is_clear(&self) -> bool {
        matches!(self.kind, Kind::File | Kind::Directory | Kind::Symlink)
            && self.context.get().is_none()
    }

    /// Returns whether names in it, or its target, are stored as they are.
    fn has_clear_names(&self) -> bool {
        self.is_clear() || self.policy().is_ok_and(EncryptionPolicy::has_clear_names)
    }

    /// The policy of the inode.
    ///
    /// # Errors
    /// `Invalid` without one.
    pub fn policy(&self) -> Result<&EncryptionPolicy> {
        self.context().map(|context| &context.policy)
    }

    /// Returns whether its policy has this key.
    pub fn is_under(&self, name: &KeyName) -> bool {
        self.policy().is_ok_and(|policy| policy.key == *name)
    }

    /// Forgets its own key. It is made again from the master key, if that is there.
    pub fn forget_key(&self) {
        *self.key.write() = None;
    }
}

impl FscryptFormat {
    /// With these keys, each by the name that its policies have for it.
    pub fn new(
        space: XattrNamespace,
        keys: HashMap<KeyName, FscryptMasterKey>,
        random: Arc<dyn Random>,
    ) -> FscryptFormat {
        let keys = FscryptKeys {
            there: keys,
            leaving: HashSet::new(),
        };
        FscryptFormat {
            space,
            keys: RwLock::new(keys),
            random,
        }
    }

    /// Adds a master key, by the name that its policies have for it.
    ///
    /// # Errors
    /// `Exists` if it is there.
    pub fn add_key(&self, name: KeyName, key: FscryptMasterKey) -> Result<()> {
        let mut keys = self.keys.write();
        if keys.there.contains_key(&name) {
            return Err(Error::Exists);
        }
        keys.leaving.remove(&name);
        keys.there.insert(name, key);
        Ok(())
    }

    /// Removes a master key. Nodes keep the keys that were made from it, until they forget them.
    ///
    /// # Errors
    /// `NotFound` if it is neither there nor leaving.
    pub fn remove_key(&self, name: &KeyName) -> Result<()> {
        let mut keys = self.keys.write();
        if keys.there.remove(name).is_none() && !keys.leaving.contains(name) {
            return Err(Error::NotFound);
        }
        keys.leaving.insert(*name);
        Ok(())
    }

    /// Notes that no file is open any more that keeps a key made from this removed one.
    pub fn has_left(&self, name: &KeyName) {
        self.keys.write().leaving.remove(name);
    }

    /// The state of this master key.
    pub fn key_state(&self, name: &KeyName) -> KeyState {
        let keys = self.keys.read();
        match keys.there.contains_key(name) {
            true => KeyState::Present,
            false if keys.leaving.contains(name) => KeyState::Leaving,
            false => KeyState::Absent,
        }
    }

    /// Gives a directory, which is empty but for the metadata of the tool, a policy, and with it all that
    /// will be in it.
    ///
    /// # Errors
    /// `Invalid` for a policy that Linux does not allow, `NotSupported` for one that needs inode numbers
    /// of Linux; `Exists` if the directory has one, `NotEmpty` if there is something in it; those of the
    /// lower directory.
    pub fn set_policy(
        root: &Entry,
        space: XattrNamespace,
        policy: &EncryptionPolicy,
        random: &dyn Random,
    ) -> Result<()> {
        if !policy.is_valid() {
            return Err(Error::Invalid);
        }
        if policy.needs_inode_numbers() {
            return Err(Error::NotSupported);
        }
        if XattrNamespace::of(root)?.is_some() {
            return Err(Error::Exists);
        }
        list(root, 0, |listed| match listed.name {
            b"." | b".." => Ok(true),
            name if name == tool::DIRECTORY_NAME.as_bytes() => Ok(true),
            _ => Err(Error::NotEmpty),
        })?;
        let mut context = InodeContext {
            policy: *policy,
            nonce: [0; NONCE_LEN],
        };
        random.fill(&mut context.nonce).map_err(|_| Error::Io)?;
        let create = rustix::fs::XattrFlags::CREATE;
        root.set_xattr(space.context(), &context.encode(), create)
    }

    fn key(&self, node: &FscryptNode) -> Result<Arc<InodeKey>> {
        if let Some(key) = &*node.key.read() {
            return Ok(key.clone());
        }
        let context = node.context()?;
        // Held until the node has it: when a master key is gone, no node gets a key from it.
        let keys = self.keys.read();
        let master = keys.there.get(&context.policy.key).ok_or(Error::NoKey)?;
        let key = InodeKey::new(context, master, node.kind == Kind::File, None)?;
        let key = Arc::new(key);
        Ok(node.key.write().get_or_insert(key).clone())
    }

    fn has_key(&self, node: &FscryptNode) -> bool {
        let keys = self.keys.read();
        node.policy()
            .is_ok_and(|policy| keys.there.contains_key(&policy.key))
    }

    /// The ciphertext of an entry's name.
    fn sealed_name(lower: &[u8], long: &LongNames<'_>) -> Result<Option<Vec<u8>>> {
        match StoredName::decode(lower) {
            None => Ok(None),
            Some(StoredName::Whole(sealed)) => Ok(Some(sealed)),
            Some(StoredName::Long(file)) => {
                let sealed = long(&file)?;
                match name::stored_name(&sealed).0 == lower {
                    true => Ok(Some(sealed)),
                    false => Err(Error::Io),
                }
            }
        }
    }

    /// Gives an empty directory a policy while it is mounted.
    ///
    /// # Errors
    /// Those of [`FscryptFormat::set_policy`].
    pub fn encrypt(
        &self,
        entry: &Entry,
        node: &FscryptNode,
        policy: &EncryptionPolicy,
    ) -> Result<()> {
        if node.context.get().is_some() {
            return Err(Error::Exists);
        }
        FscryptFormat::set_policy(entry, self.space, policy, &*self.random)?;
        self.learn(node, entry)
    }

    /// The context in the attributes of what is in a directory without one.
    fn own_context(&self, kind: Kind, entry: &Entry) -> Result<Option<InodeContext>> {
        if !matches!(kind, Kind::File | Kind::Directory) {
            return Ok(None);
        }
        match XattrNamespace::of(entry)? {
            None => Ok(None),
            // The mount would take its contents for clear.
            Some((space, _)) if space != self.space => Err(Error::Io),
            // The inode numbers that Linux put into the IVs are not those of a stacked directory.
            Some((_, context)) if context.policy.needs_inode_numbers() => Err(Error::NotSupported),
            Some((_, context)) => Ok(Some(context)),
        }
    }

    /// The context and the ciphertext in the target of a link.
    fn split_target(stored: &[u8]) -> Option<(InodeContext, Vec<u8>)> {
        let bytes = BASE64.decode(stored).ok()?;
        let (context, rest) = bytes.split_at_checked(InodeContext::len_of(&bytes)?)?;
        let (len, sealed) = rest.split_first_chunk()?;
        let whole = sealed.len() == usize::from(u16::from_le_bytes(*len)) && sealed.len() >= 16;
        Some((InodeContext::decode(context)?, sealed.to_vec())).filter(|_| whole)
    }

    /// A context that belongs into a directory: Linux does not let an inode of another policy in.
    fn belongs(dir: &FscryptNode, context: Option<InodeContext>) -> Result<InodeContext> {
        let context = context.ok_or(Error::Io)?;
        match context.policy == *dir.policy()? {
            true => Ok(context),
            false => Err(Error::NotPermitted),
        }
    }
}

/// A name that is stored as it is.
fn clear_name(plain: &[u8]) -> Result<LowerName> {
    match plain.len() <= NAME_MAX {
        true => Ok(LowerName {
            name: plain.to_vec(),
            long: None,
        }),
        false => Err(Error::NameTooLong),
    }
}

/// Returns whether a decrypted name can be one. A wrong one comes of a ciphertext that was changed.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/')
}

fn lower_name(sealed: Vec<u8>) -> LowerName {
    let (name, file) = name::stored_name(&sealed);
    let long = file.map(|name| LongName {
        name,
        contents: sealed,
    });
    LowerName { name, long }
}

impl DirectoryFormat for FscryptFormat {
    type Node = FscryptNode;

    fn name(&self) -> &'static str {
        "fscrypt"
    }

    fn layout(&self) -> FileLayout {
        FileLayout {
            header: 0,
            before: 0,
            unit: 4096,
            after: 0,
            size: SizeIn::Xattr(self.space.size()),
        }
    }

    fn name_max(&self) -> u32 {
        NAME_MAX as u32
    }

    fn root(&self, root: &Entry) -> Result<FscryptNode> {
        let context = self.own_context(Kind::Directory, root)?;
        Ok(FscryptNode::new(Kind::Directory, context))
    }

    fn node(
        &self,
        dir: &FscryptNode,
        _lower: &[u8],
        kind: Kind,
        entry: &Entry,
    ) -> Result<FscryptNode> {
        let context = match kind {
            kind if dir.is_clear() => self.own_context(kind, entry)?,
            Kind::File | Kind::Directory => {
                let bytes = entry.xattr(self.space.context())?;
                let context = bytes.and_then(|bytes| InodeContext::decode(&bytes));
                Some(Self::belongs(dir, context)?)
            }
            Kind::Symlink => {
                let target = Self::split_target(&entry.target()?);
                Some(Self::belongs(dir, target.map(|(context, _)| context))?)
            }
            Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => None,
        };
        Ok(FscryptNode::new(kind, context))
    }

    fn new_node(&self, dir: &FscryptNode, kind: Kind) -> Result<NodePlan<FscryptNode>> {
        if dir.is_clear() {
            return Ok(NodePlan {
                node: FscryptNode::new(kind, None),
                xattrs: Vec::new(),
                files: Vec::new(),
            });
        }
        self.key(dir)?;
        let mut context = *dir.context()?;
        let mut xattrs = Vec::new();
        let context = match kind {
            Kind::File | Kind::Directory | Kind::Symlink => {
                let filled = self.random.fill(&mut context.nonce);
                filled.map_err(|_| Error::Io)?;
                if kind != Kind::Symlink {
                    xattrs.push((self.space.context(), context.encode()));
                }
                Some(context)
            }
            Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => None,
        };
        Ok(NodePlan {
            node: FscryptNode::new(kind, context),
            xattrs,
            files: Vec::new(),
        })
    }

    fn plain_name(
        &self,
        dir: &FscryptNode,
        lower: &[u8],
        long: &LongNames<'_>,
    ) -> Result<Option<Vec<u8>>> {
        if dir.has_clear_names() {
            return Ok(Some(lower.to_vec()));
        }
        let Some(sealed) = Self::sealed_name(lower, long)? else {
            return Ok(None);
        };
        if !self.has_key(dir) {
            return Ok(Some(name::nokey_name(&sealed)));
        }
        let plain = name::open(&*self.key(dir)?, &sealed)?;
        match is_name(&plain) {
            true => Ok(Some(plain)),
            false => Err(Error::Io),
        }
    }

    fn lower_name(&self, dir: &FscryptNode, plain: &[u8]) -> Result<Sought> {
        if dir.has_clear_names() {
            return clear_name(plain).map(Sought::At);
        }
        if !self.has_key(dir) {
            return match NokeyName::decode(plain).ok_or(Error::NotFound)? {
                NokeyName::Whole(sealed) => Ok(Sought::At(lower_name(sealed))),
                NokeyName::Digest => Ok(Sought::Listed),
            };
        }
        let sealed = name::seal(&*self.key(dir)?, plain, dir.policy()?.padding, NAME_MAX)?;
        Ok(Sought::At(lower_name(sealed)))
    }

    fn new_name(&self, dir: &FscryptNode, plain: &[u8], node: &FscryptNode) -> Result<LowerName> {
        match (dir.is_clear(), node.is_clear()) {
            // The context of a link is in its target.
            (true, false) if node.kind == Kind::Symlink => return Err(Error::CrossDevice),
            (true, _) => return clear_name(plain),
            (false, true) => return Err(Error::CrossDevice),
            (false, false) => {}
        }
        if !self.has_key(dir) {
            return Err(Error::NoKey);
        }
        if node.context.get().is_some() && node.policy()? != dir.policy()? {
            return Err(Error::CrossDevice);
        }
        if dir.has_clear_names() {
            return clear_name(plain);
        }
        let sealed = name::seal(&*self.key(dir)?, plain, dir.policy()?.padding, NAME_MAX)?;
        Ok(lower_name(sealed))
    }

    fn seal_target(&self, node: &FscryptNode, target: &[u8]) -> Result<Vec<u8>> {
        if node.is_clear() {
            return Ok(target.to_vec());
        }
        let context = node.context()?.encode();
        let max = TARGET_MAX / 4 * 3 + 2 - context.len() - 2;
        let sealed = name::seal(&*self.key(node)?, target, node.policy()?.padding, max)?;
        let len = (sealed.len() as u16).to_le_bytes();
        Ok(BASE64
            .encode([&context[..], &len, &sealed].concat())
            .into_bytes())
    }

    fn open_target(&self, node: &FscryptNode, stored: &[u8]) -> Result<Vec<u8>> {
        if node.is_clear() {
            return Ok(stored.to_vec());
        }
        let (context, sealed) = Self::split_target(stored).ok_or(Error::Io)?;
        if context != *node.context()? {
            return Err(Error::Stale);
        }
        if node.has_clear_names() {
            return Ok(name::unpadded(sealed));
        }
        if !self.has_key(node) {
            return Ok(name::nokey_name(&sealed));
        }
        let target = name::open(&*self.key(node)?, &sealed)?;
        match target.is_empty() {
            false => Ok(target),
            true => Err(Error::Io),
        }
    }

    fn keys_change(&self) -> bool {
        true
    }

    fn heeds_opens(&self) -> bool {
        true
    }

    fn closed(&self, node: &FscryptNode) {
        if !self.has_key(node) {
            node.forget_key();
        }
    }

    fn size_in(&self, node: &FscryptNode) -> SizeIn {
        match node.is_clear() {
            true => SizeIn::Lower,
            false => self.layout().size,
        }
    }

    fn learn(&self, node: &FscryptNode, entry: &Entry) -> Result<()> {
        if node.kind == Kind::Directory
            && node.is_clear()
            && let Some(context) = self.own_context(node.kind, entry)?
        {
            node.context.get_or_init(|| context);
        }
        Ok(())
    }

    fn check_key(&self, node: &FscryptNode) -> Result<()> {
        match node.is_clear() {
            true => Ok(()),
            false => self.key(node).map(drop),
        }
    }

    fn seal(&self, node: &FscryptNode, _header: &[u8], first: u64, units: &mut [u8]) -> Result<()> {
        if node.is_clear() {
            return Ok(());
        }
        let offset = first.checked_mul(4096).ok_or(Error::FileTooBig)?;
        self.key(node)?.seal(offset, units)
    }

    fn open(&self, node: &FscryptNode, _header: &[u8], first: u64, units: &mut [u8]) -> Result<()> {
        if node.is_clear() {
            return Ok(());
        }
        let offset = first.checked_mul(4096).ok_or(Error::FileTooBig)?;
        self.key(node)?.open(offset, units)
    }

    fn is_own_xattr(&self, name: &[u8]) -> bool {
        [XattrNamespace::Trusted, XattrNamespace::User]
            .into_iter()
            .flat_map(|space| [space.context(), space.size()])
            .any(|own| name == own.as_bytes())
    }

    fn renewed(&self, _: &FscryptNode, _: &FscryptNode, _lower: &[u8]) -> Option<FscryptNode> {
        None
    }

    fn check_change(&self) -> Result<()> {
        Ok(())
    }

    // A file without a key is refused by `check_key`.
    fn check_write(&self, _node: &FscryptNode) -> Result<()> {
        Ok(())
    }

    // Files have no headers.
    fn check_header(&self, _node: &FscryptNode, _header: &[u8]) -> Result<()> {
        Ok(())
    }

    // Extended attributes are in clear, as with fscrypt of Linux.
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
