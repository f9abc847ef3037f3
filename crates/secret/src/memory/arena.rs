//! Locked pages, cut into slots.
//!
//! `RLIMIT_MEMLOCK` counts pages and may be as small as 64 KiB, so a key must not cost a page. Slots come in powers
//! of two from 32 bytes to half a page. Each page holds slots of one size, and larger slots have pages of their own.
//! The list of free slots is outside of the locked pages, where an overflow of a secret cannot reach it. Each run of
//! pages lies between two that cannot be accessed.

use std::collections::BTreeMap;
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mlock, mmap_anonymous, mprotect, munmap,
};
use rustix::process::{Resource, getrlimit};
use zeroize::Zeroize;

use crate::{Error, Result};

/// The smallest slot: a 256-bit key.
const SLOT_MIN: usize = 32;

/// The most memory that is locked at one time, in bytes. Keys take a small part of it. The rest is for key files and
/// key material that are read at the same time.
const LOCKED_MAX: usize = 256 << 20;

static ARENA: Mutex<Arena> = Mutex::new(Arena::new());

/// A piece of locked memory. It belongs to the holder of this value, until [`give_back`].
pub(super) struct MemorySlot {
    /// The address. Aligned to the smaller of `len` and a page.
    pub(super) address: NonNull<u8>,
    /// The length in bytes, at least the one that was asked for.
    pub(super) len: usize,
    chunk: u64,
}

/// Takes a slot of at least `len` bytes, all zero.
pub(super) fn take(len: usize) -> Result<MemorySlot> {
    lock().take(len)
}

/// Wipes a slot and makes it free. In a forked child, where the memory is not, it only forgets it.
pub(super) fn give_back(slot: &MemorySlot) {
    lock().give_back(slot);
}

/// The arena is consistent between the statements of its methods. So a panic of another thread that held it is no
/// reason to stop.
fn lock() -> MutexGuard<'static, Arena> {
    ARENA.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Arena {
    /// The process that the chunks belong to.
    process: u32,
    /// The chunks by number. Numbers are not used again.
    chunks: BTreeMap<u64, MemoryChunk>,
    next_chunk: u64,
    /// The length of all chunks, in bytes.
    locked: usize,
}

impl Arena {
    const fn new() -> Arena {
        Arena {
            process: 0,
            chunks: BTreeMap::new(),
            next_chunk: 0,
            locked: 0,
        }
    }

    fn take(&mut self, len: usize) -> Result<MemorySlot> {
        self.forget_parent();
        let page = rustix::param::page_size();
        let slot_len = slot_len(len, page).ok_or(Error::SecretTooLong)?;
        let mut candidates = self.chunks.iter_mut();
        let found = candidates.find(|(_, c)| c.slot_len == slot_len && !c.free.is_empty());
        let (number, chunk) = match found {
            Some((number, chunk)) => (*number, chunk),
            None => {
                let number = self.next_chunk;
                self.next_chunk += 1;
                let chunk = MemoryChunk::map(slot_len, page, LOCKED_MAX - self.locked)?;
                self.locked += chunk.len;
                debug_assert!(self.locked <= LOCKED_MAX);
                (number, self.chunks.entry(number).or_insert(chunk))
            }
        };
        let index = chunk.free.pop().expect("a chunk with space");
        Ok(MemorySlot {
            address: chunk.address(index),
            len: slot_len,
            chunk: number,
        })
    }

    fn give_back(&mut self, slot: &MemorySlot) {
        self.forget_parent();
        let Some(chunk) = self.chunks.get_mut(&slot.chunk) else {
            return;
        };
        // SAFETY: the slot lies in a chunk of this process, which is mapped, and was taken from it;
        // its holder is giving it up, so nothing else refers to the memory.
        let bytes = unsafe { std::slice::from_raw_parts_mut(slot.address.as_ptr(), slot.len) };
        bytes.zeroize();
        let index = chunk.index(slot.address);
        debug_assert!(!chunk.free.contains(&index), "a slot is given back once");
        chunk.free.push(index);
        let is_empty = chunk.free.len() == chunk.slots();
        let is_large = chunk.len > chunk.page;
        if is_empty && (is_large || self.has_spare(slot)) {
            let gone = self.chunks.remove(&slot.chunk);
            self.locked -= gone.map_or(0, |chunk| chunk.len);
        }
    }

