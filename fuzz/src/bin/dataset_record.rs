//! Opening and decompressing records.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    match support::choice(data, 4) {
        Some((0, rest)) => dataset::fuzzing::pointer(rest),
        Some((_, rest)) => dataset::fuzzing::record(rest),
        None => {}
    }
});
