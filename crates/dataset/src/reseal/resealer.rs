//! New seals for states that move to another dataset, or get newer keys.

use keys::DataKeys;
use pool::SealInput;

use crate::seal::{HeadSeal, Sealer};

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
        self.0.seal_by(generation, new)
    }

    /// The seal over `new`, by the newest generation. `None` if the keyring lacks the keys that seal heads.
    pub fn seal_as_newest(&self, new: &SealInput) -> Option<[u8; 32]> {
        self.0.seal_as_newest(new)
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

    /// Returns whether `seal` is valid for a head in this state.
    pub fn seals_head(&self, input: &SealInput, seal: &[u8; 32]) -> bool {
        self.0.head_seal(input, seal) == HeadSeal::Right
    }
}
