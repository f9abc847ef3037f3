//! cryptsetup as the judge, both ways: it opens what is made here, and what it makes opens here with the
//! same volume key. Without device-mapper it encrypts key material itself, which it can with AES only.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{DeviceAccess, FileDevice};
use common::{RANDOM, add, cheap, secret};
use luks::{Container, ContainerFormat, ContainerVersion, KdfKind, SlotChoice, Variant};
use secret::Secret;

const PASSPHRASE: &str = "correct horse";

/// Slots that cost little.
const PBKDF2: &str = "--pbkdf-force-iterations 1000";
const ARGON2: &str = "--pbkdf-force-iterations 4 --pbkdf-memory 64";

struct Bench {
    dir: tempfile::TempDir,
    /// A program that another test starts holds every open file of this process, with its lock, for a moment.
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

impl Bench {
    /// A place for a container, if there is a judge.
    fn new() -> Option<Bench> {
        if Command::new("cryptsetup")
            .arg("--version")
            .output()
            .is_err()
        {
            eprintln!("skipped: there is no cryptsetup");
            return None;
        }
        let bench = Bench {
            dir: tempfile::tempdir().unwrap(),
            _alone: ALONE.lock().unwrap_or_else(PoisonError::into_inner),
        };
        std::fs::write(bench.path("key"), PASSPHRASE).unwrap();
        Some(bench)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn image(&self) -> PathBuf {
        let path = self.path("image");
        let _ = std::fs::remove_file(&path);
        std::fs::File::create(&path)
            .unwrap()
            .set_len(18 << 20)
            .unwrap();
        path
    }

    /// Runs cryptsetup with a command line, split at spaces, that ends with paths.
    fn run(&self, line: &str, paths: &[&Path]) -> Output {
        Command::new("cryptsetup")
            .args(["--batch-mode", "--key-file"])
            .arg(self.path("key"))
            .args(line.split_whitespace())
            .args(paths)
            .output()
            .unwrap()
    }

    fn must(&self, line: &str, paths: &[&Path]) -> String {
        let output = self.run(line, paths);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cryptsetup {line}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn opens(&self, path: &Path) -> bool {
        let output = self.run("open --test-passphrase", &[path]);
        output.status.success()
    }

    /// The volume key, as cryptsetup finds it.
    fn volume_key(&self, path: &Path) -> Secret {
        let out = self.path("volume-key");
        let _ = std::fs::remove_file(&out);
        let file = out.display();
        let line = format!("luksDump --dump-volume-key --volume-key-file {file}");
        self.must(&line, &[path]);
        Secret::from_slice(&std::fs::read(out).unwrap()).unwrap()
    }
}

fn open(path: &Path) -> Container {
    let device = FileDevice::open(path, DeviceAccess::Exclusive).unwrap();
    Container::open(Arc::new(device), &RANDOM).unwrap()
}

const CIPHERS: [(&str, usize); 6] = [
    ("aes-xts-plain64", 64),
    ("aes-xts-plain64", 32),
    ("aes-cbc-essiv:sha256", 32),
    ("aes-cbc-essiv:sha256", 16),
    ("aes-cbc-plain64", 24),
    ("aes-xts-plain", 64),
];

#[test]
fn it_opens_what_is_made_here() {
    let Some(bench) = Bench::new() else { return };
    let kinds = [
        KdfKind::Pbkdf2,
        KdfKind::Argon2(Variant::Argon2i),
        KdfKind::Argon2(Variant::Argon2id),
    ];
    for (n, (cipher, key_len)) in CIPHERS.into_iter().enumerate() {
        for version in [ContainerVersion::V1, ContainerVersion::V2] {
            let (kind, sector_size) = match version {
                ContainerVersion::V1 => (KdfKind::Pbkdf2, 512),
                ContainerVersion::V2 => (kinds[n % 3], [4096, 512][n % 2]),
            };
            let hash = ["sha256", "sha512", "sha1"][n % 3];
            let mut slot = SlotChoice {
                kdf: cheap(kind),
                ..SlotChoice::new(version)
            };
            slot.kdf.hash = hash.into();
            slot.af_hash = hash.into();
            let format = ContainerFormat {
                cipher: cipher.into(),
                key_len,
                sector_size,
                slot,
                ..ContainerFormat::new(version, common::UUID.into())
            };
            let path = bench.image();
            let device = Arc::new(FileDevice::open(&path, DeviceAccess::Exclusive).unwrap());
            let made = luks::format(device, &format, &secret(PASSPHRASE), &RANDOM).unwrap();
            let (dump, key) = (made.0.dump(), made.1);
            drop(made.0);
            assert!(bench.opens(&path), "{version} {cipher} {key_len}");
            assert_eq!(bench.volume_key(&path), key, "{version} {cipher} {key_len}");
            assert_eq!(bench.must("luksDump", &[&path]), dump);
            let kind = version.to_string().to_lowercase();
            bench.must(&format!("isLuks --type {kind}"), &[&path]);
        }
    }
}

#[test]
fn what_it_makes_opens_here() {
    let Some(bench) = Bench::new() else { return };
    for (n, (cipher, key_len)) in CIPHERS.into_iter().enumerate() {
        for kind in ["luks1", "pbkdf2", "argon2i", "argon2id"] {
            let bits = key_len * 8;
            let sector = ["512", "4096"][n % 2];
            let hash = ["sha256", "sha512", "sha1", "sha384"][n % 4];
            let slot = match kind {
                "luks1" => format!("--type luks1 {PBKDF2}"),
                "pbkdf2" => format!("--type luks2 --pbkdf pbkdf2 {PBKDF2} --sector-size {sector}"),
                _ => format!("--type luks2 --pbkdf {kind} {ARGON2} --sector-size {sector}"),
            };
            let path = bench.image();
            let line =
                format!("luksFormat --cipher {cipher} --key-size {bits} --hash {hash} {slot}");
            bench.must(&line, &[&path]);
            let read = open(&path);
            let key = read.unlock(&secret(PASSPHRASE), None).unwrap().key;
            assert_eq!(bench_key(&bench, &path), key, "{kind} {cipher} {key_len}");
            let dump = bench.must("luksDump", &[&bench.path("copy")]);
            assert_eq!(without_path(&read.dump()), without_path(&dump));
            assert!(read.unlock(&secret("wrong"), None).is_err());
            let segment = read.segment().unwrap();
            assert_eq!((segment.cipher.as_str(), segment.iv_offset), (cipher, 0));
        }
    }
}

/// The first line of LUKS1 names the device.
fn without_path(dump: &str) -> &str {
    dump.split_once('\n').unwrap().1
}

fn bench_key(bench: &Bench, path: &Path) -> Secret {
    // A file that is locked is none that cryptsetup waits for; it looks at a copy.
    let copy = bench.path("copy");
    std::fs::copy(path, &copy).unwrap();
    bench.volume_key(&copy)
}

/// Each changes what the other made, by turns.
#[test]
fn both_change_the_same_container() {
    let Some(bench) = Bench::new() else { return };
    std::fs::write(bench.path("second"), "second").unwrap();
    let second = bench.path("second");
    for kind in ["luks1", "luks2"] {
        let path = bench.image();
        let line = format!("luksFormat --type {kind} --sector-size 512 --pbkdf pbkdf2 {PBKDF2}");
        bench.must(&line, &[&path]);
        let mut read = open(&path);
        let version = read.version();
        let key = read.unlock(&secret(PASSPHRASE), None).unwrap().key;
        add(&mut read, &key, "ours", Some(3));
        drop(read);
        let line = format!("luksAddKey --pbkdf pbkdf2 {PBKDF2}");
        bench.must(&line, &[&path, &second]);
        let mut read = open(&path);
        for (passphrase, slot) in [(PASSPHRASE, 0), ("second", 1), ("ours", 3)] {
            assert_eq!(read.unlock(&secret(passphrase), None).unwrap().slot, slot);
        }
        read.remove_slot(1, false, &RANDOM).unwrap();
        drop(read);
        bench.must("luksKillSlot", &[&path, Path::new("3")]);
        let read = open(&path);
        assert_eq!(read.slots().len(), 1, "{kind}");
        assert_eq!(read.version(), version);
        drop(read);
        // The other's conversion, and ours back.
        let (other, ours) = if kind == "luks1" {
            ("luks2", ContainerVersion::V1)
        } else {
            ("luks1", ContainerVersion::V2)
        };
        bench.must(&format!("convert --type {other}"), &[&path]);
        let mut read = open(&path);
        read.convert(ours, &RANDOM).unwrap();
        drop(read);
        assert!(bench.opens(&path), "{kind} by way of {other}");
        assert_eq!(bench.volume_key(&path), key);
    }
}

#[test]
fn backups_are_the_same_bytes() {
    let Some(bench) = Bench::new() else { return };
    for kind in ["luks1", "luks2"] {
        let path = bench.image();
        let line = format!("luksFormat --type {kind} --pbkdf pbkdf2 {PBKDF2}");
        bench.must(&line, &[&path]);
        let file = bench.path(&format!("backup-{kind}"));
        bench.must(
            &format!("luksHeaderBackup --header-backup-file {}", file.display()),
            &[&path],
        );
        let theirs = std::fs::read(&file).unwrap();
        let ours = open(&path).backup().unwrap();
        assert!(theirs.starts_with(&ours), "{kind}");
        let kept = luks::read_backup(theirs, &RANDOM).unwrap();
        assert_eq!(kept.unlock(&secret(PASSPHRASE), None).unwrap().slot, 0);
        std::fs::write(&file, &ours).unwrap();
        bench.must("luksErase", &[&path]);
        assert!(!bench.opens(&path));
        bench.must(
            &format!("luksHeaderRestore --header-backup-file {}", file.display()),
            &[&path],
        );
        assert!(bench.opens(&path), "{kind}");
    }
}

#[test]
fn it_reads_our_tokens_priorities_and_names() {
    let Some(bench) = Bench::new() else { return };
    let path = bench.image();
    bench.must(&format!("luksFormat --type luks2 {ARGON2}"), &[&path]);
    let mut read = open(&path);
    let token = read.keyring_token("my key", None);
    read.add_token(token, None, &RANDOM).unwrap();
    read.set_priority(0, luks::Priority::Prefer, &RANDOM)
        .unwrap();
    read.rename(None, Some("my disk"), Some("mine"), &RANDOM)
        .unwrap();
    let dump = read.dump();
    drop(read);
    let theirs = bench.must("luksDump", &[&path]);
    for line in [
        "Label:         \tmy disk",
        "Subsystem:     \tmine",
        "Priority:   preferred",
    ] {
        assert!(theirs.contains(line), "{theirs}");
    }
    assert_eq!(theirs, dump);
    assert!(bench.opens(&path));
}

/// Space for key material of a chosen size moves the data.
#[test]
fn data_begins_where_it_begins_there() {
    let Some(bench) = Bench::new() else { return };
    for (areas_len, copy_len) in [
        (1 << 20, 16 << 10),
        (20 << 20, 64 << 10),
        (128 << 20, 4 << 20),
    ] {
        let path = bench.image();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(140 << 20).unwrap();
        let line = format!(
            "luksFormat {ARGON2} --luks2-keyslots-size {areas_len} --luks2-metadata-size {copy_len}"
        );
        bench.must(&line, &[&path]);
        let there = open(&path).segment().unwrap().offset;
        let format = ContainerFormat {
            areas_len: Some(areas_len),
            copy_len,
            slot: common::cheap_slot(ContainerVersion::V2),
            ..ContainerFormat::new(ContainerVersion::V2, common::UUID.into())
        };
        let device = Arc::new(FileDevice::open(&path, DeviceAccess::Exclusive).unwrap());
        let made = luks::format(device, &format, &secret(PASSPHRASE), &RANDOM).unwrap();
        assert_eq!(made.0.segment().unwrap().offset, there, "{areas_len}");
        drop(made);
        assert!(bench.opens(&path), "{areas_len}");
    }
}
