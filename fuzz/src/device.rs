//! A device that starts as an image, and keeps its own changes.

use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::Mutex;

use block::{BlockDevice, Error, Result, SectorSizes};

const BLOCK: usize = 4096;

/// An image and what was written over it.
pub struct CowDevice {
    base: &'static [u8],
    blocks: Mutex<HashMap<usize, Box<[u8; BLOCK]>>>,
}

impl CowDevice {
    /// A device that holds `base`, whole blocks of it.
    pub fn new(base: &'static [u8]) -> CowDevice {
        CowDevice {
            base,
            blocks: Mutex::default(),
        }
    }

    fn check(&self, offset: u64, len: u64) -> Result<()> {
        let size = self.base.len() as u64;
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(()),
            _ => Err(Error::OutOfRange {
                device: "cow".into(),
                offset,
                len,
                size,
            }),
        }
    }

    fn write(&self, mut at: usize, mut bytes: &[u8]) {
        let mut blocks = self.blocks.lock().unwrap();
        while !bytes.is_empty() {
            let (index, from) = (at / BLOCK, at % BLOCK);
            let n = bytes.len().min(BLOCK - from);
            let block = blocks.entry(index).or_insert_with(|| {
                let base = &self.base[index * BLOCK..][..BLOCK];
                Box::new(base.try_into().unwrap())
            });
            block[from..from + n].copy_from_slice(&bytes[..n]);
            (at, bytes) = (at + n, &bytes[n..]);
        }
    }
}

impl BlockDevice for CowDevice {
    block::plain_device!();

    fn size(&self) -> u64 {
        self.base.len() as u64
    }

    fn sector_sizes(&self) -> SectorSizes {
        SectorSizes::COMMON
    }

    fn name(&self) -> String {
        "cow".into()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.check(offset, buf.len() as u64)?;
        let blocks = self.blocks.lock().unwrap();
        let (mut at, mut buf) = (offset as usize, buf);
        while !buf.is_empty() {
            let (index, from) = (at / BLOCK, at % BLOCK);
            let n = buf.len().min(BLOCK - from);
            let (now, rest) = buf.split_at_mut(n);
            match blocks.get(&index) {
                Some(block) => now.copy_from_slice(&block[from..from + n]),
                None => now.copy_from_slice(&self.base[at..at + n]),
            }
            (at, buf) = (at + n, rest);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        let mut at = offset;
        for piece in pieces {
            self.check(at, piece.len() as u64)?;
            self.write(at as usize, piece);
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.check(offset, len)
    }
}
