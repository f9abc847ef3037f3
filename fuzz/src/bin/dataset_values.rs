//! The header and the values of the metadata tree.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some((kind, rest)) = support::choice(data, dataset::fuzzing::VALUES) {
        dataset::fuzzing::value(kind, rest);
    }
});
