//! The Linux kernel's dm-crypt over dm-integrity, and cryptsetup, as the judges of authenticated sectors:
//! what is made, written and left behind here is read there, and the other way round.

use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::machine::{machine, modules, run, run_or_die};
use crate::common::{RANDOM, cheap_slot, hex_hash, secret};
use block::fault::{FaultClock, FaultDevice, Survival};
use block::{BlockDevice, DeviceAccess, FileDevice};
use luks::{Container, ContainerFormat, ContainerVersion, Error, Mapping, MappingFlags};

const PASSPHRASE: &str = "correct horse";
const DATA_OFFSET: u64 = 4 << 20;
/// With space for tags of 64 bytes for each 512.
const DEVICE_LEN: u64 = DATA_OFFSET + (4 << 20);

struct Case {
    cipher: &'static str,
    integrity: &'static str,
    key_len: usize,
    sector: u32,
}

const fn case(cipher: &'static str, integrity: &'static str, key_len: usize, sector: u32) -> Case {
    Case {
        cipher,
        integrity,
        key_len,
        sector,
    }
}

const CASES: [Case; 9] = [
    case("aes-xts-plain64", "hmac-sha256", 64, 4096),
    case("aes-xts-plain64", "hmac-sha256", 64, 512),
    case("aes-xts-random", "hmac-sha256", 64, 512),
    case("aes-xts-plain64", "hmac-sha512", 32, 4096),
    case("aes-cbc-essiv:sha256", "hmac-sha256", 32, 512),
    case("aes-gcm-random", "aead", 32, 4096),
    case("aes-gcm-random", "aead", 16, 512),
    case("aes-ccm-random", "aead", 35, 512),
    case("chacha20-random", "poly1305", 32, 4096),
];

impl Case {
    fn name(&self) -> String {
        format!("{} {} {}", self.cipher, self.integrity, self.sector)
    }

    fn format(&self) -> ContainerFormat {
        ContainerFormat {
            cipher: self.cipher.into(),
            key_len: self.key_len,
            integrity: Some(luks::integrity_type(self.integrity).unwrap().into()),
            sector_size: self.sector,
            data_offset: Some(DATA_OFFSET),
            slot: cheap_slot(ContainerVersion::V2),
            ..ContainerFormat::new(ContainerVersion::V2, crate::common::UUID.into())
        }
    }

    /// The command with which cryptsetup makes this.
    fn luks_format(&self, device: &str, more: &str) -> String {
        format!(
            "cryptsetup luksFormat -q --type luks2 --key-file /in/key --pbkdf pbkdf2 \
             --pbkdf-force-iterations 1000 --offset {} --cipher {} --key-size {} --integrity {} \
             --sector-size {} {more} {device}\n",
            DATA_OFFSET / 512,
            self.cipher,
            self.key_len * 8,
            self.integrity,
            self.sector
        )
    }
}

/// A directory with a key file, the machine, and what it has to load for AEADs.
struct Bench {
    machine: PathBuf,
    dir: tempfile::TempDir,
    modules: Vec<PathBuf>,
}

