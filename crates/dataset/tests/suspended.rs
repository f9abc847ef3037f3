//! A pool whose only device takes no more writes is suspended. What it holds can be copied off it.

mod common;

use block::fault::{Fault, FaultClock};
use cipher::Suite;
use common::*;
use dataset::{Atime, Settings};
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
