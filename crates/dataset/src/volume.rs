//! Volumes: datasets that are block devices. A volume has no files and no metadata. Each block is a record of the array
//! `data`; its slot is its number. The slot of a block that was never written, or was discarded, is empty.
//!
//! Blocks are treated like records of files. A block that changes in part is changed in memory, and sealed once for
//! each commit. Blocks that were read stay in the record cache. A flush uses the intent log. Several threads can write
//! to different blocks at the same time: each thread locks the blocks that it changes.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block::{BlockDevice, RangeStatus, SectorSizes};
use keys::DataKeys;
use parking_lot::{Mutex, MutexGuard};
use pool::{Durability, Origin, Pool, Reseal, SLOT_LIMIT, VolumeShape};

use crate::core::Engine;
use crate::core::WriteCache;
use crate::core::dataset::unless_suspended;
use crate::core::io::ahead::ReadAhead;
use crate::core::io::blocks::{VOLUME_INO, in_blocks};
use crate::core::io::memory::inode::Inode;
use crate::core::log::SyncMode;
use crate::core::log::rounds::WorkRounds;
use crate::core::{Dataset, Settings};
use crate::error::{Error, Result};
use crate::fs::to_errno;

/// A longer write is split into several.
const WRITE_MAX: usize = 1 << 20;
/// At most this many non-empty blocks are counted at a time.
const STATUS_BLOCKS_MAX: u64 = 4096;

/// A volume, or a snapshot of one, open with its keys.
pub struct Volume {
    dataset: Arc<Dataset>,
    inode: Arc<Inode>,
    shape: VolumeShape,
    /// The size in bytes. It changes only while no write runs.
    size: AtomicU64,
    writers: BlockLocks,
    log_rounds: WorkRounds,
    ahead: ReadAhead,
}

impl Volume {
    /// Opens a volume or snapshot with the keys of its keyring, or without if it is clear.
    ///
    /// # Errors
    /// As [`Dataset::open`]; [`pool::Error::Refused`] if it is no volume.
    pub fn open(
        engine: &Arc<Engine>,
        pool: &Pool,
        id: u64,
        keys: Option<Vec<DataKeys>>,
        settings: Settings,
    ) -> Result<Volume> {
        let entry = pool.entry(id)?;
        let shape = entry.volume().ok_or_else(|| pool::Error::Refused {
            name: pool.name_of(id).unwrap_or_default(),
            reason: "it is not a volume".into(),
        })?;
        let dataset = Dataset::assemble(engine, pool, &entry, keys, settings);
        let (dataset, _) = unless_suspended(pool, &entry, dataset)?;
        let inode = dataset.inodes.get(VOLUME_INO);
        dataset.replay_log()?;
        let volume = Volume {
            dataset,
            inode,
            shape,
            size: AtomicU64::new(shape.size()),
            writers: BlockLocks::default(),
            log_rounds: WorkRounds::default(),
            ahead: ReadAhead::default(),
        };
        if volume.dataset.open.is_writable() {
            volume.cut_tail()?;
        }
        Ok(volume)
    }

    /// The open dataset, for operations on datasets of any kind: settings and keys.
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// The size of a block in bytes.
    pub fn block_size(&self) -> u32 {
        self.shape.block_size()
    }

    /// Makes everything durable, and waits until no thread works on the volume. The volume is closed when the last
    /// reference to it is dropped.
    ///
    /// # Errors
    /// The waiting changes could not be made durable.
    pub fn close(&self) -> Result<()> {
        self.ahead.end();
        self.dataset.close()
    }

    /// Changes the size of the volume, in whole blocks. Data behind a new end is lost. Programs cannot access these
    /// bytes from the start of the call.
    ///
    /// # Errors
    /// The volume is read-only, the size is not valid, or the pool refused or failed. The size stays the same.
    pub fn resize(&self, size: u64, origin: &Origin) -> Result<()> {
        self.dataset.check_writable()?;
        let old = {
            let _io = self.inode.io.write();
            self.size.fetch_min(size, Ordering::AcqRel)
        };
        let dataset = Arc::clone(&self.dataset);
        let reseal: Reseal = Box::new(move |_, input| Ok(dataset.sealer.dataset_seal(input)));
        let name = self.dataset.pool.name_of(self.dataset.id())?;
        let resized = self
            .dataset
            .pool
            .resize_volume(&name, size, Some(reseal), origin);
        self.size.store(
            resized.as_ref().map_or(old, VolumeShape::size),
            Ordering::Release,
        );
        resized?;
        self.cut_tail()
    }

