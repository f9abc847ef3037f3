//! Generations: the keys that a dataset's records are sealed with, wrapped by its wrapping key.

use cipher::{Random, RecordCipher, Suite};
use secret::{Key, LockedBox};
use zerocopy::IntoBytes;

use crate::layout::{self, WrappedKey};
use crate::{Error, Result, WrappingKey, wrap};

/// Authenticated first, so that nothing else wrapped by the same key is taken for a generation.
const DOMAIN_WHOLE: &[u8] = b"strongroom generation v1";
/// The same for the parts of a generation. The word for the part follows.
const DOMAIN_PART: &[u8] = b"strongroom generation v2";

/// The parts of a generation, as they are authenticated.
const READS: &[u8] = b"reads";
const SEALS: &[u8] = b"seals";

/// Derives the nonce with which a superseded generation is wrapped, from the bytes that it was before.
const SUPERSEDED: &str = "strongroom 2026-11 nonce of a superseded generation v1";
/// The same for the part that seals.
const SUPERSEDED_SEALS: &str = "strongroom 2026-11 nonce of a superseded seal key v1";

/// Data key and dedup key.
const READS_LEN: usize = 2 * Key::LEN;

/// Derives the key of logs from data key and seal key.
const LOG_KEY: &str = "strongroom 2026-11 log key v1";

/// Data key, dedup key and seal key.
const KEYS_LEN: usize = 3 * Key::LEN;

/// The keys of a dataset from one transaction group on, wrapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyGeneration {
    head: GenerationMetadata,
    wrapped: WrappedParts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum WrappedParts {
    /// All as one. Programs made it that knew no parts.
    Whole(WrappedKey<KEYS_LEN>),
    /// The keys that read, and the key that seals. A clone has no seal keys of its origin.
    Split {
        reads: WrappedKey<READS_LEN>,
        seals: Option<WrappedKey<{ Key::LEN }>>,
    },
}

/// The unwrapped keys of a generation: data key and dedup key, then the seal key.
struct UnwrappedKeys {
    keys: LockedBox<[u8; KEYS_LEN]>,
    has_seal: bool,
}

/// The rule of a generation about the seals over heads. A head is the present state of a dataset; snapshots keep
/// the seals that they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Heads {
    /// No rule: an older program made the generation, or it is the first of its keyring.
    #[default]
    Any,
    /// A head has the seal of this generation or of a later one.
    FromHere,
    /// A head has the seal of a later generation. So nobody without the wrapping key can make a keyring in which
    /// this generation is the newest and seals heads.
    Later,
}

impl Heads {
    /// The number of the oldest generation that seals heads, as far as generation `number` says so.
    pub fn floor(self, number: u32) -> u32 {
        match self {
            Heads::Any => 0,
            Heads::FromHere => number,
            Heads::Later => number.saturating_add(1),
        }
    }

    fn id(self) -> u8 {
        match self {
            Heads::Any => layout::HEADS_ANY,
            Heads::FromHere => layout::HEADS_FROM_HERE,
            Heads::Later => layout::HEADS_LATER,
        }
    }

    fn from_id(id: u8) -> Option<Heads> {
        let all = [Heads::Any, Heads::FromHere, Heads::Later];
        all.into_iter().find(|heads| heads.id() == id)
    }
}

/// The authenticated description of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GenerationMetadata {
    number: u32,
    txg: u64,
    created: u64,
    suite: Suite,
    heads: Heads,
    wrapping_key: [u8; 16],
}

/// The keys of a generation, unwrapped.
#[derive(Debug)]
pub struct DataKeys {
    /// The number of the generation, which record pointers carry.
    pub generation: u32,
    /// The transaction group that made it.
    pub txg: u64,
    /// The cipher suite of the records.
    pub suite: Suite,
    /// The rule of this generation about the seals of heads.
    pub heads: Heads,
    /// Seals records. Suites with shorter keys use the beginning of it.
    pub data: Key,
    /// Makes nonces from contents, where equal records shall be equal.
    pub dedup: Key,
    /// Authenticates the whole dataset. A clone with a key of its own lacks that of its origin.
    pub seal: Option<Key>,
}

impl DataKeys {
    /// The data key, ready to seal and open records, in locked memory.
    ///
    /// # Errors
    /// [`Error::Secret`].
    pub fn record_cipher(&self) -> Result<LockedBox<RecordCipher>> {
        let key = &self.data.expose()[..self.suite.key_len()];
        LockedBox::init(|place| Ok(RecordCipher::new_in(place, self.suite, key)?))
    }

