//! An initiator that begins with these bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    iscsi::fuzzing::connection(data);
});
