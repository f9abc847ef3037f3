//! What a client says from its first byte on, up to requests.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nbd::fuzzing::negotiation(data));