    /// Returns whether another chunk than the slot's has a free slot of its size. One empty page of each size is
    /// kept. So a small secret that comes and goes does not map and lock a page each time.
    fn has_spare(&self, slot: &MemorySlot) -> bool {
        let mut others = self.chunks.iter().filter(|(n, _)| **n != slot.chunk);
        others.any(|(_, chunk)| chunk.slot_len == slot.len && !chunk.free.is_empty())
    }

    /// Forgets the parent's chunks in a forked child, where they are not mapped.
    fn forget_parent(&mut self) {
        let process = std::process::id();
        if self.process != process {
            self.process = process;
            self.locked = 0;
            for chunk in std::mem::take(&mut self.chunks).into_values() {
                std::mem::forget(chunk);
            }
        }
    }
}

/// The size of the slots that hold `len` bytes.
fn slot_len(len: usize, page: usize) -> Option<usize> {
    if len <= page / 2 {
        Some(len.next_power_of_two().max(SLOT_MIN))
    } else {
        len.checked_next_multiple_of(page)
    }
}

/// A run of locked pages, with an inaccessible page before and after it, cut into slots.
struct MemoryChunk {
    /// The first slot.
    start: NonNull<u8>,
    /// The length of all the slots.
    len: usize,
    slot_len: usize,
    page: usize,
    /// The slots that are free, by index.
    free: Vec<usize>,
}

// SAFETY: a chunk is an address range that it alone manages; no thread is special to it.
unsafe impl Send for MemoryChunk {}

impl MemoryChunk {
    /// Maps a chunk of at most `left` bytes.
    fn map(slot_len: usize, page: usize, left: usize) -> Result<MemoryChunk> {
        let len = slot_len.max(page);
        if len > left {
            return Err(Error::SecretsFull {
                needed: len,
                limit: LOCKED_MAX,
            });
        }
        let whole = len.checked_add(2 * page).ok_or(Error::SecretTooLong)?;
        // SAFETY: a new private mapping at an address of the kernel's choice touches no memory in
        // use.
        let map =
            unsafe { mmap_anonymous(null_mut(), whole, ProtFlags::empty(), MapFlags::PRIVATE) };
        let map = map.map_err(no_memory)?.cast::<u8>();
        // SAFETY: the mapping has two pages more than `len`, so its second page is inside.
        let start = NonNull::new(unsafe { map.add(page) }).expect("not at address zero");
        // From here on, dropping the chunk unmaps it.
        let chunk = MemoryChunk {
            start,
            len,
            slot_len,
            page,
            free: (0..len / slot_len).rev().collect(),
        };
        let address = start.as_ptr().cast();
        // SAFETY: the range is within the mapping just made, to which nothing else refers. None of
        // the calls changes what is in it.
        unsafe {
            mprotect(address, len, MprotectFlags::READ | MprotectFlags::WRITE)
                .map_err(no_memory)?;
            madvise(address, len, Advice::LinuxDontDump).map_err(no_memory)?;
            madvise(address, len, Advice::LinuxDontFork).map_err(no_memory)?;
            mlock(address, len).map_err(|error| not_locked(error, len))?;
        }
        Ok(chunk)
    }

    fn slots(&self) -> usize {
        self.len / self.slot_len
    }

    fn address(&self, index: usize) -> NonNull<u8> {
        debug_assert!(index < self.slots());
        // SAFETY: the slot with this index lies within the chunk.
        unsafe { self.start.add(index * self.slot_len) }
    }

    fn index(&self, address: NonNull<u8>) -> usize {
        (address.addr().get() - self.start.addr().get()) / self.slot_len
    }
}

impl Drop for MemoryChunk {
    fn drop(&mut self) {
        // SAFETY: `map` made the mapping with a page before and after, and every slot is free (a
        // chunk is dropped only then), so nothing refers to it.
        let _ = unsafe {
            munmap(
                self.start.sub(self.page).as_ptr().cast(),
                self.len + 2 * self.page,
            )
        };
    }
}

fn no_memory(error: Errno) -> Error {
    Error::Memory(error.into())
}

