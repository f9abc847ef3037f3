//! `gocryptfs.conf`: which features a directory has, and its master key under a passphrase.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cipher::{AeadAlgorithm, AeadCipher, Digest, PasswordHash, Random};
use secret::{Key, Secret};
use serde::{Deserialize, Serialize};

use super::error::Error;
use super::features::{ContentCipher, Features};

/// The name of the file, in the root of the lower directory.
pub const CONFIG_NAME: &str = "gocryptfs.conf";

/// The version of the format that is read and written.
const VERSION: u16 = 2;

/// More than any configuration has, in bytes.
pub const CONFIG_MAX: usize = 64 << 10;

/// The accepted costs. gocryptfs refuses less than 2^10, or 1 MiB. More than 2^21, or 2 GiB, would only be there to
/// make a reader run out of memory.
const LOG_N: std::ops::RangeInclusive<u8> = 10..=21;

/// The name of the key that seals the contents of files, and the master key.
pub(super) const GCM_KEY: &str = "AES-GCM file content encryption";

/// A configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    features: Features,
    file: File,
}

/// The file, as it is written. Members that are not known are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct File {
    #[serde(default)]
    creator: String,
    encrypted_key: String,
    scrypt_object: Scrypt,
    version: u16,
    #[serde(default)]
    feature_flags: Vec<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    long_name_max: u8,
    #[serde(flatten)]
    more: serde_json::Map<String, serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct VersionMember {
    version: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Scrypt {
    salt: String,
    n: u64,
    r: u32,
    p: u32,
    key_len: u32,
}

fn is_zero(number: &u8) -> bool {
    *number == 0
}

impl Config {
    /// Reads the file.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::TooOld`], [`Error::Unsupported`].
    pub fn decode(bytes: &[u8]) -> Result<Config, Error> {
        if bytes.len() > CONFIG_MAX {
            return Err(Error::Damaged(format!(
                "it is too long: a configuration has {CONFIG_MAX} bytes at most"
            )));
        }
        let damaged = |error: serde_json::Error| Error::Damaged(error.to_string());
        // The version first: another one has other members.
        let VersionMember { version } = serde_json::from_slice(bytes).map_err(damaged)?;
        match version {
            VERSION => {}
            0..VERSION => return Err(Error::TooOld(format!("version {version}"))),
            _ => return Err(Error::Unsupported(format!("version {version}"))),
        }
        let file: File = serde_json::from_slice(bytes).map_err(damaged)?;
        let features = Features::from_flags(&file.feature_flags, file.long_name_max)?;
        file.scrypt_object.hash()?;
        file.scrypt_object.salt()?;
        Ok(Config { features, file })
    }

    /// A new configuration, whose master key is `key`. `log_n` is the cost of a guess: 16 is usual.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for another cost or impossible features; [`Error::Cipher`].
    pub fn create(
        features: Features,
        key: &Key,
        passphrase: &Secret,
        log_n: u8,
        random: &dyn Random,
    ) -> Result<Config, Error> {
        let feature_flags = features.flags();
        // What is not read must not be written.
        Features::from_flags(&feature_flags, features.long_name_max_byte())?;
        let mut config = Config {
            file: File {
                creator: format!("strongroom {}", env!("CARGO_PKG_VERSION")),
                encrypted_key: String::new(),
                scrypt_object: Scrypt::new(log_n, random)?,
                version: VERSION,
                feature_flags,
                long_name_max: features.long_name_max_byte(),
                more: serde_json::Map::new(),
            },
            features,
        };
        config.seal_key(key, passphrase, random)?;
        Ok(config)
    }

    /// The file.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(&self.file).expect("strings and numbers");
        bytes.push(b'\n');
        bytes
    }

    /// The features of the directory.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// The master key.
    ///
    /// # Errors
    /// [`Error::WrongPassphrase`]; [`Error::Damaged`] if the sealed key has another length;
    /// [`Error::Cipher`], [`Error::Memory`].
    pub fn unlock(&self, passphrase: &Secret) -> Result<Key, Error> {
        let damaged = |_| Error::Damaged("EncryptedKey has another length".into());
        let bytes = BASE64.decode(&self.file.encrypted_key);
        let bytes = bytes.map_err(|_| Error::Damaged("EncryptedKey is no base64".into()))?;
        let (nonce, rest) = bytes
            .split_at_checked(self.key_nonce_len())
            .ok_or(())
            .map_err(damaged)?;
        let rest: &[u8; Key::LEN + 16] = rest.try_into().map_err(|_| ()).map_err(damaged)?;
        let (sealed, tag) = rest.split_first_chunk().expect("32 bytes of 48");
        let tag = tag.try_into().expect("16 bytes");
        let cipher = self.key_cipher(passphrase)?;
        Key::fill_with(|key| {
            *key = *sealed;
            match cipher.open(nonce, &KEY_BLOCK, key, tag) {
                Err(cipher::Error::Unauthentic) => Err(Error::WrongPassphrase),
                opened => Ok(opened?),
            }
        })
    }

    /// Seals the same master key under another passphrase, at the same cost of a guess.
    ///
    /// # Errors
    /// Those of [`Config::unlock`] and [`Config::create`].
    pub fn change_passphrase(
        &mut self,
        old: &Secret,
        new: &Secret,
        random: &dyn Random,
    ) -> Result<(), Error> {
        let key = self.unlock(old)?;
        let log_n = self.file.scrypt_object.log_n()?;
        self.file.scrypt_object = Scrypt::new(log_n, random)?;
        self.seal_key(&key, new, random)
    }

    fn seal_key(
        &mut self,
        key: &Key,
        passphrase: &Secret,
        random: &dyn Random,
    ) -> Result<(), Error> {
        let nonce = random.nonce()?;
        let nonce = &nonce[..self.key_nonce_len()];
        // In locked memory until it is sealed.
        let mut sealed = key
            .try_clone()
            .map(|key| Secret::from_slice(key.expose()))??;
        let cipher = self.key_cipher(passphrase)?;
        let tag = cipher.seal(nonce, &KEY_BLOCK, sealed.expose_mut())?;
        self.file.encrypted_key = BASE64.encode([nonce, sealed.expose(), &tag].concat());
        Ok(())
    }

    /// Directories without HKDF are from times when nonces had 12 bytes here.
    fn key_nonce_len(&self) -> usize {
        if self.features.hkdf { 16 } else { 12 }
    }

    /// The cipher of the master key: AES-GCM, whatever seals the contents.
    fn key_cipher(&self, passphrase: &Secret) -> Result<AeadCipher, Error> {
        let scrypt = &self.file.scrypt_object;
        let mut hashed = Secret::zeroed(Key::LEN)?;
        scrypt
            .hash()?
            .derive(passphrase.expose(), &scrypt.salt()?, hashed.expose_mut())?;
        let key = match self.features.hkdf {
            true => derive(hashed.expose(), GCM_KEY, Key::LEN)?,
            false => hashed,
        };
        Ok(AeadCipher::new(AeadAlgorithm::Aes256Gcm, key.expose())?)
    }

    /// The key of the contents: what [`ContentCipher`] takes.
    pub(super) fn content_key(&self, master: &Key) -> Result<Secret, Error> {
        let master = master.expose();
        match (self.features.content, self.features.hkdf) {
            (ContentCipher::AesGcm, true) => derive(master, GCM_KEY, 32),
            (ContentCipher::AesGcm, false) => Ok(Secret::from_slice(master)?),
            (ContentCipher::XChaCha20Poly1305, _) => {
                derive(master, "XChaCha20-Poly1305 file content encryption", 32)
            }
            (ContentCipher::AesSiv, true) => derive(master, "AES-SIV file content encryption", 64),
            (ContentCipher::AesSiv, false) => {
                Ok(Secret::from_slice(&Digest::Sha512.hash(&[master]))?)
            }
        }
    }

    pub(super) fn name_key(&self, master: &Key) -> Result<Secret, Error> {
        match self.features.hkdf {
            true => derive(master.expose(), "EME filename encryption", Key::LEN),
            false => Ok(Secret::from_slice(master.expose())?),
        }
    }
}

