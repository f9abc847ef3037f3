//! The provider OpenSSL in a program that was built without it.

use crate::sector::SectorEngine;
use crate::{AeadAlgorithm, Digest, DigestOutput, Error, Provider, Result, SectorSpec, TAG_LEN};

const ABSENT: Error = Error::Unsupported {
    provider: Provider::OpenSsl,
};

pub(crate) fn version() -> String {
    "the system's OpenSSL; not built in (cargo feature openssl)".into()
}

pub(crate) fn sectors(_: SectorSpec, _: &[u8]) -> Result<Box<dyn SectorEngine>> {
    Err(ABSENT)
}

pub(crate) fn seal(
    _: AeadAlgorithm,
    _: &[u8],
    _: &[u8],
    _: &[u8],
    _: &mut [u8],
) -> Result<[u8; TAG_LEN]> {
    Err(ABSENT)
}

pub(crate) fn open(
    _: AeadAlgorithm,
    _: &[u8],
    _: &[u8],
    _: &[u8],
    _: &mut [u8],
    _: &[u8; TAG_LEN],
) -> Result<()> {
    Err(ABSENT)
}

pub(crate) fn hash(_: Digest, _: &[&[u8]]) -> Result<DigestOutput> {
    Err(ABSENT)
}

pub(crate) fn hmac(_: Digest, _: &[u8], _: &[&[u8]]) -> Result<DigestOutput> {
    Err(ABSENT)
}
