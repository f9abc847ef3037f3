//! Containers in re-encryption, and cryptsetup as the judge of them.

use std::io::IoSlice;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{BlockDevice, MemoryDevice};
use luks::{Container, ContainerFormat, ContainerVersion, Mapping, MappingFlags, format};

use super::{RANDOM, secret};

pub(crate) const SIZE: usize = 8 << 20;
pub(crate) const DATA: u64 = 4 << 20;
pub(crate) const HERE: MappingFlags = MappingFlags {
    read_only: false,
    allow_discards: false,
    read_workqueue: false,
    write_workqueue: false,
    same_cpu: false,
    sort_writes: false,
    no_journal: false,
    recovery: false,
};

/// Bytes that say where they are.
pub(crate) fn pattern() -> Vec<u8> {
    let words = (0..(SIZE as u64 - DATA) / 8).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.flat_map(u64::to_le_bytes).collect()
}

/// A container with the pattern in it.
pub(crate) fn made(sector_size: u32) -> Vec<u8> {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(SIZE));
    let how = ContainerFormat {
        data_offset: Some(DATA),
        sector_size,
        slot: super::cheap_slot(ContainerVersion::V2),
        ..ContainerFormat::new(ContainerVersion::V2, super::UUID.into())
    };
    let (container, key) = format(Arc::clone(&device), &how, &secret("first"), &RANDOM).unwrap();
    let mapping = Mapping::open(&container, device, &key, HERE).unwrap();
    mapping.write_at(0, &[IoSlice::new(&pattern())]).unwrap();
    super::bytes(&container)
}

/// cryptsetup, and strace to kill it at a system call.
pub(crate) struct Judge {
    dir: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

/// cryptsetup works on one container of a UUID at a time.
static ALONE: Mutex<()> = Mutex::new(());

impl Judge {
    pub(crate) fn new() -> Option<Judge> {
        for (tool, option) in [("cryptsetup", "--version"), ("strace", "-V")] {
            if Command::new(tool).arg(option).output().is_err() {
                eprintln!("skipped: there is no {tool}");
                return None;
            }
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("key"), "first").unwrap();
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Judge { dir, _alone: alone })
    }

    fn command(&self, program: &mut Command, options: &str) -> Output {
        program
            .args("reencrypt --batch-mode --force-offline-reencrypt".split(' '))
            .args("--pbkdf pbkdf2 --pbkdf-force-iterations 1000 --hotzone-size 1M".split(' '))
            .arg("--key-file")
            .arg(self.dir.path().join("key"))
            .args(options.split_whitespace())
            .arg(self.dir.path().join("image"))
            .current_dir(self.dir.path())
            .output()
            .unwrap()
    }

    /// Puts the image where the command finds it; a header that is elsewhere too, as `header`.
    pub(crate) fn place(&self, disks: &Disks) {
        std::fs::write(self.dir.path().join("image"), &disks.data).unwrap();
        let header = self.dir.path().join("header");
        match &disks.header {
            Some(bytes) => std::fs::write(header, bytes).unwrap(),
            None => drop(std::fs::remove_file(header)),
        }
    }

    fn taken(&self) -> Disks {
        Disks {
            data: std::fs::read(self.dir.path().join("image")).unwrap(),
            header: std::fs::read(self.dir.path().join("header")).ok(),
        }
    }

    /// After `cryptsetup reencrypt` with these options.
    pub(crate) fn run_on(&self, disks: &Disks, options: &str) -> Result<Disks, String> {
        self.place(disks);
        let output = self.command(&mut Command::new("cryptsetup"), options);
        let said = String::from_utf8_lossy(&output.stderr);
        let ended = output.status.success().then(|| self.taken());
        ended.ok_or(format!("{options}: {said}"))
    }

    pub(crate) fn run(&self, image: &[u8], options: &str) -> Result<Vec<u8>, String> {
        let disks = Disks::of(image);
        self.run_on(&disks, options).map(|ended| ended.data)
    }

