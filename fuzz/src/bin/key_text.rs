//! Key sources, key files, typed keys.

#![no_main]

use keys::{MaterialFormat, KeySource, material_from_prompt};
use secret::Secret;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = support::choice(data, 4) else {
        return;
    };
    let format = [MaterialFormat::Raw, MaterialFormat::Hex, MaterialFormat::Passphrase][usize::from(kind % 3)];
    if kind < 3 {
        let _ = keys::fuzzing::key_file(format, rest);
        let _ = material_from_prompt(format, Secret::from_slice(rest).unwrap());
    } else if let Ok(text) = std::str::from_utf8(rest)
        && let Ok(source) = text.parse::<KeySource>()
    {
        let shown = source.to_string();
        assert_eq!(shown.parse::<KeySource>().unwrap(), source);
    }
});
