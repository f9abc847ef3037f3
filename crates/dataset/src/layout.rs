//! The keys and values of the metadata tree.
//!
//! A key is an inode number, a kind and, for some kinds, more. Numbers are big-endian, so that the order of bytes is
//! the order of numbers, and all keys of an inode are together. Inode 0 is the dataset itself. `docs/FORMAT.md`
//! describes the same bytes.

use vfs::{Attr, Ino, Kind, Time};
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The slot of the root page of the tree. Slot 0 holds the dataset's header.
pub(crate) const ROOT_SLOT: u64 = 1;

/// Inode numbers are below this. The bits above distinguish snapshots in a mount.
pub(crate) const INO_LIMIT: u64 = 1 << 48;

/// Files up to this many bytes are stored in the tree.
pub(crate) const INLINE_MAX: u64 = 2048;

/// The length of a record is a multiple of this.
pub(crate) const UNIT: u64 = 4096;

/// Values of extended attributes up to this many bytes are stored in the tree.
pub(crate) const XATTR_INLINE_MAX: usize = 2048;

/// The inode number of the dataset itself, for keys that belong to no file.
pub(crate) const DATASET: Ino = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum KeyKind {
    /// An inode of the dataset without links that a program may still have open.
    Orphan = 0x01,
    /// Slots of `data` of the dataset that are to be emptied.
    Dead = 0x02,
    /// Slots of `data` of the dataset that several files share.
    Shared = 0x03,
    /// The account of a user or group in the dataset.
    Owner = 0x04,
    /// Attributes.
    Attr = 0x10,
    /// The contents of a small file, or the target of a symbolic link.
    Inline = 0x20,
    /// The slots of records.
    Extent = 0x30,
    /// An extended attribute.
    Xattr = 0x40,
    /// The names in a directory whose hashes are equal.
    Entry = 0x50,
}

fn key(ino: Ino, kind: KeyKind, rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(9 + rest.len());
    key.extend_from_slice(&ino.to_be_bytes());
    key.push(kind as u8);
    key.extend_from_slice(rest);
    key
}

pub(crate) fn attr_key(ino: Ino) -> Vec<u8> {
    key(ino, KeyKind::Attr, &[])
}

pub(crate) fn inline_key(ino: Ino) -> Vec<u8> {
    key(ino, KeyKind::Inline, &[])
}

pub(crate) fn extent_key(ino: Ino, record: u64) -> Vec<u8> {
    key(ino, KeyKind::Extent, &record.to_be_bytes())
}

pub(crate) fn xattr_key(ino: Ino, name: &[u8]) -> Vec<u8> {
    key(ino, KeyKind::Xattr, name)
}

pub(crate) fn entry_key(ino: Ino, hash: u64) -> Vec<u8> {
    key(ino, KeyKind::Entry, &hash.to_be_bytes())
}

pub(crate) fn orphan_key(ino: Ino) -> Vec<u8> {
    key(DATASET, KeyKind::Orphan, &ino.to_be_bytes())
}

pub(crate) fn dead_key(slot: u64) -> Vec<u8> {
    key(DATASET, KeyKind::Dead, &slot.to_be_bytes())
}

pub(crate) fn shared_key(slot: u64) -> Vec<u8> {
    key(DATASET, KeyKind::Shared, &slot.to_be_bytes())
}

/// `who`: 1 a user, 2 a group.
pub(crate) fn owner_key(who: u8, id: u32) -> Vec<u8> {
    let [a, b, c, d] = id.to_be_bytes();
    key(DATASET, KeyKind::Owner, &[who, a, b, c, d])
}

/// The user (1) or group (2) in a key, and its id.
pub(crate) fn owner_suffix(key: &[u8]) -> Option<(u8, u32)> {
    let (who, id) = suffix(key, DATASET, KeyKind::Owner)?.split_first()?;
    Some((*who, u32::from_be_bytes(id.try_into().ok()?)))
}

