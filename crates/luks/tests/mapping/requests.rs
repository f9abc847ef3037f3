//! The data of a container as a block device, in both forms.

use std::io::IoSlice;
use std::sync::Arc;

use crate::common::{RANDOM, secret, small};
use block::fault::{Fault, FaultClock, FaultDevice};
use block::{BlockDevice, MemoryDevice};
use cipher::{Provider, SectorCipher, SectorSpec};
use luks::{
    Container, ContainerFormat, ContainerVersion, Error, Mapping, MappingFlags, PlainEncryption,
};

const DATA: usize = 1 << 20;
const LEN: usize = 3 << 20;

const QUEUED: MappingFlags = MappingFlags {
    read_only: false,
    allow_discards: false,
    read_workqueue: true,
    write_workqueue: true,
    same_cpu: false,
    sort_writes: false,
    no_journal: false,
    recovery: false,
};

fn made(sector_size: u32, device: Arc<dyn BlockDevice>) -> (Container, secret::Secret) {
    let format = ContainerFormat {
        cipher: "aes-xts-plain64".into(),
        key_len: 64,
        sector_size,
        ..small(ContainerVersion::V2)
    };
    luks::format(device, &format, &secret("first"), &RANDOM).unwrap()
}

/// A mapping of 3 MiB in memory, with the memory and the key.
fn mapping(sector_size: u32, flags: MappingFlags) -> (Mapping, Arc<MemoryDevice>, secret::Secret) {
    let device = Arc::new(MemoryDevice::new(DATA + LEN));
    let (container, key) = made(sector_size, Arc::clone(&device) as Arc<dyn BlockDevice>);
    let data = Arc::clone(&device) as Arc<dyn BlockDevice>;
    let mapping = Mapping::open(&container, data, &key, flags).unwrap();
    (mapping, device, key)
}

