//! The client beside this crate's own server, and what becomes of it when the server ends.

mod common;

use std::io::IoSlice;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use block::{BlockDevice, DeviceAccess, Error, MemoryDevice};
use common::Place;
use nbd::{
    Address, ClientTimeouts, Export, ExportService, Exports, Listener, Remote, RemoteExport,
};

const SIZE: usize = 32 << 20;

fn remote(socket: &Path, export: &str) -> Remote {
    Remote {
        address: Address::Unix(socket.to_owned()),
        export: export.into(),
        tls: None,
        name: format!("nbd+unix:///{export}"),
        patience: ClientTimeouts::default(),
    }
}

fn noise(len: usize, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn an_export_is_a_device() {
    let place = Place::with(Arc::new(MemoryDevice::new(SIZE)));
    let device = RemoteExport::open(remote(&place.socket(), "x"), DeviceAccess::Exclusive).unwrap();
    assert_eq!(device.size(), SIZE as u64);
    assert_eq!(device.sector_sizes().logical, 512);
    assert_eq!(device.name(), "nbd+unix:///x");
    // More than one request takes, in pieces that do not end where requests do.
    let data = noise(20 << 20, 1);
    let (one, two) = data.split_at(9_000_001);
    device
        .write_at(512, &[IoSlice::new(one), IoSlice::new(two)])
        .unwrap();
    device.flush().unwrap();
    let mut back = vec![0; data.len()];
    device.read_at(512, &mut back).unwrap();
    assert!(back == data);
    device
        .write_durably_at(0, &[IoSlice::new(&[7; 512])])
        .unwrap();
    device.zero(4096, 1 << 20).unwrap();
    device.read_at(4096, &mut back[..1 << 20]).unwrap();
    assert!(back[..1 << 20].iter().all(|byte| *byte == 0));
    device.read_at(0, &mut back[..1024]).unwrap();
    assert!(back[..512] == [7; 512] && back[512..1024] == data[..512]);
    assert!(device.zero_fast(0, 512).unwrap());
    device.discard(0, 4096).unwrap();
    device.overwrite(8 << 20, 4096).unwrap();
    assert!(device.status_at(700, 100).unwrap().len <= 100);
    device.read_at(0, &mut []).unwrap();
    device.write_at(0, &[]).unwrap();

    let outside = device.read_at(SIZE as u64 - 512, &mut [0; 1024]);
    assert!(matches!(outside, Err(Error::OutOfRange { .. })));
    // Parts of blocks.
    device
        .write_at(700, &[IoSlice::new(&[3; 30]), IoSlice::new(&[4; 600])])
        .unwrap();
    let mut back = [0; 632];
    device.read_at(699, &mut back).unwrap();
    assert!(back[1..31] == [3; 30] && back[31..631] == [4; 600]);
    assert!(back[0] == data[699 - 512] && back[631] == data[1330 - 512]);
    device.zero(701, 4).unwrap();
    assert!(!device.zero_fast(701, 4).unwrap());
    device.discard(701, 4).unwrap();
    device.read_at(699, &mut back).unwrap();
    assert!(back[..7] == [data[699 - 512], 3, 0, 0, 0, 0, 3]);
    let far = device.discard(u64::MAX - 511, 512);
    assert!(matches!(far, Err(Error::OutOfRange { .. })));
}

/// Each thread has its own part of the device, and finds there what it wrote.
#[test]
fn many_threads_use_one_connection() {
    let place = Place::with(Arc::new(MemoryDevice::new(SIZE)));
    let device = RemoteExport::open(remote(&place.socket(), "x"), DeviceAccess::Exclusive).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..16u32 {
            let device = &device;
            scope.spawn(move || {
                let base = u64::from(thread) << 20;
                for round in 0..60usize {
                    // Small ones are sent with their head, large ones after it.
                    let len = 512 << (round % 11);
                    let data = noise(len, thread * 1000 + round as u32);
                    device.write_at(base, &[IoSlice::new(&data)]).unwrap();
                    if round % 10 == 0 {
                        device.flush().unwrap();
                    }
                    let mut back = vec![0; len];
                    device.read_at(base, &mut back).unwrap();
                    assert!(back == data, "thread {thread}, round {round}");
                }
            });
        }
    });
}