    /// Empties the blocks behind the end. After a crash while the volume was made smaller, some of them may still
    /// exist.
    fn cut_tail(&self) -> Result<()> {
        let end = self.size() / u64::from(self.block_size());
        let tail = self.dataset.next_full(&self.inode, end, SLOT_LIMIT)?;
        match tail {
            Some(first) => self.dataset.empty_blocks(&self.inode, first, SLOT_LIMIT),
            None => Ok(()),
        }
    }

    fn in_block(&self) -> usize {
        self.block_size() as usize
    }

    /// Writes a piece of at most [`WRITE_MAX`] bytes.
    fn write_piece(&self, offset: u64, data: &[u8]) -> Result<()> {
        let settings = self.dataset.check_writable()?;
        self.dataset.throttle()?;
        let _io = self.inode.io.read();
        if offset + data.len() as u64 > self.size() {
            // The volume has just become smaller.
            return Err(vfs::Error::NoSpace.into());
        }
        let block_size = self.in_block();
        let _mine = self.writers.lock(offset, data.len(), block_size);
        self.dataset
            .write_blocks(&settings, &self.inode, block_size, offset, data)
    }

    fn write_all(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut offset = offset;
        let mut rest = data;
        while !rest.is_empty() {
            // Later pieces begin at multiples of `WRITE_MAX`.
            let left = WRITE_MAX - (offset % WRITE_MAX as u64) as usize;
            let (piece, more) = rest.split_at(left.min(rest.len()));
            self.write_piece(offset, piece)?;
            offset += piece.len() as u64;
            rest = more;
        }
        Ok(())
    }

    /// Makes a range read as zeros: empties whole blocks, and writes zeros to the others.
    fn empty(&self, offset: u64, len: u64) -> Result<()> {
        self.dataset.check_writable()?;
        self.dataset.throttle()?;
        let block_size = u64::from(self.block_size());
        let end = offset + len;
        let (first, last) = (offset.div_ceil(block_size), end / block_size);
        if first >= last {
            return self.write_zeros(offset, end);
        }
        self.write_zeros(offset, first * block_size)?;
        self.dataset.empty_blocks(&self.inode, first, last)?;
        self.write_zeros(last * block_size, end)
    }

    /// Writes zeros to a part of one or two blocks, if these are not empty.
    fn write_zeros(&self, offset: u64, end: u64) -> Result<()> {
        let len = (end - offset) as usize;
        let zeros = vec![0; len.min(self.in_block())];
        for part in in_blocks(offset, len, self.in_block()) {
            let next = part.block + 1;
            let full = self.dataset.next_full(&self.inode, part.block, next)?;
            if full.is_some() {
                self.write_piece(offset + part.at as u64, &zeros[..part.len])?;
            }
        }
        Ok(())
    }

    /// Returns whether bytes from `offset` on are a hole or data, and how many; at most up to `end`.
    fn status(&self, offset: u64, end: u64) -> Result<RangeStatus> {
        let block_size = u64::from(self.block_size());
        let (first, last) = (offset / block_size, end.div_ceil(block_size));
        let full = |block| self.dataset.next_full(&self.inode, block, last);
        let next = full(first)?;
        let is_hole = next != Some(first);
        let mut until = next.unwrap_or(last);
        if !is_hole {
            // Counts one block after the other, but only a bounded number.
            let most = last.min(first + STATUS_BLOCKS_MAX);
            while until < most && full(until)? == Some(until) {
                until += 1;
            }
        }
        Ok(RangeStatus {
            len: (until * block_size).min(end) - offset,
            is_hole,
            is_zero: is_hole,
        })
    }

    fn check(&self, offset: u64, len: u64) -> block::Result<()> {
        let size = self.size();
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(()),
            _ => Err(block::Error::OutOfRange {
                device: self.name(),
                offset,
                len,
                size,
            }),
        }
    }

    /// The outcome of a change, once the change is as durable as the property `sync` requires.
    fn changed(&self, what: VolumeRequest, result: Result<()>) -> block::Result<()> {
        let result = result.and_then(|()| match self.dataset.settings().sync {
            SyncMode::Always => self.dataset.sync_file(VOLUME_INO),
            SyncMode::Standard | SyncMode::Disabled => Ok(()),
        });
        self.told(what, result)
    }

    /// The outcome of a request, as a result of a block device.
    fn told<T>(&self, what: VolumeRequest, result: Result<T>) -> block::Result<T> {
        let VolumeRequest {
            operation,
            offset,
            len,
        } = what;
        result.map_err(|error| {
            if let Error::Fs(vfs::Error::ReadOnly) | Error::Pool(pool::Error::ReadOnly) = error {
                return block::Error::ReadOnly {
                    device: self.name(),
                };
            }
            let source = io::Error::from_raw_os_error(to_errno(error).errno());
            block::Error::Io {
                device: self.name(),
                operation,
                offset,
                len,
                source,
            }
        })
    }
}

