//! A header that is restored changes the header and nothing else. cryptsetup is the judge.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::common::{RANDOM, add, bytes, container, opens, reopen, secret, small};
use block::{BlockDevice, MemoryDevice};
use luks::{Container, ContainerFormat, ContainerVersion, Error};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Bytes that look like encrypted data, and differ at every place.
fn noise(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    cipher::Random::fill(&RANDOM, &mut bytes).unwrap();
    bytes
}

fn restore(device: &dyn BlockDevice, backup: Vec<u8>) -> luks::Result<()> {
    let backup = luks::read_backup(backup, &RANDOM)?;
    luks::restore(device, &backup, |_| Ok(()))
}

struct Judge {
    dir: tempfile::TempDir,
}

impl Judge {
    fn new() -> Option<Judge> {
        let has_judge = Command::new("cryptsetup").arg("--version").output().is_ok();
        if !has_judge {
            eprintln!("skipped: there is no cryptsetup");
            return None;
        }
        let judge = Judge {
            dir: tempfile::tempdir().unwrap(),
        };
        std::fs::write(judge.path("key"), "first").unwrap();
        std::fs::write(judge.path("new"), "second").unwrap();
        Some(judge)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn must(&self, args: &[&str], paths: &[&Path]) {
        let output = Command::new("cryptsetup")
            .args(["--batch-mode", "--key-file"])
            .arg(self.path("key"))
            .args(args)
            .args(paths)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cryptsetup {args:?}: {said}");
    }
}

const PBKDF: [&str; 4] = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];

/// LUKS1 and LUKS2, with data at many offsets, in sectors, and with a header in a file of its own.
#[rustfmt::skip]
const SHAPES: [(&str, &[&str], bool); 14] = [
    ("luks1", &[], false),
    ("luks1", &["--key-size", "128", "--cipher", "aes-cbc-essiv:sha256", "--offset", "1056"], false),
    ("luks1", &["--key-size", "256", "--offset", "2112"], false),
    ("luks1", &["--offset", "4096"], false),
    ("luks1", &["--offset", "6144"], false),
    ("luks1", &["--offset", "8192"], false),
    ("luks1", &[], true),
    ("luks2", &[], false),
    ("luks2", &["--luks2-keyslots-size", "512k", "--offset", "2048"], false),
    ("luks2", &["--luks2-keyslots-size", "1m", "--offset", "4096"], false),
    ("luks2", &["--luks2-keyslots-size", "2m", "--offset", "8192"], false),
    ("luks2", &["--luks2-metadata-size", "64k", "--luks2-keyslots-size", "1m", "--offset", "4096"], false),
    ("luks2", &["--luks2-keyslots-size", "4m", "--offset", "16384"], false),
    ("luks2", &[], true),
];

#[test]
fn a_restored_header_leaves_the_image_that_cryptsetup_leaves() {
    let Some(judge) = Judge::new() else { return };
    for (version, options, is_detached) in SHAPES {
        let what = format!("{version} {options:?}, detached: {is_detached}");
        let image = judge.path("image");
        std::fs::write(&image, noise(20 << 20)).unwrap();
        let data = judge.path("data");
        std::fs::write(&data, noise(MIB as usize)).unwrap();
        let mut args = vec!["luksFormat", "--type", version, "--sector-size", "512"];
        args.extend(PBKDF);
        args.extend(options);
        match is_detached {
            true => {
                args.extend(["--header", image.to_str().unwrap()]);
                judge.must(&args, &[&data]);
            }
            false => judge.must(&args, &[&image]),
        }
        let formatted = std::fs::read(&image).unwrap();
        let backup = judge.path("backup");
        let _ = std::fs::remove_file(&backup);
        let file = ["--header-backup-file", backup.to_str().unwrap()];
        judge.must(&[&["luksHeaderBackup"], &file[..]].concat(), &[&image]);
        let kept = std::fs::read(&backup).unwrap();
        let mut change = vec!["luksChangeKey"];
        change.extend(PBKDF);
        judge.must(&change, &[&image, &judge.path("new")]);
        let changed = std::fs::read(&image).unwrap();
        assert_ne!(changed, formatted);

        judge.must(&[&["luksHeaderRestore"], &file[..]].concat(), &[&image]);
        let theirs = std::fs::read(&image).unwrap();
        for before in [changed, formatted.clone()] {
            let ours = MemoryDevice::from_bytes(before);
            restore(&ours, kept.clone()).unwrap();
            let ours = ours.to_bytes();
            let differs = ours.iter().zip(&theirs).position(|(a, b)| a != b);
            assert_eq!(differs, None, "{what}: first byte that differs");
            assert_eq!(
                opens(&reopen(ours).unwrap(), &["first", "second"]),
                ["first"]
            );
        }
    }
}

