//! Measurements of ciphers in this process.

use std::hint::black_box;
use std::time::Duration;

use cipher::{
    AeadAlgorithm, AeadCipher, Digest, Mechanism, NONCE_LEN, Provider, RecordCipher, SectorCipher,
    SectorMode, SectorSpec, Suite,
};
use console::outcome::Result;
use console::session::other;
use serde::{Deserialize, Serialize};

use crate::crypto::args::BenchTable;

/// The time that one run goes on at least, in time of this thread. Work of other threads does not count.
const RUN: Duration = Duration::from_millis(60);

/// The time that `crypto providers --rate` measures each.
const MOMENT: Duration = Duration::from_millis(15);

/// The largest call, and the usual one.
pub(super) const CALL: usize = 128 << 10;

/// The byte that data is filled with.
const FILL: u8 = 0x5a;

/// The bytes between two looks at the clock, each of which takes as long as 4 KiB of AES.
const LOOK: usize = 4 << 20;

/// A measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct CipherTask {
    pub(super) table: BenchTable,
    pub(super) name: &'static str,
    /// The length of a sector, of a message, or of what is hashed.
    pub(super) size: usize,
    /// The bytes of a call.
    pub(super) call: usize,
    pub(super) layout: DataLayout,
    pub(super) work: CipherWork,
    /// The names in `openssl speed`.
    pub(super) openssl: Option<&'static [&'static str]>,
    /// The number of AES that rounds a block takes.
    pub(super) rounds: Option<u32>,
}

/// The position of the data of a call in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataLayout {
    /// In one place, which begins where every vector may begin.
    Whole,
    /// In one place, one byte further.
    Unaligned,
    /// In pieces of an odd length.
    Scattered,
}

impl DataLayout {
    /// The suffix of a name.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            DataLayout::Whole => "",
            DataLayout::Unaligned => ", unaligned",
            DataLayout::Scattered => ", scattered",
        }
    }
}

/// The operation that is measured.
#[derive(Clone, Copy, Debug)]
pub(super) enum CipherWork {
    /// Sectors of a cipher with a key of this length.
    Encrypt(&'static str, usize),
    Decrypt(&'static str, usize),
    Seal(AeadAlgorithm),
    Open(AeadAlgorithm),
    Hash(Digest),
    Blake3,
}

/// MB/s of each run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RunSpeed {
    pub(super) median: f64,
    pub(super) runs: Vec<f64>,
}

impl RunSpeed {
    pub(super) fn of(runs: Vec<f64>) -> Option<RunSpeed> {
        let mut sorted = runs.clone();
        sorted.sort_by(f64::total_cmp);
        let median = *sorted.get(sorted.len() / 2)?;
        Some(RunSpeed { median, runs })
    }
}

/// A function that does the work once, over data in one or several places.
type CipherCall = Box<dyn FnMut(&mut [&mut [u8]])>;

/// The length of scattered pieces: odd, and less than a sector of 4 KiB.
const SCATTERED: usize = 4001;

impl CipherTask {
    /// MB/s in one run by this provider; none if it does not have it.
    pub(super) fn run(&self, provider: Provider) -> Result<Option<f64>> {
        let failed = |error: cipher::Error| other(error.to_string());
        let Some(call) = self.call(provider).map_err(failed)? else {
            return Ok(None);
        };
        Ok(Some(time(call, self.call, self.layout, RUN)))
    }

