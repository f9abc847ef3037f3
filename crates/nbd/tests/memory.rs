//! The memory that all connections share.

mod common;

use std::io::IoSlice;
use std::sync::Arc;

use block::{BlockDevice, MemoryDevice, TransferPool};
use common::*;

const MIB: usize = 1 << 20;
/// The memory that a connection has in any case.
const CONNECTION: usize = 512 << 10;
const DONT_FRAGMENT: u16 = 1 << 2;

/// A device that holds other bytes in each sector.
fn device() -> (Arc<MemoryDevice>, Vec<u8>) {
    let device = Arc::new(MemoryDevice::new(2 * MIB));
    let content: Vec<u8> = (0..2 * MIB).map(|at| (at / 512 + at) as u8).collect();
    device.write_at(0, &[IoSlice::new(&content)]).unwrap();
    (device, content)
}

#[test]
fn large_requests_need_no_memory_of_others() {
    let (device, content) = device();
    let memory = TransferPool::new(2 * CONNECTION);
    let place = Place::with_memory(device.clone(), Arc::clone(&memory));
    let mut client = place.client();
    client.request(READ, 0, 0, MIB as u32);
    let mut read = vec![0; MIB];
    let mut pieces = 0;
    loop {
        let Answer::Chunk { flags, data, .. } = client.answer() else {
            panic!("answers are in chunks");
        };
        let at = u64::from_be_bytes(*data.first_chunk().unwrap()) as usize;
        read[at..at + data.len() - 8].copy_from_slice(&data[8..]);
        pieces += 1;
        if flags == 1 {
            break;
        }
    }
    assert!(read == content[..MIB]);
    assert_eq!(pieces, 8);
    client.request(WRITE, 0, 0, MIB as u32);
    client.say(&vec![7; MIB]);
    assert_eq!(client.outcome(), 0);
    let mut now = vec![0; MIB];
    device.read_at(0, &mut now).unwrap();
    assert!(now.iter().all(|byte| *byte == 7));
    assert_eq!(memory.used(), CONNECTION);
}

#[test]
fn a_read_in_one_piece_waits_for_memory() {
    let (device, _) = device();
    let memory = TransferPool::new(8 * MIB);
    let place = Place::with_memory(device, Arc::clone(&memory));
    let mut client = place.client();
    let held = memory.share(None).claim(3 * MIB).unwrap();
    client.request(READ, DONT_FRAGMENT, 0, MIB as u32);
    // Another one is not held up: it needs no memory.
    let mut other = place.client();
    assert!(other.works());
    drop(held);
    assert_eq!(client.outcome(), 0);
}

#[test]
fn an_export_without_memory_is_refused() {
    let (device, _) = device();
    let memory = TransferPool::new(2 * CONNECTION + CONNECTION / 2);
    let place = Place::with_memory(device, Arc::clone(&memory));
    let mut first = place.client();
    let mut second = place.connect();
    second.hello();
    let forbidden = [(ERROR + 2, vec![])];
    assert_eq!(second.option(GO, b"\0\0\0\x01x\0\0"), forbidden);
    assert!(first.works());
    assert_eq!(memory.used(), CONNECTION);
}
