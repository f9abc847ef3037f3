//! A pool whose only device takes no more writes is suspended. What it holds can be copied off it.

use crate::common::*;
use block::fault::{Fault, FaultClock};
use cipher::Suite;
use dataset::{Atime, Dataset, Settings};
use pool::DeviceState;
use vfs::{FileSystem, Kind, NewNode, ROOT};

const SUITE: Option<Suite> = Some(Suite::Aes256Gcm);

#[test]
fn files_are_read_and_their_access_times_stay() {
    let device = fault_device(16 << 20, &FaultClock::new());
    let pool = create_pool(&device, SUITE);
    let settings = Settings {
        atime: Atime::On,
        ..Settings::default()
    };
    let files = open_files(&pool, SUITE, settings, 0);
    let create = |name: &str, len: usize| {
        let node = NewNode::new(Kind::File, 0o644);
        let made = files.create(&ROOT_USER, ROOT, name.as_bytes(), &node);
        let ino = made.unwrap().ino;
        files.write(ino, 0, &vec![7; len], false).unwrap();
        ino
    };
    let all = [("inline", 100), ("record", 10_000), ("long", 400_000)];
    let inos = all.map(|(name, len)| (create(name, len), len));
    files.sync_all().unwrap();
    assert_eq!(pool.devices()[0].state, DeviceState::Online);

    device.inject(Fault::FullAfter(device.written()));
    create("more", 10_000);
    assert!(files.sync_all().is_err());
    assert!(pool.suspended().is_some());
    assert_eq!(pool.devices()[0].state, DeviceState::Faulted);
    for (ino, len) in inos {
        let before = files.getattr(ino).unwrap().atime;
        let read = look::read_all(files.as_ref(), ino, 0, len as u64).unwrap();
        assert!(read == vec![7; len]);
        assert_eq!(files.getattr(ino).unwrap().atime, before);
    }
    // Nothing says that it is done which is not.
    assert!(files.unlink(ROOT, b"inline").is_err());
    assert!(files.sync_all().is_err());
}

/// A commit that fails in the middle leaves in memory what is neither the old state nor the new one.
#[test]
fn a_dataset_that_does_not_open_names_the_suspended_pool() {
    let mut refused = 0;
    for event in 0..60 {
        let clock = FaultClock::new();
        let device = fault_device(16 << 20, &clock);
        let pool = create_pool(&device, SUITE);
        let files = open_files(&pool, SUITE, Settings::default(), 0);
        let write = |name: &str| {
            let node = NewNode::new(Kind::File, 0o644);
            let ino = files.create(&ROOT_USER, ROOT, name.as_bytes(), &node)?.ino;
            files.write(ino, 0, &vec![7; 300_000], false)
        };
        write("before").unwrap();
        files.sync_all().unwrap();
        device.inject(Fault::DeadFrom(clock.now() + event));
        let _ = write("after");
        if files.sync_all().is_ok() {
            break;
        }
        drop(files);
        device.heal();
        let id = pool.top().unwrap().id;
        let keys = SUITE.map(data_keys);
        let settings = Settings::default();
        let opened = Dataset::open(&engine(7, 0), &pool, id, keys, settings, &ROOT_USER);
        if let Err(error) = opened {
            refused += 1;
            let said = error.to_string();
            assert!(said.contains("the pool is suspended"), "{said}");
            assert!(said.contains("export the pool"), "{said}");
        }
    }
    assert!(refused > 0);
}
