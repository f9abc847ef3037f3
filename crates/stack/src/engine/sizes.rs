//! An open file: its sizes in both directories, and its units.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use vfs::{Error, Result};

use super::stacked_directory::StackedDirectory;
use super::state::inode::{LowerFileExtent, LowerInode};
use super::state::lock::RangeLock;
use crate::formats::{DirectoryFormat, FileLayout, SizeIn};
use crate::lower::{aligned, posix, read_direct, settle};

/// A regular file, for one operation under its lock.
pub(super) struct FileBody<'a, F: DirectoryFormat> {
    fs: &'a StackedDirectory<F>,
    inode: &'a LowerInode<F::Node>,
    file: Arc<OwnedFd>,
    /// The lower file as its server has it, where the page cache of this machine may be older.
    server: Option<Arc<OwnedFd>>,
    pub(super) layout: FileLayout,
    /// Bytes in the view.
    pub(super) size: u64,
    /// Bytes of the lower file.
    lower_size: u64,
    header: Arc<[u8]>,
    /// Until the operation has ended.
    _lock: Option<RangeLock>,
}

/// The source of the bytes for a read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadSource {
    /// In the page cache of this machine first.
    Cache,
    /// At the server, if other machines use the lower directory.
    Server,
}

impl<F: DirectoryFormat> StackedDirectory<F> {
    /// The layout of a file's contents in the lower file.
    pub(super) fn layout(&self, node: &F::Node) -> FileLayout {
        FileLayout {
            size: self.format.size_in(node),
            ..self.format.layout()
        }
    }

    /// The size in the view of a file with this size in the lower directory.
    ///
    /// # Errors
    /// `Io` if the attribute with the size is damaged.
    pub(super) fn size_of(&self, inode: &LowerInode<F::Node>, lower_size: u64) -> Result<u64> {
        self.size_in(inode, lower_size, |name| inode.entry.xattr(name))
    }

    /// Finds the size like [`StackedDirectory::size_of`], where `xattr` reads an attribute of the lower file.
    fn size_in(
        &self,
        inode: &LowerInode<F::Node>,
        lower_size: u64,
        xattr: impl FnOnce(&str) -> Result<Option<Vec<u8>>>,
    ) -> Result<u64> {
        let layout = self.layout(&inode.node);
        let units = lower_size.saturating_sub(layout.header as u64) / layout.lower_unit() as u64;
        // What ends in the middle of a tag is damaged, and shown up to there.
        let whole = units * layout.unit as u64;
        let held = layout.plain_size(lower_size).unwrap_or(whole);
        let SizeIn::Xattr(name) = layout.size else {
            return Ok(held);
        };
        // A file that is new, or got its first bytes before a power cut, has no size yet. And where
        // data was not synced, a power cut may leave a size and a lower file that is shorter.
        let size = match xattr(name)? {
            None => 0,
            Some(bytes) => u64::from_le_bytes(bytes.try_into().map_err(|_| Error::Io)?),
        };
        Ok(size.min(held))
    }

