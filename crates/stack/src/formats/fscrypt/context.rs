//! `struct fscrypt_context`: what Linux keeps in each inode.

use super::mode::EncryptionMode;

/// The length of a nonce in bytes.
pub(super) const NONCE_LEN: usize = 16;

/// The name of a master key, as policies of each version have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyName {
    /// Version 1: a descriptor that the user chose.
    Descriptor([u8; 8]),
    /// Version 2: derived from the key itself.
    Identifier([u8; 16]),
}

/// The rule by which keys and IVs are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyUsage {
    /// A key for each file.
    PerFile,
    /// A key for each mode; the nonce is in the IV (`DIRECT_KEY`).
    DirectKey,
    /// A key for each mode; the inode number is in the IV (`IV_INO_LBLK_64`).
    InoLblk64,
    /// The variant of `InoLblk64` with IVs of 32 bits (`IV_INO_LBLK_32`).
    InoLblk32,
}

/// The common settings of a directory and everything in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EncryptionPolicy {
    /// The cipher of contents.
    pub contents: EncryptionMode,
    /// The cipher of names and of the targets of links.
    pub names: EncryptionMode,
    /// Names are padded to a multiple of so many bytes: 4, 8, 16 or 32.
    pub padding: usize,
    /// The rule by which keys and IVs are made.
    pub flags: KeyUsage,
    /// The base-2 logarithm of the unit of encryption, or 0 for 4096 bytes.
    pub log2_unit: u8,
    /// The master key, and with it the version of the policy.
    pub key: KeyName,
}

/// The policy of an inode, and its nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeContext {
    /// The policy that it has in common with its directory.
    pub policy: EncryptionPolicy,
    /// The nonce of this inode alone.
    pub nonce: [u8; NONCE_LEN],
}

impl EncryptionPolicy {
    /// The default of the tool `fscrypt`: AES-256, names padded to 32 bytes, version 2.
    pub const fn new(identifier: [u8; 16]) -> EncryptionPolicy {
        EncryptionPolicy {
            contents: EncryptionMode::Aes256Xts,
            names: EncryptionMode::Aes256Cts,
            padding: 32,
            flags: KeyUsage::PerFile,
            log2_unit: 0,
            key: KeyName::Identifier(identifier),
        }
    }

    /// Bytes of one unit of encryption.
    pub const fn unit(&self) -> usize {
        match self.log2_unit {
            0 => 4096,
            log2 => 1 << log2,
        }
    }

    /// Returns whether names and the targets of links are in clear.
    pub fn has_clear_names(&self) -> bool {
        self.names == EncryptionMode::Null
    }

    /// Returns whether IVs are made from the numbers of inodes.
    pub const fn needs_inode_numbers(&self) -> bool {
        matches!(self.flags, KeyUsage::InoLblk64 | KeyUsage::InoLblk32)
    }

    /// Returns whether Linux allows this policy on a file system with blocks of 4096 bytes, or Lustre.
    pub fn is_valid(&self) -> bool {
        let version = match self.key {
            KeyName::Descriptor(_) => 1,
            KeyName::Identifier(_) => 2,
        };
        let wide =
            self.contents == EncryptionMode::Adiantum && self.names == EncryptionMode::Adiantum;
        let flags = match self.flags {
            KeyUsage::PerFile => true,
            KeyUsage::DirectKey => wide,
            KeyUsage::InoLblk64 | KeyUsage::InoLblk32 => version == 2,
        };
        EncryptionMode::is_pair(self.contents, self.names, version)
            && flags
            && matches!(self.padding, 4 | 8 | 16 | 32)
            && (self.log2_unit == 0 || version == 2 && (9..=12).contains(&self.log2_unit))
    }

    /// Reads `struct fscrypt_policy_v1` or `struct fscrypt_policy_v2`. Nothing for another one, and for one
    /// that is not supported here.
    pub fn from_kernel(bytes: &[u8]) -> Option<EncryptionPolicy> {
        let (version, rest) = bytes.split_first()?;
        // Their versions are 0 and 2, and those of contexts 1 and 2.
        let version = if *version == 0 { 1 } else { *version };
        let context = [&[version], rest, &[0; NONCE_LEN]].concat();
        InodeContext::decode(&context).map(|context| context.policy)
    }

    /// The structure of the kernel with this policy.
    pub fn to_kernel(&self) -> Vec<u8> {
        let context = InodeContext {
            policy: *self,
            nonce: [0; NONCE_LEN],
        };
        let mut bytes = context.encode();
        bytes.truncate(bytes.len() - NONCE_LEN);
        if bytes[0] == 1 {
            bytes[0] = 0;
        }
        bytes
    }

    fn flag_bits(&self) -> u8 {
        let padding = (self.padding.trailing_zeros() - 2) as u8;
        padding
            | match self.flags {
                KeyUsage::PerFile => 0,
                KeyUsage::DirectKey => 4,
                KeyUsage::InoLblk64 => 8,
                KeyUsage::InoLblk32 => 16,
            }
    }
}

impl InodeContext {
    /// Reads a context of version 1 (28 bytes) or 2 (40 bytes). Nothing for any other bytes, and for a
    /// policy that Linux does not allow.
    pub fn decode(bytes: &[u8]) -> Option<InodeContext> {
        let (key, log2_unit, nonce) = match *bytes {
            [1, _, _, _, ref rest @ ..] => {
                let (descriptor, nonce) = rest.split_first_chunk()?;
                (KeyName::Descriptor(*descriptor), 0, nonce)
            }
            [2, _, _, _, log2_unit, 0, 0, 0, ref rest @ ..] => {
                let (identifier, nonce) = rest.split_first_chunk()?;
                (KeyName::Identifier(*identifier), log2_unit, nonce)
            }
            _ => return None,
        };
        let policy = EncryptionPolicy {
            contents: EncryptionMode::from_number(bytes[1])?,
            names: match bytes[2] {
                0 => EncryptionMode::Null,
                number => EncryptionMode::from_number(number)?,
            },
            padding: 4 << (bytes[3] & 3),
            flags: match bytes[3] & !3 {
                0 => KeyUsage::PerFile,
                4 => KeyUsage::DirectKey,
                8 => KeyUsage::InoLblk64,
                16 => KeyUsage::InoLblk32,
                _ => return None,
            },
            log2_unit,
            key,
        };
        let nonce = nonce.try_into().ok()?;
        policy.is_valid().then_some(InodeContext { policy, nonce })
    }

    /// The bytes of the context.
    pub fn encode(&self) -> Vec<u8> {
        let policy = &self.policy;
        let (contents, names) = (policy.contents.number(), policy.names.number());
        let flags = policy.flag_bits();
        let mut bytes = match &policy.key {
            KeyName::Descriptor(descriptor) => {
                [&[1, contents, names, flags], &descriptor[..]].concat()
            }
            KeyName::Identifier(identifier) => {
                let head = [2, contents, names, flags, policy.log2_unit, 0, 0, 0];
                [&head[..], identifier].concat()
            }
        };
        bytes.extend_from_slice(&self.nonce);
        bytes
    }

    /// The length of the context that begins with these bytes.
    pub(super) fn len_of(bytes: &[u8]) -> Option<usize> {
        match bytes.first()? {
            1 => Some(28),
            2 => Some(40),
            _ => None,
        }
    }
}
