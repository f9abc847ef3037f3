//! Requests of the kernel, served by a real dataset. Each begins with its length.

#![no_main]

use dataset::{Dataset, Settings};
use support::image::{ROOT_USER, engine, image};
use support::walk;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((ext, mut rest)) = support::choice(data, 2) else {
        return;
    };
    let pool = walk::open(image().change(&[], true), false).unwrap();
    let id = pool.top().unwrap().id;
    let files = Dataset::open(&engine(), &pool, id, None, Settings::default(), &ROOT_USER).unwrap();
    for _ in 0..16 {
        let Some((len, more)) = rest.split_first_chunk::<2>() else {
            break;
        };
        let len = usize::from(u16::from_le_bytes(*len)).min(more.len());
        let (message, more) = more.split_at(len);
        rest = more;
        let mut message = message.to_vec();
        if len >= 40 {
            // The kernel tells the truth about lengths nearly always.
            if message[36] & 0x80 == 0 {
                message[..4].copy_from_slice(&(len as u32).to_le_bytes());
            }
            // It asks for no more than was agreed.
            if matches!(message[4..8], [15 | 28 | 44, 0, 0, 0]) && len >= 60 {
                message[58..60].fill(0);
            }
        }
        let mut out = Vec::new();
        fuse::fuzzing::request(files.as_ref(), &message, ext == 1, &mut out);
    }
    files.sync_all().unwrap();
    fuse::fuzzing::listing(data.len(), ext == 1, &[data]);
});
