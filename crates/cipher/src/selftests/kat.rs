//! A known answer for every mechanism of every provider.
//!
//! Each mechanism does a fixed piece of work, of sizes that reach the widest paths of the code. The BLAKE3 hash of
//! the output must be the one compiled in. What was sealed must open again, and where it is authenticated a changed
//! bit must be noticed.

use std::time::{Duration, Instant};

use super::selftest::{KNOWN, blake3_holds};
use crate::{
    AeadAlgorithm, AeadCipher, Argon2Kind, BlockCipher, Error, Mechanism, NameCipher, NameMode,
    Padding, PasswordHash, Policy, Provider, Result, SectorCipher, SectorMode, SectorSpec, Vmac,
    cmac, unwrap_key, wrap_key,
};

/// The outcome of the test of one mechanism of one provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MechanismTest {
    /// The mechanism that was tested.
    pub mechanism: Mechanism,
    /// The provider that computed it.
    pub provider: Provider,
    /// True if the result was right.
    pub ok: bool,
    /// The time of the test.
    pub took: Duration,
}

/// Tests every mechanism of every provider that is available, unless `policy` has disabled it. In FIPS mode it tests
/// the approved ones.
pub fn test_mechanisms(policy: &Policy) -> Vec<MechanismTest> {
    let mut tests = Vec::new();
    for mechanism in Mechanism::all().filter(|m| !policy.is_fips() || m.is_approved()) {
        for provider in mechanism.providers().iter().copied() {
            if !policy.is_disabled(provider, mechanism) && provider.is_available() {
                tests.push(test(mechanism, provider));
            }
        }
    }
    tests
}

fn test(mechanism: Mechanism, provider: Provider) -> MechanismTest {
    let begin = Instant::now();
    let holds = holds(mechanism, provider) && !is_broken(mechanism, provider);
    MechanismTest {
        mechanism,
        provider,
        ok: holds,
        took: begin.elapsed(),
    }
}

/// Returns whether a unit test makes this known answer fail. Always false in released programs.
fn is_broken(mechanism: Mechanism, provider: Provider) -> bool {
    if !cfg!(debug_assertions) {
        return false;
    }
    let broken = std::env::var("STRONGROOM_TEST_BROKEN_CIPHER");
    broken.is_ok_and(|broken| broken == format!("{provider}/{mechanism}"))
}

fn holds(mechanism: Mechanism, provider: Provider) -> bool {
    match mechanism {
        Mechanism::Record(suite) => KNOWN
            .iter()
            .any(|known| known.suite == suite && known.holds(provider)),
        Mechanism::Blake3 => blake3_holds(),
        _ => answer(mechanism, provider).is_ok_and(|hash| hash == known(mechanism)),
    }
}

/// The hash of what a mechanism makes of its input.
pub(crate) fn answer(mechanism: Mechanism, provider: Provider) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    match mechanism {
        Mechanism::Record(_) | Mechanism::Blake3 => return Err(Error::Unsupported { provider }),
        Mechanism::Sector(cipher, mode) => sectors(cipher, mode, provider, &mut hasher)?,
        Mechanism::Name(mode) => names(mode, provider, &mut hasher)?,
        Mechanism::Message(algorithm) => messages(algorithm, provider, &mut hasher)?,
        Mechanism::Digest(digest) => {
            let data = pattern(4099);
            hasher.update(&digest.hash_by(provider, &[&data[..100], &data[100..]])?);
            let mac = digest.hmac_by(Provider::Portable, &data[..33], &[&data])?;
            hasher.update(&mac);
            // AWS-LC has no HMAC with SHA-3.
            match digest.hmac_by(provider, &data[..33], &[&data]) {
                Err(Error::Unsupported { .. }) => {}
                other => must(other?[..] == mac[..])?,
            }
        }
        Mechanism::Argon2 => {
            for kind in [Argon2Kind::Argon2i, Argon2Kind::Argon2id] {
                let mut key = [0; 32];
                let hash = PasswordHash::Argon2 {
                    kind,
                    memory_kib: 64,
                    iterations: 2,
                    lanes: 2,
                };
                hash.derive(b"passphrase", b"salt of 16 bytes", &mut key)?;
                hasher.update(&key);
            }
        }
        Mechanism::Scrypt => {
            let (log_n, mut key) = (6, [0; 64]);
            let hash = PasswordHash::Scrypt { log_n, r: 8, p: 2 };
            hash.derive(b"passphrase", b"salt of 16 bytes", &mut key)?;
            hasher.update(&key);
        }
        Mechanism::Cmac => {
            for len in [16, 24, 32] {
                hasher.update(&cmac(&pattern(len), &[&pattern(70)])?);
            }
        }
        Mechanism::Vmac => {
            let key = Vmac::new(&std::array::from_fn(|i| i as u8))?;
            for (number, len) in [0, 16, 128, 500].into_iter().enumerate() {
                let mac = key.mac(&[number as u8; 16], &pattern(len));
                hasher.update(&mac.to_le_bytes());
            }
        }
        Mechanism::KeyWrap => {
            for (padding, len) in [(Padding::None, 32), (Padding::Zeros, 21)] {
                let wrapped = wrap_key(&pattern(32), padding, &pattern(len))?;
                must(*unwrap_key(&pattern(32), padding, &wrapped)? == pattern(len))?;
                hasher.update(&wrapped);
            }
        }
    }
    Ok(hasher.finalize().to_hex()[..32].into())
}

