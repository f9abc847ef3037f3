//! What this process computes in a second.

use std::hint::black_box;
use std::time::Duration;

use cipher::{AeadAlgorithm, AeadCipher, Digest, Mechanism, Provider, SectorCipher, SectorSpec};
use serde::{Deserialize, Serialize};

use crate::outcome::Result;
use crate::session::other;

/// How long one run goes on at least, in time of this thread: what others do on the machine does not
/// count.
const RUN: Duration = Duration::from_millis(60);

/// How much is sealed in one call.
const CALL: usize = 128 << 10;

/// How much is done between two looks at the clock, each of which takes as long as 4 KiB of AES.
const LOOK: usize = 4 << 20;

/// One thing to measure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) table: &'static str,
    pub(super) name: &'static str,
    /// The length of a sector, or of what is hashed.
    pub(super) size: usize,
    pub(super) work: Work,
    /// What `openssl speed` calls it.
    pub(super) openssl: Option<&'static [&'static str]>,
    /// How many AES rounds a block takes.
    pub(super) rounds: Option<u32>,
}

/// What is done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// Sectors of a cipher with a key of this length.
    Encrypt(&'static str, usize),
    Decrypt(&'static str, usize),
    Seal(AeadAlgorithm),
    Hash(Digest),
    Blake3,
}

/// MB/s of each run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Speed {
    pub(super) median: f64,
    pub(super) runs: Vec<f64>,
}

impl Speed {
    pub(super) fn of(runs: Vec<f64>) -> Option<Speed> {
        let mut sorted = runs.clone();
        sorted.sort_by(f64::total_cmp);
        let median = *sorted.get(sorted.len() / 2)?;
        Some(Speed { median, runs })
    }
}

/// The modes of the article with which this began ("AES-128, 128 KiB"), XTS by the size of sectors,
/// and hashes by length.
pub(super) fn tasks() -> Vec<Task> {
    const MODES: &str = "AES-128 at 128 KiB";
    const XTS: &str = "XTS, 128 KiB a call";
    const HASHES: &str = "Hashes";
    let mode = |name, work, openssl| Task {
        table: MODES,
        name,
        size: CALL,
        work,
        openssl: Some(openssl),
        rounds: Some(10),
    };
    let mut tasks = vec![
        mode("ECB", Work::Encrypt("aes-ecb", 16), &["aes-128-ecb"]),
        mode(
            "CTR",
            Work::Encrypt("aes-ctr-plain64", 16),
            &["aes-128-ctr"],
        ),
        mode(
            "CBC encrypt",
            Work::Encrypt("aes-cbc-plain64", 16),
            &["aes-128-cbc"],
        ),
        mode(
            "CBC decrypt",
            Work::Decrypt("aes-cbc-plain64", 16),
            &["aes-128-cbc", "-decrypt"],
        ),
        mode(
            "GCM",
            Work::Seal(AeadAlgorithm::Aes128Gcm),
            &["aes-128-gcm"],
        ),
    ];
    for size in [512, 4096] {
        for (name, work, openssl, rounds) in [
            (
                "AES-256 encrypt",
                Work::Encrypt("aes-xts-plain64", 64),
                &["aes-256-xts"][..],
                14,
            ),
            (
                "AES-256 decrypt",
                Work::Decrypt("aes-xts-plain64", 64),
                &["aes-256-xts", "-decrypt"],
                14,
            ),
            (
                "AES-128 encrypt",
                Work::Encrypt("aes-xts-plain64", 32),
                &["aes-128-xts"],
                10,
            ),
        ] {
            tasks.push(Task {
                table: XTS,
                name,
                size,
                work,
                openssl: Some(openssl),
                rounds: Some(rounds),
            });
        }
    }
    for (name, work, openssl) in [
        ("SHA-256", Work::Hash(Digest::Sha256), Some(&["sha256"][..])),
        ("SHA-512", Work::Hash(Digest::Sha512), Some(&["sha512"])),
        (
            "SHA3-256",
            Work::Hash(Digest::Sha3_256),
            Some(&["sha3-256"]),
        ),
        ("BLAKE3", Work::Blake3, None),
    ] {
        for size in [1 << 10, 4 << 10, 16 << 10, 128 << 10] {
            tasks.push(Task {
                table: HASHES,
                name,
                size,
                work,
                openssl,
                rounds: None,
            });
        }
    }
    tasks
}

/// Something that does the work once.
type Call = Box<dyn FnMut(&mut [u8])>;

impl Task {
    /// MB/s in one run by this provider; none if it does not have it.
    pub(super) fn run(&self, provider: Provider) -> Result<Option<f64>> {
        let Some(mut call) = self.call(provider).map_err(|e| other(e.to_string()))? else {
            return Ok(None);
        };
        let len = match self.work {
            Work::Hash(_) | Work::Blake3 => self.size,
            _ => CALL,
        };
        let mut data = vec![0x5a; len];
        call(&mut data);
        let (begin, mut calls) = (thread_time(), 0u64);
        while thread_time() - begin < RUN {
            for _ in 0..LOOK / len {
                call(black_box(&mut data));
                calls += 1;
            }
        }
        let bytes = calls as f64 * len as f64;
        Ok(Some(bytes / (thread_time() - begin).as_secs_f64() / 1e6))
    }

    fn call(&self, provider: Provider) -> cipher::Result<Option<Call>> {
        let size = self.size;
        let has = |mechanism: Mechanism| mechanism.providers().contains(&provider);
        Ok(match self.work {
            Work::Encrypt(name, key_len) | Work::Decrypt(name, key_len) => {
                let spec = SectorSpec::parse(name)?;
                let key: Vec<u8> = (0..key_len as u8).collect();
                let cipher = SectorCipher::with_provider(provider, spec, &key)?;
                let encrypts = matches!(self.work, Work::Encrypt(..));
                Some(Box::new(move |data| {
                    let done = match encrypts {
                        true => cipher.encrypt(7, 1, size, data),
                        false => cipher.decrypt(7, 1, size, data),
                    };
                    done.expect("whole sectors");
                }))
            }
            Work::Seal(algorithm) => {
                let key = vec![7; algorithm.key_len()];
                let cipher = AeadCipher::with_provider(provider, algorithm, &key)?;
                let nonce = vec![7; algorithm.nonce_len()];
                Some(Box::new(move |data| {
                    black_box(cipher.seal(&nonce, &[], data).expect("short enough"));
                }))
            }
            Work::Hash(digest) if has(Mechanism::Digest(digest)) => Some(Box::new(move |data| {
                black_box(digest.hash_by(provider, &[data]).expect("is there"));
            })),
            Work::Blake3 if has(Mechanism::Blake3) => Some(Box::new(|data| {
                black_box(cipher::hash(data));
            })),
            _ => None,
        })
    }
}

/// How long this thread has been running.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The processor's clock, in GHz: additions and rotations of which each waits for the one before.
pub(super) fn gigahertz() -> f64 {
    const STEPS: u32 = 4_000_000;
    let best = (0..9)
        .map(|_| {
            let mut x = black_box(0x9e37_79b9_7f4a_7c15u64);
            let begin = thread_time();
            for _ in 0..STEPS {
                // Two operations of a cycle each; no compiler folds them.
                x = x.rotate_left(11).wrapping_add(0x2545_f491_4f6c_dd1d);
            }
            black_box(x);
            thread_time() - begin
        })
        .min()
        .unwrap_or_default();
    f64::from(2 * STEPS) / best.as_nanos().max(1) as f64
}
