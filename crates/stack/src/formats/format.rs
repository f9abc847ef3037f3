//! The interface between the engine and a format.
//!
//! A format knows keys, names and bytes. It makes no system call that changes anything: it says what
//! is to be written, and the engine writes it in an order that a power cut cannot harm.
//!
//! The engine has one [`DirectoryFormat::Node`] for each inode that is in use: what the format has found out
//! about it, with its keys. Where that comes from differs:
//!
//! | format | a directory | a file | a symbolic link |
//! |---|---|---|---|
//! | fscrypt | a context in an extended attribute | the same | a context in its target |
//! | gocryptfs | the IV in a file in it | a header in the file | nothing |
//! | pefs | key and tweak from its own name | the same | the same |

use vfs::{Kind, Result};

use crate::lower::Entry;

/// A format of files and names.
///
/// Errors are those that the program on the mount gets: `NoKey` where a key is missing, `Io` where
/// something is damaged or does not decode. No input may panic.
///
/// A method that checks, hides or encrypts has no default, so that a new format cannot forget one.
pub trait DirectoryFormat: Send + Sync + 'static {
    /// The format's knowledge of one inode.
    type Node: Send + Sync + 'static;

    /// The name of the format, for `status` and for the list of mounts.
    fn name(&self) -> &'static str;

    /// The layout of the contents of files in lower files.
    fn layout(&self) -> FileLayout;

    /// The longest name of a file in the view, in bytes.
    fn name_max(&self) -> u32;

    /// Reads the root of the lower directory.
    ///
    /// # Errors
    /// `Io` if it is not a directory of this format.
    fn root(&self, root: &Entry) -> Result<Self::Node>;

    /// Reads the entry `lower` of a directory.
    ///
    /// # Errors
    /// `Io` if it is damaged, or does not belong into a directory of this format.
    fn node(&self, dir: &Self::Node, lower: &[u8], kind: Kind, entry: &Entry)
    -> Result<Self::Node>;

    /// Plans an inode that is about to be made in a directory.
    ///
    /// # Errors
    /// `NoKey` without the key of the directory, `NotSupported` if the format has no such nodes.
    fn new_node(&self, dir: &Self::Node, kind: Kind) -> Result<NodePlan<Self::Node>>;

    /// The view's name for the name `lower`; nothing if it is hidden, as helper files are.
    ///
    /// # Errors
    /// `Io` if it is damaged: the engine hides the entry then too.
    fn plain_name(
        &self,
        dir: &Self::Node,
        lower: &[u8],
        long: &LongNames<'_>,
    ) -> Result<Option<Vec<u8>>>;

    /// The places to look for the name `plain` of the view.
    ///
    /// # Errors
    /// `NameTooLong`; `NotFound` if there cannot be such a name.
    fn lower_name(&self, dir: &Self::Node, plain: &[u8]) -> Result<Sought>;

    /// The epoch of names that have to be listed: a number that changes with each change of the keys that names are
    /// read with. The plain name of an entry is the same as long as the number is. Nothing for other formats.
    fn names_epoch(&self) -> Option<u64> {
        None
    }

    /// The lower name that `node` gets if it enters a directory as `plain`: when it is new, linked or
    /// renamed.
    ///
    /// # Errors
    /// `NoKey`, `NameTooLong`; `CrossDevice` if the node belongs to another key or policy.
    fn new_name(&self, dir: &Self::Node, plain: &[u8], node: &Self::Node) -> Result<LowerName>;

    /// The target that a symbolic link gets in the lower directory.
    ///
    /// # Errors
    /// `NoKey`, `NameTooLong`.
    fn seal_target(&self, node: &Self::Node, target: &[u8]) -> Result<Vec<u8>>;

    /// The target that the view shows for the one in the lower directory.
    ///
    /// # Errors
    /// `Io` if it is damaged.
    fn open_target(&self, node: &Self::Node, stored: &[u8]) -> Result<Vec<u8>>;

    /// Returns whether keys come and go while it is mounted, so that names get other meanings.
    fn keys_change(&self) -> bool;

    /// The source of this file's size, if it is not as the layout says.
    fn size_in(&self, _node: &Self::Node) -> SizeIn {
        self.layout().size
    }

    /// Finds out what a directory has become by another client.
    ///
    /// # Errors
    /// `Io` if it is damaged.
    fn learn(&self, node: &Self::Node, entry: &Entry) -> Result<()>;

    /// Returns whether files that are open keep their key when it goes, and are not opened without. The front end
    /// then has to say what programs open and close.
    fn heeds_opens(&self) -> bool;

    /// No program has the file open any more.
    fn closed(&self, node: &Self::Node);

    /// The new node of an inode that was found again, as the entry `lower` of a directory; nothing if the inode is
    /// unchanged.
    fn renewed(&self, node: &Self::Node, dir: &Self::Node, lower: &[u8]) -> Option<Self::Node>;

    /// Checks that changes are allowed at all.
    ///
    /// # Errors
    /// `ReadOnly`.
    fn check_change(&self) -> Result<()>;

    /// Checks that the contents of a file may be changed.
    ///
    /// # Errors
    /// `ReadOnly`.
    fn check_write(&self, node: &Self::Node) -> Result<()>;

    /// Checks that the key for the contents of a file is there.
    ///
    /// # Errors
    /// `NoKey`.
    fn check_key(&self, node: &Self::Node) -> Result<()>;

    /// The header of a file that gets its first bytes; of [`FileLayout::header`] bytes.
    ///
    /// # Errors
    /// `NoKey`, `Io`.
    fn new_header(&self, _node: &Self::Node) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    /// Checks the header of a file.
    ///
    /// # Errors
    /// `Io` if it is not one.
    fn check_header(&self, node: &Self::Node, header: &[u8]) -> Result<()>;

    /// Encrypts consecutive units, in place. `units` is laid out as in the lower file ([`FileLayout`]):
    /// each unit with free space for what goes before and after it. Only the last may be short.
    ///
    /// # Errors
    /// `NoKey`, `Io`.
    fn seal(&self, node: &Self::Node, header: &[u8], first: u64, units: &mut [u8]) -> Result<()>;

    /// Decrypts consecutive units, in place, as [`DirectoryFormat::seal`] left them. The engine does not call it
    /// for whole units of zeros, which are holes.
    ///
    /// # Errors
    /// `NoKey`; `Io` for units that are not authentic, or of an impossible length.
    fn open(&self, node: &Self::Node, header: &[u8], first: u64, units: &mut [u8]) -> Result<()>;

    /// The names of the format's own files in each directory of the lower tree. They are made with
    /// the directory ([`NodePlan::files`]) and go with it.
    fn own_files(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns whether this extended attribute of lower files is the format's own: the view does not show it.
    fn is_own_xattr(&self, name: &[u8]) -> bool;

    /// The extended attribute of lower files that has the attribute `name` of the view.
    ///
    /// # Errors
    /// `NotSupported` for one that the format does not keep, `Invalid`, `Io`.
    fn lower_xattr(&self, name: &[u8]) -> Result<Vec<u8>>;

    /// The view's name for an extended attribute of lower files, if the view shows it.
    fn plain_xattr(&self, lower: Vec<u8>) -> Option<Vec<u8>> {
        (!self.is_own_xattr(&lower)).then_some(lower)
    }

    /// The value that the attribute `name` of the view gets in the lower file.
    ///
    /// # Errors
    /// `Io`.
    fn seal_xattr(&self, name: &[u8], value: &[u8]) -> Result<Vec<u8>>;

    /// The value that the view shows for the attribute `name`.
    ///
    /// # Errors
    /// `Io` if it is damaged.
    fn open_xattr(&self, name: &[u8], stored: Vec<u8>) -> Result<Vec<u8>>;
}