fn sectors(
    cipher: BlockCipher,
    mode: SectorMode,
    provider: Provider,
    hasher: &mut blake3::Hasher,
) -> Result<()> {
    let spec = SectorSpec::parse(&format!("{}-{}-plain64", cipher.name(), mode.name()))?;
    // Not every provider has AES-192-XTS.
    for key_len in spec.key_lens().iter().filter(|len| **len != 48) {
        let key = SectorCipher::with_provider(provider, spec, &pattern(*key_len))?;
        for (count, size) in [(1, 16), (5, 512), (2, 4096)] {
            let plain = pattern(count * size);
            let mut data = plain.clone();
            key.encrypt(u64::from(u32::MAX) - 2, 1, size, &mut data)?;
            hasher.update(&data);
            key.decrypt(u64::from(u32::MAX) - 2, 1, size, &mut data)?;
            must(data == plain)?;
        }
    }
    Ok(())
}

fn names(mode: NameMode, provider: Provider, hasher: &mut blake3::Hasher) -> Result<()> {
    let tweak = pattern(mode.tweak_len().unwrap_or(32));
    for key_len in mode.key_lens() {
        let key = NameCipher::with_provider(provider, mode, &pattern(*key_len))?;
        for len in [16, 17, 32, 255, 1500] {
            let len = if mode.takes(len) { len } else { len / 16 * 16 };
            let plain = pattern(len);
            let mut data = plain.clone();
            key.encrypt(&tweak, &mut data)?;
            hasher.update(&data);
            key.decrypt(&tweak, &mut data)?;
            must(data == plain)?;
        }
    }
    Ok(())
}

fn messages(
    algorithm: AeadAlgorithm,
    provider: Provider,
    hasher: &mut blake3::Hasher,
) -> Result<()> {
    let (nonce, plain) = (pattern(algorithm.nonce_len()), pattern(4099));
    let key = AeadCipher::with_provider(provider, algorithm, &pattern(algorithm.key_len()))?;
    let mut data = plain.clone();
    let mut tag = key.seal(&nonce, b"known answer", &mut data)?;
    hasher.update(&data).update(&tag);
    let (one, two) = data.split_at_mut(1001);
    key.open_pieces(&nonce, b"known answer", &mut [one, two], &tag)?;
    must(data == plain)?;
    tag[15] ^= 1;
    let forged = key.open(&nonce, b"known answer", &mut data, &tag);
    must(forged == Err(Error::Unauthentic) && data.iter().all(|byte| *byte == 0))
}

fn must(holds: bool) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::Library) }
}

/// No two halves of which are equal, as keys of XTS must not be.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// The answer, computed with the portable provider (with AWS-LC where no other provider has it). The published
/// vectors of the tests prove the answers of that provider.
fn known(mechanism: Mechanism) -> &'static str {
    let name = mechanism.to_string();
    let mut lines = include_str!("kat.txt").lines();
    let answer = lines.find_map(|line| line.strip_prefix(&name)?.strip_prefix(' '));
    answer.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mechanism_has_an_answer_and_gives_it() {
        let tests = test_mechanisms(&Policy::default());
        let tested = |m: &Mechanism| tests.iter().any(|test| test.mechanism == *m);
        assert!(Mechanism::all().all(|mechanism| tested(&mechanism)));
        let wrong: Vec<String> = tests
            .iter()
            .filter(|test| !test.ok)
            .map(|test| {
                let answer = answer(test.mechanism, test.provider);
                format!("{} {answer:?} {}", test.mechanism, test.provider)
            })
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn fips_mode_tests_what_is_approved() {
        let mut policy = Policy::default();
        policy.enable(crate::PolicyTarget::Fips);
        let tests = test_mechanisms(&policy);
        assert!(tests.iter().all(|test| test.mechanism.is_approved()));
        assert!(tests.len() > 30, "{}", tests.len());
    }

    /// Each answer is that of one mechanism: one in the place of another is wrong.
    #[test]
    fn answers_differ() {
        let mut seen = std::collections::HashSet::new();
        for mechanism in Mechanism::all() {
            if !matches!(mechanism, Mechanism::Record(_) | Mechanism::Blake3) {
                assert!(seen.insert(known(mechanism)), "{mechanism}");
            }
        }
    }
}
