//! The Linux kernel's dm-crypt as the judge, both ways, with data compared: it reads what is written through
//! a mapping here, and what it writes is read here.
//!
//! It runs in a virtual machine, by a script that lies beside this project (or where STRONGROOM_KERNEL_VM
//! says); without it nothing is tested, and that is said.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use crate::common::machine::{machine, run};
use crate::common::{RANDOM, cheap_slot, hex_hash, secret};
use block::{BlockDevice, DeviceAccess, FileDevice};
use luks::{Container, ContainerFormat, ContainerVersion, Mapping, MappingFlags};

const PASSPHRASE: &str = "correct horse";
const LEN: u64 = 4 << 20;

fn mapping(path: &Path) -> Mapping {
    let device: Arc<dyn BlockDevice> =
        Arc::new(FileDevice::open(path, DeviceAccess::Exclusive).unwrap());
    let container = Container::open(Arc::clone(&device), &RANDOM).unwrap();
    let key = container.unlock(&secret(PASSPHRASE), None).unwrap().key;
    Mapping::open(&container, device, &key, MappingFlags::default()).unwrap()
}

fn pattern(seed: u8) -> Vec<u8> {
    (0..LEN as usize)
        .map(|n| (n / 7) as u8 ^ (n >> 12) as u8 ^ seed)
        .collect()
}

#[test]
fn the_kernel_reads_and_writes_the_same_data() {
    let Some(machine) = machine() else { return };
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    std::fs::write(&key, PASSPHRASE).unwrap();
    let cases = [
        (ContainerVersion::V2, "aes-xts-plain64", 64, 4096),
        (ContainerVersion::V2, "aes-xts-plain64", 32, 512),
        (ContainerVersion::V1, "aes-cbc-essiv:sha256", 32, 512),
        (ContainerVersion::V2, "serpent-xts-plain64", 64, 512),
        (ContainerVersion::V2, "twofish-cbc-essiv:sha256", 32, 512),
        (ContainerVersion::V2, "camellia-xts-plain64", 64, 4096),
        (ContainerVersion::V1, "aes-cbc-plain64", 16, 512),
    ];
    let mut images = Vec::new();
    for (n, (version, cipher, key_len, sector_size)) in cases.into_iter().enumerate() {
        let path = dir.path().join(format!("image{n}"));
        let format = ContainerFormat {
            cipher: cipher.into(),
            key_len,
            sector_size,
            data_offset: Some(4 << 20),
            slot: cheap_slot(version),
            ..ContainerFormat::new(version, crate::common::UUID.into())
        };
        let device = Arc::new(FileDevice::create(&path, (4 << 20) + LEN).unwrap());
        luks::format(device, &format, &secret(PASSPHRASE), &RANDOM).unwrap();
        let mapping = mapping(&path);
        mapping
            .write_at(0, &[IoSlice::new(&pattern(n as u8))])
            .unwrap();
        mapping.flush().unwrap();
        images.push(path);
    }
    // The kernel prints what it reads, and writes the second half again, turned round by pieces.
    let script = "set -e\n\
        for d in /dev/vd?; do\n\
        cryptsetup open --key-file /in/key $d x\n\
        sha256sum < /dev/mapper/x | cut -d' ' -f1\n\
        dd if=/dev/mapper/x of=/tmp/half bs=1M count=2 2>/dev/null\n\
        dd if=/tmp/half of=/dev/mapper/x bs=64k seek=32 conv=notrunc,fsync 2>/dev/null\n\
        cryptsetup close x\n\
        done";
    let said = run(&machine, &images, &[&key], script);
    let read: Vec<&str> = said.lines().filter(|line| line.len() == 64).collect();
    assert_eq!(read.len(), cases.len(), "{said}");
    for (n, path) in images.iter().enumerate() {
        let mut expected = pattern(n as u8);
        assert_eq!(
            read[n],
            hex_hash(&expected),
            "what the kernel reads, {:?}",
            cases[n]
        );
        let half = expected[..2 << 20].to_vec();
        expected[2 << 20..].copy_from_slice(&half);
        let mut back = vec![0; LEN as usize];
        mapping(path).read_at(0, &mut back).unwrap();
        assert!(back == expected, "what the kernel wrote, {:?}", cases[n]);
    }
}
