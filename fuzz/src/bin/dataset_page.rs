//! Pages of the metadata tree, and changing them. A byte says how long the script is.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((len, rest)) = data.split_first() else {
        return;
    };
    let (script, page) = rest.split_at(usize::from(*len).min(rest.len()));
    dataset::fuzzing::page(page, script);
});
