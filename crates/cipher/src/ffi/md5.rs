//! MD5, which `aws-lc-rs` does not offer.

use aws_lc_sys as sys;

use super::library::WipedCell;

/// The MD5 hash of the parts, one after the other.
pub(crate) fn md5(parts: &[&[u8]]) -> [u8; 16] {
    let mut context = WipedCell::<sys::MD5_CTX>::uninit();
    let mut hash = [0; 16];
    let context = context.as_mut_ptr();
    // SAFETY: the context is initialised before its first use. Each part is valid for reads of its length, and
    // the hash for writes of 16 bytes. These functions always succeed.
    unsafe {
        sys::MD5_Init(context);
        for part in parts {
            sys::MD5_Update(context, part.as_ptr().cast(), part.len());
        }
        sys::MD5_Final(hash.as_mut_ptr(), context);
    }
    hash
}
