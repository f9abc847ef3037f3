//! Key material: what a source yields, before anything is unlocked with it.
//!
//! Files are read straight into locked memory. Not more is read than the longest key and the byte that tells of
//! more, so an endless file costs nothing. What a file is, is asked of the open file, not of its name. Nothing here
//! waits for a person: a terminal or a FIFO is refused.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use cipher::Suite;
use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;
use secret::{Key, Secret};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use crate::format::{KEY_LENGTHS, PASSPHRASE_MAX, PASSPHRASE_MIN, limit};
use crate::recovery_key::recovery_key;
use crate::shares::{ShareHolder, SharedKey};
use crate::system::file;
use crate::{Error, KeySource, Location, MaterialFormat, Result, TangKey, TokenKey, TpmKey};

/// The material that unlocks a slot.
#[derive(Debug)]
pub enum KeyMaterial {
    /// Text that a password hash makes into a key; 8 to 512 bytes.
    Passphrase(Secret),
    /// A key of 32 bytes.
    Key(Key),
    /// A key of 16 or 24 bytes.
    Short(Secret),
    /// A key that stays in its token.
    Token(Box<TokenKey>),
    /// A key that a Tang server helps to recover.
    Tang(Box<TangKey>),
    /// A key that a TPM sealed.
    Tpm(Box<TpmKey>),
    /// A key that several sources hold together.
    Shared(Box<SharedKey>),
}

impl KeyMaterial {
    /// The name of this kind of material, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            KeyMaterial::Passphrase(_) => "passphrase",
            KeyMaterial::Key(_) | KeyMaterial::Short(_) => "raw or hex key",
            KeyMaterial::Token(_) => "key in a token",
            KeyMaterial::Tang(_) => "key of this Tang server",
            KeyMaterial::Tpm(key) => key.kind(),
            KeyMaterial::Shared(_) => "key in parts",
        }
    }

    /// Refuses a key that is shorter than those of the cipher suite that it is to protect.
    ///
    /// # Errors
    /// [`Error::KeyForSuite`].
    pub fn check_for(&self, suite: Suite) -> Result<()> {
        match self {
            KeyMaterial::Short(key) if key.len() != suite.key_len() => Err(Error::KeyForSuite {
                got: key.len(),
                suite,
            }),
            _ => Ok(()),
        }
    }

    /// The key that these sources hold together. A source that failed gives the reason; so does one whose material
    /// cannot hold a part.
    pub fn shared(
        threshold: usize,
        parts: Vec<std::result::Result<KeyMaterial, String>>,
    ) -> SharedKey {
        let (mut holders, mut failures) = (Vec::new(), Vec::new());
        for part in parts {
            holders.push(match part {
                Ok(KeyMaterial::Key(key)) => ShareHolder::Key(key),
                Ok(KeyMaterial::Tang(key)) => ShareHolder::Tang(*key),
                Ok(KeyMaterial::Tpm(key)) => ShareHolder::Tpm(*key),
                Ok(_) => {
                    failures.push(
                        "a part of a key is a raw key of 32 bytes, a Tang server or a TPM".into(),
                    );
                    continue;
                }
                Err(reason) => {
                    failures.push(reason);
                    continue;
                }
            });
        }
        SharedKey::new(threshold, holders, failures)
    }

    /// The passphrase in normalization form C, if it is typed otherwise. Systems type the same letter in different
    /// bytes. What is not UTF-8 has one form. A recovery key has hyphens between its groups.
    pub(crate) fn normalized(&self) -> Result<Option<KeyMaterial>> {
        let KeyMaterial::Passphrase(typed) = self else {
            return Ok(None);
        };
        if let Some(key) = recovery_key(typed.expose())? {
            let is_same = key.expose() == typed.expose();
            return Ok((!is_same).then_some(KeyMaterial::Passphrase(key)));
        }
        let Ok(text) = std::str::from_utf8(typed.expose()) else {
            return Ok(None);
        };
        if is_nfc_quick(text.chars()) == IsNormalized::Yes {
            return Ok(None);
        }
        // The iterator has some letters in ordinary memory for a moment, and never the whole.
        let mut normalized = Secret::zeroed(0)?;
        for letter in text.nfc() {
            normalized.push_slice(letter.encode_utf8(&mut [0; 4]).as_bytes())?;
        }
        let is_same = normalized.expose() == typed.expose();
        Ok((!is_same).then_some(KeyMaterial::Passphrase(normalized)))
    }

    fn of_key(key: Secret) -> Result<KeyMaterial> {
        Ok(match key.expose().try_into() {
            Ok(whole) => KeyMaterial::Key(Key::from_bytes(whole)?),
            Err(_) => KeyMaterial::Short(key),
        })
    }
}