    /// The key of logs, ready to seal and open entries, in locked memory. Who has the data key alone cannot derive
    /// it; so there is none without the seal key.
    ///
    /// # Errors
    /// [`Error::Secret`].
    pub fn log_cipher(&self) -> Result<Option<LockedBox<RecordCipher>>> {
        let Some(seal) = &self.seal else {
            return Ok(None);
        };
        let mut key = LockedBox::new([0; Key::LEN])?;
        let parts: [&[u8]; 2] = [self.data.expose(), seal.expose()];
        cipher::derive_key_into(LOG_KEY, &parts, &mut key);
        let key = &key[..self.suite.key_len()];
        LockedBox::init(|place| Ok(RecordCipher::new_in(place, self.suite, key)?)).map(Some)
    }

    /// From the unwrapped bytes.
    fn split(head: &GenerationMetadata, unwrapped: &UnwrappedKeys) -> Result<DataKeys> {
        let part = |i: usize| {
            let key = unwrapped.keys[i * Key::LEN..].first_chunk();
            Key::from_bytes(key.expect("there are as many"))
        };
        Ok(DataKeys {
            generation: head.number,
            txg: head.txg,
            suite: head.suite,
            heads: head.heads,
            data: part(0)?,
            dedup: part(1)?,
            seal: unwrapped.has_seal.then(|| part(2)).transpose()?,
        })
    }
}

impl KeyGeneration {
    /// New random keys for the dataset family `family`, wrapped by `key`. `now` is in seconds since
    /// 1970.
    ///
    /// # Errors
    /// [`Error::Cipher`] if there are no random numbers, or FIPS mode forbids the suite;
    /// [`Error::Secret`].
    pub fn create(
        key: &WrappingKey,
        family: u64,
        number: u32,
        txg: u64,
        suite: Suite,
        now: u64,
        random: &dyn Random,
    ) -> Result<(KeyGeneration, DataKeys)> {
        KeyGeneration::make(key, family, (number, txg, Heads::Any), suite, now, random)
    }

    /// Makes a generation like [`KeyGeneration::create`], with its rule about heads.
    pub(crate) fn make(
        key: &WrappingKey,
        family: u64,
        (number, txg, heads): (u32, u64, Heads),
        suite: Suite,
        now: u64,
        random: &dyn Random,
    ) -> Result<(KeyGeneration, DataKeys)> {
        // What cannot be used is not made.
        suite.check()?;
        let head = GenerationMetadata {
            number,
            txg,
            created: now,
            suite,
            heads,
            wrapping_key: *key.id(),
        };
        let mut keys = LockedBox::new([0; KEYS_LEN])?;
        random.fill(&mut *keys)?;
        let unwrapped = UnwrappedKeys {
            keys,
            has_seal: true,
        };
        let nonces = [random.nonce()?, random.nonce()?];
        let wrapped = unwrapped.wrap(nonces, key, &head, family)?;
        let keys = DataKeys::split(&head, &unwrapped)?;
        Ok((KeyGeneration { head, wrapped }, keys))
    }

    /// Unwraps the keys.
    ///
    /// # Errors
    /// [`Error::WrongKey`] for another wrapping key or family; [`Error::Damaged`] if the wrapped
    /// bytes were changed; [`Error::Secret`].
    pub fn open(&self, key: &WrappingKey, family: u64) -> Result<DataKeys> {
        DataKeys::split(&self.head, &self.unwrap(key, family)?)
    }

    /// The same keys, wrapped by another wrapping key. No record is touched by this.
    ///
    /// # Errors
    /// As [`KeyGeneration::open`] for the old wrapping key, [`KeyGeneration::create`] for the new.
    pub fn rewrap(
        &self,
        family: u64,
        old: &WrappingKey,
        new: &WrappingKey,
        random: &dyn Random,
    ) -> Result<KeyGeneration> {
        self.rewrap_as(
            self.head.heads,
            self.unwrap(old, family)?,
            family,
            new,
            random,
        )
    }

    /// The keys that read, without the key that seals, wrapped by another wrapping key. Such a generation seals no
    /// heads.
    pub(crate) fn without_seal(
        &self,
        family: u64,
        old: &WrappingKey,
        new: &WrappingKey,
        random: &dyn Random,
    ) -> Result<KeyGeneration> {
        let mut unwrapped = self.unwrap(old, family)?;
        unwrapped.has_seal = false;
        self.rewrap_as(Heads::Later, unwrapped, family, new, random)
    }

    fn rewrap_as(
        &self,
        heads: Heads,
        unwrapped: UnwrappedKeys,
        family: u64,
        new: &WrappingKey,
        random: &dyn Random,
    ) -> Result<KeyGeneration> {
        let head = GenerationMetadata {
            heads,
            wrapping_key: *new.id(),
            ..self.head
        };
        let nonces = [random.nonce()?, random.nonce()?];
        let wrapped = unwrapped.wrap(nonces, new, &head, family)?;
        Ok(KeyGeneration { head, wrapped })
    }

