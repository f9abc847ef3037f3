//! The key of one inode, and its IVs.

use secret::Secret;
use vfs::{Error, Result};

use super::context::{InodeContext, KeyName, KeyUsage, NONCE_LEN};
use super::master_key::{DerivationPurpose, FscryptMasterKey};
use super::mode::{Cipher, EncryptionMode, UnitIv};

/// The file system and number of an inode, for policies that put its number into the IV. A file system of Linux has
/// this; a stacked directory does not.
#[derive(Clone, Copy, Debug)]
pub struct InodeIdentity {
    /// The UUID of the file system.
    pub uuid: [u8; 16],
    /// The number of the inode.
    pub ino: u32,
}

/// The key of one inode: of its contents, if it is a regular file, else of names in it or its target.
#[derive(Debug)]
pub struct InodeKey {
    cipher: Cipher,
    ivs: IvRule,
    /// Bytes of a unit.
    unit: usize,
}

/// The rule by which IVs are made from the numbers of units.
#[derive(Debug)]
enum IvRule {
    /// The number.
    Number,
    /// The number, then the nonce.
    Nonce([u8; NONCE_LEN]),
    /// The number in the lower 32 bits, the inode's above them.
    High(u32),
    /// The number and this, in 32 bits.
    Sum(u32),
}

impl InodeKey {
    /// The key of the inode with this context. `volume` is necessary for the policies that put the
    /// number of the inode into the IV.
    ///
    /// # Errors
    /// `NotSupported` without such a volume; `NoKey` for a master key that is too short for the cipher; `Io` and
    /// `NoMemory` of the cipher.
    pub fn new(
        context: &InodeContext,
        master: &FscryptMasterKey,
        is_file: bool,
        volume: Option<InodeIdentity>,
    ) -> Result<InodeKey> {
        let policy = &context.policy;
        let mode = match is_file {
            true => policy.contents,
            false => policy.names,
        };
        if mode == EncryptionMode::Null {
            return Ok(InodeKey {
                cipher: Cipher::Null,
                ivs: IvRule::Number,
                unit: policy.unit(),
            });
        }
        if !master.suits(mode) {
            return Err(Error::NoKey);
        }
        let len = mode.key_len();
        let number = [mode.number()];
        let volume = volume.ok_or(Error::NotSupported);
        let (key, ivs) = match (policy.flags, policy.key) {
            (KeyUsage::PerFile, KeyName::Descriptor(_)) => {
                (version_1_key(master, &context.nonce, len)?, IvRule::Number)
            }
            (KeyUsage::DirectKey, KeyName::Descriptor(_)) => {
                let raw = master.raw(len).ok_or(Error::Invalid)?;
                let key = Secret::from_slice(raw).map_err(|_| Error::NoMemory)?;
                (key, IvRule::Nonce(context.nonce))
            }
            (KeyUsage::PerFile, KeyName::Identifier(_)) => (
                master.derive(DerivationPurpose::PerFile, &[&context.nonce], len)?,
                IvRule::Number,
            ),
            (KeyUsage::DirectKey, KeyName::Identifier(_)) => (
                master.derive(DerivationPurpose::DirectKey, &[&number], len)?,
                IvRule::Nonce(context.nonce),
            ),
            (KeyUsage::InoLblk64, _) => {
                let volume = volume?;
                let info: [&[u8]; 2] = [&number, &volume.uuid];
                let key = master.derive(DerivationPurpose::InoLblk64, &info, len)?;
                (key, IvRule::High(volume.ino))
            }
            (KeyUsage::InoLblk32, _) => {
                let volume = volume?;
                let info: [&[u8]; 2] = [&number, &volume.uuid];
                let key = master.derive(DerivationPurpose::InoLblk32, &info, len)?;
                (key, IvRule::Sum(inode_hash(master, volume.ino)?))
            }
        };
        let cipher = Cipher::new(mode, key.expose()).map_err(|_| Error::Io)?;
        let unit = policy.unit();
        Ok(InodeKey { cipher, ivs, unit })
    }

