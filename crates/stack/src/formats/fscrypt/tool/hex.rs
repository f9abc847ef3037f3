//! Descriptors in text.

use super::error::{Error, Result};
use crate::formats::fscrypt::KeyName;

/// Lower-case digits.
pub fn text(bytes: &[u8]) -> String {
    encoding::hex(bytes)
}

/// The bytes of lower-case digits; nothing for another text.
pub fn parse<const LEN: usize>(text: &str) -> Option<[u8; LEN]> {
    encoding::unhex_lower(text)?.try_into().ok()
}

/// The name of a master key, as its policy's file is called.
pub fn key_name(name: &KeyName) -> String {
    match name {
        KeyName::Descriptor(descriptor) => text(descriptor),
        KeyName::Identifier(identifier) => text(identifier),
    }
}

/// The name of a master key from text: 16 digits for policies of version 1, 32 of version 2.
///
/// # Errors
/// [`Error::Refused`].
pub fn key_name_from(digits: &str) -> Result<KeyName> {
    let identifier = || parse(digits).map(KeyName::Identifier);
    let name = parse(digits).map(KeyName::Descriptor).or_else(identifier);
    name.ok_or_else(|| {
        Error::Refused(format!(
            "'{digits}' is no ID of a policy: it has 16 or 32 digits of 0 to 9 and a to f"
        ))
    })
}
