//! The bytes of containers that are made with the same random numbers are the same from one version of
//! this program to the next.

use std::sync::Arc;

use crate::common::{bytes, secret, small};
use block::{BlockDevice, MemoryDevice};
use cipher::SeededRandom;
use luks::ContainerVersion;

#[test]
fn containers_have_the_bytes_that_they_always_had() {
    let expected = [
        (
            ContainerVersion::V1,
            "9a7ccb40ddc75ecd25643e751659340b1a30e6a86d95848b96b2465fc2b87522",
        ),
        (
            ContainerVersion::V2,
            "718efc0e8e4037c20305096d5dab3fc19cc9723c0feba00c5e1f67b09d31c0c5",
        ),
    ];
    for (version, expected) in expected {
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(2 << 20));
        let random = SeededRandom::new(7);
        let (mut made, key) =
            luks::format(device, &small(version), &secret("first"), &random).unwrap();
        let slot = crate::common::cheap_slot(version);
        made.add_key(&key, &secret("second"), &slot, None, &random)
            .unwrap();
        let hash: String = cipher::hash(&bytes(&made))
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert_eq!(hash, expected, "{version}");
    }
}
