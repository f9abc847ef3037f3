//! Commands of an initiator that has logged in. The first byte says what was agreed on.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    iscsi::fuzzing::commands(data);
});
