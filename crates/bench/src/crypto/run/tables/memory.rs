//! The memory that a large message takes: the article found a framework that kept all of it until its end.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::time::Instant;

use cipher::{AeadAlgorithm, AeadCipher, SectorCipher, SectorSpec};
use console::outcome::Result;
use console::session::other;
use serde::{Deserialize, Serialize};

/// The length of the message, in bytes.
const LEN: u64 = 4 << 30;

const KEY: [u8; 16] = [7; 16];
const NONCE: [u8; 12] = [7; 12];

/// The time to decrypt a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memory {
    /// The length of the message, in bytes.
    pub(crate) message: u64,
    /// The growth of the process meanwhile, in bytes; none where the kernel does not count it.
    pub(crate) growth: Option<u64>,
    pub(crate) seconds: f64,
}

/// Decrypts a message of 4 GiB with AES-128-GCM. Not a byte goes out before all of it is authentic.
pub(crate) fn decrypt_large() -> Result<Memory> {
    let failed = |error: io::Error| other(format!("a message of 4 GiB: {error}"));
    let begin = || -> cipher::Result<(AeadCipher, SectorCipher)> {
        let counter = SectorCipher::new(SectorSpec::parse("aes-ctr-plain64")?, &KEY)?;
        Ok((AeadCipher::new(AeadAlgorithm::Aes128Gcm, &KEY)?, counter))
    };
    let (cipher, counter) = begin().map_err(|error| other(error.to_string()))?;
    let mut zeros = io::repeat(0).take(LEN);
    let tag = cipher.seal_stream(&NONCE, &[], &mut zeros, &mut io::sink());
    let tag = tag.map_err(failed)?;

    let (mut ciphertext, mut plaintext) = (Ciphertext { counter, at: 0 }, Zeros(0));
    // The kernel counts the peak from here on.
    let is_counted = fs::write("/proc/self/clear_refs", "5").is_ok();
    let (before, begin) = (kib("VmRSS:"), Instant::now());
    let opened = cipher.open_stream(&NONCE, &[], &tag, &mut ciphertext, &mut plaintext);
    opened.map_err(failed)?;
    let seconds = begin.elapsed().as_secs_f64();
    let after = kib("VmHWM:").filter(|_| is_counted);
    if plaintext.0 != LEN {
        return Err(other("a message of 4 GiB was not decrypted to its end"));
    }
    Ok(Memory {
        message: LEN,
        growth: after
            .zip(before)
            .map(|(after, before)| 1024 * after.saturating_sub(before)),
        seconds,
    })
}

/// A line of the state of this process, in KiB.
fn kib(name: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The output of AES-GCM for zeros, computed where it is read: it encrypts in counter mode, from 2 on.
struct Ciphertext {
    counter: SectorCipher,
    at: u64,
}

impl Read for Ciphertext {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = (buffer.len() as u64).min(LEN - self.at) as usize / 16 * 16;
        if len == 0 {
            return Ok(0);
        }
        let mut block = [0; 16];
        block[..12].copy_from_slice(&NONCE);
        block[12..].copy_from_slice(&(2 + (self.at / 16) as u32).to_be_bytes());
        buffer[..len].fill(0);
        let done = self.counter.encrypt_with(&block, &mut buffer[..len]);
        done.map_err(io::Error::other)?;
        self.at += len as u64;
        Ok(len)
    }
}

impl Seek for Ciphertext {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::Current(0) => self.at,
            _ => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(self.at)
    }
}

/// Counts zeros, and takes nothing else.
struct Zeros(u64);

impl Write for Zeros {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if data.iter().any(|byte| *byte != 0) {
            return Err(io::Error::other(
                "it was not decrypted to what was encrypted",
            ));
        }
        self.0 += data.len() as u64;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
