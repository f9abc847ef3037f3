//! What a TPM answers, or a device that poses as one.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| keys::fuzzing::tpm_answer(data));