#[derive(Clone, Copy)]
struct VolumeRequest {
    operation: &'static str,
    offset: u64,
    len: u64,
}

impl BlockDevice for Volume {
    block::plain_methods!(refresh_size claim check_unreserved waits_on_write would_wait io_mode);
    block::plain_methods!(drop_cached begin_anew is_blank overwrite);

    fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    fn sector_sizes(&self) -> SectorSizes {
        SectorSizes {
            logical: 512,
            physical: self.block_size(),
        }
    }

    fn name(&self) -> String {
        format!("volume {}", self.dataset.name())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> block::Result<()> {
        let len = buf.len() as u64;
        self.check(offset, len)?;
        let (block_size, size) = (self.block_size().into(), self.size());
        self.ahead
            .note(&self.dataset, block_size, size, offset..offset + len);
        let read = self.dataset.read_blocks(self.in_block(), offset, buf);
        let operation = "read";
        self.told(
            VolumeRequest {
                operation,
                offset,
                len,
            },
            read,
        )
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
        let joined;
        let data = match pieces {
            [one] => &one[..],
            several => {
                let pieces: Vec<&[u8]> = several.iter().map(|piece| &**piece).collect();
                joined = pieces.concat();
                &joined
            }
        };
        let what = VolumeRequest {
            operation: "write",
            offset,
            len: data.len() as u64,
        };
        self.check(offset, what.len)?;
        self.changed(what, self.write_all(offset, data))
    }

    /// Writes all changes to the intent log, and flushes it if there is no write cache. Threads that call this at the same
    /// time share entries. Does nothing with `sync=disabled` and for a volatile cache.
    fn settle(&self) -> block::Result<()> {
        let what = VolumeRequest {
            operation: "log",
            offset: 0,
            len: self.size(),
        };
        let settings = self.dataset.settings();
        let durability = match (settings.sync, settings.write_cache) {
            (SyncMode::Standard, WriteCache::On) => Some(Durability::Written),
            (SyncMode::Standard, WriteCache::Off) => Some(Durability::Flushed),
            // Each change is durable already, or need not be.
            (SyncMode::Standard, WriteCache::Volatile)
            | (SyncMode::Always | SyncMode::Disabled, _) => None,
        };
        let settled = match durability.filter(|_| self.dataset.open.is_writable()) {
            Some(durability) => {
                let log = || self.dataset.sync_as(VOLUME_INO, durability);
                self.log_rounds.join(log)
            }
            None => Ok(()),
        };
        self.told(what, settled)
    }

    fn flush(&self) -> block::Result<()> {
        let what = VolumeRequest {
            operation: "flush",
            offset: 0,
            len: self.size(),
        };
        if !self.dataset.open.is_writable() {
            return Ok(());
        }
        self.told(what, self.dataset.sync_file(VOLUME_INO))
    }

    /// Discarded blocks read as zeros.
    fn discard(&self, offset: u64, len: u64) -> block::Result<()> {
        self.zero(offset, len)
    }

    fn zero(&self, offset: u64, len: u64) -> block::Result<()> {
        let what = VolumeRequest {
            operation: "zero",
            offset,
            len,
        };
        self.check(offset, len)?;
        self.changed(what, self.empty(offset, len))
    }

    fn zero_fast(&self, offset: u64, len: u64) -> block::Result<bool> {
        self.zero(offset, len).map(|()| true)
    }

    fn status_at(&self, offset: u64, len: u64) -> block::Result<RangeStatus> {
        let what = VolumeRequest {
            operation: "look at",
            offset,
            len,
        };
        self.check(offset, len)?;
        self.told(what, self.status(offset, offset + len))
    }
}

/// Locks for blocks that change, by block number. Two threads must not change parts of one block at the same time.
struct BlockLocks(Vec<Mutex<()>>);

impl Default for BlockLocks {
    fn default() -> BlockLocks {
        BlockLocks((0..BlockLocks::COUNT).map(|_| Mutex::new(())).collect())
    }
}

impl BlockLocks {
    const COUNT: u64 = 128;

    /// Locks the blocks of a range.
    fn lock(&self, offset: u64, len: usize, block_size: usize) -> Vec<MutexGuard<'_, ()>> {
        let numbers = in_blocks(offset, len, block_size).map(|part| part.block % Self::COUNT);
        let mut wanted: Vec<u64> = numbers.take(Self::COUNT as usize).collect();
        // All threads take the locks in the same order.
        wanted.sort_unstable();
        let locks = wanted.into_iter().map(|number| &self.0[number as usize]);
        locks.map(Mutex::lock).collect()
    }
}
