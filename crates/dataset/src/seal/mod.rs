//! The seal pipeline: compresses and seals records, and opens and decompresses them.
//!
//! Types enforce the order. The pool accepts only a [`SealOutput`], and only [`Sealer::seal`] makes one, from plaintext. A
//! `SealOutput` cannot be compressed. Payloads are whole units of 4 KiB, so that the length on disk shows the length of a
//! record only in these steps.

mod compression;
mod dataset_seal;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use cipher::{Mac, Random, RecordCipher};
use keys::{DataKeys, Heads};
use parking_lot::RwLock;
use pool::{ArrayKind, RecordIdentity, RecordPtr, SealInput};
use secret::{Key, LockedBox};

pub use compression::Compression;
use compression::{UNIT, pack, unpack};
use dataset_seal::dataset_seal;

use crate::buffer::RecordBuffer;

/// The version of the associated data.
const AAD_VERSION: u16 = 1;

/// Seals and opens the records of a dataset.
pub(crate) struct Sealer {
    family: u64,
    /// Replaced as a whole when a generation is added: running operations finish with the keys they have.
    keys: Option<RwLock<Arc<GenerationSet>>>,
}

/// The generations of a keyring.
#[derive(Clone)]
struct GenerationSet {
    /// The generations by number. Never empty.
    all: BTreeMap<u32, Arc<GenerationKeys>>,
    /// The oldest generation that seals heads: see [`keys::Keyring::head_floor`].
    floor: u32,
}

/// The keys of a generation, ready to be used.
struct GenerationKeys {
    cipher: LockedBox<RecordCipher>,
    /// Seals entries of logs. None without the seal key.
    log: Option<LockedBox<RecordCipher>>,
    dedup: Key,
    /// A clone has no seal keys of its origin.
    seal: Option<Key>,
}

/// A generation that an open dataset is about to use. All steps that can fail have succeeded.
pub struct NewGeneration {
    number: u32,
    heads: Heads,
    keys: Arc<GenerationKeys>,
}

impl NewGeneration {
    /// Prepares its keys.
    ///
    /// # Errors
    /// [`keys::Error::Secret`].
    pub fn new(keys: DataKeys) -> keys::Result<NewGeneration> {
        let generation = GenerationKeys {
            cipher: keys.record_cipher()?,
            log: keys.log_cipher()?,
            dedup: keys.dedup,
            seal: keys.seal,
        };
        Ok(NewGeneration {
            number: keys.generation,
            heads: keys.heads,
            keys: Arc::new(generation),
        })
    }
}

impl GenerationSet {
    fn newest(&self) -> (u32, &GenerationKeys) {
        let (number, generation) = self.all.last_key_value().expect("never empty");
        (*number, generation)
    }

    fn add(&mut self, new: NewGeneration) {
        self.floor = self.floor.max(new.heads.floor(new.number));
        self.all.insert(new.number, new.keys);
    }

    /// Returns whether the generation that seals heads is missing, or its seal key.
    fn is_cut(&self) -> bool {
        let (number, newest) = self.newest();
        number < self.floor || newest.seal.is_none()
    }

    /// Classifies the seal over a head.
    fn head_seal(&self, input: &SealInput, seal: &[u8; 32]) -> HeadSeal {
        if self.is_cut() {
            return HeadSeal::KeyringCut(self.newest().0);
        }
        match self.sealer_of(input, seal) {
            None => HeadSeal::Foreign,
            Some((generation, _)) if generation < self.floor => HeadSeal::Old {
                generation,
                floor: self.floor,
            },
            Some(_) => HeadSeal::Right,
        }
    }

    /// The generation that made a dataset seal.
    fn sealer_of(&self, input: &SealInput, seal: &[u8; 32]) -> Option<(u32, &GenerationKeys)> {
        let is_its = |key: &Key| cipher::eq(&dataset_seal(key, input), seal);
        let mut generations = self.all.iter().rev();
        let made = generations.find(|(_, generation)| generation.seal.as_ref().is_some_and(is_its));
        made.map(|(number, generation)| (*number, generation.as_ref()))
    }
}

/// The kind of the sealed data. The associated data has it, so that no kind is taken for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Pages = ArrayKind::Pages as u8,
    Data = ArrayKind::Data as u8,
    Log = 2,
}

