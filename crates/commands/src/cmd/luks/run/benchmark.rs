//! The speed of password hashes and sector ciphers, in the form of `cryptsetup benchmark`.

use std::time::{Duration, Instant};

use cipher::{SectorCipher, SectorSpec};
use console::outcome::{Outcome, Result};
use console::session::other;
use console::show::json;
use luks::{Kdf, KdfChoice, KdfKind, Variant};
use serde_json::json;

use super::key::key_len;
use crate::cmd::luks::args::LuksBenchmark;

/// The bytes that one call encrypts: large enough for the call to cost nothing, small enough for a cache.
const BUFFER: usize = 64 << 10;

/// The time that each direction of a cipher is measured.
const CIPHER_TIME: Duration = Duration::from_millis(400);

/// The time that a hash is aimed at: PBKDF2 counts what it does in this.
const KDF_TIME: Duration = Duration::from_secs(1);

/// The defaults of cryptsetup for a passphrase, unless said otherwise, in bits.
const KEY_BITS: usize = 256;

const CIPHERS: [(&str, usize); 14] = [
    ("aes-cbc", 128),
    ("serpent-cbc", 128),
    ("twofish-cbc", 128),
    ("camellia-cbc", 128),
    ("aes-cbc", 256),
    ("serpent-cbc", 256),
    ("twofish-cbc", 256),
    ("aes-xts", 256),
    ("serpent-xts", 256),
    ("twofish-xts", 256),
    ("camellia-xts", 256),
    ("aes-xts", 512),
    ("serpent-xts", 512),
    ("twofish-xts", 512),
];

struct CipherSpeed {
    name: String,
    bits: usize,
    encrypt: f64,
    decrypt: f64,
}

pub(super) fn run(args: &LuksBenchmark, as_json: bool) -> Result {
    let chosen = match &args.cipher {
        Some(name) => vec![(name.clone(), args.key_size)],
        None => CIPHERS
            .map(|(name, bits)| (format!("{name}-plain64"), bits))
            .to_vec(),
    };
    let kdfs = match args.cipher {
        Some(_) => Vec::new(),
        None => kdfs()?,
    };
    let measure = |(name, bits): (String, usize)| speed(&name, bits, args.sector_size);
    let ciphers: Vec<CipherSpeed> = chosen.into_iter().map(measure).collect::<Result<_>>()?;
    Ok(Outcome::text(match as_json {
        true => as_json_text(&kdfs, &ciphers, args.sector_size),
        false => text(&kdfs, &ciphers),
    }))
}

fn kdfs() -> Result<Vec<(String, Kdf)>> {
    let mut found = Vec::new();
    for hash in ["sha1", "sha256", "sha512", "ripemd160", "whirlpool"] {
        let choice = KdfChoice {
            hash: hash.into(),
            time: KDF_TIME,
            ..KdfChoice::new(KdfKind::Pbkdf2)
        };
        found.push((format!("PBKDF2-{hash}"), choice.settle()?));
    }
    for (name, variant) in [
        ("argon2i", Variant::Argon2i),
        ("argon2id", Variant::Argon2id),
    ] {
        let choice = KdfChoice::new(KdfKind::Argon2(variant));
        found.push((name.into(), choice.settle()?));
    }
    Ok(found)
}

fn speed(name: &str, bits: usize, sector: usize) -> Result<CipherSpeed> {
    let failed = |error: cipher::Error| other(format!("{name} with {bits} bits: {error}"));
    let spec = SectorSpec::parse(name).map_err(failed)?;
    // XTS requires two keys that differ.
    let key: Vec<u8> = (0..key_len(bits)?).map(|n| n as u8).collect();
    let cipher = SectorCipher::new(spec, &key).map_err(failed)?;
    let mut data = vec![0x5a; BUFFER];
    let step = (sector / 512).max(1) as u64;
    let mut measure = |encrypt: bool| -> Result<f64> {
        let (begin, mut calls) = (Instant::now(), 0u64);
        while calls < 2 || begin.elapsed() < CIPHER_TIME {
            let first = calls * (BUFFER / 512) as u64;
            let done = match encrypt {
                true => cipher.encrypt(first, step, sector, &mut data),
                false => cipher.decrypt(first, step, sector, &mut data),
            };
            done.map_err(failed)?;
            calls += 1;
        }
        let mib = (calls * BUFFER as u64) as f64 / f64::from(1 << 20);
        Ok(mib / begin.elapsed().as_secs_f64())
    };
    Ok(CipherSpeed {
        name: name.trim_end_matches("-plain64").into(),
        bits,
        encrypt: measure(true)?,
        decrypt: measure(false)?,
    })
}

fn text(kdfs: &[(String, Kdf)], ciphers: &[CipherSpeed]) -> String {
    let mut lines = vec!["# Tests are approximate using memory only (no storage IO).".to_owned()];
    for (name, kdf) in kdfs {
        lines.push(match kdf {
            Kdf::Pbkdf2 { iterations, .. } => {
                format!("{name:<16} {iterations:>7} iterations per second for {KEY_BITS}-bit key")
            }
            Kdf::Argon2(_, cost) => format!(
                "{name:<10} {:>4} iterations, {:>5} memory, {} parallel threads (CPUs) for {KEY_BITS}-bit key \
                 (requested 2000 ms time)",
                cost.passes, cost.memory_kib, cost.lanes
            ),
        });
    }
    lines.push("#     Algorithm |       Key |      Encryption |      Decryption".into());
    for CipherSpeed {
        name,
        bits,
        encrypt,
        decrypt,
    } in ciphers
    {
        lines.push(format!(
            "{name:>15}  {bits:>9}b  {encrypt:>10.1} MiB/s  {decrypt:>10.1} MiB/s"
        ));
    }
    lines.join("\n") + "\n"
}

fn as_json_text(kdfs: &[(String, Kdf)], ciphers: &[CipherSpeed], sector: usize) -> String {
    let kdfs = kdfs.iter().map(|(name, kdf)| match kdf {
        Kdf::Pbkdf2 { iterations, .. } => {
            json!({"name": name, "iterations": iterations, "key_size": KEY_BITS})
        }
        Kdf::Argon2(_, cost) => json!({
            "name": name, "iterations": cost.passes, "memory_kib": cost.memory_kib,
            "lanes": cost.lanes, "key_size": KEY_BITS,
        }),
    });
    let ciphers = ciphers.iter().map(|speed| {
        json!({
            "name": speed.name, "key_size": speed.bits, "sector_size": sector,
            "encrypt_mib_s": speed.encrypt, "decrypt_mib_s": speed.decrypt,
        })
    });
    let (kdfs, ciphers): (Vec<_>, Vec<_>) = (kdfs.collect(), ciphers.collect());
    json::show(&json!({"kdfs": kdfs, "ciphers": ciphers}))
}
