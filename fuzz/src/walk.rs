//! Using everything that a pool offers.

use std::ops::ControlFlow;
use std::sync::Arc;

use dataset::{Dataset, Settings};
use pool::Pool;
use store::Store;
use vfs::{FileSystem, Ino, Kind, NewNode, ROOT, Seek, SetXattr};

use crate::device::CowDevice;
use crate::image::{ROOT_USER, data_keys, engine, fixed, origin};

/// Steps of anything that goes on and on.
const STEPS: usize = 2000;

/// Opens a device and does with it what a daemon would.
pub fn open(device: CowDevice, read_only: bool) -> Option<Pool> {
    let device = Arc::new(device);
    let _ = store::probe(device.as_ref());
    let store = Store::open(vec![device]).ok()?;
    Pool::open(Arc::new(store), fixed(), read_only).ok()
}

/// Reads everything without a key.
pub fn pool(pool: &Pool) {
    let _ = (pool.name(), pool.space(), pool.devices(), pool.superblock());
    let _ = pool.history();
    let _ = pool.check();
    if pool.scrubber().start().is_ok() {
        for _ in 0..STEPS {
            if !matches!(pool.scrubber().step(1 << 20), Ok(true)) {
                break;
            }
        }
    }
    let _ = (
        pool.resilverer().use_spares(),
        pool.scrubber().heal(),
        pool.resilverer().status(),
    );
    for _ in 0..STEPS {
        if !matches!(pool.resilverer().step(1 << 20), Ok(true)) {
            break;
        }
    }
    let Ok(top) = pool.top() else { return };
    for listed in pool.list(top.id).unwrap_or_default() {
        let id = listed.entry.id;
        let _ = (
            pool.find(&listed.name),
            pool.keyring(id).map(|bytes| keys::Keyring::decode(&bytes)),
        );
        let _ = (pool.property(id, "compression"), pool.snapshots(id));
        for root in &listed.entry.roots {
            let mut left = STEPS;
            let _ = pool.each_record(root, &mut |_, _| {
                left -= 1;
                if left == 0 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
        }
    }
}

/// Opens and reads the files of every dataset and snapshot.
pub fn files(pool: &Pool) {
    let Ok(top) = pool.top() else { return };
    let engine = engine();
    for listed in pool.list(top.id).unwrap_or_default() {
        let keys = (listed.entry.suite != 0).then(data_keys);
        let settings = Settings::default();
        if let Ok(files) = Dataset::open(&engine, pool, listed.entry.id, keys, settings, &ROOT_USER)
        {
            read(&files);
        }
    }
}

/// Reads a tree of files. Returns the inodes that it saw.
pub fn read(files: &Dataset) -> Vec<Ino> {
    let mut all = vec![ROOT];
    let mut next = 0;
    while next < all.len() {
        let ino = all[next];
        next += 1;
        let Ok(attr) = files.getattr(ino) else {
            continue;
        };
        for name in files.listxattr(ino).unwrap_or_default() {
            let _ = files.getxattr(ino, &name);
        }
        match attr.kind {
            Kind::Directory => {
                let mut names = Vec::new();
                let mut cookie = 0;
                for _ in 0..20 {
                    let before = cookie;
                    let _ = files.readdir(ino, cookie, true, &mut |entry| {
                        cookie = entry.cookie;
                        names.push(entry.name.to_vec());
                        if !all.contains(&entry.ino) && all.len() < 300 {
                            all.push(entry.ino);
                        }
                        names.len() % 64 != 0
                    });
                    if cookie == before {
                        break;
                    }
                }
                for name in names.iter().take(10) {
                    let _ = files.lookup(ino, name);
                }
            }
            Kind::File => {
                for offset in [0, 5000, attr.size / 2, attr.size.saturating_sub(9)] {
                    let _ = files.read(ino, offset, 70_000);
                    let _ = files.seek(ino, offset, Seek::Data);
                    let _ = files.seek(ino, offset, Seek::Hole);
                }
            }
            _ => {
                let _ = files.readlink(ino);
            }
        }
    }
    let _ = files.statfs();
    all
}

/// Changes the files of the clear dataset, and in the end destroys everything.
pub fn change(pool: &Pool) {
    let Ok(top) = pool.top() else { return };
    let engine = engine();
    let settings = Settings::default();
    if let Ok(files) = Dataset::open(&engine, pool, top.id, None, settings, &ROOT_USER) {
        let seen = read(&files);
        write(&files, &seen);
        let _ = files.sync_all();
        files.forget_all();
        let _ = files.free_dead_slots();
        let _ = files.close();
    }
    let _ = pool.snapshot(&["tank@three".into()], true, &origin());
    for name in ["tank@one", "tank@two", "tank/sealed"] {
        let _ = pool.destroy_dataset(name, false, &origin());
    }
    for _ in 0..4 {
        let _ = pool.commit();
    }
    let _ = pool.check();
    let _ = pool.export();
}

fn write(files: &Dataset, seen: &[Ino]) {
    let node = NewNode::new(Kind::File, 0o644);
    let how = SetXattr::default();
    for (i, ino) in seen.iter().take(40).enumerate() {
        let size = files.getattr(*ino).map(|attr| attr.size).unwrap_or(0);
        let _ = files.write(*ino, size / 2, &[7; 10_000], false);
        let _ = files.setxattr(*ino, b"user.new", &[1; 200], how);
        let _ = files.create(&ROOT_USER, *ino, format!("new {i}").as_bytes(), &node);
        let _ = files.fallocate(*ino, 4096, 20_000, vfs::Fallocate::Punch);
        let _ = files.copy_range(*ino, 0, seen[seen.len() - 1], 4096, 30_000);
        if i % 3 == 0 {
            let set = vfs::SetAttr {
                size: Some(5000),
                mode: Some(0o700),
                ..Default::default()
            };
            let _ = files.setattr(&ROOT_USER, *ino, &set);
        }
    }
    let _ = files.sync();
    for dir in seen.iter().take(20) {
        let mut names = Vec::new();
        let _ = files.readdir(*dir, 0, false, &mut |entry| {
            names.push(entry.name.to_vec());
            names.len() < 250
        });
        for name in &names {
            let _ = files.unlink(*dir, name);
            let _ = files.rmdir(*dir, name);
        }
    }
}