impl Bench {
    fn new() -> Option<Bench> {
        let machine = machine()?;
        let aeads = [
            "algif_aead",
            "gcm",
            "ccm",
            "chacha_generic",
            "poly1305_generic",
            "chacha20poly1305",
        ];
        let Some(modules) = modules(&aeads) else {
            eprintln!(
                "skipped: the machine's kernel has no modules for AEADs, or there is no modprobe"
            );
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("key"), PASSPHRASE).unwrap();
        Some(Bench {
            machine,
            dir,
            modules,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn image(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        FileDevice::create(&path, DEVICE_LEN).unwrap();
        path
    }

    fn run(&self, images: &[PathBuf], more: &[PathBuf], script: &str) -> (String, bool) {
        let key = self.path("key");
        let files: Vec<&Path> = [&key]
            .into_iter()
            .chain(&self.modules)
            .chain(more)
            .map(PathBuf::as_path)
            .collect();
        let names = self.modules.iter().filter_map(|path| path.file_name());
        let load: String = names
            .map(|name| format!("insmod /in/{} 2>/dev/null\n", name.display()))
            .collect();
        run_or_die(
            &self.machine,
            images,
            &files,
            &format!("{load}set -e\n{script}"),
        )
    }
}

fn device(path: &Path) -> Arc<dyn BlockDevice> {
    Arc::new(FileDevice::open(path, DeviceAccess::Exclusive).unwrap())
}

fn open(device: Arc<dyn BlockDevice>, flags: MappingFlags) -> luks::Result<Mapping> {
    let container = Container::open(Arc::clone(&device), &RANDOM)?;
    let key = container.unlock(&secret(PASSPHRASE), None)?.key;
    Mapping::open(&container, device, &key, flags)
}

fn mapping(path: &Path) -> Mapping {
    open(device(path), MappingFlags::default()).unwrap()
}

fn all(mapping: &Mapping) -> Vec<u8> {
    let mut data = vec![0; mapping.size() as usize];
    mapping.read_at(0, &mut data).unwrap();
    data
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|n| (n / 7) as u8 ^ (n >> 12) as u8 ^ seed)
        .collect()
}

#[test]
fn the_kernel_reads_and_writes_what_is_made_here() {
    let Some(bench) = Bench::new() else { return };
    let mut images = Vec::new();
    let mut contents = Vec::new();
    for (n, case) in CASES.iter().enumerate() {
        let path = bench.image(&format!("image{n}"));
        let (container, key) =
            luks::format(device(&path), &case.format(), &secret(PASSPHRASE), &RANDOM).unwrap();
        luks::wipe(&container, &key, &mut |_, _| true).unwrap();
        drop(container);
        let mapping = mapping(&path);
        // What is not written here is zeros, by the wipe.
        let mut content = pattern(1 << 20, n as u8);
        mapping.write_at(0, &[IoSlice::new(&content)]).unwrap();
        mapping.flush().unwrap();
        content.resize(mapping.size() as usize, 0);
        images.push(path);
        contents.push(content);
    }
    let script = "for d in /dev/vd?; do\n\
        cryptsetup open --key-file /in/key $d x\n\
        sha256sum < /dev/mapper/x | cut -d' ' -f1\n\
        dd if=/dev/mapper/x of=/tmp/some bs=64k count=8 skip=3 2>/dev/null\n\
        dd if=/tmp/some of=/dev/mapper/x bs=64k seek=9 conv=notrunc,fsync 2>/dev/null\n\
        cryptsetup close x\n\
        done";
    let (said, has_ended) = bench.run(&images, &[], script);
    let read: Vec<&str> = said.lines().filter(|line| line.len() == 64).collect();
    for ((case, path), (content, read)) in CASES
        .iter()
        .zip(&images)
        .zip(contents.iter_mut().zip(&read))
    {
        assert_eq!(
            *read,
            hex_hash(content),
            "what the kernel reads, {}",
            case.name()
        );
        content.copy_within(3 << 16..11 << 16, 9 << 16);
        assert!(
            all(&mapping(path)) == *content,
            "what the kernel wrote, {}",
            case.name()
        );
    }
    assert!(has_ended && read.len() == CASES.len(), "{said}");
}

#[test]
fn what_cryptsetup_makes_is_read_and_written_here() {
    let Some(bench) = Bench::new() else { return };
    let content = pattern(1 << 20, 0x55);
    let source = bench.path("source");
    std::fs::write(&source, &content).unwrap();
    // The last two: as old kernels made them, and not wiped.
    let last = [
        (&CASES[1], "--integrity-legacy-padding"),
        (&CASES[5], "--integrity-no-wipe"),
    ];
    let cases: Vec<_> = CASES.iter().map(|case| (case, "")).chain(last).collect();
    let (mut images, mut script) = (Vec::new(), String::new());
    for (n, (case, more)) in cases.iter().enumerate() {
        let disk = format!("/dev/vd{}", char::from(b'a' + n as u8));
        images.push(bench.image(&format!("image{n}")));
        script += &case.luks_format(&disk, more);
        script += &format!(
            "cryptsetup open --key-file /in/key {disk} x\n\
             dd if=/in/source of=/dev/mapper/x bs=64k conv=notrunc,fsync 2>/dev/null\n\
             echo size $(blockdev --getsize64 /dev/mapper/x)\n\
             cryptsetup close x\n"
        );
    }
    let (said, has_ended) = bench.run(&images, &[source], &script);
    assert!(has_ended, "{said}");
    let sizes = said.lines().filter_map(|line| line.strip_prefix("size "));
    for (((case, more), path), size) in cases.iter().zip(&images).zip(sizes) {
        let name = format!("{} {more}", case.name());
        let mapping = mapping(path);
        assert_eq!(mapping.size().to_string(), size, "{name}");
        let mut read = vec![0; content.len()];
        mapping.read_at(0, &mut read).unwrap();
        assert!(read == content, "{name}");
        let last = mapping.size() - 65536;
        let mut end = vec![1; 65536];
        let never_written = mapping.read_at(last, &mut end);
        match *more {
            "--integrity-no-wipe" => {
                let refused = never_written.unwrap_err();
                let is_own = matches!(refused, block::Error::Unauthentic { .. });
                assert!(is_own, "{name}: {refused}");
            }
            _ => assert_eq!(end, [0; 65536], "{name}"),
        }
        mapping
            .write_at(last, &[IoSlice::new(&read[..65536])])
            .unwrap();
    }
    let script = "for d in /dev/vd?; do\n\
        cryptsetup open --key-file /in/key $d x\n\
        tail -c 65536 /dev/mapper/x | sha256sum | cut -d' ' -f1\n\
        cryptsetup close x\n\
        done";
    let (said, has_ended) = bench.run(&images, &[], script);
    let read: Vec<&str> = said.lines().filter(|line| line.len() == 64).collect();
    assert!(has_ended && read.len() == cases.len(), "{said}");
    assert!(
        read.iter().all(|hash| *hash == hex_hash(&content[..65536])),
        "{said}"
    );
}

/// The kernel carries its journal out late: when the machine stops, what was synced is only there.
#[test]
fn what_a_machine_that_stopped_left_in_its_journal_is_found() {
    let Some(bench) = Bench::new() else { return };
    let cases = [&CASES[0], &CASES[6]];
    let content = pattern(128 << 10, 0x77);
    let source = bench.path("source");
    std::fs::write(&source, &content).unwrap();
    let (mut images, mut script) = (Vec::new(), String::new());
    for (n, case) in cases.into_iter().enumerate() {
        let disk = format!("/dev/vd{}", char::from(b'a' + n as u8));
        images.push(bench.image(&format!("image{n}")));
        script += &case.luks_format(&disk, "");
        script += &format!(
            "cryptsetup open --key-file /in/key {disk} x{n}\n\
             dd if=/in/source of=/dev/mapper/x{n} bs=16k seek=5 conv=notrunc,fsync 2>/dev/null\n"
        );
    }
    script += "echo written\necho 1 > /proc/sys/kernel/sysrq\nsync\necho b > /proc/sysrq-trigger\nsleep 60";
    let (said, has_ended) = bench.run(&images, &[source], &script);
    assert!(said.contains("written") && !has_ended, "{said}");
    for (case, path) in cases.into_iter().zip(&images) {
        let read_only = MappingFlags {
            read_only: true,
            ..MappingFlags::default()
        };
        let refused = open(device(path), read_only).map(drop);
        assert!(
            matches!(refused, Err(Error::Unsupported { .. })),
            "nothing was left in the journal: {}",
            case.name()
        );
        let found = all(&mapping(path));
        let at = 5 << 14;
        assert!(found[at..at + content.len()] == content, "{}", case.name());
        assert!(found[..at].iter().all(|byte| *byte == 0), "{}", case.name());
    }
}

#[test]
fn the_kernel_carries_out_what_is_left_here() {
    let Some(bench) = Bench::new() else { return };
    let case = &CASES[0];
    let path = bench.image("image");
    let (container, key) =
        luks::format(device(&path), &case.format(), &secret(PASSPHRASE), &RANDOM).unwrap();
    luks::wipe(&container, &key, &mut |_, _| true).unwrap();
    drop(container);
    let clock = FaultClock::new();
    let fault = Arc::new(FaultDevice::from_bytes(
        std::fs::read(&path).unwrap(),
        &clock,
    ));
    let open = open(
        Arc::clone(&fault) as Arc<dyn BlockDevice>,
        MappingFlags::default(),
    )
    .unwrap();
    fault.take_journal();
    // All that fits in the one section that the journal of so small a device has.
    let content = pattern(32 * 4096, 0x33);
    open.write_at(4096, &[IoSlice::new(&content)]).unwrap();
    open.flush().unwrap();
    let journal = fault.take_journal();
    let behind_flush = journal.times()[2];
    let image = journal.image(behind_flush, Survival::None);
    assert_ne!(image, fault.to_bytes(), "it was not carried out in place");
    std::fs::write(&path, image).unwrap();
    let script = "cryptsetup open --key-file /in/key /dev/vda x\n\
        dd if=/dev/mapper/x bs=4k skip=1 count=32 2>/dev/null | sha256sum | cut -d' ' -f1\n\
        cryptsetup close x";
    let said = run(
        &bench.machine,
        std::slice::from_ref(&path),
        &[&bench.path("key")],
        script,
    );
    assert!(said.contains(&hex_hash(&content)), "{said}");
    let mut found = vec![0; content.len()];
    mapping(&path).read_at(4096, &mut found).unwrap();
    assert!(
        found == content,
        "the kernel emptied the journal, and wrote it in place"
    );
}