/// Every size of a LUKS2 header, and LUKS1, with data as near as can be.
#[test]
fn nothing_behind_the_header_changes() {
    let mut shapes = vec![small(ContainerVersion::V1)];
    for data_offset in [528 * KIB, 576 * KIB, MIB, 2 * MIB, 4 * MIB, 4 * MIB + 512] {
        shapes.push(ContainerFormat {
            data_offset: Some(data_offset),
            ..small(ContainerVersion::V1)
        });
    }
    for copy_len in luks::luks2::COPY_SIZES {
        shapes.push(ContainerFormat {
            copy_len,
            areas_len: Some(64 * KIB),
            data_offset: Some(2 * copy_len + 64 * KIB),
            ..small(ContainerVersion::V2)
        });
    }
    for format in shapes {
        let begin = format.data_offset.unwrap();
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(10 << 20));
        let (mut made, _) = luks::format(device, &format, &secret("first"), &RANDOM).unwrap();
        let backup = made.backup().unwrap();
        let mut image = bytes(&made);
        let data = noise(image.len() - begin as usize);
        image[begin as usize..].copy_from_slice(&data);
        made.erase(&RANDOM).unwrap();
        let erased = [&bytes(&made)[..begin as usize], &data].concat();
        for before in [
            image.clone(),
            erased,
            [&vec![0; begin as usize], &data[..]].concat(),
        ] {
            let device = MemoryDevice::from_bytes(before);
            restore(&device, backup.clone()).unwrap();
            assert!(device.to_bytes() == image, "{} at {begin}", format.version);
        }
    }
}

/// A copy of a header that was larger would count if the first copy got lost.
#[test]
fn no_copy_of_the_old_header_stays() {
    let format = ContainerFormat {
        copy_len: 0x10_0000,
        areas_len: Some(64 * KIB),
        data_offset: Some(4 * MIB),
        ..small(ContainerVersion::V2)
    };
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(6 << 20));
    let old = luks::format(device, &format, &secret("old"), &RANDOM)
        .unwrap()
        .0;
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(6 << 20));
    let format = ContainerFormat {
        copy_len: 0x4000,
        ..format
    };
    let new = luks::format(device, &format, &secret("new"), &RANDOM)
        .unwrap()
        .0;
    restore(&**old.device(), new.backup().unwrap()).unwrap();
    let mut image = bytes(&old);
    assert_eq!(
        opens(&reopen(image.clone()).unwrap(), &["old", "new"]),
        ["new"]
    );
    image[6..4096].fill(0);
    assert_eq!(opens(&reopen(image).unwrap(), &["old", "new"]), ["new"]);
}

#[test]
fn the_old_header_is_kept_before_anything_is_written() {
    for version in [ContainerVersion::V1, ContainerVersion::V2] {
        let (mut made, key) = container(version);
        let backup = luks::read_backup(made.backup().unwrap(), &RANDOM).unwrap();
        add(&mut made, &key, "second", None);
        let before = bytes(&made);
        let refused = luks::restore(&**made.device(), &backup, |_| {
            Err(Error::Usage("there is no place for it".into()))
        });
        assert!(matches!(refused, Err(Error::Usage(_))), "{refused:?}");
        assert!(bytes(&made) == before, "nothing is written");
        let mut kept = Vec::new();
        luks::restore(&**made.device(), &backup, |old| {
            kept = old.to_vec();
            Ok(())
        })
        .unwrap();
        assert!(before.starts_with(&kept));
        let kept = luks::read_backup(kept, &RANDOM).unwrap();
        assert_eq!(opens(&kept, &["first", "second"]), ["first", "second"]);
        let read: Container = reopen(bytes(&made)).unwrap();
        assert_eq!(opens(&read, &["first", "second"]), ["first"]);
    }
}
