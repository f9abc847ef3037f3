//! Requests of a client that has an export. The first byte says what was agreed on.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nbd::fuzzing::requests(data));
