//! Random changes of a file, and of a model of it.

use vfs::{Caller, Fallocate, FileSystem, Ino, SetAttr};

/// Numbers that a seed repeats (xorshift).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

pub fn truncate(fs: &dyn FileSystem, ino: Ino, size: u64) -> vfs::Result<()> {
    let set = SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    fs.setattr(&Caller::default(), ino, &set).map(drop)
}

/// A random change of a file, and of its model.
pub fn change(fs: &dyn FileSystem, ino: Ino, model: &mut Vec<u8>, numbers: &mut Numbers) {
    let limit = 6 * 4096;
    let offset = numbers.below(limit);
    let len = 1 + numbers.below(3 * 4096);
    let (start, end) = (offset as usize, (offset + len) as usize);
    let zero = |model: &mut Vec<u8>| {
        let stop = end.min(model.len());
        if start < stop {
            model[start..stop].fill(0);
        }
    };
    match numbers.below(6) {
        0 | 1 => {
            let data: Vec<u8> = (0..len).map(|_| numbers.below(256) as u8).collect();
            fs.write(ino, offset, &data, false).expect("written");
            model.resize(model.len().max(end), 0);
            model[start..end].copy_from_slice(&data);
        }
        2 => {
            truncate(fs, ino, offset).expect("truncated");
            model.resize(start, 0);
        }
        3 => {
            fs.fallocate(ino, offset, len, Fallocate::Punch)
                .expect("punched");
            zero(model);
        }
        4 => {
            let keep_size = numbers.below(2) == 0;
            fs.fallocate(ino, offset, len, Fallocate::Zero { keep_size })
                .expect("zeroed");
            zero(model);
            if !keep_size {
                model.resize(model.len().max(end), 0);
            }
        }
        _ => {
            let keep_size = numbers.below(2) == 0;
            fs.fallocate(ino, offset, len, Fallocate::Allocate { keep_size })
                .expect("allocated");
            if !keep_size {
                model.resize(model.len().max(end), 0);
            }
        }
    }
}
