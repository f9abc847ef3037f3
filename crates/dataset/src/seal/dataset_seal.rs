//! The seal over the state of a dataset, and new seals for states that move to another one or get newer keys.

use cipher::Mac;
use keys::DataKeys;
use pool::SealInput;
use secret::Key;
use zerocopy::IntoBytes;

use super::{HeadSeal, Sealer};

/// The seal over a state.
pub(super) fn dataset_seal(key: &Key, input: &SealInput) -> [u8; 32] {
    let mut mac = Mac::new(key.expose());
    mac.update(b"strongroom dataset seal v1")
        .update(&input.guid.to_le_bytes())
        .update(&input.sequence.to_le_bytes())
        .update(input.roots[0].as_bytes())
        .update(input.roots[1].as_bytes());
    // Nothing is added without a log: these seals are the same as before logs existed.
    if input.log != [0; 3] {
        let mut log = input.log.map(u64::to_le_bytes).concat();
        if input.log_states != [[0; 16]; 2] {
            log.extend(input.log_states.as_flattened());
        }
        mac.update(&log);
    }
    // The length differs from that of the log, so that neither is taken for the other.
    if input.volume != [0; 2] {
        mac.update(b"volume")
            .update(&input.volume.map(u64::to_le_bytes).concat());
    }
    if let Some(waiting) = &input.waiting {
        mac.update(b"waiting seals").update(waiting);
    }
    mac.finish()
}

/// Makes new seals for states that move to another dataset.
pub struct Resealer(Sealer);

impl Resealer {
    /// A resealer with the keys of the keyring that moves along.
    ///
    /// # Errors
    /// [`keys::Error::Secret`].
    pub fn new(family: u64, keys: Vec<DataKeys>) -> keys::Result<Resealer> {
        Sealer::new(family, keys).map(Resealer)
    }

    /// The seal over `new`; `None` if `seal` is not a valid seal over `old`. The same generation makes it, so the next
    /// holder of the dataset can check it too.
    pub fn reseal(&self, old: &SealInput, seal: &[u8; 32], new: &SealInput) -> Option<[u8; 32]> {
        self.seal_by(self.sealed_by(old, seal)?, new)
    }

    /// The generation that made `seal` over `old`.
    pub fn sealed_by(&self, old: &SealInput, seal: &[u8; 32]) -> Option<u32> {
        self.0.sealed_by(old, seal)
    }

    /// The seal over `new`, by a generation; `None` without its seal key.
    pub fn seal_by(&self, generation: u32, new: &SealInput) -> Option<[u8; 32]> {
        let keys = self.0.keys()?;
        let key = keys.all.get(&generation)?.seal.as_ref()?;
        Some(dataset_seal(key, new))
    }

    /// The seal over `new`, by the newest generation. `None` if the keyring lacks the keys that seal heads.
    pub fn seal_as_newest(&self, new: &SealInput) -> Option<[u8; 32]> {
        let keys = self.0.keys().filter(|keys| !keys.is_cut())?;
        let key = keys.newest().1.seal.as_ref()?;
        Some(dataset_seal(key, new))
    }

    /// The seal over the head `new`, by the newest generation. `None` if no generation made `seal` over `old`, or if
    /// the keyring lacks the newest generation.
    pub fn reseal_head(
        &self,
        old: &SealInput,
        seal: &[u8; 32],
        new: &SealInput,
    ) -> Option<[u8; 32]> {
        self.sealed_by(old, seal)?;
        self.seal_as_newest(new)
    }

    /// Whether `seal` is valid for a head in this state.
    pub fn seals_head(&self, input: &SealInput, seal: &[u8; 32]) -> bool {
        self.0.head_seal(input, seal) == HeadSeal::Right
    }
}
