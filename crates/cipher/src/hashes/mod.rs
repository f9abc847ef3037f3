//! Hashes, and everything that is made of them: MACs, key derivation, password hashes, key wrapping and CHAP.

mod chap;
mod digest;
mod hash;
mod keywrap;
mod password;
mod vmac;

pub use chap::ChapHash;
pub use hash::{Mac, derive_key, derive_key_into, eq, hash, keyed_hash64, mac, siphash24};
pub use keywrap::{Padding, cmac, unwrap_key, wrap_key};
pub use password::{Argon2Kind, PasswordHash};
pub use vmac::Vmac;
