//! The crate as a framework for other programs: choose providers, test them, seal and open.
//!
//! `cargo run -p strongroom-cipher --example framework`

use cipher::{
    Mechanism, NONCE_LEN, Policy, PolicyTarget, Provider, Random, RecordCipher, SectorCipher,
    SectorSpec, Suite, SystemRandom,
};

/// Bound to the record: at another place it does not open.
const ASSOCIATED: &[u8] = b"file 7, record 0";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The policy holds for the process. It comes before the first cipher.
    let mut policy = Policy::default();
    policy.enable(PolicyTarget::Fips);
    assert!(policy.install());

    let tests = cipher::test_mechanisms(Policy::current());
    let failed = tests.iter().filter(|test| !test.ok).count();
    println!("{} mechanisms tested, {failed} failed", tests.len());
    println!("{}", cipher::hardware());

    let mechanism = Mechanism::Record(Suite::Aes256Gcm);
    println!("{mechanism} by {}", Policy::current().provider(mechanism)?);

    let mut key = [0; 32];
    SystemRandom.fill(&mut key)?;
    let records = RecordCipher::new(Suite::Aes256Gcm, &key)?;
    let nonce: [u8; NONCE_LEN] = SystemRandom.nonce()?;
    let mut record = *b"plaintext of one record";
    let tag = records.seal_in_place(&nonce, ASSOCIATED, &mut record)?;
    // The same key, by an implementation that the caller chooses.
    let chosen = RecordCipher::with_provider(Provider::AwsLc, Suite::Aes256Gcm, &key)?;
    chosen.open_in_place(&nonce, ASSOCIATED, &mut record, &tag)?;
    println!("opened: {}", String::from_utf8_lossy(&record));

    // What is not approved is refused by name.
    let spec = SectorSpec::parse("serpent-xts-plain64")?;
    if let Err(refused) = SectorCipher::new(spec, &[7; 64]) {
        println!("{refused}");
    }
    Ok(())
}