    fn call(&self, provider: Provider) -> cipher::Result<Option<CipherCall>> {
        let has = |mechanism: Mechanism| mechanism.providers().contains(&provider);
        Ok(match self.work {
            CipherWork::Encrypt(name, key_len) => {
                let spec = SectorSpec::parse(name)?;
                Some(sectors(provider, spec, key_len, self.size, true)?)
            }
            CipherWork::Decrypt(name, key_len) => {
                let spec = SectorSpec::parse(name)?;
                Some(sectors(provider, spec, key_len, self.size, false)?)
            }
            CipherWork::Seal(algorithm) => Some(seal(provider, algorithm)?),
            CipherWork::Open(algorithm) => Some(open(provider, algorithm, self.call)?),
            CipherWork::Hash(digest) if has(Mechanism::Digest(digest)) => {
                Some(hash(provider, digest))
            }
            CipherWork::Blake3 if has(Mechanism::Blake3) => Some(blake3()),
            _ => None,
        })
    }
}

/// MB/s of a mechanism for a moment, in calls of 128 KiB, and sectors of 4 KiB; none of what is no cipher and no hash.
pub(super) fn rate(
    mechanism: Mechanism,
    key_len: Option<usize>,
    provider: Provider,
) -> Result<Option<f64>> {
    let call = || -> cipher::Result<Option<CipherCall>> {
        Ok(match (mechanism, key_len) {
            (Mechanism::Sector(cipher, mode), Some(len)) => {
                let iv = if mode == SectorMode::Ecb {
                    ""
                } else {
                    "-plain64"
                };
                let name = format!("{}-{}{iv}", cipher.name(), mode.name());
                Some(sectors(
                    provider,
                    SectorSpec::parse(&name)?,
                    len,
                    4096,
                    true,
                )?)
            }
            (Mechanism::Message(algorithm), _) => Some(seal(provider, algorithm)?),
            (Mechanism::Record(suite), _) => Some(record(provider, suite)?),
            (Mechanism::Digest(digest), _) => Some(hash(provider, digest)),
            (Mechanism::Blake3, _) => Some(blake3()),
            _ => None,
        })
    };
    let call = call().map_err(|error| other(format!("{mechanism}: {error}")))?;
    Ok(call.map(|call| time(call, CALL, DataLayout::Whole, MOMENT)))
}

fn sectors(
    provider: Provider,
    spec: SectorSpec,
    key_len: usize,
    size: usize,
    encrypts: bool,
) -> cipher::Result<CipherCall> {
    let key: Vec<u8> = (0..key_len as u8).collect();
    let cipher = SectorCipher::with_provider(provider, spec, &key)?;
    Ok(Box::new(move |pieces| {
        let done = match (encrypts, pieces) {
            (true, [data]) => cipher.encrypt(7, 1, size, data),
            (false, [data]) => cipher.decrypt(7, 1, size, data),
            (true, pieces) => cipher.encrypt_pieces(7, 1, size, pieces),
            (false, pieces) => cipher.decrypt_pieces(7, 1, size, pieces),
        };
        done.expect("whole sectors");
    }))
}

fn seal(provider: Provider, algorithm: AeadAlgorithm) -> cipher::Result<CipherCall> {
    let key = vec![7; algorithm.key_len()];
    let cipher = AeadCipher::with_provider(provider, algorithm, &key)?;
    let nonce = vec![7; algorithm.nonce_len()];
    Ok(Box::new(move |pieces| {
        let tag = match pieces {
            [data] => cipher.seal(&nonce, &[], data),
            pieces => cipher.seal_pieces(&nonce, &[], pieces),
        };
        black_box(tag.expect("short enough"));
    }))
}

/// Opens in turn the ciphertext of a message and the message as a ciphertext. In counter mode each becomes the other.
fn open(provider: Provider, algorithm: AeadAlgorithm, len: usize) -> cipher::Result<CipherCall> {
    let key = vec![7; algorithm.key_len()];
    let cipher = AeadCipher::with_provider(provider, algorithm, &key)?;
    let nonce = vec![7; algorithm.nonce_len()];
    let mut message = vec![FILL; len];
    let tag_of_other = cipher.seal(&nonce, &[], &mut message)?;
    let mut tags = [cipher.seal(&nonce, &[], &mut message)?, tag_of_other];
    Ok(Box::new(move |pieces| {
        let opened = match pieces {
            [data] => cipher.open(&nonce, &[], data, &tags[0]),
            pieces => cipher.open_pieces(&nonce, &[], pieces, &tags[0]),
        };
        opened.expect("authentic");
        tags.swap(0, 1);
    }))
}

fn record(provider: Provider, suite: Suite) -> cipher::Result<CipherCall> {
    let cipher = RecordCipher::with_provider(provider, suite, &vec![7; suite.key_len()])?;
    Ok(Box::new(move |pieces| {
        for data in pieces {
            black_box(
                cipher
                    .seal_in_place(&[7; NONCE_LEN], &[], data)
                    .expect("short enough"),
            );
        }
    }))
}

fn hash(provider: Provider, digest: Digest) -> CipherCall {
    Box::new(move |pieces| {
        let parts: Vec<&[u8]> = pieces.iter().map(|piece| &**piece).collect();
        black_box(digest.hash_by(provider, &parts).expect("is there"));
    })
}

fn blake3() -> CipherCall {
    Box::new(|pieces| {
        for data in pieces {
            black_box(cipher::hash(data));
        }
    })
}

/// MB/s of calls over so many bytes, for so long.
fn time(mut call: CipherCall, len: usize, layout: DataLayout, run: Duration) -> f64 {
    let mut data = vec![FILL; len + 64];
    let aligned = data.as_ptr().align_offset(64);
    let begin = match layout {
        DataLayout::Unaligned => aligned + 1,
        DataLayout::Whole | DataLayout::Scattered => aligned,
    };
    let data = &mut data[begin..][..len];
    let piece = match layout {
        DataLayout::Scattered => SCATTERED,
        DataLayout::Whole | DataLayout::Unaligned => len,
    };
    let mut once = |data: &mut [u8]| match piece == len {
        true => call(&mut [black_box(data)]),
        false => call(&mut data.chunks_mut(piece).collect::<Vec<_>>()),
    };
    once(data);
    let (begin, mut calls) = (thread_time(), 0u64);
    // A slow cipher is not asked for more than it does in a run.
    let mut between_looks = 1;
    while thread_time() - begin < run {
        for _ in 0..between_looks {
            once(data);
        }
        calls += between_looks;
        between_looks = (2 * between_looks).min((LOOK / len) as u64);
    }
    let bytes = calls as f64 * len as f64;
    bytes / (thread_time() - begin).as_secs_f64() / 1e6
}

/// The time that this thread has been running.
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
