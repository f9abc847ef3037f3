//! Names of sector ciphers, and sectors of any bytes under what they name: every provider makes the same of
//! them, and gets them back from pieces.

#![no_main]

use cipher::{Mechanism, SectorCipher, SectorSpec};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let Ok(name) = std::str::from_utf8(parts.next().unwrap_or_default()) else {
        return;
    };
    let Ok(spec) = SectorSpec::parse(name) else {
        return;
    };
    assert_eq!(SectorSpec::parse(&spec.to_string()), Ok(spec));
    if let Some(([key, size, cut], sectors)) = parts.next().unwrap_or_default().split_first_chunk()
    {
        let key: Vec<u8> = (0..*key).collect();
        check(
            spec,
            &key,
            16 * usize::from(*size),
            usize::from(*cut),
            sectors,
        );
    }
});

fn check(spec: SectorSpec, key: &[u8], size: usize, cut: usize, sectors: &[u8]) {
    let mut first: Option<Vec<u8>> = None;
    let mechanism = Mechanism::Sector(spec.cipher(), spec.mode());
    for provider in mechanism
        .providers()
        .iter()
        .filter(|provider| provider.is_built())
    {
        let Ok(cipher) = SectorCipher::with_provider(*provider, spec, key) else {
            assert!(
                !spec.key_lens().contains(&key.len()) || *provider == cipher::Provider::OpenSsl
            );
            continue;
        };
        let mut sealed = sectors.to_vec();
        let is_done = cipher.encrypt(u64::MAX, 3, size, &mut sealed).is_ok();
        assert_eq!(is_done, size > 0 && sectors.len().is_multiple_of(size));
        let mut opened = sealed.clone();
        let pieces = opened.chunks_mut(cut.max(1));
        let reopened = cipher.decrypt_pieces(u64::MAX, 3, size, &mut pieces.collect::<Vec<_>>());
        assert_eq!(reopened.is_ok(), is_done);
        assert_eq!(opened, sectors);
        let first = first.get_or_insert_with(|| sealed.clone());
        assert_eq!(*first, sealed, "{spec} {provider}");
    }
}
