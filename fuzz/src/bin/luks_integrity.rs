//! What dm-integrity keeps: any bytes as a superblock, and any journal whose commit ids are right.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    match data.split_first() {
        Some((0, bytes)) => luks::fuzzing::superblock(bytes),
        Some((_, bytes)) => luks::fuzzing::journal(bytes),
        None => {}
    }
});