    /// Encrypts whole units of contents, of which the first begins `offset` bytes into the file.
    ///
    /// # Errors
    /// `Invalid` for other lengths and offsets; `FileTooBig` past what the IVs can number.
    pub fn seal(&self, offset: u64, units: &mut [u8]) -> Result<()> {
        self.run(offset, units, Cipher::encrypt)
    }

    /// Decrypts what [`InodeKey::seal`] encrypted.
    ///
    /// # Errors
    /// As [`InodeKey::seal`].
    pub fn open(&self, offset: u64, units: &mut [u8]) -> Result<()> {
        self.run(offset, units, Cipher::decrypt)
    }

    /// Encrypts a padded name or target.
    ///
    /// # Errors
    /// `Io` for less than 16 bytes.
    pub fn seal_name(&self, name: &mut [u8]) -> Result<()> {
        let sealed = self.cipher.encrypt(&self.iv(0)?, name.len(), name);
        sealed.map_err(|_| Error::Io)
    }

    /// Decrypts a name or target.
    ///
    /// # Errors
    /// `Io` for less than 16 bytes.
    pub fn open_name(&self, name: &mut [u8]) -> Result<()> {
        let opened = self.cipher.decrypt(&self.iv(0)?, name.len(), name);
        opened.map_err(|_| Error::Io)
    }

    /// Runs over as many units as lie together under one call of the cipher: all of them where it
    /// counts by itself.
    fn run(
        &self,
        offset: u64,
        units: &mut [u8],
        run: impl Fn(&Cipher, &UnitIv, usize, &mut [u8]) -> cipher::Result<()>,
    ) -> Result<()> {
        let unit = self.unit as u64;
        if !offset.is_multiple_of(unit) || !units.len().is_multiple_of(self.unit) {
            return Err(Error::Invalid);
        }
        let counts = matches!(
            (&self.cipher, &self.ivs),
            (Cipher::Sectors(_), IvRule::Number | IvRule::High(_))
        );
        let last = (offset / unit).checked_add((units.len() / self.unit) as u64);
        self.iv(last.ok_or(Error::FileTooBig)?.saturating_sub(1))?;
        let step = match counts {
            true => units.len().max(self.unit),
            false => self.unit,
        };
        for (units, index) in units.chunks_mut(step).zip(offset / unit..) {
            run(&self.cipher, &self.iv(index)?, self.unit, units).map_err(|_| Error::Io)?;
        }
        Ok(())
    }

    fn iv(&self, index: u64) -> Result<UnitIv> {
        let narrow = || u32::try_from(index).map_err(|_| Error::FileTooBig);
        let mut iv = [0; 32];
        let number = match self.ivs {
            IvRule::Number => index,
            IvRule::Nonce(nonce) => {
                iv[8..][..NONCE_LEN].copy_from_slice(&nonce);
                index
            }
            IvRule::High(ino) => u64::from(narrow()?) | u64::from(ino) << 32,
            IvRule::Sum(hash) => u64::from(hash.wrapping_add(narrow()?)),
        };
        iv[..8].copy_from_slice(&number.to_le_bytes());
        Ok(iv)
    }
}

/// Version 1: the master key, encrypted with AES-128 whose key is the nonce.
fn version_1_key(master: &FscryptMasterKey, nonce: &[u8; NONCE_LEN], len: usize) -> Result<Secret> {
    let raw = master.raw(len).ok_or(Error::Invalid)?;
    let mut key = Secret::from_slice(raw).map_err(|_| Error::NoMemory)?;
    cipher::SectorSpec::parse("aes-ecb")
        .and_then(|spec| cipher::SectorCipher::new(spec, nonce))
        .and_then(|ecb| ecb.encrypt(0, 1, len, key.expose_mut()))
        .map_err(|_| Error::Io)?;
    Ok(key)
}

/// SipHash of the number of an inode, cut to 32 bits.
fn inode_hash(master: &FscryptMasterKey, ino: u32) -> Result<u32> {
    let key = master.derive(DerivationPurpose::InodeHash, &[], 16)?;
    let key = key.expose().first_chunk().expect("16 bytes");
    Ok(cipher::siphash24(key, &u64::from(ino).to_le_bytes()) as u32)
}
