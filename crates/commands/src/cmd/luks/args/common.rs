//! Arguments that several commands have.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use console::values;

/// A container, whose header may be elsewhere.
#[derive(Args, Debug)]
pub(crate) struct LuksContainer {
    /// The header is in this file, disk or volume
    #[arg(long, value_name = "FILE")]
    pub(crate) header: Option<PathBuf>,
    /// The container: a file, a disk, volume:POOL/DATASET, luks:NAME or nbd://HOST/EXPORT
    #[arg(value_name = "DEVICE")]
    pub(crate) device: PathBuf,
}

impl LuksContainer {
    /// The device of the header.
    pub(crate) fn header_device(&self) -> &Path {
        self.header.as_ref().unwrap_or(&self.device)
    }
}

/// The source of the passphrase of a container.
#[derive(Args, Debug)]
pub(crate) struct LuksKey {
    /// Read the passphrase from this whole file; - is the standard input, pkcs11:URI an object in a token
    #[arg(short = 'd', long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Use this list of PKCS#11 modules instead of /etc/strongroom/pkcs11
    #[arg(long, value_name = "FILE")]
    pub(crate) pkcs11_list: Option<PathBuf>,
    /// Skip this many bytes of the key file
    #[arg(long, value_name = "BYTES", default_value = "0", requires = "key_file")]
    pub(crate) keyfile_offset: u64,
    /// Read only this many bytes of the key file
    #[arg(short = 'l', long, value_name = "BYTES", requires = "key_file")]
    pub(crate) keyfile_size: Option<usize>,
    /// Number of times that a passphrase may be typed at a terminal
    #[arg(short = 'T', long, value_name = "NUMBER", default_value = "3",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) tries: u32,
    /// Give up if a passphrase is not typed within this time; 0 is no limit
    #[arg(short = 't', long, value_name = "SECONDS", default_value = "0")]
    pub(crate) timeout: u64,
}

/// The tokens that open the container.
#[derive(Args, Debug)]
#[command(next_help_heading = "Tokens")]
pub(crate) struct LuksTokenChoice {
    /// Open by a token of Tang servers, the TPM, an authenticator or the keyring; ask for no passphrase
    #[arg(long, conflicts_with = "key_file")]
    pub(crate) token_only: bool,
    /// Use only this token
    #[arg(long, value_name = "TOKEN", requires = "token_only")]
    pub(crate) token_id: Option<u32>,
    /// Use only tokens of this type
    #[arg(long, value_name = "TYPE", requires = "token_only")]
    pub(crate) token_type: Option<String>,
    /// The signatures of PCRs for a token of the TPM that has a signed policy; default:
    /// tpm2-pcr-signature.json in /etc/systemd, /run/systemd or /usr/lib/systemd
    #[arg(long, value_name = "FILE", requires = "token_only")]
    pub(crate) tpm2_signature: Option<PathBuf>,
}

/// Versions of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LuksVersion {
    Luks1,
    Luks2,
}

impl LuksVersion {
    pub(crate) fn version(self) -> luks::ContainerVersion {
        match self {
            LuksVersion::Luks1 => luks::ContainerVersion::V1,
            LuksVersion::Luks2 => luks::ContainerVersion::V2,
        }
    }
}

/// The cost of a guess at a new passphrase.
#[derive(Args, Debug)]
#[command(next_help_heading = "Cost of a guess")]
pub(crate) struct LuksKdf {
    /// The password hash; default: argon2id, or pbkdf2 for luks1
    #[arg(long, value_enum, value_name = "HASH")]
    pub(crate) pbkdf: Option<LuksPbkdf>,
    /// The number of iterations or passes, whatever time they take
    #[arg(long, value_name = "NUMBER", conflicts_with = "iter_time")]
    pub(crate) pbkdf_force_iterations: Option<u32>,
    /// The largest memory for Argon2, in KiB
    #[arg(long, value_name = "KIB")]
    pub(crate) pbkdf_memory: Option<u32>,
    /// The number of lanes for Argon2
    #[arg(long, value_name = "NUMBER")]
    pub(crate) pbkdf_parallel: Option<u32>,
    /// The time to open the container, in milliseconds
    #[arg(short, long, value_name = "MS")]
    pub(crate) iter_time: Option<u64>,
    /// The hash for everything but the password
    #[arg(long, value_name = "HASH", default_value = "sha256")]
    pub(crate) hash: String,
    /// The cipher of the key material; default: as the data, if that fits. LUKS2 only
    #[arg(long, value_name = "CIPHER", requires = "keyslot_key_size")]
    pub(crate) keyslot_cipher: Option<String>,
    /// The length of the key for the key material, in bits
    #[arg(long, value_name = "BITS", requires = "keyslot_cipher")]
    pub(crate) keyslot_key_size: Option<usize>,
}

/// Password hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LuksPbkdf {
    Pbkdf2,
    Argon2i,
    Argon2id,
}

impl LuksPbkdf {
    pub(crate) fn kind(self) -> luks::KdfKind {
        match self {
            LuksPbkdf::Pbkdf2 => luks::KdfKind::Pbkdf2,
            LuksPbkdf::Argon2i => luks::KdfKind::Argon2(luks::Variant::Argon2i),
            LuksPbkdf::Argon2id => luks::KdfKind::Argon2(luks::Variant::Argon2id),
        }
    }
}

/// A size with the units of cryptsetup: sectors of 512 bytes, and powers of 1000, beside the usual ones.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let units = [
        ("S", 512),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ];
    let upper = text.to_ascii_uppercase();
    let found = units.into_iter().find_map(|(unit, bytes)| {
        let number = upper.strip_suffix(unit)?.parse::<u64>().ok()?;
        Some((number, bytes))
    });
    let bytes = match found {
        Some((number, bytes)) => number.saturating_mul(bytes),
        None => values::size(text)?,
    };
    match bytes {
        0 => Err("the size is 0".into()),
        bytes if bytes > i64::MAX as u64 => Err("a size is less than 8 EiB".into()),
        bytes => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_cryptsetup() {
        for (text, bytes) in [
            ("4096", 4096),
            ("8S", 4096),
            ("1s", 512),
            ("1K", 1024),
            ("1KiB", 1024),
            ("1KB", 1000),
            ("2MB", 2_000_000),
            ("1G", 1 << 30),
            ("3TB", 3_000_000_000_000),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["0", "0S", "", "S", "-1", "1X", "1.5S", "99999999TB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
