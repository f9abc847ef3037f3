//! The measurements of `crypto bench`: the tables of the articles with which this began, and more.

mod memory;

use cipher::{AeadAlgorithm, Digest};

use super::measure::{CALL, CipherTask, CipherWork, DataLayout};
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
            BenchTable::Sha256 => hashes(
                self,
                &HASHED,
                &[(
                    "SHA-256",
                    CipherWork::Hash(Digest::Sha256),
                    Some(&["sha256"]),
                )],
            ),
            BenchTable::Hashes => hashes(
                self,
                &[1 << 10, 4 << 10, 16 << 10, CALL],
                &[
                    (
                        "SHA-512",
                        CipherWork::Hash(Digest::Sha512),
                        Some(&["sha512"]),
                    ),
                    (
                        "SHA3-256",
                        CipherWork::Hash(Digest::Sha3_256),
                        Some(&["sha3-256"]),
                    ),
                    ("BLAKE3", CipherWork::Blake3, None),
                ],
            ),
            BenchTable::Memory => Vec::new(),
        }
    }
}

/// A name, what is done, and what `openssl speed` calls it.
type TableLine = (&'static str, CipherWork, Option<&'static [&'static str]>);

const MODES: [TableLine; 8] = [
    (
        "ECB encrypt",
        CipherWork::Encrypt("aes-ecb", 16),
        Some(&["aes-128-ecb"]),
    ),
    (
        "ECB decrypt",
        CipherWork::Decrypt("aes-ecb", 16),
        Some(&["aes-128-ecb", "-decrypt"]),
    ),
    (
        "CTR encrypt",
        CipherWork::Encrypt("aes-ctr-plain64", 16),
        Some(&["aes-128-ctr"]),
    ),
    (
        "CTR decrypt",
        CipherWork::Decrypt("aes-ctr-plain64", 16),
        Some(&["aes-128-ctr", "-decrypt"]),
    ),
    (
        "CBC encrypt",
        CipherWork::Encrypt("aes-cbc-plain64", 16),
        Some(&["aes-128-cbc"]),
    ),
    (
        "CBC decrypt",
        CipherWork::Decrypt("aes-cbc-plain64", 16),
        Some(&["aes-128-cbc", "-decrypt"]),
    ),
    ("GCM encrypt", CipherWork::Seal(GCM), Some(&["aes-128-gcm"])),
    (
        "GCM decrypt",
        CipherWork::Open(GCM),
        Some(&["aes-128-gcm", "-decrypt"]),
    ),
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
        (
            "CBC decrypt",
            CipherWork::Decrypt("aes-cbc-plain64", 16),
            4096,
        ),
        (
            "XTS encrypt",
            CipherWork::Encrypt("aes-xts-plain64", 32),
            4096,
        ),
        ("GCM encrypt", CipherWork::Seal(GCM), CALL),
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
    const XTS: &str = "aes-xts-plain64";
    let lines: [(TableLine, u32); 4] = [
        (
            (
                "AES-256 encrypt",
                CipherWork::Encrypt(XTS, 64),
                Some(&["aes-256-xts"]),
            ),
            14,
        ),
        (
            (
                "AES-256 decrypt",
                CipherWork::Decrypt(XTS, 64),
                Some(&["aes-256-xts", "-decrypt"]),
            ),
            14,
        ),
        (
            (
                "AES-128 encrypt",
                CipherWork::Encrypt(XTS, 32),
                Some(&["aes-128-xts"]),
            ),
            10,
        ),
        (
            (
                "AES-128 decrypt",
                CipherWork::Decrypt(XTS, 32),
                Some(&["aes-128-xts", "-decrypt"]),
            ),
            10,
        ),
    ];
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
    lines.into_iter().flat_map(sizes).collect()
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
