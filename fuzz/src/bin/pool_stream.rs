//! Streams of `send`, whole and with frames that are made to fit, and tokens.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some((kind, rest)) = support::choice(data, 4) {
        pool::fuzzing::stream(kind, rest);
    }
});
