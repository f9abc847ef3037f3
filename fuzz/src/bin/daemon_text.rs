//! Text that the daemon and the command read: anchors, requests for metrics, the list of pools, what a pool says of
//! who may do what, the kernel's list of mounts with directories of other users.

#![no_main]

use daemon::anchor_line;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    match support::choice(data, 6) {
        Some((0, rest)) => daemon::fuzzing::metrics_request(rest),
        Some((1, rest)) => daemon::fuzzing::remembered(rest),
        Some((3, rest)) => daemon::fuzzing::grants(&String::from_utf8_lossy(rest)),
        Some((4, rest)) => fuse::fuzzing::mount_list(rest),
        Some((5, rest)) => daemon::fuzzing::jobs(&String::from_utf8_lossy(rest)),
        Some((_, rest)) => {
            if let Ok(text) = std::str::from_utf8(rest) {
                anchor(text);
            }
        }
        None => {}
    }
});

/// A line, and one whose checksum is made right.
fn anchor(text: &str) {
    if let Some(anchor) = anchor_line::read(text) {
        assert_eq!(
            anchor_line::read(&anchor_line::write(&anchor)),
            Some(anchor)
        );
    }
    let sum = cipher::hash(text.as_bytes());
    let check: String = sum[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    let _ = anchor_line::read(&format!("{text} check={check} name=tank"));
}
