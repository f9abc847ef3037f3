//! Requirements of every store, of whatever devices it is made.

mod common;

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use block::{BlockDevice, DeviceAccess, FileDevice, MemoryDevice};
use common::unit;
use store::{CreateOptions, Error, NewGroup, SegmentId, Store, layout, probe};

const SIZE: u64 = 12 << 20;

/// A kind of store: how to make its devices afresh, and how to find them again.
struct Backend {
    name: &'static str,
    devices: Box<dyn Fn() -> Vec<Arc<dyn BlockDevice>>>,
    /// The number of members of each group, and the number of them that are parity.
    groups: &'static [(usize, usize)],
    reopen: bool,
}

fn files(dir: &Path, count: usize) -> Vec<Arc<dyn BlockDevice>> {
    (0..count)
        .map(|i| {
            let path = dir.join(format!("device{i}"));
            let device = if path.exists() {
                FileDevice::open(&path, DeviceAccess::Exclusive)
            } else {
                FileDevice::create(&path, SIZE + (i as u64) * (3 << 20))
            };
            Arc::new(device.unwrap()) as Arc<dyn BlockDevice>
        })
        .collect()
}

fn memory(count: usize) -> Vec<Arc<dyn BlockDevice>> {
    (0..count)
        .map(|_| Arc::new(MemoryDevice::new(SIZE as usize)) as Arc<dyn BlockDevice>)
        .collect()
}

fn each_backend(test: impl Fn(&Backend)) {
    for groups in [
        &[(1, 0)][..],
        &[(1, 0), (1, 0), (1, 0)],
        &[(2, 0)],
        &[(1, 0), (3, 0)],
        &[(3, 1)],
        &[(2, 0), (5, 2)],
    ] {
        let count = groups.iter().map(|(members, _)| members).sum();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        test(&Backend {
            name: "files",
            devices: Box::new(move || files(&path, count)),
            groups,
            reopen: true,
        });
        let devices = memory(count);
        test(&Backend {
            name: "memory",
            devices: Box::new(move || devices.clone()),
            groups,
            reopen: true,
        });
    }
}

fn options(devices: usize) -> CreateOptions {
    CreateOptions {
        pool_guid: 77,
        device_guids: (0..devices as u64).map(|i| 100 + i).collect(),
        created: 1,
        force: false,
    }
}

fn create(backend: &Backend) -> Store {
    let mut devices = (backend.devices)();
    let count = devices.len();
    let group = |(members, parity): &(usize, usize)| NewGroup {
        devices: devices.drain(..*members).collect(),
        parity: *parity,
    };
    let groups: Vec<NewGroup> = backend.groups.iter().map(group).collect();
    let store = Store::create_groups(groups, Vec::new(), &options(count)).unwrap();
    store.write_superblock(1, b"first").unwrap();
    store.flush().unwrap();
    store.commit_labels().unwrap();
    store
}

fn open(backend: &Backend) -> Store {
    let mut devices = (backend.devices)();
    devices.reverse();
    Store::open(devices).unwrap()
}

#[test]
fn segments_keep_what_is_written() {
    each_backend(|backend| {
        let store = create(backend);
        let groups = store.groups();
        let last = SegmentId::new((groups.len() - 1) as u16, groups[groups.len() - 1] - 1);
        let first = SegmentId::new(0, 0);
        let end = store.segment_size() - store.shape(last.group()).taken(1) * store::UNIT;
        let two = unit(b"in two");
        store
            .write(first, 0, &[IoSlice::new(b"in "), IoSlice::new(&two[3..])])
            .unwrap();
        store
            .write(last, end, &[IoSlice::new(&unit(b"at end"))])
            .unwrap();
        store.flush().unwrap();
        drop(store);
        assert!(backend.reopen);
        let store = open(backend);
        let mut buf = [0; 6];
        store.read(first, 0, &mut buf).unwrap();
        assert_eq!(&buf, b"in two", "{}", backend.name);
        store.read(last, end, &mut buf).unwrap();
        assert_eq!(&buf, b"at end");
    });
}

