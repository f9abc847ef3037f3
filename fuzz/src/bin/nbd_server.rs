//! A server, as the client sees it. The first byte says what the client asks for.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nbd::fuzzing::server(data));
