//! A clear dataset whose pages an attacker has changed: read it, change it, destroy it.

#![no_main]

use support::{image, walk};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let device = image::image().change(data, true);
    if let Some(pool) = walk::open(device, false) {
        walk::files(&pool);
        walk::change(&pool);
    }
});
