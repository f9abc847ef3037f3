//! A protector: a key under a passphrase or another key.

use cipher::{Digest, Random};
use secret::{Key, Secret};

use super::costs::Costs;
use super::error::{Error, Result, damaged};
use super::hex;
use super::wire::{self, MessageWriter};
use super::wrapped_key::WrappedKeyData;

/// The name of a protector: the hash of the hash of its key.
pub type Descriptor = [u8; 8];

/// The source of a protector's secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtectorSource {
    /// The login passphrase of this user.
    Login(u32),
    /// A passphrase of its own.
    Passphrase,
    /// A file with a key of 32 bytes.
    RawKey,
}

impl ProtectorSource {
    /// The tool's word.
    pub const fn name(self) -> &'static str {
        match self {
            ProtectorSource::Login(_) => "pam_passphrase",
            ProtectorSource::Passphrase => "custom_passphrase",
            ProtectorSource::RawKey => "raw_key",
        }
    }
}

/// The hash by which the secret becomes the key that wraps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hash {
    pub(super) costs: Costs,
    salt: [u8; 16],
}

/// A protector, locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protector {
    /// The descriptor of the protector.
    pub descriptor: Descriptor,
    /// The source of the secret.
    pub source: ProtectorSource,
    /// The name that the owner gave; nothing for a login passphrase.
    pub name: String,
    /// With a passphrase.
    hash: Option<Hash>,
    wrapped: WrappedKeyData,
    unknown: Vec<u8>,
}

impl Protector {
    /// A new protector by a passphrase, and its key.
    ///
    /// # Errors
    /// [`Error::Cipher`], [`Error::Memory`], [`Error::Keys`].
    pub fn with_passphrase(
        source: ProtectorSource,
        name: &str,
        costs: &Costs,
        passphrase: &Secret,
        random: &dyn Random,
    ) -> Result<(Protector, Key)> {
        let hash = Hash {
            costs: costs.clone(),
            salt: salt(random)?,
        };
        let wrapping = hash.costs.hash(passphrase, &hash.salt)?;
        Protector::new(source, name, Some(hash), &wrapping, random)
    }

    /// A new protector by a key, and its own key.
    ///
    /// # Errors
    /// [`Error::Cipher`], [`Error::Memory`].
    pub fn with_raw_key(name: &str, raw: &Key, random: &dyn Random) -> Result<(Protector, Key)> {
        Protector::new(ProtectorSource::RawKey, name, None, raw, random)
    }

    fn new(
        source: ProtectorSource,
        name: &str,
        hash: Option<Hash>,
        wrapping: &Key,
        random: &dyn Random,
    ) -> Result<(Protector, Key)> {
        let key = keys::random_key(random)?;
        let protector = Protector {
            descriptor: descriptor(key.expose()),
            source,
            name: name.to_owned(),
            hash,
            wrapped: WrappedKeyData::wrap(wrapping, key.expose(), random)?,
            unknown: Vec::new(),
        };
        Ok((protector, key))
    }

    /// The cost of a guess, if a passphrase opens it.
    pub fn costs(&self) -> Option<&Costs> {
        self.hash.as_ref().map(|hash| &hash.costs)
    }

    /// Unwraps the key of the protector with a passphrase.
    ///
    /// # Errors
    /// [`Error::WrongKey`]; [`Error::Damaged`]; [`Error::Refused`] if no passphrase opens it.
    pub fn unlock(&self, passphrase: &Secret) -> Result<Key> {
        let hash = self.hash.as_ref().ok_or_else(|| self.no_passphrase())?;
        self.unlock_with(&hash.costs.hash(passphrase, &hash.salt)?)
    }

    /// Unwraps the key of the protector with a raw key.
    ///
    /// # Errors
    /// [`Error::WrongKey`]; [`Error::Damaged`]; [`Error::Refused`] if a passphrase opens it.
    pub fn unlock_raw(&self, raw: &Key) -> Result<Key> {
        match self.source {
            ProtectorSource::RawKey => self.unlock_with(raw),
            _ => Err(Error::Refused(format!(
                "a passphrase and no key file opens the protector {}",
                hex::text(&self.descriptor)
            ))),
        }
    }

