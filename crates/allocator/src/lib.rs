//! Gives free memory of the allocator back to the system.
//!
//! This is a crate of its own because the PAM module must not bring an allocator into other programs.
#![allow(unsafe_code)]

// The allocator of the program, if it has set it so; linked for one function that its crate does not offer.
use libmimalloc_sys as _;

unsafe extern "C" {
    fn mi_collect(force: bool);
}

/// Gives free memory that the allocator keeps back to the system: of the calling thread, of threads that have
/// ended, and of what all share. It does so by itself only while something is allocated.
pub fn give_back_memory() {
    // SAFETY: it has no conditions; it takes no pointer, and any thread may call it at any time.
    unsafe { mi_collect(true) }
}
