//! A unit with the identity that it had in another storage.

mod common;

use std::sync::Arc;

use block::MemoryDevice;
use common::Portal;
use common::initiator::GOOD;
use iscsi::{Error, LogicalUnit, SanIdentity};

const NAA: [u8; 16] = [
    0x60, 1, 0x44, 0xf0, 0xc0, 0xff, 0xee, 0, 0, 0, 0x51, 0x2e, 0x9a, 0x0b, 0, 1,
];

fn identity(block: u32) -> SanIdentity {
    SanIdentity {
        number: 1,
        serial: Some("SAN-0042".into()),
        naa: Some(NAA.into()),
        block: Some(block),
    }
}

#[test]
fn initiators_see_the_identity_of_another_storage() {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    let unit = LogicalUnit::with_keeper("disk", identity(4096), device.clone(), false, None);
    let portal = Portal::with_views(vec![unit.unwrap().view(0, None, false).unwrap()]);
    let mut initiator = portal.log_in("a");
    let mut vital = |page| initiator.run(&[0x12, 1, page, 1, 0, 0], &[], 256).data;
    assert_eq!(&vital(0x80)[4..], b"SAN-0042");
    let designators = vital(0x83);
    assert_eq!(designators[4..8], [1, 3, 0, 16]);
    assert_eq!(designators[8..24], NAA);
    assert_eq!(&designators[28..44], b"STRNGRM SAN-0042");

    // READ CAPACITY (16): 256 blocks of 4096 bytes.
    let cdb = [0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0];
    let capacity = initiator.run(&cdb, &[], 32).data;
    assert_eq!(capacity[..12], [0, 0, 0, 0, 0, 0, 0, 255, 0, 0, 0x10, 0]);
    let write = [0x2a, 0, 0, 0, 0, 255, 0, 0, 1, 0];
    assert_eq!(initiator.run(&write, &[7; 4096], 0).status, GOOD);
    let read = [0x28, 0, 0, 0, 0, 255, 0, 0, 1, 0];
    assert_eq!(initiator.run(&read, &[], 4096).data, [7; 4096]);
    // A device is not cut off at its end, and has no smaller blocks than its sectors.
    let odd = Arc::new(MemoryDevice::new(4096 + 512));
    let refused = LogicalUnit::with_keeper("disk", identity(4096), odd, false, None);
    assert!(matches!(
        refused,
        Err(Error::Unaligned { sector: 4096, .. })
    ));
    let refused = LogicalUnit::with_keeper("disk", identity(256), device, false, None);
    assert!(matches!(refused, Err(Error::BlockSize { least: 512, .. })));
}
