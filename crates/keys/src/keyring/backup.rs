//! Copies of keyrings, kept elsewhere: if the key area of a pool is lost, its datasets are not.
//!
//! ```text
//! Header · Entry 1 · its texts and keyring · Entry 2 · ... · BLAKE3 of everything before
//! ```
//!
//! A backup holds wrapped keys only. With a passphrase or key that opened a slot when the backup was
//! made, it opens, even after the passphrase was changed. Keep it like a key.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Error, Result, layout};

const MAGIC: [u8; 8] = *b"SRKEYBAK";
const VERSION: u16 = 1;
const CHECKSUM: usize = 32;

/// The beginning of a backup.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    /// The length of the whole backup, with the checksum.
    length: U32,
    version: U16,
    /// The number of entries that follow, at least 1.
    count: U16,
    /// Seconds since 1970.
    created: U64,
}

/// A keyring. Name, key source and keyring follow.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct BackupEntryHead {
    guid: U64,
    keyring_len: U32,
    name_len: U16,
    source_len: U16,
}

const _: () = assert!(size_of::<Header>() == 24 && size_of::<BackupEntryHead>() == 16);

/// Copies of the keyrings of a dataset and of those that have their key from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The time of the backup, in seconds since 1970.
    pub created: u64,
    /// The keyrings. Never empty.
    pub keyrings: Vec<BackupKeyring>,
}

/// The copy of a keyring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupKeyring {
    /// The guid of its dataset.
    pub guid: u64,
    /// The name that the dataset had, for people.
    pub name: String,
    /// The `keysource` of its key; empty if the key was inherited.
    pub keysource: String,
    /// [`Keyring::encode`](crate::Keyring::encode)
    pub bytes: Vec<u8>,
}

impl Backup {
    /// The bytes to keep.
    ///
    /// # Errors
    /// [`Error::Backup`] if it has no keyring, or more or longer ones than a backup can hold.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let too_large = || Error::Backup("it would be too large".into());
        if self.keyrings.is_empty() {
            return Err(Error::Backup("there are no keys to back up".into()));
        }
        let mut out = vec![0; size_of::<Header>()];
        for keyring in &self.keyrings {
            let len = |len: usize| u16::try_from(len).map_err(|_| too_large());
            let head = BackupEntryHead {
                guid: keyring.guid.into(),
                keyring_len: u32::try_from(keyring.bytes.len())
                    .map_err(|_| too_large())?
                    .into(),
                name_len: len(keyring.name.len())?.into(),
                source_len: len(keyring.keysource.len())?.into(),
            };
            out.extend_from_slice(head.as_bytes());
            out.extend_from_slice(keyring.name.as_bytes());
            out.extend_from_slice(keyring.keysource.as_bytes());
            out.extend_from_slice(&keyring.bytes);
        }
        let header = Header {
            magic: MAGIC,
            length: u32::try_from(out.len() + CHECKSUM)
                .map_err(|_| too_large())?
                .into(),
            version: VERSION.into(),
            count: u16::try_from(self.keyrings.len())
                .map_err(|_| too_large())?
                .into(),
            created: self.created.into(),
        };
        out[..size_of::<Header>()].copy_from_slice(header.as_bytes());
        let checksum = cipher::hash(&out);
        out.extend_from_slice(&checksum);
        Ok(out)
    }

    /// The backup that these bytes are the encoding of. What is in the keyrings is not looked at.
    ///
    /// # Errors
    /// [`Error::Backup`] if they are not a backup, or not whole; [`Error::TooNew`].
    pub fn decode(bytes: &[u8]) -> Result<Backup> {
        let bad = |what: &str| Error::Backup(what.into());
        let cut = || bad("it is cut short");
        let mut rest = bytes;
        let header: Header = layout::take(&mut rest).ok_or_else(cut)?;
        if header.magic != MAGIC {
            return Err(bad("it is not a backup of keys"));
        }
        if usize::try_from(header.length.get()) != Ok(bytes.len()) {
            return Err(bad("its length is wrong"));
        }
        let body_len = rest.len().checked_sub(CHECKSUM).ok_or_else(cut)?;
        let (mut rest, checksum) = rest.split_at(body_len);
        if cipher::hash(&bytes[..bytes.len() - CHECKSUM]) != *checksum {
            return Err(bad("its checksum is wrong"));
        }
        match header.version.get() {
            VERSION => {}
            version => return Err(Error::TooNew { version }),
        }
        let mut keyrings = Vec::new();
        for _ in 0..header.count.get() {
            keyrings.push(BackupKeyring::take(&mut rest).ok_or_else(cut)?);
        }
        if keyrings.is_empty() || !rest.is_empty() {
            return Err(bad("the number of its keyrings is wrong"));
        }
        Ok(Backup {
            created: header.created.get(),
            keyrings,
        })
    }
}

impl BackupKeyring {
    fn take(bytes: &mut &[u8]) -> Option<BackupKeyring> {
        let head: BackupEntryHead = layout::take(bytes)?;
        let mut part = |len: usize| {
            let (part, rest) = bytes.split_at_checked(len)?;
            *bytes = rest;
            Some(part.to_vec())
        };
        Some(BackupKeyring {
            guid: head.guid.get(),
            name: String::from_utf8(part(head.name_len.get().into())?).ok()?,
            keysource: String::from_utf8(part(head.source_len.get().into())?).ok()?,
            bytes: part(head.keyring_len.get() as usize)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Backup {
        let keyring = |guid, keysource: &str| BackupKeyring {
            guid,
            name: format!("tank/{guid}"),
            keysource: keysource.into(),
            bytes: vec![guid as u8; 50],
        };
        Backup {
            created: 7,
            keyrings: vec![keyring(1, "passphrase,prompt"), keyring(2, "")],
        }
    }

    #[test]
    fn round_trip() {
        let backup = sample();
        let bytes = backup.encode().unwrap();
        assert_eq!(Backup::decode(&bytes).unwrap(), backup);
        let empty = Backup {
            keyrings: Vec::new(),
            ..backup
        };
        assert!(empty.encode().is_err());
    }

    #[test]
    fn whatever_is_changed_is_refused() {
        let bytes = sample().encode().unwrap();
        for len in 0..bytes.len() {
            assert!(Backup::decode(&bytes[..len]).is_err(), "{len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Backup::decode(&bad).is_err(), "{bit}");
        }
        let mut newer = bytes[..bytes.len() - CHECKSUM].to_vec();
        newer[12] = 2;
        let sum = cipher::hash(&newer);
        newer.extend_from_slice(&sum);
        assert!(matches!(
            Backup::decode(&newer),
            Err(Error::TooNew { version: 2 })
        ));
    }
}
