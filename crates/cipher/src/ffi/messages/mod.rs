//! Authenticated encryption of messages, by AWS-LC and by `ring`.

mod aead;
mod ccm;
mod gcm;
mod ring;

pub(crate) use aead::Aead;
pub(crate) use ccm::Ccm;
pub(crate) use gcm::GcmStream;
pub(crate) use ring::RingGcm;