#[test]
fn places_outside_are_refused() {
    each_backend(|backend| {
        let store = create(backend);
        let groups = store.groups().len() as u64;
        let size = store.segment_size();
        let outside = [
            (SegmentId::new(0, store.groups()[0]), 0),
            (SegmentId(groups << 32), 0),
            (SegmentId(u64::MAX), 0),
            (SegmentId::new(0, 0), size - 1),
            (SegmentId::new(0, 0), u32::MAX),
        ];
        for (segment, offset) in outside {
            let error = store.read(segment, offset, &mut [0; 2]).unwrap_err();
            assert!(matches!(error, Error::NoSuchPlace { .. }), "{error}");
            assert!(
                store
                    .write(segment, offset, &[IoSlice::new(b"xy")])
                    .is_err()
            );
        }
    });
}

#[test]
fn the_newest_superblock_comes_first() {
    each_backend(|backend| {
        let store = create(backend);
        for txg in 2..=40 {
            store
                .write_superblock(txg, format!("txg {txg}").as_bytes())
                .unwrap();
        }
        store.flush().unwrap();
        drop(store);
        let found = open(backend).superblocks().unwrap();
        assert_eq!(found[0], (40, b"txg 40".to_vec()));
        let txgs: Vec<u64> = found.iter().map(|(txg, _)| *txg).collect();
        assert_eq!(txgs, (9..=40).rev().collect::<Vec<_>>());
    });
}

#[test]
fn key_blocks_are_overwritten_in_place() {
    each_backend(|backend| {
        let store = create(backend);
        let last = store.key_blocks() - 1;
        let secret = [0xa5; layout::PAYLOAD_MAX];
        store.write_key_block(0, b"first").unwrap();
        store.write_key_block(last, &secret).unwrap();
        store.flush().unwrap();
        drop(store);
        let store = open(backend);
        assert_eq!(store.read_key_block(0).unwrap(), b"first");
        assert_eq!(store.read_key_block(last).unwrap(), secret);
        assert!(matches!(
            store.read_key_block(1),
            Err(Error::DamagedKeyBlock { index: 1 })
        ));
        assert!(store.read_key_block(last + 1).is_err());
        store.wipe_key_block(last).unwrap();
        store.flush().unwrap();
        assert!(store.read_key_block(last).is_err());
        assert!(store.key_block_is_blank(last).unwrap());
        assert!(!store.key_block_is_blank(0).unwrap());
        drop(store);
        for device in (backend.devices)() {
            let mut bytes = vec![0; device.size() as usize];
            device.read_at(0, &mut bytes).unwrap();
            let found = bytes.windows(16).any(|window| window == [0xa5; 16]);
            assert!(!found, "a wiped key block is on no device");
        }
    });
}

#[test]
fn one_damaged_copy_of_a_header_is_no_loss() {
    for copy in 0..2 {
        let devices = memory(2);
        let store = Store::create(devices.clone(), &options(2)).unwrap();
        store.write_superblock(5, b"five").unwrap();
        store.write_key_block(3, b"three").unwrap();
        store.commit_labels().unwrap();
        drop(store);
        for device in &devices {
            let header = 512 << 10;
            let at = if copy == 0 { 0 } else { device.size() - header };
            device
                .write_at(at, &[IoSlice::new(&vec![0xff; header as usize])])
                .unwrap();
        }
        let store = Store::open(devices).unwrap();
        assert_eq!(store.superblocks().unwrap()[0], (5, b"five".to_vec()));
        assert_eq!(store.read_key_block(3).unwrap(), b"three");
    }
}

fn error_of(devices: Vec<Arc<dyn BlockDevice>>) -> Error {
    Store::open(devices).err().expect("an error")
}

fn copy_of(device: &Arc<dyn BlockDevice>, len: u64) -> Arc<dyn BlockDevice> {
    let mut bytes = vec![0; len as usize];
    let common = len.min(device.size()) as usize;
    device.read_at(0, &mut bytes[..common]).unwrap();
    Arc::new(MemoryDevice::from_bytes(bytes))
}

