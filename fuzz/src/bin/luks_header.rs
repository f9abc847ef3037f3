//! LUKS headers: any bytes at the beginning of a device, and any JSON behind a binary header that is right.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    match data.split_first() {
        Some((0, bytes)) => luks::fuzzing::header(bytes),
        Some((_, json)) => luks::fuzzing::json_area(json),
        None => {}
    }
});
