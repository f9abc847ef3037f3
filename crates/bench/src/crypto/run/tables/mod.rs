//! The measurements of `crypto bench`: the tables of the articles with which this began, and more.

mod memory;

use cipher::{AeadAlgorithm, Digest};

use super::measure::CipherWork::{self, Blake3, Decrypt, Encrypt, Hash, Open, Seal};
use super::measure::{CALL, CipherTask, DataLayout};
use crate::crypto::args::BenchTable;
pub(super) use memory::{Memory, decrypt_large};

/// The lengths of messages in the article on the kernel's framework, whose tables end with 8 KiB and 128 KiB.
const MESSAGES: [usize; 6] = [16, 64, 256, 1024, 8192, CALL];

const HASHED: [usize; 8] = [
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    CALL,
];

const GCM: AeadAlgorithm = AeadAlgorithm::Aes128Gcm;

impl BenchTable {
    /// The head of the table.
    pub(super) fn title(self) -> &'static str {
        match self {
            BenchTable::Modes => "AES-128, one message a call",
            BenchTable::Layout => "AES-128, 128 KiB a call, by the place of the data",
            BenchTable::Xts => "XTS, 128 KiB a call, by the length of sectors",
            BenchTable::Sha256 => "SHA-256",
            BenchTable::Hashes => "Hashes",
            BenchTable::Memory => "Memory",
        }
    }

    /// Returns whether people read times in it, and not rates.
    pub(super) fn has_times(self) -> bool {
        self == BenchTable::Sha256
    }

    /// The lines of the table.
    pub(super) fn tasks(self) -> Vec<CipherTask> {
        match self {
            BenchTable::Modes => modes(),
            BenchTable::Layout => layouts(),
            BenchTable::Xts => xts(),
            BenchTable::Sha256 => hashes(self, &HASHED, &[SHA_256]),
            BenchTable::Hashes => hashes(self, &[1 << 10, 4 << 10, 16 << 10, CALL], &HASHES),
            BenchTable::Memory => Vec::new(),
        }
    }
}

/// A name, what is done, and what `openssl speed` calls it.
type TableLine = (&'static str, CipherWork, Option<&'static [&'static str]>);

const SHA_256: TableLine = ("SHA-256", Hash(Digest::Sha256), Some(&["sha256"]));

#[rustfmt::skip]
const HASHES: [TableLine; 3] = [
    ("SHA-512", Hash(Digest::Sha512), Some(&["sha512"])),
    ("SHA3-256", Hash(Digest::Sha3_256), Some(&["sha3-256"])),
    ("BLAKE3", Blake3, None),
];

const XTS: &str = "aes-xts-plain64";

#[rustfmt::skip]
const MODES: [TableLine; 8] = [
    ("ECB encrypt", Encrypt("aes-ecb", 16), Some(&["aes-128-ecb"])),
    ("ECB decrypt", Decrypt("aes-ecb", 16), Some(&["aes-128-ecb", "-decrypt"])),
    ("CTR encrypt", Encrypt("aes-ctr-plain64", 16), Some(&["aes-128-ctr"])),
    ("CTR decrypt", Decrypt("aes-ctr-plain64", 16), Some(&["aes-128-ctr", "-decrypt"])),
    ("CBC encrypt", Encrypt("aes-cbc-plain64", 16), Some(&["aes-128-cbc"])),
    ("CBC decrypt", Decrypt("aes-cbc-plain64", 16), Some(&["aes-128-cbc", "-decrypt"])),
    ("GCM encrypt", Seal(GCM), Some(&["aes-128-gcm"])),
    ("GCM decrypt", Open(GCM), Some(&["aes-128-gcm", "-decrypt"])),
];

/// The lines with XTS, and the AES rounds of each.
#[rustfmt::skip]
const XTS_MODES: [(TableLine, u32); 4] = [
    (("AES-256 encrypt", Encrypt(XTS, 64), Some(&["aes-256-xts"])), 14),
    (("AES-256 decrypt", Decrypt(XTS, 64), Some(&["aes-256-xts", "-decrypt"])), 14),
    (("AES-128 encrypt", Encrypt(XTS, 32), Some(&["aes-128-xts"])), 10),
    (("AES-128 decrypt", Decrypt(XTS, 32), Some(&["aes-128-xts", "-decrypt"])), 10),
];

fn modes() -> Vec<CipherTask> {
    let line = |(name, work, openssl): TableLine| {
        MESSAGES.map(|size| CipherTask {
            table: BenchTable::Modes,
            name,
            size,
            call: size,
            layout: DataLayout::Whole,
            work,
            openssl,
            rounds: Some(10),
        })
    };
    MODES.into_iter().flat_map(line).collect()
}

/// OpenSSL measures aligned data in one place only.
fn layouts() -> Vec<CipherTask> {
    let lines = [
        ("CBC decrypt", Decrypt("aes-cbc-plain64", 16), 4096),
        ("XTS encrypt", Encrypt(XTS, 32), 4096),
        ("GCM encrypt", Seal(GCM), CALL),
    ];
    let line = |(name, work, size)| {
        [
            DataLayout::Whole,
            DataLayout::Unaligned,
            DataLayout::Scattered,
        ]
        .map(|layout| CipherTask {
            table: BenchTable::Layout,
            name,
            size,
            call: CALL,
            layout,
            work,
            openssl: None,
            rounds: Some(10),
        })
    };
    lines.into_iter().flat_map(line).collect()
}

fn xts() -> Vec<CipherTask> {
    let sizes = |((name, work, openssl), rounds): (TableLine, u32)| {
        [512, 4096].map(|size| CipherTask {
            table: BenchTable::Xts,
            name,
            size,
            call: CALL,
            layout: DataLayout::Whole,
            work,
            openssl,
            rounds: Some(rounds),
        })
    };
    XTS_MODES.into_iter().flat_map(sizes).collect()
}

fn hashes(table: BenchTable, sizes: &[usize], lines: &[TableLine]) -> Vec<CipherTask> {
    let line = |(name, work, openssl): &TableLine| {
        let (name, work, openssl) = (*name, *work, *openssl);
        sizes.iter().map(move |size| CipherTask {
            table,
            name,
            size: *size,
            call: *size,
            layout: DataLayout::Whole,
            work,
            openssl,
            rounds: None,
        })
    };
    lines.iter().flat_map(line).collect()
}
