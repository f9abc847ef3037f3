//! A mapping without its key: what waits, what goes on, and with which key.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{RANDOM, add, secret, small};
use block::{BlockDevice, MemoryDevice};
use luks::{
    Container, ContainerFormat, ContainerVersion, Error, Mapping, MappingFlags, PlainEncryption,
};

const DATA: usize = 2 << 20;
const LEN: usize = 2 << 20;

/// A container that is open, and the device that both are on.
struct Opened {
    container: Container,
    mapping: Arc<Mapping>,
    key: secret::Secret,
}

fn opened(format: &ContainerFormat, flags: MappingFlags) -> Opened {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(DATA + LEN));
    let made = luks::format(Arc::clone(&device), format, &secret("first"), &RANDOM);
    let (container, key) = made.unwrap();
    let mapping = Mapping::open(&container, device, &key, flags).unwrap();
    Opened {
        container,
        mapping: Arc::new(mapping),
        key,
    }
}

fn xts(version: ContainerVersion) -> ContainerFormat {
    ContainerFormat {
        cipher: "aes-xts-plain64".into(),
        key_len: 64,
        data_offset: Some(DATA as u64),
        ..small(version)
    }
}

fn read(mapping: &Mapping) -> block::Result<Vec<u8>> {
    let mut bytes = vec![0; 4096];
    mapping.read_at(8192, &mut bytes)?;
    Ok(bytes)
}

#[track_caller]
fn is_usage(result: luks::Result<()>) {
    assert!(matches!(result, Err(Error::Usage(_))), "{result:?}");
}

/// The choice of a provider needs the key, and the chosen provider stays.
#[test]
fn a_chosen_provider_survives_a_suspension() {
    let Opened {
        container,
        mapping,
        key,
    } = opened(&xts(ContainerVersion::V2), MappingFlags::default());
    mapping.set_provider(cipher::Provider::Portable).unwrap();
    let before = read(&mapping).unwrap();
    mapping.suspend(&container).unwrap();
    let refused = mapping.set_provider(cipher::Provider::AwsLc);
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    assert!(mapping.is_suspended());
    mapping.resume(&container, &key).unwrap();
    assert_eq!(mapping.provider(), Some(cipher::Provider::Portable));
    assert_eq!(read(&mapping).unwrap(), before);
}

/// Requests of each kind wait for the key, and are then carried out, in both forms.
#[test]
fn requests_wait_for_the_key() {
    let queued = MappingFlags {
        read_workqueue: true,
        write_workqueue: true,
        ..MappingFlags::default()
    };
    let tagged = ContainerFormat {
        integrity: Some("hmac(sha256)".into()),
        ..xts(ContainerVersion::V2)
    };
    let formats = [xts(ContainerVersion::V1), xts(ContainerVersion::V2), tagged];
    for (format, flags) in formats
        .iter()
        .flat_map(|it| [(it, MappingFlags::default()), (it, queued)])
    {
        let Opened {
            container,
            mapping,
            key,
        } = opened(format, flags);
        mapping.write_at(8192, &[IoSlice::new(&[7; 4096])]).unwrap();
        mapping.suspend(&container).unwrap();
        assert!(mapping.is_suspended());
        is_usage(mapping.suspend(&container));
        assert_eq!(mapping.size() % 512, 0);
        assert!(matches!(mapping.resize(None), Err(Error::Busy(_))));
        let resumed = AtomicBool::new(false);
        let waits = |act: &dyn Fn()| {
            act();
            assert!(resumed.load(Ordering::SeqCst), "it did not wait");
        };
        std::thread::scope(|scope| {
            let (waits, mapping) = (&waits, &mapping);
            let reads = scope.spawn(move || {
                waits(&|| assert_eq!(read(mapping).unwrap(), [7; 4096]));
            });
            scope.spawn(move || waits(&|| mapping.flush().unwrap()));
            scope.spawn(move || {
                let piece = [IoSlice::new(&[9; 4096])];
                waits(&|| mapping.write_at(16384, &piece).unwrap());
            });
            resumed.store(true, Ordering::SeqCst);
            mapping.resume(&container, &key).unwrap();
            reads.join().unwrap();
        });
        assert!(!mapping.is_suspended());
        let mut bytes = vec![0; 4096];
        mapping.read_at(16384, &mut bytes).unwrap();
        assert_eq!(bytes, [9; 4096]);
        is_usage(mapping.resume(&container, &key));
    }
}

/// All writes are on the device when the key is gone, even those that wait in memory for their tags.
#[test]
fn nothing_is_lost_with_the_key() {
    let tagged = ContainerFormat {
        integrity: Some("hmac(sha256)".into()),
        ..xts(ContainerVersion::V2)
    };
    let Opened {
        container,
        mapping,
        key,
    } = opened(&tagged, MappingFlags::default());
    mapping.write_at(8192, &[IoSlice::new(&[7; 4096])]).unwrap();
    mapping.suspend(&container).unwrap();
    drop(mapping);
    let device = Arc::clone(container.device());
    let mapping = Mapping::open(&container, device, &key, MappingFlags::default()).unwrap();
    assert_eq!(read(&mapping).unwrap(), [7; 4096]);
}

/// With another key, or another header, it stays suspended.
#[test]
fn another_key_does_not_resume_it() {
    let Opened {
        mut container,
        mapping,
        key,
    } = opened(&xts(ContainerVersion::V2), MappingFlags::default());
    let other = opened(&xts(ContainerVersion::V2), MappingFlags::default());
    is_usage(mapping.suspend(&other.container));
    assert!(!mapping.is_suspended());
    mapping.suspend(&container).unwrap();
    is_usage(mapping.resume(&other.container, &other.key));
    is_usage(mapping.resume(&container, &other.key));
    assert!(mapping.is_suspended());
    // Passphrases may change meanwhile.
    add(&mut container, &key, "second", None);
    let unlocked = container.unlock(&secret("second"), None).unwrap();
    mapping.resume(&container, &unlocked.key).unwrap();
    assert_eq!(read(&mapping).unwrap().len(), 4096);
}

/// Users who are taken away by force do not wait, and later ones wait again.
#[test]
fn who_is_taken_away_does_not_wait() {
    let Opened {
        container,
        mapping,
        key,
    } = opened(&xts(ContainerVersion::V2), MappingFlags::default());
    mapping.suspend(&container).unwrap();
    std::thread::scope(|scope| {
        let reads = scope.spawn(|| read(&mapping));
        let failing = mapping.fail_while_suspended();
        assert!(reads.join().unwrap().is_err());
        mapping.flush().expect("all that was answered is durable");
        drop(failing);
        let reads = scope.spawn(|| read(&mapping));
        mapping.resume(&container, &key).unwrap();
        assert!(reads.join().unwrap().is_ok());
    });
    let _failing = mapping.fail_while_suspended();
    assert!(read(&mapping).is_ok(), "it is not suspended");
}

#[test]
fn a_mapping_without_a_header_is_not_suspended() {
    let Opened { container, key, .. } = opened(&xts(ContainerVersion::V2), MappingFlags::default());
    let plain = PlainEncryption {
        cipher: "aes-xts-plain64".into(),
        offset: DATA as u64,
        len: None,
        skip: 0,
        sector_size: 512,
    };
    let data = Arc::clone(container.device());
    let mapping = Mapping::plain(&plain, data, &key, MappingFlags::default()).unwrap();
    is_usage(mapping.suspend(&container));
    assert!(!mapping.is_suspended());
}