impl From<ArrayKind> for Kind {
    fn from(array: ArrayKind) -> Kind {
        match array {
            ArrayKind::Pages => Kind::Pages,
            ArrayKind::Data => Kind::Data,
        }
    }
}

/// A record as the pool stores it.
pub(crate) struct SealOutput {
    pub(crate) identity: RecordIdentity,
    /// Whole units.
    pub(crate) bytes: Vec<u8>,
    /// True if the nonce is a hash of the contents, so that the record may be shared.
    pub(crate) nonce_is_of_contents: bool,
}

/// The origin of the seal over a head. A head is the present state of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadSeal {
    /// A generation that seals heads made it.
    Right,
    /// An older generation made it. Such a seal is not accepted any more.
    Old { generation: u32, floor: u32 },
    /// No generation made it.
    Foreign,
    /// The keyring lacks the generations after this one, which seal heads.
    KeyringCut(u32),
}

/// The source of nonces.
#[derive(Clone, Copy)]
pub(crate) enum Nonces<'a> {
    /// Random nonces: no two records have the same one.
    Random(&'a dyn Random),
    /// Keyed hashes of all sealed data, with a separate key. Equal records of one family and generation have the same
    /// nonce, and different records have different ones.
    OfContents,
}

impl<'a> Nonces<'a> {
    /// The source of nonces for records of an array.
    pub(crate) fn of(array: ArrayKind, dedup: bool, random: &'a dyn Random) -> Nonces<'a> {
        match array {
            ArrayKind::Data if dedup => Nonces::OfContents,
            ArrayKind::Data | ArrayKind::Pages => Nonces::Random(random),
        }
    }
}

/// The reason why a record could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenError {
    /// The record names a generation or suite that the keyring does not have.
    NoSuchKey,
    /// The record is not the one that was sealed.
    Unauthentic,
    /// The record is not authenticated, and cannot be decompressed.
    Malformed,
}

/// The memory that a thread keeps for the next records that it seals, or that of one record if this is longer.
const SPARE_BYTES: usize = 256 << 10;