    /// Opens a file to read it up to `end`.
    pub(super) fn body<'a>(
        &'a self,
        inode: &'a Arc<LowerInode<F::Node>>,
        end: u64,
        source: ReadSource,
    ) -> Result<FileBody<'a, F>> {
        let file = self.inodes.file(inode)?;
        // Where the lower size is that of the view, the last unit is sealed by its length.
        let unit = match self.layout(&inode.node) {
            FileLayout {
                size: SizeIn::Lower,
                unit,
                ..
            } => unit as u64,
            _ => 1,
        };
        let known = inode.extent(self.options, end, unit);
        let is_known = known.is_some();
        let server = match source {
            ReadSource::Server => self.file_of_server(inode)?,
            ReadSource::Cache => None,
        };
        let body = self.open_body(inode, (file, server), None, known)?;
        if !is_known {
            inode.keep_extent(body.extent());
        }
        Ok(body)
    }

    /// Opens a file to change its size, or all of it.
    pub(super) fn body_to_change<'a>(
        &'a self,
        inode: &'a Arc<LowerInode<F::Node>>,
    ) -> Result<FileBody<'a, F>> {
        let file = self.inodes.file_to_write(inode)?;
        let lock = match self.options.shared {
            true => self.lock(&file, 0, None)?,
            false => None,
        };
        inode.forget_extent();
        self.locked_body(inode, file, lock)
    }

    /// Opens a file to write these bytes, of which there is one at least. Other clients may change others,
    /// as long as the file keeps its header and size.
    pub(super) fn body_to_write<'a>(
        &'a self,
        inode: &'a Arc<LowerInode<F::Node>>,
        bytes: Range<u64>,
    ) -> Result<FileBody<'a, F>> {
        if !self.options.shared {
            return self.body_to_change(inode);
        }
        let layout = self.layout(&inode.node);
        let offset = |unit| layout.lower_offset(unit).ok_or(Error::FileTooBig);
        let unit = layout.unit as u64;
        let (start, end) = (
            offset(bytes.start / unit)?,
            offset(bytes.end.div_ceil(unit))?,
        );
        // A client can write whole pages, with bytes of its cache beside the new ones.
        let (start, end) = match self.options.remote {
            true => aligned(start, end),
            false => (start, end),
        };
        let file = self.inodes.file_to_write(inode)?;
        // A guess, until the lock is there.
        let guess = match inode.last_size() {
            Some(size) => size,
            None => self.find_extent(inode, &file, None, &layout)?.size,
        };
        if guess >= bytes.end {
            let lock = self.lock(&file, start, Some(end))?;
            let body = self.locked_body(inode, file, lock)?;
            if body.size >= bytes.end {
                return Ok(body);
            }
        }
        self.body_to_change(inode)
    }

    /// A lock of a part of the lower file; nothing where it has no locks, and no clients on other machines.
    fn lock(&self, file: &Arc<OwnedFd>, start: u64, end: Option<u64>) -> Result<Option<RangeLock>> {
        match RangeLock::take(file, start, end)? {
            None if self.options.remote && !self.options.alone => Err(Error::NotSupported),
            lock => Ok(lock),
        }
    }

    /// Opens a file of which a part is locked, or that nothing else changes. All that is found of it is of the
    /// server: the page cache can have bytes from before the lock.
    fn locked_body<'a>(
        &'a self,
        inode: &'a Arc<LowerInode<F::Node>>,
        file: Arc<OwnedFd>,
        lock: Option<RangeLock>,
    ) -> Result<FileBody<'a, F>> {
        let server = match self.options.remote {
            true => self.file_of_server(inode)?,
            false => None,
        };
        // What the page cache has would be written over the bytes of other clients.
        if server.is_none() && self.options.remote && !self.options.alone {
            return Err(Error::NotSupported);
        }
        self.open_body(inode, (file, server), lock, None)
    }

    /// The lower file for reads from the server; nothing where it has no such reads.
    fn file_of_server(&self, inode: &Arc<LowerInode<F::Node>>) -> Result<Option<Arc<OwnedFd>>> {
        match self.inodes.file_of_server(inode) {
            Ok(file) => Ok(Some(file)),
            Err(Error::Invalid | Error::NotSupported) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn open_body<'a>(
        &'a self,
        inode: &'a LowerInode<F::Node>,
        (file, server): (Arc<OwnedFd>, Option<Arc<OwnedFd>>),
        lock: Option<RangeLock>,
        known: Option<LowerFileExtent>,
    ) -> Result<FileBody<'a, F>> {
        self.format.check_key(&inode.node)?;
        let layout = self.layout(&inode.node);
        let extent = match known {
            Some(extent) => extent,
            None => self.find_extent(inode, &file, server.as_deref(), &layout)?,
        };
        Ok(FileBody {
            fs: self,
            inode,
            file,
            server,
            layout,
            size: extent.size,
            lower_size: extent.lower_size,
            header: extent.header,
            _lock: lock,
        })
    }

    fn find_extent(
        &self,
        inode: &LowerInode<F::Node>,
        file: &OwnedFd,
        server: Option<&OwnedFd>,
        layout: &FileLayout,
    ) -> Result<LowerFileExtent> {
        let lower_size = match server {
            Some(_) => inode.entry.stat_of_server()?.stx_size,
            None => {
                let stat = rustix::fs::fstat(file).map_err(posix)?;
                stat.st_size.cast_unsigned()
            }
        };
        let mut header = Vec::new();
        if layout.header > 0 && lower_size > 0 {
            header.resize(layout.header, 0);
            read_lower(file, server, 0, &mut header)?;
            self.format.check_header(&inode.node, &header)?;
        }
        Ok(LowerFileExtent {
            size: self.size_in(inode, lower_size, |name| inode.entry.xattr_of(file, name))?,
            lower_size,
            header: header.into(),
        })
    }
}

