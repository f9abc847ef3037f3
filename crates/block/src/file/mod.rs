//! Regular files and disks.

mod create;
mod direct;
mod flushes;
mod pieces;

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Advice, FallocateFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};

use self::direct::Alignment;
use self::flushes::Flushes;
use self::pieces::write_all_vectored;
use crate::ownership::backing_locks::BackingLocks;
use crate::ownership::{holder, lock};
use crate::reservation::{Disk, left_over};
use crate::{
    BlockDevice, Claim, Claimant, Error, IoMode, RangeStatus, Result, SectorSizes, check_range,
    total,
};

/// The way in which a device is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceAccess {
    /// To look, while other processes may have it open.
    ReadOnly,
    /// To own: no other process may own it at the same time.
    Exclusive,
}

/// A regular file or a disk of the system: through the kernel's page cache, or past it ([`FileDevice::past_cache`]).
///
/// After a flush that failed, no other one succeeds until the device is opened again, or until
/// [`BlockDevice::begin_anew`] succeeds.
pub struct FileDevice {
    pub(crate) file: File,
    path: PathBuf,
    size: AtomicU64,
    sectors: SectorSizes,
    access: DeviceAccess,
    /// The alignment of transfers past the cache; `None` if they go through the cache.
    direct: Option<Alignment>,
    flushes: Flushes,
    /// True if other owners are kept out without `flock`.
    pub(crate) is_owned: bool,
    /// Keeps out owners of the file below a loop device.
    _backing: BackingLocks,
    /// The error that making a hole fails with.
    #[cfg(test)]
    refuses_holes: std::sync::Mutex<Option<rustix::io::Errno>>,
}

impl Drop for FileDevice {
    fn drop(&mut self) {
        if self.access == DeviceAccess::Exclusive {
            lock::disown(&self.file);
        }
    }
}

impl FileDevice {
    /// Opens an existing file or disk.
    ///
    /// # Errors
    /// [`Error::Open`] if the system refuses, [`Error::Busy`] if another process has it, [`Error::NotADevice`]
    /// if it is neither a file nor a disk.
    pub fn open(path: &Path, access: DeviceAccess) -> Result<FileDevice> {
        let mut options = OpenOptions::new();
        options.read(true).write(access == DeviceAccess::Exclusive);
        // A FIFO would block the open; a terminal would become ours.
        let mut flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        let open_error = |source| Error::Open {
            path: path.display().to_string(),
            source,
        };
        let metadata = std::fs::metadata(path).map_err(open_error)?;
        if metadata.file_type().is_block_device() && access == DeviceAccess::Exclusive {
            // The kernel then refuses a disk that is mounted, or held by another exclusive opener.
            flags |= rustix::fs::OFlags::EXCL;
        }
        options.custom_flags(flags.bits() as i32);
        let file = options
            .open(path)
            .map_err(|source| match source.raw_os_error() {
                Some(code) if code == rustix::io::Errno::BUSY.raw_os_error() => Error::Busy {
                    path: path.display().to_string(),
                    holder: holder::of_disk(&metadata),
                },
                _ => open_error(source),
            })?;
        let device = FileDevice::from_file(file, path, access)?;
        if access == DeviceAccess::Exclusive {
            // A flush that failed before leaves pages in the cache that the medium does not hold.
            device.drop_cached()?;
        }
        Ok(device)
    }

    /// From now on reads and writes go past the cache of the system, if the file system or disk allows it. A write of a
    /// part of a block is refused then. The sizes of sectors say how large blocks are.
    #[must_use]
    pub fn past_cache(mut self) -> FileDevice {
        self.direct = Alignment::begin(&self.file);
        if let Some(direct) = &self.direct {
            let SectorSizes { logical, physical } = self.sectors;
            let logical = logical.max(direct.block());
            let physical = physical.max(logical);
            self.sectors = SectorSizes { logical, physical };
        }
        self
    }

    /// Creates a file of `size` bytes, all of them holes, readable by its owner only. It must not
    /// exist.
    ///
    /// # Errors
    /// As [`FileDevice::open`]; [`Error::Open`] also if the file exists or the file system is full;
    /// [`Error::TooLarge`].
    pub fn create(path: &Path, size: u64) -> Result<FileDevice> {
        let file = create::create(path, size);
        let file = file.map_err(|error| not_created(path, size, error))?;
        FileDevice::from_file(file, path, DeviceAccess::Exclusive)
    }

    /// Says whether [`FileDevice::create`] would succeed, with a file that has no name.
    ///
    /// # Errors
    /// As [`FileDevice::create`].
    pub fn rehearse(path: &Path, size: u64) -> Result<FileDevice> {
        let file = create::rehearse(path, size);
        let file = file.map_err(|error| not_created(path, size, error))?;
        FileDevice::from_file(file, path, DeviceAccess::ReadOnly)
    }

