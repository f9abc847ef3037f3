//! Key chains: a key whose record in `.pefs.db` seals the next one.

use cipher::{Digest, Random, SectorCipher, SectorSpec};
use secret::Secret;

use super::pages::Database;
use crate::formats::pefs::algorithm::Algorithm;
use crate::formats::pefs::error::Error;
use crate::formats::pefs::key::{KeyId, MASTER_LEN, PefsKey, PefsMasterKey};

/// The length of the sealed part of a record, in bytes.
const SEALED_LEN: usize = 92;

const MAC_LEN: usize = 32;

/// A record, in bytes.
pub(crate) const RECORD_LEN: usize = SEALED_LEN + MAC_LEN;

/// The random bytes at the start of a record, before it is sealed.
const MARK_LEN: usize = 4;

/// More keys than any chain has.
const KEYS_MAX: usize = 1024;

/// The record of a key, opened.
#[derive(Debug)]
pub(crate) struct ChainLink {
    /// The algorithm of the key whose record this is.
    pub(crate) algorithm: Algorithm,
    /// The next key; nothing at the end of a chain.
    pub(crate) child: Option<(PefsMasterKey, Algorithm)>,
    /// Another key has taken its place: it is in a chain for its files, and begins none any more.
    pub(crate) is_retired: bool,
}

impl ChainLink {
    /// Opens a record of `parent`.
    pub(crate) fn open(parent: &PefsMasterKey, record: &[u8]) -> Result<ChainLink, Error> {
        let (sealed, mac) = record
            .split_at_checked(SEALED_LEN)
            .filter(|(_, mac)| mac.len() == MAC_LEN)
            .ok_or(Error::Record)?;
        let key = parent.record_key();
        let expected = Digest::Sha512.hmac(&key, &[sealed]);
        if !cipher::eq(&expected[..MAC_LEN], mac) {
            return Err(Error::Record);
        }
        let mut plain = Secret::from_slice(sealed)?;
        crypt(&key, plain.expose_mut())?;
        let mut link = ChainLink::decode(plain.expose())?;
        link.is_retired = plain.expose()[..MARK_LEN] == retired_mark(parent);
        Ok(link)
    }

    /// The record of `parent` that leads to a key, or is the end of a chain.
    pub(crate) fn seal(
        parent: &PefsMasterKey,
        algorithm: Algorithm,
        child: Option<(&PefsMasterKey, Algorithm)>,
        is_retired: bool,
        random: &dyn Random,
    ) -> Result<Vec<u8>, Error> {
        let mut plain = Secret::zeroed(SEALED_LEN)?;
        let bytes = plain.expose_mut();
        random.fill(bytes).map_err(|_| Error::Random)?;
        let numbers = |algorithm: Algorithm| {
            let (id, bits) = algorithm.numbers();
            [id.to_le_bytes(), bits.to_le_bytes()].concat()
        };
        match child {
            None => bytes[4..8].fill(0),
            Some((child, algorithm)) => {
                bytes[4..12].copy_from_slice(&numbers(algorithm));
                bytes[12..20].copy_from_slice(&child.id().0);
                bytes[20..20 + MASTER_LEN].copy_from_slice(child.expose());
            }
        }
        bytes[84..].copy_from_slice(&numbers(algorithm));
        if is_retired {
            bytes[..MARK_LEN].copy_from_slice(&retired_mark(parent));
        }
        let key = parent.record_key();
        crypt(&key, bytes)?;
        let mut record = bytes.to_vec();
        record.extend(&Digest::Sha512.hmac(&key, &[&record])[..MAC_LEN]);
        Ok(record)
    }

    fn decode(plain: &[u8]) -> Result<ChainLink, Error> {
        let number = |at: usize| {
            let bytes = plain[at..].first_chunk().expect("of 92 bytes");
            u32::from_le_bytes(*bytes)
        };
        let algorithm = |at| Algorithm::from_numbers(number(at), number(at + 4));
        // Bytes 0 to 3 are random.
        let child = match number(4) {
            0 => None,
            _ => {
                let master = Secret::from_slice(&plain[20..20 + MASTER_LEN])?;
                let master = PefsMasterKey::new(master).ok_or(Error::Record)?;
                if master.id() != KeyId(*plain[12..].first_chunk().expect("of 92 bytes")) {
                    return Err(Error::Record);
                }
                Some((master, algorithm(4).ok_or(Error::Record)?))
            }
        };
        Ok(ChainLink {
            is_retired: false,
            algorithm: algorithm(84).ok_or(Error::Record)?,
            child,
        })
    }
}

/// The mark in the record of a retired key, in place of random bytes. pefs ignores these bytes, and only the key
/// tells them from random ones.
fn retired_mark(key: &PefsMasterKey) -> [u8; MARK_LEN] {
    let mark = Digest::Sha512.hmac(key.expose(), &[b"<STRONGROOM RETIRED>\0"]);
    *mark.first_chunk().expect("64 bytes")
}

/// AES-CTR with a counter that goes up from its first byte. Such a counter is only here: as one block after
/// the other.
fn crypt(key: &[u8], data: &mut [u8]) -> Result<(), Error> {
    let cipher = SectorCipher::new(SectorSpec::parse("aes-ecb")?, &key[..16])?;
    for (number, data) in (0u128..).zip(data.chunks_mut(16)) {
        let mut stream = number.to_le_bytes();
        cipher.encrypt_with(&[0; 16], &mut stream)?;
        for (byte, stream) in data.iter_mut().zip(stream) {
            *byte ^= stream;
        }
    }
    Ok(())
}

/// The key, and those that its chain leads to, ready for use: the first one first.
///
/// The algorithm is the one of the key's own record, or `algorithm` if it has none. Nothing says that a
/// passphrase is wrong but that it leads to no record, which the second value says.
///
/// # Errors
/// [`Error::Database`], [`Error::Record`], [`Error::Circle`]; [`Error::Cipher`], [`Error::Memory`].
pub fn open(
    database: Option<&Database<'_>>,
    first: PefsMasterKey,
    algorithm: Algorithm,
) -> Result<(Vec<PefsKey>, bool), Error> {
    let get = |id: &KeyId| match database {
        Some(database) => database.get(&id.0),
        None => Ok(None),
    };
    let (keys, has_record) = follow(get, first, algorithm)?;
    let keys = keys
        .iter()
        .map(|(master, algorithm)| PefsKey::new(master, *algorithm));
    Ok((keys.collect::<Result<_, _>>()?, has_record))
}

/// Follows a chain through the records that `get` finds. Returns master keys with their algorithms.
pub(crate) fn follow<'a>(
    get: impl Fn(&KeyId) -> Result<Option<&'a [u8]>, Error>,
    first: PefsMasterKey,
    algorithm: Algorithm,
) -> Result<(Vec<(PefsMasterKey, Algorithm)>, bool), Error> {
    let mut keys: Vec<(PefsMasterKey, Algorithm)> = Vec::new();
    let mut next = Some((first, algorithm));
    let mut has_record = false;
    while let Some((master, algorithm)) = next.take() {
        let id = master.id();
        if keys.iter().any(|(key, _)| key.id() == id) || keys.len() == KEYS_MAX {
            return Err(Error::Circle);
        }
        let link = match get(&id)? {
            Some(record) => Some(ChainLink::open(&master, record)?),
            None => None,
        };
        has_record |= keys.is_empty() && link.is_some();
        let algorithm = link.as_ref().map_or(algorithm, |link| link.algorithm);
        keys.push((master, algorithm));
        next = link.and_then(|link| link.child);
    }
    Ok((keys, has_record))
}