fn noise(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    cipher::Random::fill(&RANDOM, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_mapping_is_blank_until_it_is_written() {
    let (mapping, ..) = mapping(512, MappingFlags::default());
    assert!(mapping.is_blank(0, 64 << 10).unwrap());
    let byte = noise(512);
    mapping.write_at(60 << 10, &[IoSlice::new(&byte)]).unwrap();
    assert!(!mapping.is_blank(0, 64 << 10).unwrap());
    mapping.zero(0, LEN as u64).unwrap();
    assert!(mapping.is_blank(0, 64 << 10).unwrap());
}

/// The device holds the same bytes as with dm-crypt.
#[test]
fn sectors_are_encrypted_by_their_numbers() {
    for sector in [512, 4096] {
        for flags in [MappingFlags::default(), QUEUED] {
            let (mapping, device, key) = mapping(sector, flags);
            assert_eq!(mapping.size(), LEN as u64);
            assert_eq!(mapping.sector_sizes().logical, sector);
            let plain = noise(700 << 10);
            let pieces = [
                &plain[..100],
                &plain[100..100],
                &plain[100..300_000],
                &plain[300_000..],
            ];
            mapping.write_at(4096, &pieces.map(IoSlice::new)).unwrap();

            let mut expected = plain.clone();
            let spec = SectorSpec::parse("aes-xts-plain64").unwrap();
            let by_hand = SectorCipher::new(spec, key.expose()).unwrap();
            let step = u64::from(sector) / 512;
            by_hand
                .encrypt(8, step, sector as usize, &mut expected)
                .unwrap();
            assert!(device.to_bytes()[DATA + 4096..].starts_with(&expected));

            let mut back = vec![0; plain.len()];
            mapping.read_at(4096, &mut back).unwrap();
            assert!(back == plain, "sector {sector}, {flags:?}");
        }
    }
}

#[test]
fn both_forms_read_what_the_other_wrote() {
    let (mapping, ..) = mapping(4096, MappingFlags::default());
    let mut expected = vec![0; LEN];
    mapping.zero(0, LEN as u64).unwrap();
    for turn in 0..16u64 {
        mapping.set_flags(MappingFlags {
            read_workqueue: turn & 1 == 0,
            write_workqueue: turn & 2 == 0,
            ..MappingFlags::default()
        });
        let at = (turn * 37 * 4096) as usize;
        let bytes = noise(((turn as usize * 53) % 90 + 1) * 4096);
        mapping
            .write_at(at as u64, &[IoSlice::new(&bytes)])
            .unwrap();
        expected[at..at + bytes.len()].copy_from_slice(&bytes);
        let mut back = vec![0; LEN];
        mapping.read_at(0, &mut back).unwrap();
        assert!(back == expected, "turn {turn}");
    }
    let meter = mapping.meter();
    let counts = [
        &meter.read_inline,
        &meter.read_queued,
        &meter.write_inline,
        &meter.write_queued,
    ];
    let counts = counts.map(|operation| operation.totals().requests);
    assert_eq!(counts[..2], [8, 8]);
    assert_eq!(counts[3], 8);
}

/// A write from a buffer that may be changed writes, and refuses, the same as one from a buffer that may not.
#[test]
fn what_is_written_in_place_is_what_was_given() {
    for queue in 0..4 {
        let flags = MappingFlags {
            read_workqueue: queue > 0,
            write_workqueue: queue > 0,
            same_cpu: queue == 3,
            sort_writes: queue > 1,
            ..MappingFlags::default()
        };
        let (mapping, ..) = mapping(512, flags);
        let bytes = noise((128 << 10) * 2 + 512);
        mapping.write_in_place(1024, &mut bytes.clone()).unwrap();
        let mut back = vec![0; bytes.len()];
        mapping.read_at(1024, &mut back).unwrap();
        assert!(back == bytes);
        assert!(mapping.write_in_place(1, &mut [0; 512]).is_err());
        let end = mapping.size();
        assert!(mapping.write_in_place(end, &mut [0; 512]).is_err());
    }
    let flags = MappingFlags {
        read_only: true,
        ..MappingFlags::default()
    };
    let (mapping, device, _) = mapping(512, flags);
    let before = device.to_bytes();
    assert!(mapping.write_in_place(0, &mut [0; 512]).is_err());
    assert!(device.to_bytes() == before);
}

#[test]
fn every_request_is_counted_and_some_are_timed() {
    let (mapping, ..) = mapping(512, MappingFlags::default());
    for n in 0..25 {
        mapping
            .write_at(n * 512, &[IoSlice::new(&[1; 512])])
            .unwrap();
    }
    mapping.read_at(0, &mut [0; 1024]).unwrap();
    let meter = mapping.meter();
    let (writes, reads) = (meter.write_inline.totals(), meter.read_inline.totals());
    assert_eq!((writes.requests, writes.bytes), (25, 25 * 512));
    assert_eq!(writes.times.count(), 3);
    assert_eq!((reads.requests, reads.times.count()), (1, 1));
}

/// Sectors that there are not, which are typed for a mapping without a header.
#[test]
fn sectors_of_no_size_are_refused() {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(LEN));
    for sector_size in [0, 1, 1000, 1536, 8192, u32::MAX] {
        let plain = PlainEncryption {
            cipher: "aes-xts-plain64".into(),
            offset: 0,
            len: None,
            skip: 0,
            sector_size,
        };
        let key = secret::Secret::from_slice(&noise(64)).unwrap();
        let opened = Mapping::plain(&plain, Arc::clone(&device), &key, MappingFlags::default());
        assert!(opened.is_err(), "{sector_size}");
    }
}

/// The forms are switched while threads read and write, and nothing is lost or mixed up.
#[test]
fn forms_are_switched_under_load() {
    let (mapping, ..) = mapping(512, MappingFlags::default());
    const SHARE: usize = 512 << 10;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|n| {
                let mapping = &mapping;
                scope.spawn(move || {
                    let base = (n * SHARE) as u64;
                    for round in 0..40usize {
                        let bytes = noise((round % 7 + 1) * 24 * 512 * 3);
                        let at = base + (round as u64 % 5) * 512;
                        mapping.write_at(at, &[IoSlice::new(&bytes)]).unwrap();
                        let mut back = vec![0; bytes.len()];
                        mapping.read_at(at, &mut back).unwrap();
                        assert!(back == bytes);
                    }
                })
            })
            .collect();
        let mut turn = 0u32;
        while workers.iter().any(|worker| !worker.is_finished()) {
            turn = turn.wrapping_add(1);
            mapping.set_flags(MappingFlags {
                read_workqueue: turn & 1 == 0,
                write_workqueue: turn & 2 == 0,
                same_cpu: turn & 4 == 0,
                sort_writes: turn & 8 == 0,
                ..MappingFlags::default()
            });
            std::thread::yield_now();
        }
    });
}

