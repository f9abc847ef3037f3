//! A whole pool that an attacker without its keys has changed: open, check, scrub, read.

#![no_main]

use support::{image, walk};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((read_only, script)) = support::choice(data, 2) else {
        return;
    };
    let device = image::image().change(script, false);
    if let Some(pool) = walk::open(device, read_only == 1) {
        walk::pool(&pool);
        walk::files(&pool);
        if read_only == 0 {
            walk::change(&pool);
        }
    }
});
