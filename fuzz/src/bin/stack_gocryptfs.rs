//! gocryptfs: configurations, names, targets of links and blocks of any bytes.

#![no_main]

use std::sync::{Arc, LazyLock};

use cipher::SeededRandom;
use secret::{Key, Secret};
use stack::formats::gocryptfs::{Config, ContentCipher, Features, GocryptfsFormat, NameFeatures};
use stack::formats::{DirectoryFormat, Sought};

/// One for each cipher of contents, the last with clear names.
static FORMATS: LazyLock<Vec<GocryptfsFormat>> = LazyLock::new(|| {
    let contents = [ContentCipher::AesGcm, ContentCipher::AesSiv, ContentCipher::XChaCha20Poly1305];
    let encrypted = contents.map(|content| Features {
        content,
        ..Features::default()
    });
    let clear = Features {
        names: None,
        ..Features::default()
    };
    let padded = NameFeatures {
        raw64: false,
        ..NameFeatures::default()
    };
    let old = Features {
        names: Some(padded),
        hkdf: false,
        ..Features::default()
    };
    let features = encrypted.into_iter().chain([clear, old]);
    features.map(|features| format(&features)).collect()
});

fn format(features: &Features) -> GocryptfsFormat {
    let (random, passphrase) = (SeededRandom::new(1), Secret::from_slice(b"passphrase"));
    let (key, passphrase) = (Key::from_bytes(&[7; 32]).unwrap(), passphrase.unwrap());
    let config = Config::create(features.clone(), &key, &passphrase, 10, &random).unwrap();
    GocryptfsFormat::new(&config, &key, Arc::new(random)).unwrap()
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&what, data)) = data.split_first() else {
        return;
    };
    if what % 4 == 0 {
        if let Ok(config) = Config::decode(data) {
            assert_eq!(Config::decode(&config.encode()).unwrap(), config);
        }
        return;
    }
    for format in FORMATS.iter() {
        let dir = format.new_directory().unwrap().node;
        match what % 4 {
            1 => {
                let long = |_: &[u8]| Ok(data.to_vec());
                // No directory has longer ones.
                let data = &data[..data.len().min(255)];
                if let Ok(Some(plain)) = format.plain_name(&dir, data, &long) {
                    let Ok(Sought::At(name)) = format.lower_name(&dir, &plain) else {
                        panic!("{plain:?} is not found again");
                    };
                    assert_eq!(name.name, data);
                }
                let _ = format.lower_name(&dir, data);
            }
            2 => {
                let _ = format.open_target(&dir, data);
            }
            _ => {
                let header = format.new_header(&dir).unwrap();
                let _ = format.check_header(&dir, data);
                let mut blocks = data.to_vec();
                let opened = format.open(&dir, &header, 0, &mut blocks);
                assert!(opened.is_err() || data.is_empty());
            }
        }
    }
});
