//! The formats in which keys are written, and the lengths of keys in them.

use std::fmt;

use secret::Key;

/// The shortest passphrase, in bytes (as OpenZFS).
pub const PASSPHRASE_MIN: usize = 8;

/// The longest passphrase, in bytes (as OpenZFS).
pub const PASSPHRASE_MAX: usize = 512;

/// The lengths of a raw key in bytes: those of the keys of cipher suites.
pub(crate) const KEY_LENGTHS: [usize; 3] = [16, 24, Key::LEN];

/// The format of a written key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaterialFormat {
    /// 16, 24 or 32 bytes, as they are.
    Raw,
    /// 32, 48 or 64 hexadecimal digits.
    Hex,
    /// Text that a password hash makes into a key.
    Passphrase,
}

impl MaterialFormat {
    /// The name in the property.
    pub const fn name(self) -> &'static str {
        match self {
            MaterialFormat::Raw => "raw",
            MaterialFormat::Hex => "hex",
            MaterialFormat::Passphrase => "passphrase",
        }
    }
}

impl fmt::Display for MaterialFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The number of bytes to read from a source of a key in this format. Where it can be `longer`, one byte
/// more than a key tells that there is more.
pub(crate) fn limit(format: MaterialFormat, longer: bool) -> usize {
    match format {
        MaterialFormat::Raw => Key::LEN + usize::from(longer),
        MaterialFormat::Hex => 2 * Key::LEN + 2,
        MaterialFormat::Passphrase => PASSPHRASE_MAX + 2,
    }
}