/// Requests are correct while the provider changes, as with xtsproxy in the article.
#[test]
fn the_provider_changes_under_load() {
    const PART: u64 = 512 << 10;
    let (mapping, ..) = mapping(512, QUEUED);
    let mapping = &mapping;
    assert_eq!(mapping.provider(), Some(Provider::AwsLc));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3u64)
            .map(|worker| {
                scope.spawn(move || {
                    for round in 0..40u64 {
                        let bytes = noise((round as usize % 7 + 1) * 24 * 512);
                        let at = worker * PART + round % 5 * 512;
                        mapping.write_at(at, &[IoSlice::new(&bytes)]).unwrap();
                        let mut back = vec![0; bytes.len()];
                        mapping.read_at(at, &mut back).unwrap();
                        assert!(back == bytes);
                    }
                })
            })
            .collect();
        let mut turns = [Provider::Portable, Provider::AwsLc].into_iter().cycle();
        while workers.iter().any(|worker| !worker.is_finished()) {
            let next = turns.next().unwrap();
            mapping.set_provider(next).unwrap();
            assert_eq!(mapping.provider(), Some(next));
        }
    });
}

/// A refusal names the providers that there are, and changes nothing.
#[test]
fn a_provider_without_the_cipher_is_refused() {
    let (mapping, ..) = mapping(512, MappingFlags::default());
    for wrong in [Provider::Ring, Provider::Libgcrypt] {
        let refused = mapping.set_provider(wrong).unwrap_err().to_string();
        for name in [wrong.name(), "512 bits", "aws-lc", "portable"] {
            assert!(refused.contains(name), "{refused}");
        }
        assert_eq!(mapping.provider(), Some(Provider::AwsLc));
    }
}

#[test]
fn parts_of_sectors_are_refused() {
    for flags in [MappingFlags::default(), QUEUED] {
        let (mapping, device, _) = mapping(4096, flags);
        let before = device.to_bytes();
        for (at, len) in [(512, 4096), (0, 512), (1, 1), (4096, 4095)] {
            let read = mapping.read_at(at, &mut vec![0; len]).unwrap_err();
            assert!(
                matches!(read, block::Error::Misaligned { sector: 4096, .. }),
                "{read}"
            );
            let write = mapping
                .write_at(at, &[IoSlice::new(&vec![0; len])])
                .unwrap_err();
            assert!(matches!(write, block::Error::Misaligned { .. }), "{write}");
        }
        for (at, len) in [(LEN as u64, 4096), (u64::MAX - 4095, 4096), (0, LEN + 4096)] {
            let read = mapping.read_at(at, &mut vec![0; len]).unwrap_err();
            assert!(matches!(read, block::Error::OutOfRange { .. }), "{read}");
        }
        mapping.read_at(LEN as u64, &mut []).unwrap();
        assert!(device.to_bytes() == before);
    }
}

