//! Transfers between the memory of this process and a medium, past the cache of the system (`O_DIRECT`).
//!
//! Ranges have to be aligned as `statx` says (`STATX_DIOALIGN`, Linux 6.1), and memory to at least 4,096 bytes. What
//! callers pass is not: such data go through a buffer that is. A write of a part of a block is refused. To write the rest of the block again,
//! as it was read, can lose the rest to a power cut.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard};

use rustix::fs::{AtFlags, OFlags, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};

use super::pieces::write_pieces;

/// Buffers are aligned to this. A device that needs more is not used this way. Memory is never aligned to less,
/// whatever the system allows: a driver may take memory for whole pages (zram of Linux 6.18 stores other bytes then).
const MEMORY_ALIGN: usize = 4096;
/// The bytes of a buffer. Longer ranges are cut.
const BUFFER: usize = 1 << 20;
/// The largest number of buffers that stay in memory, for all devices together.
const KEPT_MAX: usize = 4;

/// The required alignment of ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alignment {
    range: usize,
}

impl Alignment {
    /// Has the transfers of a file go past the cache, if the system allows it. Says how they have to be aligned then.
    pub(super) fn begin(file: &File) -> Option<Alignment> {
        let alignment = Alignment::of(file)?;
        let flags = rustix::fs::fcntl_getfl(file).ok()?;
        rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT).ok()?;
        // What the system says may not be so, as on a file system above another one.
        let mut buffer = AlignedBuffer::take();
        let read = read_some(file, &mut buffer.bytes()[..alignment.range], 0);
        if read.is_err() {
            let _ = rustix::fs::fcntl_setfl(file, flags);
            return None;
        }
        Some(alignment)
    }

    fn of(file: &File) -> Option<Alignment> {
        let wanted = StatxFlags::DIOALIGN;
        let found = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, wanted).ok()?;
        let is_known = StatxFlags::from_bits_retain(found.stx_mask).contains(wanted);
        let memory = found.stx_dio_mem_align as usize;
        let range = found.stx_dio_offset_align as usize;
        let suits = |align: usize| align.is_power_of_two() && align <= MEMORY_ALIGN;
        (is_known && suits(memory) && suits(range)).then_some(Alignment { range })
    }

    /// The bytes of a block.
    pub(super) fn block(&self) -> u32 {
        self.range as u32
    }

    /// Returns whether a range is made of whole blocks.
    pub(super) fn has_whole_blocks(&self, offset: u64, len: u64) -> bool {
        (offset | len).is_multiple_of(self.range as u64)
    }

    /// Fills `buf`, whatever its alignment and that of the range.
    pub(super) fn read(&self, file: &File, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if self.has_whole_blocks(offset, buf.len() as u64) && suits(buf) {
            let len = buf.len();
            return self.read_until(file, offset, buf, len);
        }
        let mut buffer = AlignedBuffer::take();
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let skip = (at % self.range as u64) as usize;
            let end = (skip + buf.len() - done).min(BUFFER);
            let blocks = &mut buffer.bytes()[..end.next_multiple_of(self.range)];
            self.read_until(file, at - skip as u64, blocks, end)?;
            buf[done..done + end - skip].copy_from_slice(&blocks[skip..end]);
            done += end - skip;
        }
        Ok(())
    }

    /// Reads whole blocks, of which the first `needed` bytes have to be there: a file may end in a block.
    fn read_until(
        &self,
        file: &File,
        offset: u64,
        blocks: &mut [u8],
        needed: usize,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < needed {
            let n = read_some(file, &mut blocks[done..], offset + done as u64)?;
            if done + n >= needed {
                break;
            }
            // The rest of the memory has to be aligned too.
            match n / MEMORY_ALIGN * MEMORY_ALIGN {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                aligned => done += aligned,
            }
        }
        Ok(())
    }

    /// Writes pieces one after the other. Together they are whole blocks.
    pub(super) fn write(
        &self,
        file: &File,
        offset: u64,
        pieces: &[IoSlice<'_>],
        how: ReadWriteFlags,
    ) -> io::Result<()> {
        if let [piece] = pieces
            && suits(piece)
        {
            return self.write_blocks(file, offset, piece, how);
        }
        let mut buffer = AlignedBuffer::take();
        let (mut at, mut filled) = (offset, 0);
        for piece in pieces {
            let mut rest: &[u8] = piece;
            while !rest.is_empty() {
                let (part, behind) = rest.split_at(rest.len().min(BUFFER - filled));
                buffer.bytes()[filled..filled + part.len()].copy_from_slice(part);
                (filled, rest) = (filled + part.len(), behind);
                if filled == BUFFER {
                    self.write_blocks(file, at, buffer.bytes(), how)?;
                    (at, filled) = (at + BUFFER as u64, 0);
                }
            }
        }
        self.write_blocks(file, at, &buffer.bytes()[..filled], how)
    }

    fn write_blocks(
        &self,
        file: &File,
        mut offset: u64,
        mut blocks: &[u8],
        how: ReadWriteFlags,
    ) -> io::Result<()> {
        while !blocks.is_empty() {
            let n = match write_pieces(file, &[IoSlice::new(blocks)], offset, how) {
                Err(Errno::INTR) => continue,
                written => written?,
            };
            // The rest of the memory has to be aligned too. A part of it is then written once more.
            let aligned = match n == blocks.len() {
                true => n,
                false => n / MEMORY_ALIGN * MEMORY_ALIGN,
            };
            if aligned == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            (offset, blocks) = (offset + aligned as u64, &blocks[aligned..]);
        }
        Ok(())
    }
}

/// Returns whether memory can be used without a buffer.
pub(super) fn suits(memory: &[u8]) -> bool {
    memory.as_ptr().addr().is_multiple_of(MEMORY_ALIGN)
}

fn read_some(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match file.read_at(buf, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// The buffers that are not in use.
static KEPT: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

fn kept() -> MutexGuard<'static, Vec<Vec<u8>>> {
    KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Aligned memory, while it is in use.
struct AlignedBuffer {
    memory: Vec<u8>,
    begin: usize,
}

impl AlignedBuffer {
    /// Takes a buffer with any contents. No caller waits for one: a device may lie on others, which need some too.
    fn take() -> AlignedBuffer {
        let kept = kept().pop();
        let memory = kept.unwrap_or_else(|| vec![0; BUFFER + MEMORY_ALIGN]);
        let address = memory.as_ptr().addr();
        AlignedBuffer {
            begin: address.next_multiple_of(MEMORY_ALIGN) - address,
            memory,
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..][..BUFFER]
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        let mut kept = kept();
        if kept.len() < KEPT_MAX {
            kept.push(std::mem::take(&mut self.memory));
        }
    }
}
