//! Policies, protectors, links and configurations of the tool fscrypt; the first byte says which.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stack::formats::fscrypt::fuzzing::decode_tool(data));
