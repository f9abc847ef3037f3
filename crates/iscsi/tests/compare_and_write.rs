//! COMPARE AND WRITE: a block is written only if it has the expected content.

mod common;

use std::sync::Arc;

use block::MemoryDevice;
use common::Portal;
use common::initiator::{CHECK, GOOD};

const MISCOMPARE: [u8; 3] = [14, 0x1d, 0];

#[test]
fn blocks_are_written_only_if_they_are_as_expected() {
    let portal = Portal::new(Arc::new(MemoryDevice::new(1 << 20)), None);
    let mut initiator = portal.log_in("a");
    // The content of the block before, the data of the command, its outcome, and the content after.
    let cases = [
        (0, [1, 1], (CHECK, MISCOMPARE), 0),
        (0, [0, 0], (GOOD, [0; 3]), 0),
        (0, [0, 7], (GOOD, [0; 3]), 7),
        (7, [0, 9], (CHECK, MISCOMPARE), 7),
        (7, [7, 9], (GOOD, [0; 3]), 9),
    ];
    for (before, [expected, new], outcome, after) in cases {
        assert_eq!(initiator.write(5, before), GOOD);
        let cdb = [0x89, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0];
        let data = [[expected; 512], [new; 512]].concat();
        let answer = initiator.run(&cdb, &data, 0);
        assert_eq!((answer.status, answer.sense), outcome, "{expected} {new}");
        assert_eq!(initiator.read(5).data, [after; 512], "{expected} {new}");
    }
}
