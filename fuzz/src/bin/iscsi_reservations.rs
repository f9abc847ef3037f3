//! Reservations of a unit: their text, and then orders that change them.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    iscsi::fuzzing::reservations(data);
});
