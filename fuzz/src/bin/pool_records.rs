//! The pool's own records: entries, nodes, bitmaps, lists, history, configuration, names.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some((kind, rest)) = support::choice(data, pool::fuzzing::DECODERS) {
        pool::fuzzing::decode(kind, rest);
    }
});
