//! A policy: its master key under the keys of protectors.

use cipher::Random;
use secret::{Key, Secret};

use super::error::{Error, Result, damaged};
use super::hex;
use super::protector::Descriptor;
use super::wire::{self, MessageWriter};
use super::wrapped_key::WrappedKeyData;
use crate::formats::fscrypt::{
    EncryptionMode, EncryptionPolicy, FscryptMasterKey, KeyName, KeyUsage,
};

/// The length of a master key, in bytes.
const KEY_LEN: usize = 64;

/// The number in place of a mode for names that are not encrypted. The tool knows no such policies, and refuses this
/// number.
const CLEAR_NAMES: i64 = 255;

/// The encryption of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Names are padded to a multiple of so many bytes.
    pub padding: usize,
    /// The cipher of contents.
    pub contents: EncryptionMode,
    /// The cipher of names.
    pub names: EncryptionMode,
    /// The version of policies: 1 or 2.
    pub version: u8,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            padding: 32,
            contents: EncryptionMode::Aes256Xts,
            names: EncryptionMode::Aes256Cts,
            version: 2,
        }
    }
}

impl Options {
    /// The options of a policy as the kernel has it.
    pub fn of(policy: &EncryptionPolicy) -> Options {
        Options {
            padding: policy.padding,
            contents: policy.contents,
            names: policy.names,
            version: match policy.key {
                KeyName::Descriptor(_) => 1,
                KeyName::Identifier(_) => 2,
            },
        }
    }

    pub(super) fn new(padding: i64, contents: i64, names: i64, version: i64) -> Result<Options> {
        let version = match version {
            0 | 1 => 1,
            2 => 2,
            other => return Err(Error::Unknown(format!("policy version {other}"))),
        };
        let mode = |number: i64| {
            let known = u8::try_from(number)
                .ok()
                .and_then(EncryptionMode::from_number);
            known.ok_or_else(|| match number {
                0 => damaged("a mode of encryption is missing"),
                _ => Error::Unknown(format!("mode of encryption {number}")),
            })
        };
        if !matches!(padding, 4 | 8 | 16 | 32) {
            return Err(damaged("the padding is none of 4, 8, 16 and 32"));
        }
        Ok(Options {
            padding: padding as usize,
            contents: mode(contents)?,
            names: match names {
                CLEAR_NAMES => EncryptionMode::Null,
                number => mode(number)?,
            },
            version,
        })
    }

    /// Returns whether names are not encrypted.
    pub fn has_clear_names(&self) -> bool {
        self.names == EncryptionMode::Null
    }