/// The inode, if the key is that of attributes.
pub(crate) fn attr_ino(key: &[u8]) -> Option<Ino> {
    let (ino, kind) = key.split_first_chunk()?;
    (*kind == [KeyKind::Attr as u8]).then(|| u64::from_be_bytes(*ino))
}

/// The bytes after inode and kind, if the key has these.
pub(crate) fn suffix(key: &[u8], ino: Ino, kind: KeyKind) -> Option<&[u8]> {
    let (head, rest) = key.split_at_checked(9)?;
    (head[..8] == ino.to_be_bytes() && head[8] == kind as u8).then_some(rest)
}

/// The number after inode and kind, if the key has these.
pub(crate) fn suffix_number(key: &[u8], ino: Ino, kind: KeyKind) -> Option<u64> {
    Some(u64::from_be_bytes(suffix(key, ino, kind)?.try_into().ok()?))
}

/// The number that follows the kind in a key of the dataset itself.
pub(crate) fn dataset_number(key: &[u8], kind: KeyKind) -> Option<u64> {
    suffix_number(key, DATASET, kind)
}

/// A file's contents are in the tree.
pub(crate) const FLAG_INLINE: u8 = 1;
/// The inode has extended attributes.
pub(crate) const FLAG_XATTR: u8 = 2;
/// A directory has a default ACL.
pub(crate) const FLAG_DEFAULT_ACL: u8 = 4;
/// The inode has an access ACL.
pub(crate) const FLAG_ACCESS_ACL: u8 = 8;

/// The file is immutable (`chattr +i`).
pub(crate) const FLAG_IMMUTABLE: u8 = 0x10;
/// The file is append-only (`chattr +a`).
pub(crate) const FLAG_APPEND_ONLY: u8 = 0x20;
/// Backup programs skip the file (`chattr +d`).
pub(crate) const FLAG_NO_DUMP: u8 = 0x40;

/// A time on disk.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub(crate) struct DiskTime {
    secs: I64,
    nanos: U32,
}

impl From<Time> for DiskTime {
    fn from(time: Time) -> DiskTime {
        DiskTime {
            secs: time.secs.into(),
            nanos: time.nanos.into(),
        }
    }
}

impl From<DiskTime> for Time {
    fn from(time: DiskTime) -> Time {
        Time {
            secs: time.secs.get(),
            nanos: time.nanos.get().min(999_999_999),
        }
    }
}

/// The attributes of an inode.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub(crate) struct AttrValue {
    /// `0o7777`
    pub(crate) mode: U16,
    /// [`Kind::bits`]
    kind: u8,
    /// `FLAG_*`
    pub(crate) flags: u8,
    pub(crate) nlink: U32,
    pub(crate) uid: U32,
    pub(crate) gid: U32,
    pub(crate) rdev: U32,
    /// Bytes of a full record of this file.
    pub(crate) record_size: U32,
    pub(crate) size: U64,
    /// Bytes of records that are not holes.
    pub(crate) allocated: U64,
    /// The parent of a directory; for another file, the directory in which it was made, or to which it was last moved.
    pub(crate) parent: U64,
    /// Names in a directory.
    pub(crate) entries: U64,
    pub(crate) atime: DiskTime,
    pub(crate) mtime: DiskTime,
    pub(crate) ctime: DiskTime,
    pub(crate) btime: DiskTime,
    /// Bytes of holes that the file shows as blocks, because `fallocate` requested them. No quota counts them.
    promised: U64,
    reserved: [u8; 16],
}

const _: () = assert!(size_of::<AttrValue>() == 128);

impl AttrValue {
    /// A new inode without links.
    pub(crate) fn new(kind: Kind, mode: u16, record_size: u32, now: Time) -> AttrValue {
        let now = DiskTime::from(now);
        AttrValue {
            mode: mode.into(),
            kind: kind.bits(),
            flags: if kind == Kind::File { FLAG_INLINE } else { 0 },
            record_size: record_size.into(),
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            ..AttrValue::default()
        }
    }