#[test]
fn discards_only_if_they_are_allowed() {
    let clock = FaultClock::new();
    let device = Arc::new(FaultDevice::new(DATA + LEN, &clock));
    let (container, key) = made(512, Arc::clone(&device) as Arc<dyn BlockDevice>);
    let data = Arc::clone(&device) as Arc<dyn BlockDevice>;
    let mapping = Mapping::open(&container, data, &key, MappingFlags::default()).unwrap();
    mapping.discard(0, 1 << 20).unwrap();
    assert_eq!(device.discarded(), 0);
    let allowed = MappingFlags {
        allow_discards: true,
        ..MappingFlags::default()
    };
    mapping.set_flags(allowed);
    mapping.discard(0, 1 << 20).unwrap();
    assert_eq!(device.discarded(), 1 << 20);
    // Zeros are written as what decrypts to them.
    mapping.zero(4096, 8192).unwrap();
    let mut back = vec![1; 8192];
    mapping.read_at(4096, &mut back).unwrap();
    assert!(back.iter().all(|byte| *byte == 0));
    assert!(
        device.to_bytes()[DATA + 4096..][..8192]
            .iter()
            .any(|byte| *byte != 0)
    );
}

#[test]
fn what_fails_below_fails_here_and_nothing_else() {
    for flags in [MappingFlags::default(), QUEUED] {
        let clock = FaultClock::new();
        let device = Arc::new(FaultDevice::new(DATA + LEN, &clock));
        let (container, key) = made(512, Arc::clone(&device) as Arc<dyn BlockDevice>);
        let data = Arc::clone(&device) as Arc<dyn BlockDevice>;
        let mapping = Mapping::open(&container, data, &key, flags).unwrap();
        let bytes = noise(1 << 20);
        mapping.write_at(0, &[IoSlice::new(&bytes)]).unwrap();
        device.inject(Fault::BadBytes {
            offset: (DATA + (300 << 10)) as u64,
            len: 1,
        });
        let mut back = vec![0; 1 << 20];
        assert!(mapping.read_at(0, &mut back).is_err());
        device.heal();
        mapping.read_at(0, &mut back).unwrap();
        assert!(back == bytes);
        device.inject(Fault::DeadFrom(clock.now()));
        assert!(mapping.write_at(0, &[IoSlice::new(&bytes)]).is_err());
        assert!(
            mapping
                .write_durably_at(0, &[IoSlice::new(&bytes)])
                .is_err()
        );
        assert!(mapping.flush().is_err());
        device.heal();
        mapping
            .write_durably_at(0, &[IoSlice::new(&bytes)])
            .unwrap();
        let errors = mapping.meter().write_inline.totals().errors
            + mapping.meter().write_queued.totals().errors;
        assert_eq!(errors, 2);
    }
}

#[test]
fn a_read_only_mapping_is_not_written_to() {
    let flags = MappingFlags {
        read_only: true,
        ..MappingFlags::default()
    };
    let (mapping, device, _) = mapping(512, flags);
    let before = device.to_bytes();
    assert!(mapping.write_at(0, &[IoSlice::new(&[0; 512])]).is_err());
    assert!(mapping.zero(0, 512).is_err());
    assert!(mapping.discard(0, 512).is_err());
    mapping
        .flush()
        .expect("there is nothing to be made durable");
    mapping.set_flags(MappingFlags::default());
    assert!(
        mapping.write_at(0, &[IoSlice::new(&[0; 512])]).is_err(),
        "that does not change"
    );
    assert!(device.to_bytes() == before);
}

#[test]
fn sizes() {
    let (mapping, device, key) = mapping(4096, MappingFlags::default());
    assert_eq!(mapping.resize(Some(1 << 20)).unwrap(), 1 << 20);
    assert!(mapping.read_at(1 << 20, &mut [0; 4096]).is_err());
    assert!(matches!(mapping.resize(Some(512)), Err(Error::Usage(_))));
    assert!(matches!(
        mapping.resize(Some(1 << 40)),
        Err(Error::TooSmall { .. })
    ));
    assert_eq!(mapping.resize(None).unwrap(), LEN as u64);

    let container = Container::look(Arc::clone(&device) as Arc<dyn BlockDevice>).unwrap();
    let short = Arc::new(MemoryDevice::new(DATA + 100));
    let error = Mapping::open(&container, short, &key, MappingFlags::default())
        .err()
        .unwrap();
    assert!(matches!(error, Error::TooSmall { .. }), "{error}");
    // A part of a sector at the end is not used.
    let odd = Arc::new(MemoryDevice::new(DATA + 8192 + 513));
    let odd = Mapping::open(&container, odd, &key, MappingFlags::default()).unwrap();
    assert_eq!(odd.size(), 8192);
    let wrong = secret::Secret::zeroed(64).unwrap();
    let data = Arc::clone(&device) as Arc<dyn BlockDevice>;
    assert!(Mapping::open(&container, data, &wrong, MappingFlags::default()).is_err());
}

