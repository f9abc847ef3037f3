//! A copy of a process, as a resumed virtual machine has it. Nothing in the memory says that it is a copy.

use std::collections::HashSet;
use std::io::Read;
use std::os::fd::FromRawFd;

use crate::{NONCE_LEN, Random, SystemRandom};

const NONCES: usize = 100;
const KEYS: usize = 4;
const KEY_LEN: usize = 32;
const LEN: usize = NONCES * NONCE_LEN + KEYS * KEY_LEN;

#[test]
fn a_copy_that_cannot_know_it_repeats_no_nonce_and_no_key() {
    // Both generators have a state, and the pool has nonces, before the copy is made.
    draw();
    keep_all_memory_on_fork();
    let copy = draw_in_a_copy();
    let own = draw();
    assert_eq!(pieces(&own).len(), NONCES + KEYS);
    assert_eq!(pieces(&copy).len(), NONCES + KEYS);
    assert!(pieces(&own).is_disjoint(&pieces(&copy)));
}

/// Nonces and then keys. Allocates nothing.
fn draw() -> [u8; LEN] {
    let mut drawn = [0; LEN];
    let (nonces, keys) = drawn.split_at_mut(NONCES * NONCE_LEN);
    for nonce in nonces.chunks_mut(NONCE_LEN) {
        nonce.copy_from_slice(&SystemRandom.nonce().expect("random"));
    }
    for key in keys.chunks_mut(KEY_LEN) {
        SystemRandom.fill(key).expect("random");
    }
    drawn
}

fn pieces(drawn: &[u8; LEN]) -> HashSet<&[u8]> {
    let (nonces, keys) = drawn.split_at(NONCES * NONCE_LEN);
    nonces
        .chunks(NONCE_LEN)
        .chain(keys.chunks(KEY_LEN))
        .collect()
}

/// Undoes `MADV_WIPEONFORK` of all mappings, by which libraries notice a fork.
fn keep_all_memory_on_fork() {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    for line in maps.lines() {
        let (from, to) = line
            .split_once(' ')
            .and_then(|(range, _)| range.split_once('-'))
            .expect("a range");
        let [from, to] =
            [from, to].map(|text| usize::from_str_radix(text, 16).expect("an address"));
        // SAFETY: the advice changes only what a child gets. It fails on some mappings, which no library marks.
        unsafe { libc::madvise(from as *mut _, to - from, libc::MADV_KEEPONFORK) };
    }
}

fn draw_in_a_copy() -> [u8; LEN] {
    let mut ends = [0; 2];
    // SAFETY: the child draws numbers, which allocates nothing and takes no lock that another thread can hold, writes them,
    // and exits without a destructor. The parent owns the end of the pipe that it reads.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        let child = libc::fork();
        if child == 0 {
            let drawn = draw();
            let written = libc::write(ends[1], drawn.as_ptr().cast(), LEN);
            libc::_exit(i32::from(written != LEN as isize));
        }
        assert!(child > 0, "fork");
        libc::close(ends[1]);
        let mut drawn = [0; LEN];
        let read = std::fs::File::from_raw_fd(ends[0]).read_exact(&mut drawn);
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        read.expect("the copy drew");
        assert_eq!(status, 0);
        drawn
    }
}