    fn from_file(file: File, path: &Path, access: DeviceAccess) -> Result<FileDevice> {
        let shown = || path.display().to_string();
        let open_error = |source: io::Error| Error::Open {
            path: shown(),
            source,
        };
        let kind = file.metadata().map_err(open_error)?.file_type();
        let is_disk = kind.is_block_device();
        if !is_disk && !kind.is_file() {
            return Err(Error::NotADevice {
                path: shown(),
                what: describe(kind),
            });
        }
        let mut is_owned = false;
        let mut backing = BackingLocks::default();
        if access == DeviceAccess::Exclusive {
            is_owned = lock::own(&file, path)?;
            let taken = BackingLocks::take(&file, path);
            backing = taken.inspect_err(|_| lock::disown(&file))?;
        }
        let (size, sectors) = if is_disk {
            disk_geometry(&file).map_err(open_error)?
        } else {
            let size = file.metadata().map_err(open_error)?.len();
            // The file system below writes its own blocks, which are at least this large.
            let sectors = SectorSizes {
                logical: 512,
                physical: 4096,
            };
            (size, sectors)
        };
        Ok(FileDevice {
            file,
            path: path.to_owned(),
            size: AtomicU64::new(size),
            sectors,
            access,
            direct: None,
            flushes: Flushes::default(),
            is_owned,
            _backing: backing,
            #[cfg(test)]
            refuses_holes: std::sync::Mutex::default(),
        })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether it is a file, or a loop device, whose data lie in one.
    pub fn lies_in_a_file(&self) -> bool {
        const LOOP: u32 = 7;
        let metadata = self.file.metadata();
        metadata.is_ok_and(|it| it.is_file() || rustix::fs::major(it.rdev()) == LOOP)
    }

    fn io_error(
        &self,
        operation: &'static str,
        offset: u64,
        len: u64,
    ) -> impl FnOnce(io::Error) -> Error + '_ {
        move |source| Error::Io {
            device: self.name(),
            operation,
            offset,
            len,
            source,
        }
    }

    fn check_writable(&self) -> Result<()> {
        match self.access {
            DeviceAccess::Exclusive => Ok(()),
            DeviceAccess::ReadOnly => Err(Error::ReadOnly {
                device: self.name(),
            }),
        }
    }

    /// The requests for reservations of the disk.
    fn disk(&self) -> Result<Disk> {
        let refused = |reason: String| Error::NoReservations {
            device: self.name(),
            reason,
        };
        let metadata = self.file.metadata();
        let metadata = metadata.map_err(|error| refused(error.to_string()))?;
        if !metadata.file_type().is_block_device() {
            return Err(refused("it is a file, not a disk".into()));
        }
        if is_partition(metadata.rdev()) {
            return Err(refused(
                "it is a partition, and reservations are of whole disks".into(),
            ));
        }
        let file = self.file.try_clone();
        Ok(Disk(file.map_err(|error| refused(error.to_string()))?))
    }
}

fn describe(kind: std::fs::FileType) -> &'static str {
    if kind.is_dir() {
        "a directory"
    } else if kind.is_char_device() {
        "a character device"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "something else"
    }
}

/// Returns whether a disk is a part of another one.
fn is_partition(device: u64) -> bool {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    Path::new(&format!("/sys/dev/block/{major}:{minor}/partition")).exists()
}

/// The error for a file of `size` bytes that cannot be made.
fn not_created(path: &Path, size: u64, source: io::Error) -> Error {
    let shown = path.display().to_string();
    match create::is_too_large(&source, size) {
        true => Error::TooLarge {
            path: shown,
            size,
            limit: create::limit(path, size),
        },
        false => Error::Open {
            path: shown,
            source,
        },
    }
}

fn disk_geometry(file: &File) -> io::Result<(u64, SectorSizes)> {
    let size = rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))?;
    let logical = rustix::fs::ioctl_blksszget(file)?;
    let physical = rustix::fs::ioctl_blkpbszget(file)?.max(logical);
    Ok((size, SectorSizes { logical, physical }))
}

impl BlockDevice for FileDevice {
    plain_methods!(is_blank overwrite);

    fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    fn refresh_size(&self) -> Result<u64> {
        let size = self.end()?;
        self.size.store(size, Ordering::Relaxed);
        Ok(size)
    }

    fn sector_sizes(&self) -> SectorSizes {
        self.sectors
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn claim(&self, by: &Claimant) -> Result<Claim> {
        Claim::take(Box::new(self.disk()?), self.name(), by)
    }

    fn check_unreserved(&self) -> Result<()> {
        // A file or a partition is not reserved for a pool.
        self.disk()
            .map_or(Ok(()), |disk| left_over(&disk, &self.name()))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_range(self, offset, buf.len() as u64)?;
        let len = buf.len() as u64;
        let read = match &self.direct {
            Some(direct) => direct.read(&self.file, offset, buf),
            None => self.file.read_exact_at(buf, offset),
        };
        read.map_err(self.io_error("read", offset, len))
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.check_write(offset, total(pieces))?;
        self.write(offset, pieces, ReadWriteFlags::empty())
    }

    fn write_durably_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.check_write(offset, total(pieces))?;
        let write = || self.write(offset, pieces, ReadWriteFlags::DSYNC);
        self.flushes.write_durably(write)
    }

