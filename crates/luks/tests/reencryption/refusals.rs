//! Containers whose re-encryption cryptsetup interrupted: they open here with the right bytes, and cryptsetup
//! ends the re-encryption after that.

use std::io::IoSlice;

use crate::common::reencryption::{
    HERE, Judge, image_of, is_in_reencryption, made, open, pattern, read,
};
use block::BlockDevice;
use luks::{Error, MappingFlags};

/// Reads everything, writes across every border, reads again, lets cryptsetup end it, and reads again.
/// Says whether there was a hot zone.
fn check(judge: &Judge, found: &[u8], what: &str) -> bool {
    let read_only = MappingFlags {
        read_only: true,
        ..HERE
    };
    let is_hot = matches!(open(found, read_only), Err(Error::Usage(_)));
    let mut expected = pattern();
    let (device, mapping) = open(found, HERE).unwrap();
    assert!(
        read(&mapping) == expected,
        "{what}: not the bytes that were written"
    );
    for at in [
        0,
        (1 << 20) - 8192,
        (2 << 20) - 4096,
        (3 << 20) - 8192,
        (4 << 20) - 16384,
    ] {
        let noise = vec![at as u8 ^ 0x5a; 16384];
        expected[at..][..noise.len()].copy_from_slice(&noise);
        mapping
            .write_at(at as u64, &[IoSlice::new(&noise)])
            .unwrap();
    }
    assert!(
        read(&mapping) == expected,
        "{what}: not the bytes that were written here"
    );
    let image = image_of(&device);
    assert!(
        read(&open(&image, read_only).unwrap().1) == expected,
        "{what}: opened again"
    );
    if is_in_reencryption(&image) {
        let ended = match judge.run(&image, "--resume-only") {
            Ok(ended) => ended,
            Err(error) => {
                // cryptsetup cannot end what it left while it removed the old key.
                assert!(
                    judge.run(found, "--resume-only").is_err(),
                    "{what}: {error}"
                );
                return is_hot;
            }
        };
        assert!(!is_in_reencryption(&ended), "{what}");
        let got = read(&open(&ended, read_only).unwrap().1);
        assert!(got == expected, "{what}: ended");
    }
    is_hot
}

#[test]
fn what_was_begun_opens_and_is_ended_by_cryptsetup() {
    let Some(judge) = Judge::new() else { return };
    for (sector_size, options) in [
        (512, "--resilience checksum"),
        (
            4096,
            "--resilience journal --cipher aes-cbc-essiv:sha256 --key-size 256",
        ),
        (512, "--resilience none --sector-size 4096"),
    ] {
        let begun = judge
            .run(&made(sector_size), &format!("--init-only {options}"))
            .unwrap();
        assert!(!check(&judge, &begun, options));
    }
}

#[test]
fn what_was_killed_opens_with_the_right_bytes_and_is_ended_by_cryptsetup() {
    let Some(judge) = Judge::new() else { return };
    for (n, resilience) in ["checksum", "journal"].into_iter().enumerate() {
        let options = format!("--resilience {resilience}");
        let begun = judge
            .run(&made(4096), &format!("--init-only {options}"))
            .unwrap();
        let mut hot = 0;
        for when in (1..).filter(|when| *when > 11 || when % 3 == n) {
            // The earlier, the more is left to end, which takes long: one of three of those.
            let Some(image) = judge.killed(&begun, &format!("--resume-only {options}"), when)
            else {
                break;
            };
            hot += usize::from(check(&judge, &image, &format!("{resilience}, {when}")));
        }
        assert!(hot > 1, "{resilience}: killed in {hot} hot zones");
    }
}
