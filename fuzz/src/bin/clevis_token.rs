//! Tokens of clevis in headers of LUKS2, their own headers, the keys of Tang servers, and files
//! of signatures of PCRs.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(token) = serde_json::from_slice(data) {
        keys::fuzzing::clevis_token(&token);
    }
});
