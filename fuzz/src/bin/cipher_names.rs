//! Encrypted names of any bytes, with keys and tweaks of any length.

#![no_main]

use cipher::{Mechanism, NameCipher, NameMode};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some(([mode, key, tweak, cut], rest)) = data.split_first_chunk() else {
        return;
    };
    let mode = NameMode::ALL[usize::from(mode % 5)];
    let key: Vec<u8> = (0..*key).collect();
    let Some((tweak, name)) = rest.split_at_checked((*tweak).into()) else {
        return;
    };
    for provider in Mechanism::Name(mode).providers() {
        let Ok(cipher) = NameCipher::with_provider(*provider, mode, &key) else {
            assert!(!mode.key_lens().contains(&key.len()));
            continue;
        };
        let mut opened = name.to_vec();
        let is_done = cipher.decrypt(tweak, &mut opened).is_ok();
        let fits = mode.tweak_len().is_none_or(|len| len == tweak.len());
        assert_eq!(is_done, fits && mode.takes(name.len()));
        let mut sealed = opened.clone();
        let pieces = sealed.chunks_mut(usize::from(*cut).max(1));
        let resealed = cipher.encrypt_pieces(tweak, &mut pieces.collect::<Vec<_>>());
        assert_eq!(resealed.is_ok(), is_done);
        assert_eq!(sealed, name, "{mode} {provider}");
    }
});