    /// The number of the mode of names.
    fn names_number(&self) -> i64 {
        match self.names {
            EncryptionMode::Null => CLEAR_NAMES,
            mode => mode.number().into(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PolicySlot {
    protector: Descriptor,
    wrapped: WrappedKeyData,
    unknown: Vec<u8>,
}

/// A policy with its wrapped master keys, locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedPolicy {
    /// The name of its master key.
    pub name: KeyName,
    /// The encryption of the policy.
    pub options: Options,
    slots: Vec<PolicySlot>,
    /// The unknown fields of the options.
    unknown_options: Vec<u8>,
    unknown: Vec<u8>,
}

impl ProtectedPolicy {
    /// A new policy with a new master key, which this protector opens.
    ///
    /// # Errors
    /// [`Error::Cipher`], [`Error::Memory`].
    pub fn create(
        options: Options,
        protector: Descriptor,
        key: &Key,
        random: &dyn Random,
    ) -> Result<(ProtectedPolicy, Secret)> {
        let mut master = Secret::zeroed(KEY_LEN)?;
        random.fill(master.expose_mut())?;
        let mut policy = ProtectedPolicy {
            name: name_of(&master, options.version)?,
            options,
            slots: Vec::new(),
            unknown_options: Vec::new(),
            unknown: Vec::new(),
        };
        policy.add(protector, key, &master, random)?;
        Ok((policy, master))
    }

    /// The protectors that open it.
    pub fn protectors(&self) -> impl Iterator<Item = Descriptor> {
        self.slots.iter().map(|slot| slot.protector)
    }

    /// The policy as the kernel has it. With Adiantum for both, the tool has one key for all files.
    pub fn policy(&self) -> EncryptionPolicy {
        let Options {
            padding,
            contents,
            names,
            ..
        } = self.options;
        let is_wide = contents == EncryptionMode::Adiantum && names == EncryptionMode::Adiantum;
        EncryptionPolicy {
            contents,
            names,
            padding,
            flags: match is_wide {
                true => KeyUsage::DirectKey,
                false => KeyUsage::PerFile,
            },
            log2_unit: 0,
            key: self.name,
        }
    }

    /// The master key, by the key of a protector.
    ///
    /// # Errors
    /// [`Error::Refused`] if the protector does not open it; [`Error::Damaged`].
    pub fn unlock(&self, protector: &Descriptor, key: &Key) -> Result<Secret> {
        let slot = self.slots.iter().find(|slot| slot.protector == *protector);
        let slot = slot.ok_or_else(|| self.not_protected(protector))?;
        // The descriptor has proved the key.
        let master = slot.wrapped.unwrap(key).map_err(|error| match error {
            Error::WrongKey => damaged("the wrapped master key was changed"),
            other => other,
        })?;
        match name_of(&master, self.options.version)? == self.name {
            true => Ok(master),
            false => Err(damaged("the master key is of another policy")),
        }
    }

    /// Has another protector open it.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Cipher`], [`Error::Memory`].
    pub fn add(
        &mut self,
        protector: Descriptor,
        key: &Key,
        master: &Secret,
        random: &dyn Random,
    ) -> Result<()> {
        if self.protectors().any(|known| known == protector) {
            return Err(Error::Exists(format!(
                "the protector {} on policy {}",
                hex::text(&protector),
                hex::key_name(&self.name)
            )));
        }
        self.slots.push(PolicySlot {
            protector,
            wrapped: WrappedKeyData::wrap(key, master.expose(), random)?,
            unknown: Vec::new(),
        });
        Ok(())
    }

    /// Has a protector not open it any more.
    ///
    /// # Errors
    /// [`Error::Refused`] if it does not, or if it is the only one.
    pub fn remove(&mut self, protector: &Descriptor) -> Result<()> {
        if !self.protectors().any(|known| known == *protector) {
            return Err(self.not_protected(protector));
        }
        if self.slots.len() == 1 {
            return Err(Error::Refused(format!(
                "cannot remove the only protector of policy {}",
                hex::key_name(&self.name)
            )));
        }
        self.slots.retain(|slot| slot.protector != *protector);
        Ok(())
    }

    fn not_protected(&self, protector: &Descriptor) -> Error {
        Error::Refused(format!(
            "policy {} is not protected by protector {}",
            hex::key_name(&self.name),
            hex::text(protector)
        ))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Unknown`].
    pub fn decode(message: &[u8]) -> Result<ProtectedPolicy> {
        let (mut name, mut options, mut slots) = (String::new(), None, Vec::new());
        let mut unknown = Vec::new();
        wire::read(message, |field| {
            match field.number {
                1 => name = field.text()?,
                2 => options = Some(field.bytes()?),
                3 => slots.push(PolicySlot::decode(field.bytes()?)?),
                _ => unknown.extend_from_slice(field.raw),
            }
            Ok(())
        })?;
        let options = options.ok_or_else(|| damaged("the policy has no options"))?;
        let (options, unknown_options) = decode_options(options)?;
        let name = match options.version {
            1 => hex::parse(&name).map(KeyName::Descriptor),
            _ => hex::parse(&name).map(KeyName::Identifier),
        };
        Ok(ProtectedPolicy {
            name: name.ok_or_else(|| damaged("the policy has no descriptor"))?,
            options,
            slots,
            unknown_options,
            unknown,
        })
    }

    /// The file.
    pub fn encode(&self) -> Vec<u8> {
        let options = MessageWriter::default()
            .number(1, self.options.padding as i64)
            .number(2, self.options.contents.number().into())
            .number(3, self.options.names_number())
            .number(4, self.options.version.into())
            .done(&self.unknown_options);
        let message = MessageWriter::default()
            .bytes(1, hex::key_name(&self.name).as_bytes())
            .message(2, &options);
        let add = |message: MessageWriter, slot: &PolicySlot| message.message(3, &slot.encode());
        self.slots.iter().fold(message, add).done(&self.unknown)
    }
}

fn decode_options(message: &[u8]) -> Result<(Options, Vec<u8>)> {
    let (mut padding, mut contents, mut names, mut version) = (0, 0, 0, 0);
    let mut unknown = Vec::new();
    wire::read(message, |field| {
        match field.number {
            1 => padding = field.number_value()?,
            2 => contents = field.number_value()?,
            3 => names = field.number_value()?,
            4 => version = field.number_value()?,
            _ => unknown.extend_from_slice(field.raw),
        }
        Ok(())
    })?;
    Ok((Options::new(padding, contents, names, version)?, unknown))
}

impl PolicySlot {
    fn decode(message: &[u8]) -> Result<PolicySlot> {
        let (mut protector, mut wrapped) = (String::new(), None);
        let mut unknown = Vec::new();
        wire::read(message, |field| {
            match field.number {
                1 => protector = field.text()?,
                2 => wrapped = Some(field.bytes()?),
                _ => unknown.extend_from_slice(field.raw),
            }
            Ok(())
        })?;
        let missing = || damaged("a wrapped key of the policy is not complete");
        Ok(PolicySlot {
            protector: hex::parse(&protector).ok_or_else(missing)?,
            wrapped: WrappedKeyData::decode(wrapped.ok_or_else(missing)?, KEY_LEN)?,
            unknown,
        })
    }

    fn encode(&self) -> Vec<u8> {
        MessageWriter::default()
            .bytes(1, hex::text(&self.protector).as_bytes())
            .message(2, &self.wrapped.encode())
            .done(&self.unknown)
    }
}

fn name_of(master: &Secret, version: u8) -> Result<KeyName> {
    let key = FscryptMasterKey::new(master.try_clone()?).expect("64 bytes");
    Ok(match version {
        1 => key.descriptor(),
        _ => key.identifier()?,
    })
}
