//! Measures the speed at which each suite seals and opens records, beside AES-256-GCM with one fixed key.
//!
//! `cargo run --release -p strongroom-cipher --example seal_speed`
//!
//! MB/s are 10^6 bytes in a second of the thread's own time, so that what others do on the machine does not
//! count; each figure is the median of several runs. The
//! suites and the baseline take turns, so that a change of the clock frequency hits all alike. The
//! last column is what a suite adds to the baseline for each record (sealing in place, as the
//! baseline does): the derivation of the key and the set-up of the AEAD.

use std::hint::black_box;
use std::time::Duration;

use aws_lc_rs::aead;
use cipher::{NonceBatch, Random, RecordCipher, Suite, SystemRandom};

const SIZES: [usize; 3] = [4 << 10, 16 << 10, 128 << 10];
const BATCH: usize = 16;
const RUNS: usize = 21;
const RUN_TIME: Duration = Duration::from_millis(20);
const AAD: &[u8] = &[7; 48];

fn main() {
    println!("{}", cipher::hardware());
    for test in cipher::selftest().iter().filter(|test| !test.ok) {
        println!("SELF-TEST FAILED: {}", test.algorithm);
    }
    let nonce_ns = median_ns(|| black_box(SystemRandom.nonce().expect("random")));
    let batch_ns = median_ns(|| {
        let batch = NonceBatch::new(&SystemRandom, BATCH);
        for _ in 0..BATCH {
            black_box(batch.nonce().expect("random"));
        }
    });
    let each_ns = batch_ns / BATCH as f64;
    println!("drawing a nonce: {nonce_ns:.0} ns; each of {BATCH}: {each_ns:.0} ns\n");
    println!(
        "{:>7}  {:<20}{:>8}{:>10}{:>8}  {:>10}",
        "bytes", "suite", "seal", "in place", "open", "added ns"
    );
    for size in SIZES {
        measure_size(size);
    }
}

fn measure_size(size: usize) {
    let nonce = SystemRandom.nonce().expect("random");
    let plain = vec![0x5a; size];
    let mut out = vec![0; size];
    let raw = raw_key();
    let mut raw_ns = Vec::new();
    for suite in Suite::ALL {
        let key = [7; 32];
        let cipher = RecordCipher::new(suite, &key[..suite.key_len()]).expect("key length");
        let tag = cipher.seal(&nonce, AAD, &plain, &mut out).expect("seal");
        let sealed = out.clone();
        let (mut seal, mut in_place, mut open, mut base) = (vec![], vec![], vec![], vec![]);
        for _ in 0..RUNS {
            base.push(once_ns(&mut || seal_raw(&raw, &mut out)));
            in_place.push(once_ns(&mut || cipher.seal_in_place(&nonce, AAD, &mut out)));
            seal.push(once_ns(&mut || cipher.seal(&nonce, AAD, &plain, &mut out)));
            open.push(once_ns(&mut || {
                cipher.open(&nonce, AAD, &sealed, &tag, &mut out)
            }));
        }
        let base = median(base);
        raw_ns.push(base);
        let in_place = median(in_place);
        println!(
            "{size:>7}  {:<20}{:>8.0}{:>10.0}{:>8.0}  {:>10.0}",
            suite.name(),
            rate(size, median(seal)),
            rate(size, in_place),
            rate(size, median(open)),
            in_place - base,
        );
    }
    let raw_ns = median(raw_ns);
    println!(
        "{size:>7}  {:<20}{:>18.0}\n",
        "fixed aes-256-gcm",
        rate(size, raw_ns)
    );
}

fn raw_key() -> aead::LessSafeKey {
    let key = aead::UnboundKey::new(&aead::AES_256_GCM, &[7; 32]).expect("key length");
    aead::LessSafeKey::new(key)
}

fn seal_raw(key: &aead::LessSafeKey, data: &mut [u8]) {
    let nonce = aead::Nonce::assume_unique_for_key([9; 12]);
    let tag = key.seal_in_place_separate_tag(nonce, aead::Aad::from(AAD), data);
    let _ = black_box(tag.expect("seal"));
}

/// Nanoseconds of one call, over as many as fit the time of a run.
fn once_ns<T>(call: &mut impl FnMut() -> T) -> f64 {
    let mut calls = 0u32;
    let start = thread_time();
    loop {
        for _ in 0..32 {
            black_box(call());
        }
        calls += 32;
        let elapsed = thread_time() - start;
        if elapsed >= RUN_TIME {
            return elapsed.as_nanos() as f64 / f64::from(calls);
        }
    }
}

fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn median_ns<T>(mut call: impl FnMut() -> T) -> f64 {
    median((0..RUNS).map(|_| once_ns(&mut call)).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn rate(size: usize, ns: f64) -> f64 {
    size as f64 * 1000.0 / ns
}
