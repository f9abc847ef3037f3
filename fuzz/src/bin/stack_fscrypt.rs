//! Contexts, names, targets and contents of a lower directory in the format of fscrypt.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stack::formats::fscrypt::fuzzing::decode(data));
