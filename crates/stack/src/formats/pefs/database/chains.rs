//! Changing the key chains of a directory.

use cipher::Random;

use super::chain::{self, ChainLink, RECORD_LEN};
use super::file::{self, Records};
use super::pages::Database;
use crate::formats::pefs::algorithm::Algorithm;
use crate::formats::pefs::error::Error;
use crate::formats::pefs::key::{KeyId, PefsMasterKey};

/// Pages have between so many bytes.
const PAGE_MIN: usize = 512;
const PAGE_MAX: usize = 64 << 10;

/// The records of `.pefs.db`.
pub struct Chains {
    records: Records,
    page_size: usize,
}

impl Chains {
    /// Without records, for a file system with blocks of this size.
    pub fn new(block_size: usize) -> Chains {
        Chains {
            records: Records::new(),
            page_size: block_size.clamp(PAGE_MIN, PAGE_MAX).next_power_of_two(),
        }
    }

    /// The records of a file.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn decode(file: &[u8]) -> Result<Chains, Error> {
        let database = Database::new(file)?;
        let records = database.records()?.into_iter();
        Ok(Chains {
            records: records
                .map(|(key, value)| (key.to_vec(), value.to_vec()))
                .collect(),
            page_size: database.page_size(),
        })
    }

    /// The file with these records.
    pub fn encode(&self) -> Vec<u8> {
        file::encode(&self.records, self.page_size)
    }

    /// Returns whether a key has a record.
    pub fn has(&self, key: KeyId) -> bool {
        self.records.contains_key(&key.0[..])
    }

    /// The keys of the chain that begins with `first`, if it has a record.
    ///
    /// # Errors
    /// As [`chain::open`].
    pub fn open(
        &self,
        first: PefsMasterKey,
        algorithm: Algorithm,
    ) -> Result<Option<Vec<(PefsMasterKey, Algorithm)>>, Error> {
        let (keys, has_record) = chain::follow(|key| self.get(key), first, algorithm)?;
        Ok(has_record.then_some(keys))
    }

    fn get<'a>(&'a self, key: &KeyId) -> Result<Option<&'a [u8]>, Error> {
        Ok(self.records.get(&key.0[..]).map(Vec::as_slice))
    }

    /// Has a key lead to the next one, or to none. What it had is replaced.
    ///
    /// # Errors
    /// [`Error::Circle`] if the chain would come back to the key; [`Error::Random`], [`Error::Cipher`],
    /// [`Error::Memory`].
    pub fn set(
        &mut self,
        (parent, algorithm): (&PefsMasterKey, Algorithm),
        child: Option<(&PefsMasterKey, Algorithm)>,
        random: &dyn Random,
    ) -> Result<(), Error> {
        if let Some((child, algorithm)) = child {
            let (keys, _) = chain::follow(|key| self.get(key), child.try_clone()?, algorithm)?;
            if keys.iter().any(|(key, _)| key.id() == parent.id()) {
                return Err(Error::Circle);
            }
        }
        let record = ChainLink::seal(parent, algorithm, child, false, random)?;
        self.records.insert(parent.id().0.to_vec(), record);
        Ok(())
    }

    /// Puts a new key in the place of `old`, the first key of a chain: the new key leads to `old` and to all keys
    /// after it, so that files stay readable. False if `old` has no record.
    ///
    /// The record of `old` says that it is retired. It stays in the chain: it is the key of files.
    ///
    /// # Errors
    /// As [`Chains::open`] and [`Chains::set`].
    pub fn rekey(
        &mut self,
        old: PefsMasterKey,
        (new, algorithm): (&PefsMasterKey, Algorithm),
        random: &dyn Random,
    ) -> Result<bool, Error> {
        let Some(keys) = self.open(old, algorithm)? else {
            return Ok(false);
        };
        let (old, old_algorithm) = &keys[0];
        let next = keys.get(1).map(|(key, algorithm)| (key, *algorithm));
        let record = ChainLink::seal(old, *old_algorithm, next, true, random)?;
        self.set((new, algorithm), Some((old, *old_algorithm)), random)?;
        self.records.insert(old.id().0.to_vec(), record);
        Ok(true)
    }

    /// Returns whether another key has taken the place of this one.
    ///
    /// # Errors
    /// [`Error::Record`], [`Error::Cipher`], [`Error::Memory`].
    pub fn is_retired(&self, key: &PefsMasterKey) -> Result<bool, Error> {
        let record = self.get(&key.id())?;
        let link = record
            .map(|record| ChainLink::open(key, record))
            .transpose()?;
        Ok(link.is_some_and(|link| link.is_retired))
    }

    /// Takes the record of a key away. False if it has none.
    pub fn remove(&mut self, key: KeyId) -> bool {
        self.records.remove(&key.0[..]).is_some()
    }

    /// Adds records that no key opens, so that the number of keys is not known.
    ///
    /// # Errors
    /// [`Error::Random`].
    pub fn add_decoys(&mut self, count: usize, random: &dyn Random) -> Result<(), Error> {
        for _ in 0..count {
            let mut id = [0; 8];
            let mut record = vec![0; RECORD_LEN];
            random.fill(&mut id).map_err(|_| Error::Random)?;
            random.fill(&mut record).map_err(|_| Error::Random)?;
            self.records.entry(id.to_vec()).or_insert(record);
        }
        Ok(())
    }
}
