//! Tokens of clevis in headers of LUKS2.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(token) = serde_json::from_slice(data) {
        let _ = keys::fuzzing::clevis_token(&token);
    }
});
