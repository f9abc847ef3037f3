//! The records of a stream in the clear. The sender opens them, and the receiver seals them again.

use std::sync::Arc;

use cipher::Random;
use keys::DataKeys;
use pool::{ArrayKind, OpenRecords, Pool, RecordPtr, SealInput, SealRecords, SealedRecord};

use crate::core::Engine;
use crate::core::{Settings, check_seal};
use crate::error::Result;
use crate::seal::{Compression, Nonces, Sealer};

/// Opens the records of a snapshot.
pub struct RecordOpener(Sealer);

impl RecordOpener {
    /// An opener with the keys of the keyring, or without keys if the snapshot is clear. Checks its seal, and the seal
    /// of the base snapshot `from` with the keys of its dataset: a clone may lack the seal keys of its origin. So the
    /// stream has only states that the key holders made.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] if the key holder did not make a seal; [`crate::Error::Keys`] if there is no
    /// locked memory for the keys.
    pub fn new(
        pool: &Pool,
        snapshot: u64,
        from: Option<(u64, Option<Vec<DataKeys>>)>,
        keys: Option<Vec<DataKeys>>,
    ) -> Result<RecordOpener> {
        let open = |id, keys| {
            let entry = pool.entry(id)?;
            let sealer = Sealer::of(entry.family, keys)?;
            check_seal(pool, &entry, &sealer, &pool.name_of(id)?)?;
            Ok::<_, crate::Error>(sealer)
        };
        if let Some((from, keys)) = from {
            open(from, keys)?;
        }
        open(snapshot, keys).map(RecordOpener)
    }
}

impl OpenRecords for RecordOpener {
    fn open(&self, array: ArrayKind, ptr: &RecordPtr, sealed: &[u8]) -> Option<Vec<u8>> {
        let opened = self.0.open(array, ptr, sealed).ok()?;
        Some(opened.to_vec())
    }
}

/// Seals records for a dataset that is being received.
pub struct RecordSealer {
    sealer: Sealer,
    compression: Compression,
    dedup: bool,
    random: Arc<dyn Random>,
}

impl RecordSealer {
    /// A sealer with the keys of the dataset's keyring, or without keys if the dataset is clear. It follows the
    /// settings.
    ///
    /// # Errors
    /// [`crate::Error::Keys`] if there is no locked memory for the keys.
    pub fn new(
        engine: &Engine,
        family: u64,
        keys: Option<Vec<DataKeys>>,
        settings: &Settings,
    ) -> Result<RecordSealer> {
        let sealer = Sealer::of(family, keys)?;
        if sealer.cut_after().is_some() {
            let what = "it lacks the keys that seal the dataset";
            return Err(keys::Error::Keyring(what).into());
        }
        Ok(RecordSealer {
            sealer,
            compression: settings.compression,
            dedup: settings.dedup,
            random: Arc::clone(&engine.random),
        })
    }
}

impl SealRecords for RecordSealer {
    fn seal(&self, array: ArrayKind, plain: &[u8]) -> std::result::Result<SealedRecord, String> {
        let compression = self.compression.of(array);
        let nonces = Nonces::of(array, self.dedup, &*self.random);
        let sealed = self.sealer.seal(array, compression, plain, nonces);
        let sealed = sealed.map_err(|error| error.to_string())?;
        Ok(SealedRecord {
            identity: sealed.identity,
            bytes: sealed.bytes,
            may_be_shared: sealed.nonce_is_of_contents,
        })
    }

    fn dataset_seal(&self, input: &SealInput) -> [u8; 32] {
        self.sealer.dataset_seal(input)
    }

    fn is_seal(&self, input: &SealInput, seal: &[u8; 32]) -> bool {
        cipher::eq(&self.sealer.dataset_seal(input), seal)
    }
}