fn not_locked(error: Errno, needed: usize) -> Error {
    match error {
        Errno::NOMEM | Errno::PERM | Errno::AGAIN => Error::LockLimit {
            needed,
            limit: getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX),
        },
        other => no_memory(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_sizes() {
        let cases = [
            (0, 32),
            (1, 32),
            (32, 32),
            (33, 64),
            (272, 512),
            (2048, 2048),
            (2049, 4096),
            (4097, 8192),
        ];
        for (len, slot) in cases {
            assert_eq!(slot_len(len, 4096), Some(slot), "{len} bytes");
        }
        assert_eq!(slot_len(usize::MAX, 4096), None);
    }

    #[test]
    fn slots_share_a_page_and_are_used_again() {
        let mut arena = Arena::new();
        let page = rustix::param::page_size();
        let slots: Vec<_> = (0..2 * page / 64)
            .map(|_| arena.take(64).expect("memory"))
            .collect();
        assert_eq!(arena.chunks.len(), 2);
        let mut addresses: Vec<_> = slots.iter().map(|slot| slot.address.addr()).collect();
        addresses.sort();
        for pair in addresses.windows(2) {
            assert!(pair[1].get() - pair[0].get() >= 64, "slots overlap");
        }
        for slot in &slots {
            arena.give_back(slot);
        }
        // One chunk is kept, and serves the next.
        assert_eq!(arena.chunks.len(), 1);
        let again = arena.take(50).expect("memory");
        assert!(addresses.contains(&again.address.addr()));
        assert_eq!(arena.chunks.len(), 1);
        arena.give_back(&again);
    }

    #[test]
    fn a_slot_is_wiped_when_given_back() {
        let mut arena = Arena::new();
        let keep = arena.take(64).expect("memory");
        let slot = arena.take(64).expect("memory");
        // SAFETY: the slots are ours, and their chunk stays mapped while `keep` is taken.
        unsafe {
            slot.address.write_bytes(0xaa, slot.len);
            arena.give_back(&slot);
            for i in 0..slot.len {
                assert_eq!(slot.address.add(i).read_volatile(), 0);
            }
        }
        arena.give_back(&keep);
    }

    /// The kernel's own account of the pages: locked, not dumped, not inherited, guarded.
    #[test]
    fn pages_have_their_properties() {
        let mut arena = Arena::new();
        let slot = arena.take(100_000).expect("memory");
        let start = slot.address.addr().get();
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("smaps");
        let flags = |at: usize| -> String {
            let mut lines = maps.lines();
            lines
                .find(|line| {
                    let range = line.split(' ').next().and_then(|r| r.split_once('-'));
                    let parse = |digits: &str| usize::from_str_radix(digits, 16).ok();
                    range.is_some_and(|(from, to)| {
                        parse(from).is_some_and(|from| from <= at)
                            && parse(to).is_some_and(|to| at < to)
                    })
                })
                .expect("mapped");
            let flags = lines.find(|line| line.starts_with("VmFlags:"));
            flags.expect("flags").to_owned()
        };
        for at in [start, start + slot.len - 1] {
            let flags = flags(at);
            for flag in [" rd", " wr", " lo", " dd", " dc"] {
                assert!(flags.contains(flag), "{flag} is missing in {flags}");
            }
        }
        for guard in [start - 1, start + slot.len] {
            assert!(!flags(guard).contains(" rd"), "no guard page");
        }
        arena.give_back(&slot);
    }

    /// A child has none of the pages, may drop what it inherited and starts with a fresh arena.
    #[test]
    fn a_child_does_not_inherit() {
        let mut arena = Arena::new();
        let slot = arena.take(32).expect("memory");
        let child_is_apart = |arena: &mut Arena| {
            arena.give_back(&slot);
            let own = arena.take(32);
            let apart = own.is_ok_and(|own| own.chunk != slot.chunk && own.address != slot.address);
            apart && arena.chunks.len() == 1
        };
        // SAFETY: the arena is of this test, so no lock is involved; the child allocates, which
        // glibc allows after a fork, and exits without destructors.
        let status = unsafe {
            match libc::fork() {
                0 => libc::_exit(i32::from(!child_is_apart(&mut arena))),
                child => {
                    let mut status = 0;
                    assert_eq!(libc::waitpid(child, &mut status, 0), child);
                    status
                }
            }
        };
        assert_eq!(status, 0);
        // SAFETY: as above; the child reads memory that it does not have, and dies of it.
        let status = unsafe {
            match libc::fork() {
                0 => libc::_exit(slot.address.read_volatile().into()),
                child => {
                    let mut status = 0;
                    assert_eq!(libc::waitpid(child, &mut status, 0), child);
                    status
                }
            }
        };
        assert!(libc::WIFSIGNALED(status));
        arena.give_back(&slot);
    }
}
