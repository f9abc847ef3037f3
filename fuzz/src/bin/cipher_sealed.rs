//! Messages that others have sealed and wrapped, or forged: of every AEAD, whole, in pieces and as streams;
//! wrapped keys; keys in stripes.

#![no_main]

use std::io::Cursor;

use cipher::{AeadAlgorithm, AeadCipher, Digest, Mechanism, Padding, unwrap_key, wrap_key};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some(([what, change, cut], rest)) = data.split_first_chunk() else {
        return;
    };
    match what % 10 {
        8 => wrapped(rest, *cut),
        9 => striped(rest, *cut),
        algorithm => message(
            AeadAlgorithm::ALL[usize::from(algorithm)],
            rest,
            *change,
            *cut,
        ),
    }
});

/// A message whose tag is right but for `change`.
fn message(algorithm: AeadAlgorithm, data: &[u8], change: u8, cut: u8) {
    let key: Vec<u8> = (0..algorithm.key_len() as u8).collect();
    let nonce = vec![cut; algorithm.nonce_len()];
    let aad = &data[..data.len().min(cut.into())];
    let providers = Mechanism::Message(algorithm).providers().iter();
    for provider in providers.filter(|provider| provider.is_built()) {
        let cipher = AeadCipher::with_provider(*provider, algorithm, &key).unwrap();
        let mut sealed = data.to_vec();
        let mut tag = cipher.seal(&nonce, aad, &mut sealed).unwrap();
        tag[usize::from(cut % 16)] ^= change;
        let expected = match change {
            0 => data.to_vec(),
            _ => vec![0; data.len()],
        };

        let mut opened = sealed.clone();
        let done = cipher.open(&nonce, aad, &mut opened, &tag);
        assert_eq!((done.is_ok(), &opened), (change == 0, &expected));
        let mut opened = sealed.clone();
        let mut pieces: Vec<&mut [u8]> = opened.chunks_mut(usize::from(cut).max(1)).collect();
        let done = cipher.open_pieces(&nonce, aad, &mut pieces, &tag);
        assert_eq!((done.is_ok(), &opened), (change == 0, &expected));

        let mut output = Vec::new();
        let done = cipher.open_stream(&nonce, aad, &tag, &mut Cursor::new(&sealed), &mut output);
        match done {
            Ok(()) => assert_eq!(output, data),
            Err(_) => assert!(output.is_empty()),
        }
    }
}

/// A wrapped key, or what looks like one: what unwraps is wrapped the same again.
fn wrapped(data: &[u8], len: u8) {
    for padding in [Padding::None, Padding::Zeros] {
        for key_len in [16, 32, len.into()] {
            let key = vec![len; key_len];
            if let Ok(unwrapped) = unwrap_key(&key, padding, data) {
                assert_eq!(wrap_key(&key, padding, &unwrapped).unwrap(), data);
            }
            if let Ok(wrapped) = wrap_key(&key, padding, data) {
                assert_eq!(*unwrap_key(&key, padding, &wrapped).unwrap(), data);
            }
        }
    }
}

fn striped(data: &[u8], len: u8) {
    let mut key = vec![0; len.into()];
    let digest = Digest::ALL[data.len() % Digest::ALL.len()];
    let merged = cipher::af::merge(digest, data, &mut key);
    let is_whole = len > 0 && !data.is_empty() && data.len().is_multiple_of(len.into());
    assert_eq!(merged.is_ok(), is_whole);
}