/// The layout of the contents of files in lower files: a header, then units, each between two other things.
///
/// | format | header | before | unit | after | short last unit |
/// |---|---|---|---|---|---|
/// | fscrypt | 0 | 0 | 4096 | 0 | no |
/// | gocryptfs | 18 | 16 | 4096 | 16 | yes |
/// | pefs | 0 | 0 | 4096 | 0 | yes |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLayout {
    /// Bytes at the start of each file that is not empty.
    pub header: usize,
    /// Bytes before each unit, such as a nonce.
    pub before: usize,
    /// Plain bytes of a unit.
    pub unit: usize,
    /// Bytes after each unit, such as a tag.
    pub after: usize,
    /// The source of the size in the view.
    pub size: SizeIn,
}

/// The source of a file's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeIn {
    /// The size of the lower file, from which the size follows. The last unit may be short.
    Lower,
    /// In this extended attribute, 64 bits, little-endian. All units are whole.
    Xattr(&'static str),
}

impl FileLayout {
    /// The length of a whole unit in the lower file.
    pub const fn lower_unit(&self) -> usize {
        self.before + self.unit + self.after
    }

    /// The offset of the unit of this number in the lower file.
    pub const fn lower_offset(&self, unit: u64) -> Option<u64> {
        match unit.checked_mul(self.lower_unit() as u64) {
            Some(offset) => offset.checked_add(self.header as u64),
            None => None,
        }
    }