#[test]
fn an_export_for_reading_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let exports = Arc::new(Exports::default());
    let medium = Arc::new(MemoryDevice::new(1 << 20));
    let export = Export::new("x", "", medium.clone(), true).unwrap();
    exports.insert(Arc::new(export)).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let _server = ExportService::start(Listener::Unix(listener), exports).unwrap();
    let refused = RemoteExport::open(remote(&socket, "x"), DeviceAccess::Exclusive)
        .err()
        .unwrap();
    assert!(refused.to_string().contains("read-only"), "{refused}");
    let device = RemoteExport::open(remote(&socket, "x"), DeviceAccess::ReadOnly).unwrap();
    device.read_at(0, &mut [0; 512]).unwrap();
    device.flush().unwrap();
    let writes = [
        device.write_at(0, &[IoSlice::new(&[1; 512])]),
        device.write_durably_at(0, &[IoSlice::new(&[1; 512])]),
        device.zero(0, 512),
        device.zero_fast(0, 512).map(drop),
        device.overwrite(0, 512),
        device.discard(0, 512),
    ];
    for write in writes {
        assert!(matches!(write, Err(Error::ReadOnly { .. })));
    }
    let missing = RemoteExport::open(remote(&socket, "y"), DeviceAccess::ReadOnly)
        .err()
        .unwrap();
    assert!(
        missing.to_string().contains("no export of this name"),
        "{missing}"
    );
    let long = RemoteExport::open(remote(&socket, &"y".repeat(5000)), DeviceAccess::ReadOnly);
    assert!(long.err().unwrap().to_string().contains("4096"));
    let nowhere = RemoteExport::open(
        remote(Path::new("/nonexistent"), "x"),
        DeviceAccess::ReadOnly,
    );
    assert!(matches!(nowhere.err().unwrap(), Error::Open { .. }));
}

/// An export that was taken away comes again. What was written and not flushed may be lost, which the flush says once.
#[test]
fn a_lost_connection_comes_again_when_it_is_asked_to_and_owns_up() {
    let medium = Arc::new(MemoryDevice::new(1 << 20));
    let place = Place::with(medium.clone());
    let device = RemoteExport::open(remote(&place.socket(), "x"), DeviceAccess::Exclusive).unwrap();
    let sector = [IoSlice::new(&[5; 512])];
    let again = |size: usize| {
        let medium = Arc::new(MemoryDevice::new(size));
        let export = Export::new("x", "", medium, false).unwrap();
        place.exports.insert(Arc::new(export)).unwrap();
    };
    // Flushed: nothing can be lost.
    device.write_at(0, &sector).unwrap();
    device.flush().unwrap();
    place.exports.remove("x", true).unwrap();
    let lost = device.read_at(0, &mut [0; 512]).unwrap_err();
    assert!(lost.to_string().contains("nbd+unix:///x"), "{lost}");
    assert!(device.refresh_size().is_err(), "the export is not there");
    assert!(device.read_at(0, &mut [0; 512]).is_err());
    again(2 << 20);
    assert!(
        device.read_at(0, &mut [0; 512]).is_err(),
        "nothing asked it to connect"
    );
    assert_eq!(device.refresh_size().unwrap(), 2 << 20);
    device.read_at(1 << 20, &mut [0; 512]).unwrap();
    device.flush().unwrap();

    // Not flushed.
    device.write_at(0, &sector).unwrap();
    place.exports.remove("x", true).unwrap();
    again(2 << 20);
    assert!(device.read_at(0, &mut [0; 512]).is_err());
    assert!(device.refresh_size().is_err(), "no write has failed yet");
    assert!(device.write_at(0, &sector).is_err());
    device.refresh_size().unwrap();
    let unsure = device.flush().unwrap_err();
    assert!(unsure.to_string().contains("not flushed"), "{unsure}");
    device.flush().unwrap();

    // A flush has said so already.
    device.write_at(0, &sector).unwrap();
    place.exports.remove("x", true).unwrap();
    assert!(device.flush().is_err());
    again(2 << 20);
    device.refresh_size().unwrap();
    device.flush().unwrap();
    // One that is there is left alone.
    assert_eq!(device.refresh_size().unwrap(), 2 << 20);
    device.write_at(0, &sector).unwrap();
}
