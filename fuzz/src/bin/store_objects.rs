//! Objects of a pool on an object store: log objects, checkpoints, and the object that describes the pool. The first byte says
//! which, and what is made right: checksums and magic numbers.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some((how, bytes)) = data.split_first() {
        objects::fuzzing::read(*how, bytes);
    }
});