    fn io_mode(&self) -> Option<IoMode> {
        Some(match self.direct {
            Some(_) => IoMode::Direct,
            None => IoMode::Buffered,
        })
    }

    /// A write through the cache does not wait for the medium.
    fn waits_on_write(&self) -> bool {
        self.direct.is_some()
    }

    fn would_wait(&self, _offset: u64, _len: u64, _is_write: bool) -> bool {
        false
    }

    fn flush(&self) -> Result<()> {
        self.check_writable()?;
        let flushed = self.flushes.flush(|| self.file.sync_data());
        flushed.map_err(self.io_error("flush", 0, self.size()))
    }

    /// The system has each write.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn drop_cached(&self) -> Result<()> {
        let dropped = self.forget_clean();
        dropped.map_err(self.io_error("emptying the cache", 0, self.size()))
    }

    fn begin_anew(&self) -> Result<()> {
        let begun = self.flushes.begin_anew(|| {
            self.file.sync_data()?;
            self.forget_clean()
        });
        let begun = begun.and_then(|()| self.forget_clean());
        begun.map_err(self.io_error("flush", 0, self.size()))
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.check_writable()?;
        check_range(self, offset, len)?;
        match self.punch(offset, len) {
            Err(error) if !is_unsupported(&error) => {
                Err(self.io_error("discard", offset, len)(error))
            }
            // It keeps what it held: that is as good as anything.
            _ => Ok(()),
        }
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        self.check_writable()?;
        check_range(self, offset, len)?;
        match self.punch(offset, len) {
            Err(error) if is_unsupported(&error) => self.overwrite(offset, len),
            result => result.map_err(self.io_error("zero", offset, len)),
        }
    }

    fn zero_fast(&self, offset: u64, len: u64) -> Result<bool> {
        self.check_writable()?;
        check_range(self, offset, len)?;
        match self.punch(offset, len) {
            Ok(()) => Ok(true),
            Err(error) if is_unsupported(&error) => Ok(false),
            Err(error) => Err(self.io_error("zero", offset, len)(error)),
        }
    }

    fn status_at(&self, offset: u64, len: u64) -> Result<RangeStatus> {
        check_range(self, offset, len)?;
        let failed = |errno: Errno| self.io_error("looking for holes", offset, len)(errno.into());
        let begins = match rustix::fs::seek(&self.file, SeekFrom::Data(offset)) {
            Ok(begins) => begins,
            // Nothing but a hole up to the end, if it is this long still.
            Err(Errno::NXIO) if self.end()? >= offset + len => offset + len,
            // It knows nothing of holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NXIO) => {
                return Ok(RangeStatus {
                    len,
                    is_hole: false,
                    is_zero: false,
                });
            }
            Err(errno) => return Err(failed(errno)),
        };
        if begins > offset {
            return Ok(RangeStatus {
                len: len.min(begins - offset),
                is_hole: true,
                is_zero: true,
            });
        }
        let ends = rustix::fs::seek(&self.file, SeekFrom::Hole(offset)).map_err(failed)?;
        Ok(RangeStatus {
            len: len.min(ends.saturating_sub(offset)).max(1),
            is_hole: false,
            is_zero: false,
        })
    }
}

impl FileDevice {
    /// Refuses a write that cannot be.
    fn check_write(&self, offset: u64, len: u64) -> Result<()> {
        self.check_writable()?;
        check_range(self, offset, len)?;
        match &self.direct {
            Some(direct) if !direct.has_whole_blocks(offset, len) => Err(Error::Misaligned {
                device: self.name(),
                offset,
                len,
                sector: direct.block(),
            }),
            _ => Ok(()),
        }
    }

    fn write(&self, offset: u64, pieces: &[IoSlice<'_>], how: ReadWriteFlags) -> Result<()> {
        let written = match &self.direct {
            Some(direct) => direct.write(&self.file, offset, pieces, how),
            None => write_all_vectored(&self.file, offset, pieces, how),
        };
        written.map_err(self.io_error("write", offset, total(pieces)))
    }

    fn end(&self) -> Result<u64> {
        rustix::fs::seek(&self.file, SeekFrom::End(0))
            .map_err(|errno| self.io_error("looking for the end", 0, 0)(errno.into()))
    }

    /// Removes all clean pages of the file from the system's cache.
    fn forget_clean(&self) -> io::Result<()> {
        Ok(rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed)?)
    }

    /// A hole reads as zeros, on files and (by the kernel's promise) on disks.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        #[cfg(test)]
        if let Some(refusal) = *self.refuses_holes.lock().expect("no test panics with it") {
            return Err(refusal.into());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.file, flags, offset, len)?)
    }
}

/// Returns whether a file system or disk cannot make holes, rather than having failed to.
fn is_unsupported(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let refusals = [
        Errno::OPNOTSUPP,
        Errno::NODEV,
        Errno::NOSYS,
        Errno::INVAL,
        Errno::PERM,
    ];
    refusals
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod direct_tests;
#[cfg(test)]
mod tests;