/// The authenticated data of the master key: it is block 0 of no file.
const KEY_BLOCK: [u8; 8] = [0; 8];

/// HKDF-SHA256 without salt.
fn derive(key: &[u8], info: &str, len: usize) -> Result<Secret, Error> {
    let mut derived = Secret::zeroed(len)?;
    Digest::Sha256.hkdf(&[], key, &[info.as_bytes()], derived.expose_mut())?;
    Ok(derived)
}

impl Scrypt {
    fn new(log_n: u8, random: &dyn Random) -> Result<Scrypt, Error> {
        let mut salt = [0; 32];
        random.fill(&mut salt)?;
        let scrypt = Scrypt {
            salt: BASE64.encode(salt),
            n: 1u64.checked_shl(log_n.into()).unwrap_or_default(),
            r: 8,
            p: 1,
            key_len: Key::LEN as u32,
        };
        scrypt.hash()?;
        Ok(scrypt)
    }

    fn log_n(&self) -> Result<u8, Error> {
        let log_n = self.n.checked_ilog2().unwrap_or_default() as u8;
        if self.n.is_power_of_two() && LOG_N.contains(&log_n) {
            return Ok(log_n);
        }
        Err(Error::Unsupported(format!("scrypt with N = {}", self.n)))
    }

    /// The hash, within bounds: weak parameters give the passphrase away, others take all the memory.
    fn hash(&self) -> Result<PasswordHash, Error> {
        let (log_n, r, p) = (self.log_n()?, self.r, self.p);
        if r != 8 || !(1..=16).contains(&p) || self.key_len != Key::LEN as u32 {
            let what = format!(
                "scrypt with r = {r}, p = {p}, a key of {} bytes",
                self.key_len
            );
            return Err(Error::Unsupported(what));
        }
        Ok(PasswordHash::Scrypt { log_n, r, p })
    }

    fn salt(&self) -> Result<Vec<u8>, Error> {
        let salt = BASE64.decode(&self.salt).ok();
        salt.filter(|salt| salt.len() >= 32)
            .ok_or_else(|| Error::Damaged("the salt is no 32 bytes in base64".into()))
    }
}