    /// The same keys, of a generation that seals no heads any more. They are wrapped by the same key, with a nonce
    /// that tells which bytes they were in before: see [`KeyGeneration::is_same`].
    pub(crate) fn superseded(&self, family: u64, key: &WrappingKey) -> Result<KeyGeneration> {
        let unwrapped = self.unwrap(key, family)?;
        let head = GenerationMetadata {
            heads: Heads::Later,
            ..self.head
        };
        let nonces = [SUPERSEDED, SUPERSEDED_SEALS].map(|part| self.nonce_when_superseded(part));
        let wrapped = unwrapped.wrap(nonces, key, &head, family)?;
        Ok(KeyGeneration { head, wrapped })
    }

    fn nonce_when_superseded(&self, part: &'static str) -> [u8; 24] {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        let mut derived = [0; 32];
        cipher::derive_key_into(part, &[&bytes], &mut derived);
        *derived.first_chunk().expect("it is longer")
    }

    /// Returns whether both are one generation, as far as that can be told without a key. Of two under one wrapping
    /// key the bytes are the same, or one is the other [superseded](Heads::Later). Of two under different keys what
    /// they say is the same.
    pub fn is_same(&self, other: &KeyGeneration) -> bool {
        let of = |head: &GenerationMetadata| (head.number, head.txg, head.created, head.suite);
        if self.wrapping_key() != other.wrapping_key() {
            return of(&self.head) == of(&other.head);
        }
        let becomes = |a: &KeyGeneration, b: &KeyGeneration| {
            of(&a.head) == of(&b.head)
                && a.head.heads != Heads::Later
                && b.head.heads == Heads::Later
                && *b.wrapped.nonce() == a.nonce_when_superseded(SUPERSEDED)
        };
        self == other || becomes(self, other) || becomes(other, self)
    }

    /// The number, which record pointers carry. A later generation has a higher one.
    pub fn number(&self) -> u32 {
        self.head.number
    }

    /// The transaction group that made it.
    pub fn txg(&self) -> u64 {
        self.head.txg
    }

    /// The time when the generation was made, in seconds since 1970. Rewrapping does not change it.
    pub fn created(&self) -> u64 {
        self.head.created
    }

    /// The cipher suite of its records.
    pub fn suite(&self) -> Suite {
        self.head.suite
    }

    /// The rule of this generation about the seals of heads.
    pub fn heads(&self) -> Heads {
        self.head.heads
    }

    /// The id of the wrapping key that wraps it.
    pub fn wrapping_key(&self) -> &[u8; 16] {
        &self.head.wrapping_key
    }

    /// The algorithm that wraps the keys. A generation with another one is not read.
    pub fn wrapped_by(&self) -> Suite {
        Suite::Xaes256Gcm
    }

    /// The length of the wrapped keys with their tags, in bytes.
    pub fn wrapped_len(&self) -> usize {
        const TAG: usize = 16;
        match &self.wrapped {
            WrappedParts::Whole(_) => KEYS_LEN + TAG,
            WrappedParts::Split { seals: Some(_), .. } => KEYS_LEN + 2 * TAG,
            WrappedParts::Split { seals: None, .. } => READS_LEN + TAG,
        }
    }

    /// Returns whether it has the seal key. Without that, it only opens records.
    pub fn seals(&self) -> bool {
        self.wrapped.id() != layout::PARTS_READS
    }

    /// Returns whether its keys are wrapped in parts.
    pub(crate) fn is_split(&self) -> bool {
        self.wrapped.id() != layout::PARTS_WHOLE
    }

    fn unwrap(&self, key: &WrappingKey, family: u64) -> Result<UnwrappedKeys> {
        if key.id() != &self.head.wrapping_key {
            return Err(Error::WrongKey);
        }
        let mut keys = LockedBox::new([0; KEYS_LEN])?;
        let parts = self.wrapped.id();
        match &self.wrapped {
            WrappedParts::Whole(wrapped) => {
                let aad = self.head.aad(DOMAIN_WHOLE, family, parts);
                wrap::unwrap(wrapped, key.key(), &aad, &mut keys)?;
            }
            WrappedParts::Split { reads, seals } => {
                let (read, seal) = keys.split_at_mut(READS_LEN);
                let aad = self.head.aad_of_part(READS, family, parts);
                wrap::unwrap(reads, key.key(), &aad, whole(read))?;
                if let Some(seals) = seals {
                    let aad = self.head.aad_of_part(SEALS, family, parts);
                    wrap::unwrap(seals, key.key(), &aad, whole(seal))?;
                }
            }
        }
        Ok(UnwrappedKeys {
            keys,
            has_seal: self.seals(),
        })
    }

