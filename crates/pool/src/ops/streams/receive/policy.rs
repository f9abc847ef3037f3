//! The decisions of the caller about a stream that is received.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Result;
use crate::format::datasets::entry::Entry;
use crate::format::datasets::seal_input::SealInput;
use crate::format::records::array_kind::ArrayKind;
use crate::format::records::pointer::RecordIdentity;
use crate::format::stream::Begin;

/// The target of a stream.
pub struct ReceiveInto<'a> {
    /// A dataset, or `dataset@snapshot` to give the snapshot another name.
    pub target: &'a str,
    /// True to roll the dataset back to the snapshot that the stream starts from, if it has changed since.
    pub force: bool,
    /// True to keep the received part after an interruption.
    pub resumable: bool,
    /// True if the dataset is open until [`ReceivePolicy::finish`] closes it. Changes until then count.
    pub is_open: bool,
}

/// The decisions of the holder of keys and properties about a stream.
pub trait ReceivePolicy {
    /// The new keyring of the dataset, from that in the stream and the present one; `None` if the present one stays.
    /// Refuses a keyring that would leave keys which cannot be unwrapped.
    ///
    /// # Errors
    /// Why the stream is refused.
    fn keyring(
        &self,
        begin: &Begin,
        current: Option<&[u8]>,
    ) -> std::result::Result<Option<Vec<u8>>, String>;

    /// Returns the sealer of the records of a stream in the clear: for the dataset that it adds to, or for a new one of
    /// this `family`, whose keys are made in `txg`, or are in the keyring that was `kept` of an interrupted receive.
    ///
    /// # Errors
    /// Why the stream is refused.
    fn sealing(
        &self,
        _begin: &Begin,
        _family: u64,
        _txg: u64,
        _kept: Option<&[u8]>,
    ) -> std::result::Result<StreamSealer, String> {
        Err("a plain stream cannot be encrypted here".into())
    }

    /// The properties of a new dataset.
    ///
    /// # Errors
    /// Why the stream is refused.
    fn props(&self, begin: &Begin) -> std::result::Result<BTreeMap<String, String>, String>;

    /// Returns whether a new dataset may be a clone of this snapshot of another dataset. A stream starts from it.
    fn may_clone(&self, _base: &Entry) -> bool {
        true
    }

    /// Calls `finish`, which may replace a keyring, while no other command does that.
    ///
    /// # Errors
    /// What `finish` returns, or why it was not called.
    fn finish(&self, finish: &mut dyn FnMut() -> Result<String>) -> Result<String> {
        finish()
    }

    /// A snapshot has been received.
    fn received(&self, name: &str);
}

/// The way in which a dataset seals a stream in the clear.
pub struct StreamSealer {
    /// Seals its records, and the dataset itself.
    pub records: Arc<dyn SealRecords>,
    /// The suite of its records, 0 if they stay clear.
    pub suite: u8,
    /// The keyring of a new dataset.
    pub keyring: Option<Vec<u8>>,
    /// True if this keyring has its own slots.
    pub is_key_root: bool,
}

/// Seals records that come in the clear.
pub trait SealRecords: Send + Sync {
    /// Compresses and seals a record, which is whole units.
    ///
    /// # Errors
    /// Why the record could not be sealed.
    fn seal(&self, array: ArrayKind, plain: &[u8]) -> std::result::Result<SealedRecord, String>;

    /// The seal over a dataset.
    fn dataset_seal(&self, input: &SealInput) -> [u8; 32];

    /// Returns whether this is that seal.
    fn is_seal(&self, input: &SealInput, seal: &[u8; 32]) -> bool;
}

/// A record as it is stored.
pub struct SealedRecord {
    /// The identity in its pointer.
    pub identity: RecordIdentity,
    /// Whole units.
    pub bytes: Vec<u8>,
    /// Equal records have equal nonces: it may be shared.
    pub may_be_shared: bool,
}