thread_local! {
    /// The memory of the records that this thread sealed last. Getting memory from the kernel costs about as much as
    /// sealing.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

impl SealOutput {
    /// Keeps its memory for the next record that this thread seals.
    pub(crate) fn recycle(self) {
        SPARE.with_borrow_mut(|spare| {
            let kept: usize = spare.iter().map(Vec::capacity).sum();
            if kept == 0 || kept + self.bytes.capacity() <= SPARE_BYTES {
                spare.push(self.bytes);
            }
        });
    }
}

impl Sealer {
    /// A sealer without keys: it compresses records, and hashes them into the identity chain.
    pub(crate) fn clear(family: u64) -> Sealer {
        Sealer { family, keys: None }
    }

    /// A sealer with the keys of a keyring, or without keys if the records are clear.
    pub(crate) fn of(family: u64, keys: Option<Vec<DataKeys>>) -> keys::Result<Sealer> {
        match keys {
            Some(keys) => Sealer::new(family, keys),
            None => Ok(Sealer::clear(family)),
        }
    }

    /// A sealer that seals with the newest generation of a keyring, and opens with all generations.
    pub(crate) fn new(family: u64, generations: Vec<DataKeys>) -> keys::Result<Sealer> {
        let mut keys = GenerationSet {
            all: BTreeMap::new(),
            floor: 0,
        };
        for generation in generations {
            keys.add(NewGeneration::new(generation)?);
        }
        let keys = (!keys.all.is_empty()).then(|| RwLock::new(Arc::new(keys)));
        Ok(Sealer { family, keys })
    }

    /// Seals with another generation from now on.
    pub(crate) fn use_generation(&self, new: NewGeneration) {
        if let Some(keys) = &self.keys {
            Arc::make_mut(&mut keys.write()).add(new);
        }
    }

    /// Forgets the keys of a generation. No data is sealed with it any more. It is never the newest.
    pub(crate) fn forget_generation(&self, number: u32) {
        if let Some(keys) = &self.keys {
            let mut keys = keys.write();
            if keys.newest().0 != number {
                Arc::make_mut(&mut keys).all.remove(&number);
            }
        }
    }

    /// The generation that seals records now; `None` if they are clear.
    pub(crate) fn newest(&self) -> Option<u32> {
        self.keys().map(|keys| keys.newest().0)
    }

    /// The number of the generation that made a dataset seal.
    pub(crate) fn sealed_by(&self, input: &SealInput, seal: &[u8; 32]) -> Option<u32> {
        let keys = self.keys()?;
        keys.sealer_of(input, seal).map(|(number, _)| number)
    }

    /// Seals the same record with the newest generation, without decompressing it.
    pub(crate) fn reseal(
        &self,
        array: ArrayKind,
        ptr: &RecordPtr,
        sealed: &[u8],
        nonces: Nonces<'_>,
    ) -> Result<SealOutput, OpenError> {
        let keys = self.keys().ok_or(OpenError::NoSuchKey)?;
        let head = RecordHead {
            kind: array.into(),
            compression: ptr.identity.compression,
            logical_size: ptr.identity.logical_size(),
        };
        let mut payload = RecordBuffer::zeroed(sealed.len());
        self.authenticate_record(&head, ptr, sealed, &mut payload)?;
        self.encrypt(&keys, &head, &payload, nonces)
            .map_err(|_| OpenError::NoSuchKey)
    }

    fn keys(&self) -> Option<Arc<GenerationSet>> {
        self.keys.as_ref().map(|keys| Arc::clone(&keys.read()))
    }

    /// Returns whether records are encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.keys.is_some()
    }

    /// Compresses and seals the plaintext of a record. It must be whole units.
    pub(crate) fn seal(
        &self,
        array: ArrayKind,
        compression: Compression,
        plain: &[u8],
        nonces: Nonces<'_>,
    ) -> cipher::Result<SealOutput> {
        assert!(plain.len().is_multiple_of(UNIT) && !plain.is_empty());
        let packed = pack(compression, plain);
        let (how, payload) = match &packed {
            Some((how, payload)) => (*how, &payload[..]),
            None => (compression::NONE, plain),
        };
        let head = RecordHead {
            kind: array.into(),
            compression: how,
            logical_size: plain.len() as u32,
        };
        match self.keys() {
            Some(keys) => self.encrypt(&keys, &head, payload, nonces),
            None => Ok(self.vouch(&head, payload.to_vec(), nonces)),
        }
    }

    fn encrypt(
        &self,
        keys: &GenerationSet,
        head: &RecordHead,
        payload: &[u8],
        nonces: Nonces<'_>,
    ) -> cipher::Result<SealOutput> {
        let (number, GenerationKeys { cipher, dedup, .. }) = keys.newest();
        let suite = cipher.suite().id();
        let aad = head.aad(self.family, suite, number);
        let nonce = match nonces {
            Nonces::Random(random) => random.nonce()?,
            Nonces::OfContents => nonce_of_contents(dedup, &aad, payload),
        };
        // Sealed pages stay in memory until the commit writes them, so their buffers have no spare space.
        let mut bytes = match head.kind {
            Kind::Data => SPARE.with_borrow_mut(Vec::pop).unwrap_or_default(),
            Kind::Pages | Kind::Log => Vec::new(),
        };
        bytes.resize(payload.len(), 0);
        let tag = cipher.seal(&nonce, &aad, payload, &mut bytes)?;
        Ok(SealOutput {
            identity: head.identity(nonce, tag, number, suite),
            bytes,
            nonce_is_of_contents: matches!(nonces, Nonces::OfContents),
        })
    }

    /// Gives a clear record a hash in the place of a tag, so that the identity chain covers the record too.
    fn vouch(&self, head: &RecordHead, bytes: Vec<u8>, nonces: Nonces<'_>) -> SealOutput {
        let (tag, hash) = clear_tag(&head.aad(self.family, 0, 0), &bytes);
        let nonce = match nonces {
            Nonces::Random(_) => [0; 24],
            Nonces::OfContents => hash,
        };
        SealOutput {
            identity: head.identity(nonce, tag, 0, 0),
            bytes,
            nonce_is_of_contents: matches!(nonces, Nonces::OfContents),
        }
    }

    /// Seals the payload of a log entry in place. The seal binds `associated` too. Only a holder of the seal key can make
    /// it.
    pub(crate) fn seal_log(
        &self,
        associated: &[u8],
        payload: &mut [u8],
        random: &dyn Random,
    ) -> cipher::Result<RecordIdentity> {
        let head = RecordHead::of_log(payload.len());
        let Some(keys) = self.keys() else {
            let aad = [&head.aad(self.family, 0, 0), associated].concat();
            let (tag, _) = clear_tag(&aad, payload);
            return Ok(head.identity([0; 24], tag, 0, 0));
        };
        let (number, GenerationKeys { log, .. }) = keys.newest();
        // Heads are not opened without it.
        let log = log.as_ref().ok_or(cipher::Error::Unauthentic)?;
        let suite = log.suite().id();
        let nonce = random.nonce()?;
        let aad = [&head.aad(self.family, suite, number), associated].concat();
        let tag = log.seal_in_place(&nonce, &aad, payload)?;
        Ok(head.identity(nonce, tag, number, suite))
    }

    /// Opens the payload of a log entry. `associated` is `None` for an entry of an older program, which is sealed like a
    /// record.
    pub(crate) fn open_log(
        &self,
        identity: &RecordIdentity,
        associated: Option<&[u8]>,
        sealed: &[u8],
    ) -> Result<Vec<u8>, OpenError> {
        let head = RecordHead::of_log(sealed.len());
        if identity.logical_size() != head.logical_size || identity.compression != compression::NONE
        {
            return Err(OpenError::Malformed);
        }
        let mut plain = vec![0; sealed.len()];
        self.authenticate(&head, identity, associated, sealed, &mut plain)?;
        Ok(plain)
    }

    /// Opens and decompresses a record.
    pub(crate) fn open(
        &self,
        array: ArrayKind,
        ptr: &RecordPtr,
        sealed: &[u8],
    ) -> Result<RecordBuffer, OpenError> {
        let identity = &ptr.identity;
        let head = RecordHead {
            kind: array.into(),
            compression: identity.compression,
            logical_size: identity.logical_size(),
        };
        let len = head.logical_size as usize;
        if len == 0 || len > pool::RECORD_MAX as usize || !len.is_multiple_of(UNIT) {
            return Err(OpenError::Malformed);
        }
        let mut payload = RecordBuffer::zeroed(sealed.len());
        self.authenticate_record(&head, ptr, sealed, &mut payload)?;
        if identity.compression == compression::NONE {
            return if payload.len() == len {
                Ok(payload)
            } else {
                Err(OpenError::Malformed)
            };
        }
        unpack(identity.compression, &payload, len).ok_or(OpenError::Malformed)
    }

    /// Does the same as [`Sealer::authenticate`], for a record in an array. Who has the data key can make another
    /// ciphertext with the
    /// same tag, but not one with the hash that the pointer has too. The hash takes longer than the tag. So it is compared
    /// only for generations that seal no heads: there a reader may have the data key and not the seal key.
    fn authenticate_record(
        &self,
        head: &RecordHead,
        ptr: &RecordPtr,
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<(), OpenError> {
        let seals_heads = ptr.identity.generation() >= self.head_floor();
        if ptr.is_checked() && !seals_heads && !ptr.names(sealed) {
            return Err(OpenError::Unauthentic);
        }
        self.authenticate(head, &ptr.identity, None, sealed, out)
    }

    fn authenticate(
        &self,
        head: &RecordHead,
        identity: &RecordIdentity,
        associated: Option<&[u8]>,
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<(), OpenError> {
        let aad = head.aad(self.family, identity.suite, identity.generation());
        let with_associated = associated.map(|associated| [&aad, associated].concat());
        let aad = with_associated.as_deref().unwrap_or(&aad);
        let Some(keys) = self.keys() else {
            if identity.suite != 0 {
                return Err(OpenError::NoSuchKey);
            }
            if clear_tag(aad, sealed).0 != *identity.tag() {
                return Err(OpenError::Unauthentic);
            }
            out.copy_from_slice(sealed);
            return Ok(());
        };
        let generation = keys
            .all
            .get(&identity.generation())
            .filter(|generation| generation.cipher.suite().id() == identity.suite)
            .ok_or(OpenError::NoSuchKey)?;
        let cipher = match associated {
            Some(_) => generation.log.as_ref().ok_or(OpenError::NoSuchKey)?,
            None => &generation.cipher,
        };
        cipher
            .open(identity.nonce(), aad, sealed, identity.tag(), out)
            .map_err(|_| OpenError::Unauthentic)
    }

    /// The dataset seal. It authenticates every byte, because the chain of identities leads to each tag. Zeros without
    /// keys.
    pub(crate) fn dataset_seal(&self, input: &SealInput) -> [u8; 32] {
        let keys = self.keys();
        let seal = keys.as_ref().and_then(|keys| keys.newest().1.seal.as_ref());
        seal.map_or([0; 32], |key| dataset_seal(key, input))
    }

    /// Returns whether the keyring lacks the keys that seal heads: the generations after this one.
    pub(crate) fn cut_after(&self) -> Option<u32> {
        let keys = self.keys()?;
        keys.is_cut().then(|| keys.newest().0)
    }

    /// The seal over a state, by a generation; `None` without its seal key.
    pub(crate) fn seal_by(&self, generation: u32, input: &SealInput) -> Option<[u8; 32]> {
        let keys = self.keys()?;
        let key = keys.all.get(&generation)?.seal.as_ref()?;
        Some(dataset_seal(key, input))
    }

    /// The seal over a state, by the newest generation. `None` if the keyring lacks the keys that seal heads.
    pub(crate) fn seal_as_newest(&self, input: &SealInput) -> Option<[u8; 32]> {
        let keys = self.keys().filter(|keys| !keys.is_cut())?;
        let key = keys.newest().1.seal.as_ref()?;
        Some(dataset_seal(key, input))
    }

    /// Returns whether any generation of the keyring made the seal over a snapshot. A snapshot from before a rotation
    /// has the
    /// seal of an older generation.
    pub(crate) fn is_sealed(&self, input: &SealInput, seal: &[u8; 32]) -> bool {
        self.keys.is_none() || self.sealed_by(input, seal).is_some()
    }

    /// Classifies the seal over a head.
    pub(crate) fn head_seal(&self, input: &SealInput, seal: &[u8; 32]) -> HeadSeal {
        let keys = self.keys();
        keys.map_or(HeadSeal::Right, |keys| keys.head_seal(input, seal))
    }

    /// The oldest generation that seals heads and later log entries; 0 if all generations do.
    pub(crate) fn head_floor(&self) -> u32 {
        self.keys().map_or(0, |keys| keys.floor)
    }
}

/// The facts about a record that its sealer decides.
struct RecordHead {
    kind: Kind,
    compression: u8,
    logical_size: u32,
}

impl RecordHead {
    fn of_log(len: usize) -> RecordHead {
        RecordHead {
            kind: Kind::Log,
            compression: compression::NONE,
            logical_size: len as u32,
        }
    }

    /// The associated data: everything that the seal binds besides the payload.
    fn aad(&self, family: u64, suite: u8, generation: u32) -> [u8; 32] {
        let mut aad = [0; 32];
        aad[0..2].copy_from_slice(&AAD_VERSION.to_le_bytes());
        aad[2] = suite;
        aad[3] = self.kind as u8;
        aad[4] = self.compression;
        aad[8..12].copy_from_slice(&generation.to_le_bytes());
        aad[12..16].copy_from_slice(&self.logical_size.to_le_bytes());
        aad[16..24].copy_from_slice(&family.to_le_bytes());
        aad
    }

    fn identity(
        &self,
        nonce: [u8; 24],
        tag: [u8; 16],
        generation: u32,
        suite: u8,
    ) -> RecordIdentity {
        RecordIdentity::record(
            nonce,
            tag,
            generation,
            suite,
            self.compression,
            self.logical_size,
        )
    }
}

/// The nonce for shared records: a hash with a key of its own. Without the key it reveals nothing of the contents.
fn nonce_of_contents(key: &Key, aad: &[u8], payload: &[u8]) -> [u8; 24] {
    let mut mac = Mac::new(key.expose());
    mac.update(b"strongroom dedup nonce v1")
        .update(aad)
        .update(payload);
    let mut nonce = [0; 24];
    nonce.copy_from_slice(&mac.finish()[..24]);
    nonce
}

/// The tag of a clear record, and the nonce that is a hash of its contents.
fn clear_tag(aad: &[u8], payload: &[u8]) -> ([u8; 16], [u8; 24]) {
    let mut hasher = blake3::Hasher::new();
    let mut hash = hasher.update(aad).update(payload).finalize_xof();
    let (mut tag, mut nonce) = ([0; 16], [0; 24]);
    hash.fill(&mut tag);
    hash.fill(&mut nonce);
    (tag, nonce)
}

#[cfg(test)]
mod tests;