    /// After cryptsetup has put the hot zone right.
    pub(crate) fn recovered_on(&self, disks: &Disks) -> Result<Disks, String> {
        self.place(disks);
        let mut repair = Command::new("cryptsetup");
        repair.args(["repair", "--batch-mode", "--key-file"]);
        repair.arg(self.dir.path().join("key"));
        if disks.header.is_some() {
            repair.args(["--header", "header"]);
        }
        repair.current_dir(self.dir.path());
        let output = repair.arg("image").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let ended = output.status.success().then(|| self.taken());
        ended.ok_or(format!("repair: {said}"))
    }

    pub(crate) fn recovered(&self, image: &[u8]) -> Result<Vec<u8>, String> {
        self.recovered_on(&Disks::of(image)).map(|disks| disks.data)
    }

    /// Runs cryptsetup until it is killed at this call of `fsync`; `None` if it ended before.
    pub(crate) fn killed_on(&self, disks: &Disks, options: &str, when: usize) -> Option<Disks> {
        self.place(disks);
        let mut strace = Command::new("strace");
        strace
            .args(["-f", "-o", "/dev/null", "-e", "trace=fsync", "-e"])
            .arg(format!("inject=fsync:signal=KILL:when={when}"))
            .arg("cryptsetup");
        let ended = self.command(&mut strace, options).status.success();
        (!ended).then(|| self.taken())
    }

    pub(crate) fn killed(&self, image: &[u8], options: &str, when: usize) -> Option<Vec<u8>> {
        let killed = self.killed_on(&Disks::of(image), options, when);
        killed.map(|disks| disks.data)
    }
}

/// The devices of a container: the data, and the header if it is on another device.
#[derive(Clone)]
pub(crate) struct Disks {
    pub(crate) data: Vec<u8>,
    pub(crate) header: Option<Vec<u8>>,
}

impl Disks {
    fn of(image: &[u8]) -> Disks {
        Disks {
            data: image.to_vec(),
            header: None,
        }
    }
}

pub(crate) fn open(
    image: &[u8],
    flags: MappingFlags,
) -> luks::Result<(Arc<MemoryDevice>, Mapping)> {
    let device = Arc::new(MemoryDevice::from_bytes(image.to_vec()));
    let data: Arc<dyn BlockDevice> = Arc::clone(&device) as _;
    let mut container = Container::open(Arc::clone(&data), &RANDOM)?;
    if !container.is_in_reencryption() {
        let key = container.unlock(&secret("first"), None)?.key;
        return Ok((device, Mapping::open(&container, data, &key, flags)?));
    }
    let keys = container.unlock_both(&secret("first"))?;
    let opened = Mapping::open_in_reencryption(&mut container, data, &keys, flags, &RANDOM);
    Ok((device, opened?))
}

pub(crate) fn image_of(device: &MemoryDevice) -> Vec<u8> {
    let mut bytes = vec![0; SIZE];
    device.read_at(0, &mut bytes).unwrap();
    bytes
}

pub(crate) fn read(mapping: &Mapping) -> Vec<u8> {
    let mut bytes = vec![0; mapping.size() as usize];
    mapping.read_at(0, &mut bytes).unwrap();
    bytes
}

pub(crate) fn is_in_reencryption(image: &[u8]) -> bool {
    let device = Arc::new(MemoryDevice::from_bytes(image.to_vec()));
    Container::look(device).unwrap().is_in_reencryption()
}

pub(crate) type Edit = fn(&mut serde_json::Value);

/// A header that is edited, with its checksums right.
pub(crate) fn edited(image: &[u8], edit: impl Fn(&mut serde_json::Value)) -> Vec<u8> {
    const COPY: usize = 0x4000;
    let mut image = image.to_vec();
    for copy in [0, COPY] {
        let area = &mut image[copy..copy + COPY];
        let end = 4096 + area[4096..].iter().position(|byte| *byte == 0).unwrap();
        let mut json = serde_json::from_slice(&area[4096..end]).unwrap();
        edit(&mut json);
        let text = json.to_string();
        area[4096..].fill(0);
        area[4096..][..text.len()].copy_from_slice(text.as_bytes());
        area[448..512].fill(0);
        let sum = cipher::Digest::Sha256.hash(&[area]);
        area[448..][..sum.len()].copy_from_slice(&sum);
    }
    image
}