/// A mapping on a mapping: the buffers of one thread are not mixed up.
#[test]
fn mappings_lie_on_mappings() {
    let (outer, device, _) = mapping(512, MappingFlags::default());
    let outer = Arc::new(outer);
    let (container, key) = made(4096, Arc::clone(&outer) as Arc<dyn BlockDevice>);
    let data = Arc::clone(&outer) as Arc<dyn BlockDevice>;
    let inner = Mapping::open(&container, data, &key, MappingFlags::default()).unwrap();
    let bytes = noise(1 << 20);
    for flags in [MappingFlags::default(), QUEUED] {
        outer.set_flags(flags);
        inner.write_at(0, &[IoSlice::new(&bytes)]).unwrap();
        let mut back = vec![0; 1 << 20];
        inner.read_at(0, &mut back).unwrap();
        assert!(back == bytes);
    }
    assert!(
        !device
            .to_bytes()
            .windows(64)
            .any(|window| window == &bytes[..64])
    );
}

#[test]
fn plain_mappings_are_what_they_are_told() {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    let key = secret("0123456789abcdef0123456789abcdef");
    let plain = PlainEncryption {
        cipher: "aes-cbc-essiv:sha256".into(),
        offset: 4096,
        len: Some(64 << 10),
        skip: 7,
        sector_size: 512,
    };
    let data = Arc::clone(&device) as Arc<dyn BlockDevice>;
    let mapping = Mapping::plain(&plain, data, &key, MappingFlags::default()).unwrap();
    assert_eq!(mapping.size(), 64 << 10);
    let bytes = noise(8192);
    mapping.write_at(512, &[IoSlice::new(&bytes)]).unwrap();
    let spec = SectorSpec::parse("aes-cbc-essiv:sha256").unwrap();
    let mut expected = bytes.clone();
    let by_hand = SectorCipher::new(spec, key.expose()).unwrap();
    by_hand.encrypt(8, 1, 512, &mut expected).unwrap();
    assert!(device.to_bytes()[4096 + 512..].starts_with(&expected));
}

/// The kernel's own spelling of a cipher makes the same device, and key material that cryptsetup reads.
#[test]
fn a_cipher_has_two_spellings() {
    let device = Arc::new(MemoryDevice::new(2 << 20));
    let format = luks::ContainerFormat {
        cipher: "capi:essiv(cbc(aes),sha256)-plain64".into(),
        ..crate::common::small(luks::ContainerVersion::V2)
    };
    let (container, key) =
        luks::format(Arc::clone(&device) as _, &format, &secret("first"), &RANDOM).unwrap();
    assert_eq!(container.segment().unwrap().cipher, format.cipher);
    assert_eq!(container.slots()[0].cipher, "aes-xts-plain64");
    let mapping = Mapping::open(
        &container,
        Arc::clone(&device) as _,
        &key,
        MappingFlags::default(),
    );
    let mapping = mapping.unwrap();
    assert_eq!(mapping.cipher(), "aes-cbc-essiv:sha256");
    mapping.write_at(4096, &[IoSlice::new(&[7; 4096])]).unwrap();
    let plain = luks::PlainEncryption {
        cipher: "aes-cbc-essiv:sha256".into(),
        offset: 1 << 20,
        len: None,
        skip: 0,
        sector_size: 512,
    };
    let plain = Mapping::plain(&plain, device, &key, MappingFlags::default()).unwrap();
    let mut read = [0; 4096];
    plain.read_at(4096, &mut read).unwrap();
    assert_eq!(read, [7; 4096]);
}
