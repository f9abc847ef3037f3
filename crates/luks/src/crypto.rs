//! Algorithms of the crate `cipher`, by the names that headers have for them.

use cipher::{Digest, SectorMode, SectorSpec};

use crate::{Error, Result};

/// The hash of this name.
pub(crate) fn digest(name: &str) -> Result<Digest> {
    let unknown = || Error::Usage(format!("the hash '{name}' is not known here"));
    Digest::from_name(name).ok_or_else(unknown)
}

/// The encryption of this name, which is a header's and may be anything.
///
/// # Errors
/// [`Error::Unsupported`], also for no encryption at all: what claims to be encrypted shall be.
pub(crate) fn spec(name: &str, device: &str) -> Result<SectorSpec> {
    SectorSpec::parse(name).map_err(|error| {
        Error::unsupported(device, format!("it is encrypted with '{name}': {error}"))
    })
}

/// Returns the error for a key whose length, in bytes, the cipher does not take.
pub(crate) fn wrong_key_len(cipher: &str, lens: &[usize]) -> Error {
    let bits: Vec<_> = lens.iter().map(|len| (len * 8).to_string()).collect();
    Error::Usage(format!("{cipher} takes keys of {} bits", bits.join(", ")))
}

/// Returns whether `cipher` may encrypt key material with a key of this length. Equal pieces must not look equal, and
/// cryptsetup does not take `capi:` there.
pub(crate) fn fits_material(cipher: &str, key_len: usize) -> bool {
    let is_usual = !cipher.starts_with("capi:");
    is_usual
        && SectorSpec::parse(cipher).is_ok_and(|spec| {
            let hides = matches!(spec.mode(), SectorMode::Xts | SectorMode::Cbc);
            hides && spec.key_lens().contains(&key_len)
        })
}

/// Refuses a cipher for key material that would show equal pieces, or that cryptsetup does not take there.
pub(crate) fn check_material(cipher: &str, key_len: usize) -> Result<()> {
    match fits_material(cipher, key_len) {
        true => Ok(()),
        false => Err(Error::Usage(format!(
            "key material cannot be encrypted with {cipher} and a key of {} bits; use for example aes-xts-plain64 and \
             512 bits",
            key_len * 8
        ))),
    }
}

/// Bytes as headers write them.
pub(crate) fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