impl<F: DirectoryFormat> FileBody<'_, F> {
    /// The lower file.
    pub(super) fn file(&self) -> &OwnedFd {
        &self.file
    }

    fn extent(&self) -> LowerFileExtent {
        LowerFileExtent {
            size: self.size,
            lower_size: self.lower_size,
            header: Arc::clone(&self.header),
        }
    }

    /// Ends a change: other clients see it when the lock goes.
    ///
    /// # Errors
    /// Those of the change, and of writing.
    pub(super) fn settle(&self, changed: Result<()>) -> Result<()> {
        match self.server {
            Some(_) => changed.and(settle(&self.file)),
            None => changed,
        }
    }

    /// Has readers use what this change has made of the file, which has succeeded.
    pub(super) fn keep(self) {
        self.inode.keep_extent(self.extent());
    }

    /// The number of the unit in which a byte of the view is.
    pub(super) fn unit_of(&self, offset: u64) -> u64 {
        offset / self.layout.unit as u64
    }

    /// The offset of a unit in the lower file.
    pub(super) fn lower_offset(&self, unit: u64) -> Result<u64> {
        self.layout.lower_offset(unit).ok_or(Error::FileTooBig)
    }

    /// The size that a file of this size has in the lower directory.
    pub(super) fn lower_size_for(&self, size: u64) -> Result<u64> {
        let lower = self.layout.lower_size(size).ok_or(Error::FileTooBig)?;
        match i64::try_from(lower) {
            Ok(_) => Ok(lower),
            Err(_) => Err(Error::FileTooBig),
        }
    }

    /// Decrypts the units `first..=last`, as far as the file goes.
    ///
    /// # Errors
    /// `NoKey`; `Io` if a unit is not authentic, or the lower file is shorter than it should be.
    pub(super) fn load(&self, first: u64, last: u64) -> Result<Vec<u8>> {
        let unit = self.layout.unit as u64;
        let start = first.checked_mul(unit).ok_or(Error::FileTooBig)?;
        let end = (last.checked_add(1))
            .and_then(|units| units.checked_mul(unit))
            .map_or(self.size, |end| end.min(self.size));
        let len = end.saturating_sub(start) as usize;
        if len == 0 {
            return Ok(Vec::new());
        }
        let lower_start = self.lower_offset(first)?;
        let lower_end = self.lower_size_for(end)?;
        let mut units = vec![0; (lower_end - lower_start) as usize];
        self.read_lower(lower_start, &mut units)?;
        self.decrypt(first, &mut units)?;
        self.gather(&mut units);
        units.truncate(len);
        Ok(units)
    }

    /// Decrypts consecutive units as they lie, all but holes.
    fn decrypt(&self, first: u64, units: &mut [u8]) -> Result<()> {
        let whole = self.layout.lower_unit();
        let is_hole = |unit: &[u8]| unit.len() == whole && unit.iter().all(|byte| *byte == 0);
        let mut at = 0;
        while at < units.len() {
            let rest = &units[at..];
            let holes = rest.chunks(whole).take_while(|unit| is_hole(unit)).count();
            at = (at + holes * whole).min(units.len());
            let rest = &units[at..];
            let full = rest.chunks(whole).take_while(|unit| !is_hole(unit));
            let len: usize = full.map(<[u8]>::len).sum();
            if len > 0 {
                let number = first + (at / whole) as u64;
                let run = &mut units[at..at + len];
                self.fs
                    .format
                    .open(&self.inode.node, &self.header, number, run)?;
            }
            at += len;
        }
        Ok(())
    }

    /// Moves the plain bytes of consecutive units together.
    fn gather(&self, units: &mut Vec<u8>) {
        let layout = &self.layout;
        let around = layout.before + layout.after;
        if around == 0 {
            return;
        }
        let (mut from, mut to) = (0, 0);
        while from < units.len() {
            let len = layout.unit.min((units.len() - from).saturating_sub(around));
            let plain = from + layout.before;
            units.copy_within(plain..plain + len, to);
            to += len;
            from += layout.lower_unit();
        }
        units.truncate(to);
    }

    /// Encrypts `units`, which are laid out as in the lower file, and writes them there. The first
    /// bytes of a file bring its header. Where that fails the file is as long as before.
    pub(super) fn store(&mut self, first: u64, units: &mut [u8]) -> Result<()> {
        let tail = match self.lower_offset(first)? + units.len() as u64 > self.lower_size {
            true => self.short_tail(first)?,
            false => None,
        };
        self.try_store(first, units)
            .inspect_err(|_| self.restore(tail))
    }

    /// The stored bytes of the last unit and their place, if it is short and not before unit `first`. A
    /// write that ends early, as on a full file system, would leave it without its tag.
    fn short_tail(&self, first: u64) -> Result<Option<(u64, Vec<u8>)>> {
        let layout = &self.layout;
        let last = self.lower_offset(self.unit_of(self.size))?;
        if layout.before + layout.after == 0
            || last < self.lower_offset(first)?
            || last >= self.lower_size
        {
            return Ok(None);
        }
        let mut bytes = vec![0; (self.lower_size - last) as usize];
        self.read_lower(last, &mut bytes)?;
        Ok(Some((last, bytes)))
    }

    /// Puts the end of the lower file back after a write that failed, as far as that succeeds.
    fn restore(&self, tail: Option<(u64, Vec<u8>)>) {
        let longer = rustix::fs::fstat(&self.file)
            .is_ok_and(|stat| stat.st_size.cast_unsigned() > self.lower_size);
        if longer {
            let _ = rustix::fs::ftruncate(&self.file, self.lower_size);
        }
        if let Some((offset, bytes)) = tail {
            let _ = self.write_lower(offset, &bytes);
        }
    }

    fn try_store(&mut self, first: u64, units: &mut [u8]) -> Result<()> {
        if self.lower_size == 0 && self.layout.header > 0 {
            self.header = self.fs.format.new_header(&self.inode.node)?.into();
            self.write_lower(0, &self.header)?;
        }
        let format = &self.fs.format;
        format.seal(&self.inode.node, &self.header, first, units)?;
        let offset = self.lower_offset(first)?;
        self.write_lower(offset, units)?;
        self.lower_size = self.lower_size.max(offset + units.len() as u64);
        Ok(())
    }

    /// Encrypts and writes one unit with these bytes.
    pub(super) fn store_one(&mut self, unit: u64, plain: &[u8]) -> Result<()> {
        let layout = self.layout;
        let len = match layout.size {
            SizeIn::Lower => plain.len(),
            SizeIn::Xattr(_) => layout.unit,
        };
        let mut lower = vec![0; layout.before + len + layout.after];
        lower[layout.before..][..plain.len()].copy_from_slice(plain);
        self.store(unit, &mut lower)
    }

    /// Returns whether a unit is a hole of the lower file.
    pub(super) fn is_hole(&self, unit: u64) -> Result<bool> {
        let offset = self.lower_offset(unit)?;
        let whole = self.layout.lower_unit();
        if offset.saturating_add(whole as u64) > self.lower_size {
            return Ok(false);
        }
        let mut bytes = vec![0; whole];
        self.read_lower(offset, &mut bytes)?;
        Ok(bytes.iter().all(|byte| *byte == 0))
    }

    /// Cuts or extends the lower file.
    pub(super) fn truncate_lower(&mut self, lower_size: u64) -> Result<()> {
        if lower_size != self.lower_size {
            rustix::fs::ftruncate(&self.file, lower_size).map_err(writing)?;
            self.lower_size = lower_size;
        }
        Ok(())
    }

    /// Records the size, for a format that keeps it in an attribute.
    pub(super) fn set_size(&mut self, size: u64) -> Result<()> {
        if let SizeIn::Xattr(name) = self.layout.size {
            let flags = rustix::fs::XattrFlags::empty();
            (self.inode.entry).set_xattr(name, &size.to_le_bytes(), flags)?;
        }
        self.size = size;
        Ok(())
    }

    /// The size of the lower file.
    pub(super) fn lower_size(&self) -> u64 {
        self.lower_size
    }

    fn read_lower(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        read_lower(&self.file, self.server.as_deref(), offset, bytes)
    }

    fn write_lower(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match rustix::io::pwrite(&self.file, &bytes[done..], offset + done as u64) {
                Ok(0) => return Err(Error::Io),
                Ok(written) => done += written,
                Err(Errno::INTR) => {}
                Err(error) => return Err(writing(error)),
            }
        }
        Ok(())
    }
}

/// An error of changing a lower file: one that is open only to read is not writable.
fn writing(error: Errno) -> Error {
    match error {
        Errno::BADF | Errno::INVAL => Error::Access,
        error => posix(error),
    }
}

/// Fills `bytes` from this place of a lower file.
fn read_lower(
    file: &OwnedFd,
    server: Option<&OwnedFd>,
    offset: u64,
    bytes: &mut [u8],
) -> Result<()> {
    if let Some(server) = server {
        return read_direct(server, offset, bytes);
    }
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pread(file, &mut bytes[done..], offset + done as u64) {
            // It is shorter than its size says: a server, or another client.
            Ok(0) => return Err(Error::Io),
            Ok(read) => done += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(posix(error)),
        }
    }
    Ok(())
}