/// A remark about a key file for its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The file is readable or writable by others than its owner.
    Exposed {
        /// The key file.
        path: PathBuf,
        /// The permission bits of the file.
        mode: u32,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Warning::Exposed { path, mode } = self;
        let path = path.display();
        write!(
            f,
            "the key file {path} is open to others (mode {mode:04o}); chmod 600 {path}"
        )
    }
}

/// Reads the key from the file that `source` names.
///
/// # Errors
/// [`Error::KeyFileMissing`], [`Error::KeyFileUnreadable`] or [`Error::KeyFileKind`] for the file;
/// [`Error::KeyLength`], [`Error::HexDigit`], [`Error::PassphraseShort`] or
/// [`Error::PassphraseLong`] for what is in it; [`Error::KeySource`] if the source is the prompt.
pub fn read_file(source: &KeySource) -> Result<KeyMaterial> {
    read_file_with(source, |_| ())
}

/// Reads like [`read_file`], and calls `warn` with remarks for the owner of the file.
///
/// # Errors
/// As [`read_file`].
pub fn read_file_with(source: &KeySource, warn: impl FnOnce(Warning)) -> Result<KeyMaterial> {
    let Location::File(path) = source.location() else {
        let reason = "it is typed at the prompt, so there is no file to read";
        return Err(Error::KeySource(reason.into()));
    };
    let format = source.format();
    let (mut file, stat) = open(path, format)?;
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if regular && stat.st_mode & 0o066 != 0 {
        warn(Warning::Exposed {
            path: path.clone(),
            mode: stat.st_mode & 0o7777,
        });
    }
    // A random device gives no more than what is asked for.
    let limit = limit(format, regular);
    let text = Secret::from_reader(&mut file, limit).map_err(|error| match error {
        secret::Error::Read(source) => Error::KeyFileUnreadable {
            path: path.clone(),
            source,
        },
        other => other.into(),
    })?;
    // If reading stopped early, the file knows how long it is.
    let stopped = text.len() == limit;
    let file_len = u64::try_from(stat.st_size).ok().filter(|_| stopped);
    material(format, text, &path.display().to_string(), file_len)
}

/// Makes key material of what a person typed. One newline at the end does not count.
///
/// # Errors
/// As [`read_file`] for the contents; [`Error::KeySource`] for a raw key.
pub fn material_from_prompt(format: MaterialFormat, text: Secret) -> Result<KeyMaterial> {
    // Refuses what cannot be typed.
    KeySource::new(format, Location::Prompt)?;
    material(format, text, "the prompt", None)
}

/// Opens a key file without waiting for anything, and refuses what is not one.
fn open(path: &Path, format: MaterialFormat) -> Result<(File, Stat)> {
    let unreadable = |error: Errno| match error {
        Errno::NOENT | Errno::NOTDIR => Error::KeyFileMissing(path.to_owned()),
        other => Error::KeyFileUnreadable {
            path: path.to_owned(),
            source: other.into(),
        },
    };
    let (file, stat) = file::open(path).map_err(unreadable)?;
    let gives_random = format == MaterialFormat::Raw && is_random_device(&stat);
    match file::other_kind(&file, &stat).filter(|_| !gives_random) {
        None => {}
        Some(kind) => {
            return Err(Error::KeyFileKind {
                path: path.to_owned(),
                kind,
                format,
            });
        }
    }
    // The random devices may say "not yet" without waiting.
    rustix::fs::fcntl_setfl(&file, OFlags::empty()).map_err(unreadable)?;
    Ok((file, stat))
}

/// Returns whether this is `/dev/random` or `/dev/urandom`: a raw key from there is a new random key each time.
fn is_random_device(stat: &Stat) -> bool {
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
    let number = (
        rustix::fs::major(stat.st_rdev),
        rustix::fs::minor(stat.st_rdev),
    );
    is_device && matches!(number, (1, 8 | 9))
}

