//! The names of algorithms: types without code of any provider.

mod aead;
mod curve;
mod digest;
mod mechanism;
mod names;
mod provider;
mod sector;
mod suite;

pub use aead::AeadAlgorithm;
pub(crate) use aead::{LONG_NONCE_LEN, SHORT_NONCE_LEN};
pub use curve::Curve;
pub use digest::{Digest, DigestOutput};
pub use mechanism::Mechanism;
pub use names::NameMode;
pub use provider::Provider;
pub use sector::{BlockCipher, IvMode, SectorMode, SectorSpec};
pub use suite::Suite;