#[test]
fn devices_that_form_no_pool_are_refused_with_the_reason() {
    let devices = memory(2);
    let store = Store::create(devices.clone(), &options(2)).unwrap();
    store.commit_labels().unwrap();
    drop(store);
    let other = memory(1);
    let mut other_options = options(1);
    other_options.pool_guid = 78;
    Store::create(other.clone(), &other_options)
        .unwrap()
        .commit_labels()
        .unwrap();

    let empty: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(0));
    assert!(matches!(error_of(vec![empty]), Error::NotAPool { .. }));
    assert!(matches!(error_of(memory(1)), Error::NotAPool { .. }));
    assert!(matches!(error_of(vec![]), Error::Mismatch { .. }));
    let cut = copy_of(&devices[0], SIZE / 2);
    assert!(matches!(error_of(vec![cut]), Error::Truncated { .. }));
    // What is missing only the pool knows.
    let part = Store::open(vec![devices[1].clone()]).unwrap();
    assert_eq!(part.groups()[0], 0);
    assert!(part.read(SegmentId::new(0, 0), 0, &mut [0; 8]).is_err());
    let twin = copy_of(&devices[1], SIZE);
    assert!(matches!(
        error_of(vec![devices[0].clone(), devices[1].clone(), twin]),
        Error::Duplicate { .. }
    ));
    let mixed = vec![devices[0].clone(), other[0].clone()];
    assert!(error_of(mixed).to_string().contains("different pools"));
    assert_eq!(probe(other[0].as_ref()).unwrap().pool_guid, 78);

    let both_labels_gone = copy_of(&devices[0], SIZE);
    both_labels_gone
        .write_at(20, &[IoSlice::new(b"x")])
        .unwrap();
    both_labels_gone
        .write_at(SIZE - 4000, &[IoSlice::new(b"x")])
        .unwrap();
    assert!(matches!(
        error_of(vec![both_labels_gone]),
        Error::DamagedLabel { .. }
    ));
}

#[test]
fn creation_does_not_overwrite_unasked() {
    let devices = memory(1);
    devices[0]
        .write_at(70_000, &[IoSlice::new(b"someone's data")])
        .unwrap();
    let refused = Store::create(devices.clone(), &options(1)).err().unwrap();
    assert!(matches!(refused, Error::InUse { .. }), "{refused}");
    let mut force = options(1);
    force.force = true;
    Store::create(devices.clone(), &force)
        .unwrap()
        .commit_labels()
        .unwrap();
    let refused = Store::create(devices, &options(1)).err().unwrap();
    assert!(refused.to_string().contains("guid 77"), "{refused}");
}

#[test]
fn erased_devices_belong_to_no_pool() {
    each_backend(|backend| {
        let store = create(backend);
        store.erase().unwrap();
        drop(store);
        assert!(matches!(
            error_of((backend.devices)()),
            Error::NotAPool { .. }
        ));
    });
}

/// A device that refuses to make holes.
struct NoHoles(block::MemoryDevice);

impl block::BlockDevice for NoHoles {
    block::delegate!(self => self.0; size refresh_size sector_sizes read_at write_at flush drop_cached begin_anew discard waits_on_write would_wait io_mode settle);
    block::plain_methods!(claim check_unreserved zero_fast is_blank status_at overwrite);

    fn name(&self) -> String {
        "no holes".into()
    }
    /// Claims success and does nothing, as a medium may that only notes what is unused.
    fn zero(&self, _: u64, _: u64) -> block::Result<()> {
        Ok(())
    }
}

#[test]
fn erasing_writes_over_every_copy() {
    let devices: Vec<_> = (0..2)
        .map(|_| std::sync::Arc::new(NoHoles(block::MemoryDevice::new(12 << 20))))
        .collect();
    let options = store::CreateOptions {
        pool_guid: 1,
        device_guids: vec![2, 3],
        created: 1,
        force: false,
    };
    let dynamic = devices
        .iter()
        .map(|d| std::sync::Arc::clone(d) as std::sync::Arc<dyn block::BlockDevice>);
    let store = store::Store::create(dynamic.collect(), &options).unwrap();
    store.write_superblock(1, b"superblock").unwrap();
    store.write_key_block(0, b"a wrapped key").unwrap();
    store.write_key_block(31, b"a wrapped key").unwrap();
    store.commit_labels().unwrap();
    store.erase().unwrap();
    for device in &devices {
        let bytes = device.0.to_bytes();
        assert!(bytes.iter().all(|byte| *byte == 0));
    }
}
