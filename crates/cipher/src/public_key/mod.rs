//! Arithmetic with long numbers: RSA keys, signatures and key exchange on elliptic curves, and shared secrets.

mod ecdsa;
mod ecmr;
mod rsa;
mod shamir;

pub use ecdsa::verify_ecdsa;
pub use ecmr::{KeyRecovery, Point, share};
pub use rsa::RsaPublicKey;
pub use shamir::{PRIME_256, join_shares, split_secret};