/// Checks and converts what was read, of `file_len` bytes if that is more.
pub(crate) fn material(
    format: MaterialFormat,
    mut text: Secret,
    origin: &str,
    file_len: Option<u64>,
) -> Result<KeyMaterial> {
    let length_error = |got: usize| Error::KeyLength {
        origin: origin.to_owned(),
        format,
        got: (got as u64).max(file_len.unwrap_or(0)),
    };
    let is_length = |bytes: usize| KEY_LENGTHS.contains(&bytes);
    if format != MaterialFormat::Raw {
        text.trim_newline();
    }
    match format {
        MaterialFormat::Raw if is_length(text.len()) => KeyMaterial::of_key(text),
        MaterialFormat::Hex if text.len().is_multiple_of(2) && is_length(text.len() / 2) => {
            KeyMaterial::of_key(decode_hex(text.expose(), origin)?)
        }
        MaterialFormat::Raw | MaterialFormat::Hex => Err(length_error(text.len())),
        MaterialFormat::Passphrase if text.len() < PASSPHRASE_MIN => Err(Error::PassphraseShort {
            origin: origin.to_owned(),
        }),
        MaterialFormat::Passphrase if text.len() > PASSPHRASE_MAX => Err(Error::PassphraseLong {
            origin: origin.to_owned(),
        }),
        MaterialFormat::Passphrase => Ok(KeyMaterial::Passphrase(text)),
    }
}

fn decode_hex(digits: &[u8], origin: &str) -> Result<Secret> {
    let mut key = Secret::zeroed(digits.len() / 2)?;
    for (i, &digit) in digits.iter().enumerate() {
        let Some(value) = digit_value(digit) else {
            return Err(Error::HexDigit {
                origin: origin.to_owned(),
                position: i + 1,
            });
        };
        let byte = &mut key.expose_mut()[i / 2];
        *byte = *byte << 4 | value;
    }
    Ok(key)
}

/// The value of a hexadecimal digit of either case, without a table that the digit would index and without a branch
/// on its value. So neither cache nor timing shows a good key.
fn digit_value(digit: u8) -> Option<u8> {
    let within = |from: u8, to: u8, offset: u8| -> u16 {
        // 0xffff if from <= digit <= to, else 0: both differences are then non-negative.
        let below = u16::from(digit).wrapping_sub(u16::from(from)) >> 8;
        let above = u16::from(to).wrapping_sub(u16::from(digit)) >> 8;
        let mask = ((below | above) & 1).wrapping_sub(1);
        // One more than the value, so that 0 means no digit.
        mask & u16::from(digit.wrapping_sub(offset).wrapping_add(1))
    };
    let value =
        within(b'0', b'9', b'0') | within(b'a', b'f', b'a' - 10) | within(b'A', b'F', b'A' - 10);
    u8::try_from(value).ok()?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passphrases_have_one_form() {
        let passphrase = |bytes: &[u8]| KeyMaterial::Passphrase(Secret::from_slice(bytes).unwrap());
        for (typed, expected) in [
            ("cafe\u{301} au lait", Some("café au lait")),
            ("café au lait", None),
            ("plain ASCII", None),
            // Hangul, a singleton, marks in the wrong order, a mark that composes with nothing.
            ("\u{1112}\u{1161}\u{11ab}", Some("한")),
            ("\u{212b}ngström", Some("Ångström")),
            ("q\u{307}\u{323}", Some("q\u{323}\u{307}")),
            ("q\u{323}\u{307}", None),
            // Compatibility forms are other letters.
            ("ﬁve ⑤ fives", None),
        ] {
            let normalized = passphrase(typed.as_bytes()).normalized().unwrap();
            let text = normalized.map(|material| match material {
                KeyMaterial::Passphrase(text) => text.expose().to_vec(),
                other => panic!("{other:?}"),
            });
            assert_eq!(text.as_deref(), expected.map(str::as_bytes), "{typed}");
        }
        // Latin-1.
        let latin = passphrase(b"caf\xe9 e\xcc\x81");
        assert!(latin.normalized().unwrap().is_none());
        let key = KeyMaterial::Key(Key::from_bytes(&[0x65; 32]).unwrap());
        assert!(key.normalized().unwrap().is_none());
    }

    #[test]
    fn hexadecimal_digits() {
        for digit in 0..=255u8 {
            let expected = char::from(digit).to_digit(16).map(|value| value as u8);
            assert_eq!(digit_value(digit), expected, "{digit}");
        }
    }
}