    /// The size of the lower file for this size of the view.
    pub const fn lower_size(&self, plain: u64) -> Option<u64> {
        if plain == 0 {
            return Some(0);
        }
        let unit = self.unit as u64;
        let (whole, rest) = match (self.size, plain % unit) {
            (_, 0) => (plain / unit, 0),
            (SizeIn::Xattr(_), _) => (plain / unit + 1, 0),
            (SizeIn::Lower, rest) => (plain / unit, rest + (self.before + self.after) as u64),
        };
        match self.lower_offset(whole) {
            Some(offset) => offset.checked_add(rest),
            None => None,
        }
    }

    /// The size that the view can have at most with this size of the lower file; nothing if no file has
    /// such a size.
    pub const fn plain_size(&self, lower: u64) -> Option<u64> {
        if lower == 0 {
            return Some(0);
        }
        let Some(units) = lower.checked_sub(self.header as u64) else {
            return None;
        };
        let (whole, rest) = (
            units / self.lower_unit() as u64,
            units % self.lower_unit() as u64,
        );
        let around = (self.before + self.after) as u64;
        match rest {
            0 => whole.checked_mul(self.unit as u64),
            rest if rest <= around => None,
            rest => Some(whole * self.unit as u64 + rest - around),
        }
    }
}

/// A name in the lower directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LowerName {
    /// The name of the entry.
    pub name: Vec<u8>,
    /// For a name that the lower directory does not hold: the file beside the entry that has it.
    pub long: Option<LongName>,
}

/// The file that holds a long name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongName {
    /// The name of the file in the lower directory.
    pub name: Vec<u8>,
    /// The contents of the file.
    pub contents: Vec<u8>,
}

/// Reads the file with this name in the lower directory, which holds a long name.
pub type LongNames<'a> = dyn Fn(&[u8]) -> Result<Vec<u8>> + 'a;

/// The way to find a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sought {
    /// The name can have this lower name only.
    At(LowerName),
    /// All names of the directory must be compared by [`DirectoryFormat::plain_name`].
    Listed,
}

/// An inode that is about to be made. Everything is in place before it gets its name.
#[derive(Debug)]
pub struct NodePlan<N> {
    /// The format's knowledge of the inode.
    pub node: N,
    /// Extended attributes.
    pub xattrs: Vec<(&'static str, Vec<u8>)>,
    /// Files to make in a new directory: names and contents.
    pub files: Vec<(&'static str, Vec<u8>)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOCRYPTFS: FileLayout = FileLayout {
        header: 18,
        before: 16,
        unit: 4096,
        after: 16,
        size: SizeIn::Lower,
    };
    const FSCRYPT: FileLayout = FileLayout {
        header: 0,
        before: 0,
        unit: 4096,
        after: 0,
        size: SizeIn::Xattr("user.size"),
    };

    #[test]
    fn sizes_of_a_format_with_header_and_tags() {
        for (plain, lower) in [(0, 0), (1, 51), (4096, 4146), (4097, 4179), (8192, 8274)] {
            assert_eq!(GOCRYPTFS.lower_size(plain), Some(lower), "{plain}");
            assert_eq!(GOCRYPTFS.plain_size(lower), Some(plain), "{lower}");
        }
        // A header alone is an empty file; half a tag is none at all.
        assert_eq!(GOCRYPTFS.plain_size(18), Some(0));
        for lower in [1, 17, 19, 50, 4147, 4178] {
            assert_eq!(GOCRYPTFS.plain_size(lower), None, "{lower}");
        }
        assert_eq!(GOCRYPTFS.lower_size(u64::MAX), None);
    }

    #[test]
    fn sizes_of_a_format_with_whole_units() {
        for (plain, lower) in [(0, 0), (1, 4096), (4096, 4096), (4097, 8192)] {
            assert_eq!(FSCRYPT.lower_size(plain), Some(lower), "{plain}");
        }
        assert_eq!(FSCRYPT.lower_size(u64::MAX), None);
        assert_eq!(FSCRYPT.plain_size(8192), Some(8192));
    }
}