    /// Decodes a value, and checks everything that the program relies on.
    pub(crate) fn decode(value: &[u8]) -> Option<AttrValue> {
        let attr = AttrValue::read_from_bytes(value).ok()?;
        Kind::from_bits(attr.kind)?;
        let record = attr.record_size.get();
        let fits = record.is_power_of_two() && (4096..=pool::RECORD_MAX).contains(&record);
        let size_max = match attr.has(FLAG_INLINE) {
            true => INLINE_MAX,
            false => i64::MAX as u64,
        };
        (fits && attr.size.get() <= size_max).then_some(attr)
    }

    pub(crate) fn kind(&self) -> Kind {
        Kind::from_bits(self.kind).expect("checked when it was read")
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.kind() == Kind::Directory
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn set(&mut self, flag: u8, on: bool) {
        self.flags = if on {
            self.flags | flag
        } else {
            self.flags & !flag
        };
    }

    /// Sets the times of a change of contents.
    pub(crate) fn touch(&mut self, now: Time) {
        self.mtime = now.into();
        self.ctime = now.into();
    }

    /// Bytes of its contents that are not holes, before compression.
    pub(crate) fn taken(&self) -> u64 {
        self.allocated.get().saturating_add(self.inline())
    }

    /// Bytes of its contents that are in the tree.
    fn inline(&self) -> u64 {
        match self.has(FLAG_INLINE) {
            true => self.size.get(),
            false => 0,
        }
    }

    /// Promises this many bytes of holes, in a range up to `end`. Promises that overlap are counted
    /// twice, but never beyond the end of the file and of the range.
    pub(crate) fn promise(&mut self, holes: u64, end: u64) {
        let shown = self.taken().max(self.promised.get());
        self.promised = shown.saturating_add(holes).into();
        self.limit_promise(end.max(self.size.get()));
    }

    /// Promises nothing beyond an end of the file.
    pub(crate) fn limit_promise(&mut self, end: u64) {
        let most = end.checked_next_multiple_of(UNIT).unwrap_or(u64::MAX);
        self.promised = self.promised.get().min(most).into();
    }

    /// Takes promises back: of bytes that are punched out.
    pub(crate) fn withdraw(&mut self, bytes: u64) {
        self.promised = self.promised.get().saturating_sub(bytes).into();
    }

    /// The number of blocks of 512 bytes that `stat` shows, if the records take `stored` bytes. Promised blocks that do
    /// not exist yet count too.
    pub(crate) fn blocks(&self, stored: u64) -> u64 {
        let promised = self.promised.get().saturating_sub(self.taken());
        let bytes = stored
            .saturating_add(self.inline())
            .saturating_add(promised);
        bytes.div_ceil(512)
    }

    /// The attributes that `stat` shows, with the space of the records before compression.
    pub(crate) fn to_attr(self, ino: Ino) -> Attr {
        let size = match self.kind() {
            // As in ZFS: the number of names, with `.` and `..`.
            Kind::Directory => self.entries.get().saturating_add(2),
            _ => self.size.get(),
        };
        Attr {
            ino,
            kind: self.kind(),
            mode: self.mode.get(),
            nlink: self.nlink.get(),
            uid: self.uid.get(),
            gid: self.gid.get(),
            rdev: self.rdev.get(),
            size,
            blocks: self.blocks(self.allocated.get()),
            is_passing: false,
            blksize: self.record_size.get(),
            atime: self.atime.into(),
            mtime: self.mtime.into(),
            ctime: self.ctime.into(),
            btime: self.btime.into(),
        }
    }
}

/// A run of records of a file, and the run of their slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordExtent {
    pub(crate) record: u64,
    pub(crate) slot: u64,
    pub(crate) count: u64,
    /// True if other files may share the slots. Keys of [`KeyKind::Shared`] list the shared ones.
    pub(crate) shared: bool,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct ExtentValue {
    slot: U64,
    count: U64,
    flags: U32,
    reserved: U32,
}

impl RecordExtent {
    /// Decodes an extent. The first record is in its key.
    pub(crate) fn decode(record: u64, value: &[u8]) -> Option<RecordExtent> {
        let value = ExtentValue::read_from_bytes(value).ok()?;
        let (slot, count) = (value.slot.get(), value.count.get());
        let ends = slot.checked_add(count)?;
        record.checked_add(count)?;
        (count > 0 && ends <= pool::SLOT_LIMIT).then_some(RecordExtent {
            record,
            slot,
            count,
            shared: value.flags.get() & 1 != 0,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let value = ExtentValue {
            slot: self.slot.into(),
            count: self.count.into(),
            flags: u32::from(self.shared).into(),
            reserved: 0.into(),
        };
        value.as_bytes().to_vec()
    }

    /// The record after the last.
    pub(crate) fn end(&self) -> u64 {
        self.record + self.count
    }

    pub(crate) fn slot_of(&self, record: u64) -> u64 {
        self.slot + (record - self.record)
    }

    /// The part for these records. The extent must cover them.
    pub(crate) fn part(&self, from: u64, to: u64) -> RecordExtent {
        RecordExtent {
            record: from,
            slot: self.slot_of(from),
            count: to - from,
            shared: self.shared,
        }
    }
}

/// A run of slots that several files share, and their number of owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedRun {
    pub(crate) slot: u64,
    pub(crate) count: u64,
    pub(crate) owners: u64,
}

impl SharedRun {
    pub(crate) fn decode(slot: u64, value: &[u8]) -> Option<SharedRun> {
        let [count, owners] = <[U64; 2]>::read_from_bytes(value).ok()?.map(U64::get);
        let ends = slot.checked_add(count)?;
        let fits = owners < u64::MAX && ends <= pool::SLOT_LIMIT;
        (count > 0 && fits).then_some(SharedRun {
            slot,
            count,
            owners,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        [U64::new(self.count), U64::new(self.owners)]
            .as_bytes()
            .to_vec()
    }

    pub(crate) fn end(&self) -> u64 {
        self.slot + self.count
    }
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameEntry {
    pub(crate) ino: Ino,
    pub(crate) kind: Kind,
    pub(crate) name: Vec<u8>,
}

/// The names with one hash, in the order in which they were added.
pub(crate) fn decode_names(value: &[u8]) -> Option<Vec<NameEntry>> {
    let mut names = Vec::new();
    let mut rest = value;
    while !rest.is_empty() {
        let (head, more) = rest.split_at_checked(10)?;
        let (name, more) = more.split_at_checked(usize::from(head[9]))?;
        names.push(NameEntry {
            ino: u64::from_le_bytes(head[..8].try_into().ok()?),
            kind: Kind::from_bits(head[8])?,
            name: name.to_vec(),
        });
        rest = more;
    }
    Some(names)
}

pub(crate) fn encode_names(names: &[NameEntry]) -> Vec<u8> {
    let mut value = Vec::new();
    for entry in names {
        value.extend_from_slice(&entry.ino.to_le_bytes());
        value.push(entry.kind.bits());
        value.push(entry.name.len() as u8);
        value.extend_from_slice(&entry.name);
    }
    value
}

/// The value of an extended attribute: in the tree, or in a record of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum XattrValue {
    Here(Vec<u8>),
    Record { slot: u64, len: u32 },
}

impl XattrValue {
    pub(crate) fn decode(value: &[u8]) -> Option<XattrValue> {
        let (kind, rest) = value.split_first()?;
        match kind {
            0 => Some(XattrValue::Here(rest.to_vec())),
            1 => {
                let (slot, len) = rest.split_at_checked(8)?;
                Some(XattrValue::Record {
                    slot: u64::from_le_bytes(slot.try_into().ok()?),
                    len: u32::from_le_bytes(len.try_into().ok()?),
                })
            }
            _ => None,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            XattrValue::Here(value) => [&[0], &value[..]].concat(),
            XattrValue::Record { slot, len } => {
                [&[1][..], &slot.to_le_bytes(), &len.to_le_bytes()].concat()
            }
        }
    }
}

#[cfg(test)]
mod tests;