    /// Appends the generation.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.head.layout(self.wrapped.id()).as_bytes());
        match &self.wrapped {
            WrappedParts::Whole(wrapped) => out.extend_from_slice(wrapped.as_bytes()),
            WrappedParts::Split { reads, seals } => {
                out.extend_from_slice(reads.as_bytes());
                out.extend_from_slice(seals.as_ref().map_or(&[], IntoBytes::as_bytes));
            }
        }
    }

    /// Takes a generation from the front of `bytes`.
    pub(crate) fn decode(bytes: &mut &[u8]) -> Result<KeyGeneration> {
        let cut = || Error::Damaged("a generation is cut");
        let head: layout::GenerationHead = layout::take(bytes).ok_or_else(cut)?;
        let heads = Heads::from_id(head.heads);
        let heads = heads.ok_or(Error::Damaged("the head of a generation"))?;
        let unknown = |what, id: u8| Error::Unknown { what, id };
        if head.algorithm != layout::ALGORITHM_XAES_256_GCM {
            return Err(unknown("key wrapping algorithm", head.algorithm));
        }
        let wrapped = match head.parts {
            layout::PARTS_WHOLE => WrappedParts::Whole(layout::take(bytes).ok_or_else(cut)?),
            layout::PARTS_BOTH => WrappedParts::Split {
                reads: layout::take(bytes).ok_or_else(cut)?,
                seals: Some(layout::take(bytes).ok_or_else(cut)?),
            },
            // Without the key that seals, it cannot say that it seals heads.
            layout::PARTS_READS if heads == Heads::Later => WrappedParts::Split {
                reads: layout::take(bytes).ok_or_else(cut)?,
                seals: None,
            },
            _ => return Err(Error::Damaged("the head of a generation")),
        };
        let suite = Suite::from_id(head.suite);
        let head = GenerationMetadata {
            number: head.number.get(),
            txg: head.txg.get(),
            created: head.created.get(),
            suite: suite.ok_or_else(|| unknown("cipher suite", head.suite))?,
            heads,
            wrapping_key: head.wrapping_key,
        };
        Ok(KeyGeneration { head, wrapped })
    }
}

impl WrappedParts {
    /// `PARTS_*`.
    fn id(&self) -> u8 {
        match self {
            WrappedParts::Whole(_) => layout::PARTS_WHOLE,
            WrappedParts::Split { seals: Some(_), .. } => layout::PARTS_BOTH,
            WrappedParts::Split { seals: None, .. } => layout::PARTS_READS,
        }
    }

    /// The nonce of what reads.
    fn nonce(&self) -> &[u8; 24] {
        match self {
            WrappedParts::Whole(wrapped) => &wrapped.nonce,
            WrappedParts::Split { reads, .. } => &reads.nonce,
        }
    }
}

impl UnwrappedKeys {
    /// Wraps the keys in parts, each with its own nonce.
    fn wrap(
        &self,
        [reads, seals]: [[u8; 24]; 2],
        key: &WrappingKey,
        head: &GenerationMetadata,
        family: u64,
    ) -> Result<WrappedParts> {
        let parts = match self.has_seal {
            true => layout::PARTS_BOTH,
            false => layout::PARTS_READS,
        };
        let (read, seal) = self.keys.split_at(READS_LEN);
        let aad = head.aad_of_part(READS, family, parts);
        let read: &[u8; READS_LEN] = read.try_into().expect("its length");
        let reads = wrap::wrap_with(reads, key.key(), &aad, read)?;
        let seal: &[u8; Key::LEN] = seal.try_into().expect("its length");
        let wrap_seal = || {
            let aad = head.aad_of_part(SEALS, family, parts);
            wrap::wrap_with(seals, key.key(), &aad, seal)
        };
        let seals = self.has_seal.then(wrap_seal).transpose()?;
        Ok(WrappedParts::Split { reads, seals })
    }
}

/// The bytes of a part, which have its length.
fn whole<const LEN: usize>(part: &mut [u8]) -> &mut [u8; LEN] {
    part.try_into().expect("its length")
}

impl GenerationMetadata {
    /// The authenticated data of the wrapped keys: domain, family and head.
    fn aad(&self, domain: &[u8], family: u64, parts: u8) -> Vec<u8> {
        [domain, &family.to_le_bytes(), self.layout(parts).as_bytes()].concat()
    }

    /// The authenticated data of one part of the keys.
    fn aad_of_part(&self, part: &[u8], family: u64, parts: u8) -> Vec<u8> {
        self.aad(&[DOMAIN_PART, part].concat(), family, parts)
    }

    fn layout(&self, parts: u8) -> layout::GenerationHead {
        layout::GenerationHead {
            number: self.number.into(),
            suite: self.suite.id(),
            algorithm: layout::ALGORITHM_XAES_256_GCM,
            heads: self.heads.id(),
            parts,
            txg: self.txg.into(),
            created: self.created.into(),
            wrapping_key: self.wrapping_key,
        }
    }
}