    fn unlock_with(&self, wrapping: &Key) -> Result<Key> {
        let secret = self.wrapped.unwrap(wrapping)?;
        let key = secret.expose().try_into().expect("32 bytes");
        if descriptor(key) != self.descriptor {
            return Err(damaged("the key belongs to another protector"));
        }
        Ok(Key::from_bytes(key)?)
    }

    /// Puts the same key under another passphrase.
    ///
    /// # Errors
    /// [`Error::Refused`] if no passphrase opens it; [`Error::Keys`], [`Error::Cipher`], [`Error::Memory`].
    pub fn change_passphrase(
        &mut self,
        key: &Key,
        passphrase: &Secret,
        random: &dyn Random,
    ) -> Result<()> {
        let hash = self.hash.as_ref().ok_or_else(|| self.no_passphrase())?;
        let (costs, salt) = (hash.costs.clone(), salt(random)?);
        let wrapping = costs.hash(passphrase, &salt)?;
        self.wrapped = WrappedKeyData::wrap(&wrapping, key.expose(), random)?;
        self.hash = Some(Hash { costs, salt });
        Ok(())
    }

    fn no_passphrase(&self) -> Error {
        let descriptor = hex::text(&self.descriptor);
        Error::Refused(format!(
            "a key file and no passphrase opens the protector {descriptor}"
        ))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Unknown`].
    pub fn decode(message: &[u8]) -> Result<Protector> {
        let (mut descriptor, mut source, mut name) = (String::new(), 0, String::new());
        let (mut costs, mut salt, mut uid, mut wrapped) = (None, None, 0, None);
        let mut unknown = Vec::new();
        wire::read(message, |field| {
            match field.number {
                1 => descriptor = field.text()?,
                2 => source = field.number_value()?,
                3 => name = field.text()?,
                4 => costs = Some(field.bytes()?),
                5 => salt = Some(field.array()?),
                6 => uid = field.number_value()?,
                7 => wrapped = Some(field.bytes()?),
                _ => unknown.extend_from_slice(field.raw),
            }
            Ok(())
        })?;
        let source = match source {
            0 => return Err(damaged("the protector has no source")),
            1 => ProtectorSource::Login(
                uid.try_into()
                    .map_err(|_| damaged("the protector names no valid user"))?,
            ),
            2 => ProtectorSource::Passphrase,
            3 => ProtectorSource::RawKey,
            other => return Err(Error::Unknown(format!("source {other} of a protector"))),
        };
        let missing = |what: &str| damaged(format!("the protector has no {what}"));
        let hash = match source {
            ProtectorSource::RawKey => None,
            _ => Some(Hash {
                costs: Costs::decode(costs.ok_or_else(|| missing("costs"))?)?,
                salt: salt.ok_or_else(|| missing("salt"))?,
            }),
        };
        let wrapped = WrappedKeyData::decode(wrapped.ok_or_else(|| missing("key"))?, Key::LEN)?;
        Ok(Protector {
            descriptor: hex::parse(&descriptor).ok_or_else(|| missing("descriptor"))?,
            source,
            name,
            hash,
            wrapped,
            unknown,
        })
    }

    /// The file.
    pub fn encode(&self) -> Vec<u8> {
        let (number, uid) = match self.source {
            ProtectorSource::Login(uid) => (1, i64::from(uid)),
            ProtectorSource::Passphrase => (2, 0),
            ProtectorSource::RawKey => (3, 0),
        };
        let mut message = MessageWriter::default()
            .bytes(1, hex::text(&self.descriptor).as_bytes())
            .number(2, number)
            .bytes(3, self.name.as_bytes());
        if let Some(hash) = &self.hash {
            message = message
                .message(4, &hash.costs.encode())
                .bytes(5, &hash.salt);
        }
        message
            .number(6, uid)
            .message(7, &self.wrapped.encode())
            .done(&self.unknown)
    }
}

fn salt(random: &dyn Random) -> Result<[u8; 16]> {
    let mut salt = [0; 16];
    random.fill(&mut salt)?;
    Ok(salt)
}

fn descriptor(key: &[u8; Key::LEN]) -> Descriptor {
    let once = Digest::Sha512.hash(&[key]);
    let twice = Digest::Sha512.hash(&[&once]);
    *twice.first_chunk().expect("64 bytes")
}
