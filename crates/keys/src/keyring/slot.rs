//! Slots: each is one way to the wrapping key.
//!
//! A slot wraps the wrapping key under a key of its own. This key is made from a passphrase (a password hash with
//! the slot's salt) or from a key (BLAKE3 `derive_key` with the slot's salt). Or a key that stays in its token
//! unwraps it, a server helps to recover it, a TPM opens it, or several of these hold it together. The description
//! of a slot is authenticated. So an attacker cannot lower the cost of a guess, or move a slot to another wrapping
//! key.

use cipher::{Digest, Random};
use secret::Key;
use zerocopy::{FromBytes, IntoBytes};

use crate::key::{derived_key, random_key};
use crate::layout::{self, TokenParams, WrappedKey};
use crate::shares::Shares;
use crate::tpm::SealedByTpm;
use crate::{
    Argon2Params, Error, GuessCost, KeyMaterial, KeySource, Location, MaterialFormat, Pbkdf2Params,
    Result, WrappingKey, is_for_server, is_for_tpm, wrap,
};

/// Authenticated first, so that nothing else wrapped by the same key is taken for a slot.
const DOMAIN: &[u8] = b"strongroom key slot v1";

/// The context in which the key of a slot is derived from a key.
const SLOT_KEY: &str = "strongroom 2026-11 slot key from a key v1";

/// A way to the wrapping key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySlot {
    head: SlotMetadata,
    wrapped: WrappedKey<32>,
}

/// The authenticated description of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SlotMetadata {
    number: u32,
    priority: u8,
    created: u64,
    kind: SlotKind,
}

/// The secret that unlocks a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// A passphrase.
    Passphrase {
        /// The password hash, and the cost of a guess.
        cost: GuessCost,
        /// The salt of the password hash.
        salt: [u8; 32],
    },
    /// A key of 16, 24 or 32 bytes.
    Key {
        /// The salt of the derivation.
        salt: [u8; 32],
    },
    /// A key in a PKCS#11 token.
    Token(TokenSlot),
    /// A key that a Tang server helps to recover.
    Tang(TangSlot),
    /// A key that the TPM of a machine sealed.
    Tpm(TpmSlot),
    /// A key that several sources hold together.
    Shared(SharedSlot),
    /// A kind that only later versions of the program know. It is kept unchanged.
    Other {
        /// The number of the kind.
        kind: u16,
        /// The number of the wrapping algorithm.
        algorithm: u8,
        /// The parameters of the kind.
        params: Vec<u8>,
    },
}

/// The key of a slot, as a token wrapped it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSlot(TokenParams);

/// The key of a slot, as it was sealed to a Tang server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TangSlot(String);

/// The key of a slot, as a TPM sealed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TpmSlot(SealedByTpm);

/// The key of a slot, in shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedSlot(Shares);

impl KeySlot {
    /// The priority of slots that were made without a wish: slots with a higher one are tried first.
    pub const PRIORITY_NORMAL: u8 = 128;

    /// The number that people call it by.
    pub fn number(&self) -> u32 {
        self.head.number
    }

    /// Slots with a higher priority are tried first.
    pub fn priority(&self) -> u8 {
        self.head.priority
    }

    /// The time when the slot was made, in seconds since 1970.
    pub fn created(&self) -> u64 {
        self.head.created
    }

    /// The kind of secret that unlocks the slot.
    pub fn kind(&self) -> &SlotKind {
        &self.head.kind
    }

    /// The work of one try with this material, in KiB of memory times passes.
    pub(crate) fn work(&self, material: &KeyMaterial) -> u64 {
        match (&self.head.kind, material) {
            (SlotKind::Passphrase { cost, .. }, KeyMaterial::Passphrase(_)) => cost.work(),
            _ => 0,
        }
    }

    /// A new slot, with a new salt.
    pub(crate) fn create(
        (number, priority): (u32, u8),
        key: &WrappingKey,
        material: &KeyMaterial,
        cost: GuessCost,
        created: u64,
        random: &dyn Random,
    ) -> Result<KeySlot> {
        let mut salt = [0; 32];
        random.fill(&mut salt)?;
        let derived = |kind: SlotKind| {
            let slot_key = kind.derive(material)?.expect("made for this material");
            Ok::<_, Error>((kind, slot_key))
        };
        let (kind, slot_key) = match material {
            KeyMaterial::Passphrase(_) => {
                cost.check_for_new_slot()?;
                derived(SlotKind::Passphrase { cost, salt })?
            }
            KeyMaterial::Key(_) | KeyMaterial::Short(_) => derived(SlotKind::Key { salt })?,
            KeyMaterial::Token(token) => {
                let slot_key = random_key(random)?;
                let wrapped = token.wrap(&slot_key, random)?;
                (SlotKind::Token(TokenSlot(wrapped)), slot_key)
            }
            KeyMaterial::Tang(server) => {
                let slot_key = random_key(random)?;
                let sealed = server.wrap(&slot_key, random)?;
                (SlotKind::Tang(TangSlot(sealed)), slot_key)
            }
            KeyMaterial::Tpm(tpm) => {
                let (slot_key, sealed) = tpm.wrap(random)?;
                (SlotKind::Tpm(TpmSlot(sealed)), slot_key)
            }
            KeyMaterial::Shared(shared) => {
                let (slot_key, shares) = shared.wrap(random)?;
                (SlotKind::Shared(SharedSlot(shares)), slot_key)
            }
        };
        let head = SlotMetadata {
            number,
            priority,
            created,
            kind,
        };
        let wrapped = wrap::wrap(&slot_key, &head.aad(key.id()), key.key().expose(), random)?;
        Ok(KeySlot { head, wrapped })
    }

    /// The wrapping key; `None` if this is not a slot for this kind of material.
    ///
    /// # Errors
    /// [`Error::WrongKey`] or [`Error::Damaged`].
    pub(crate) fn unlock(
        &self,
        id: &[u8; 16],
        material: &KeyMaterial,
    ) -> Result<Option<WrappingKey>> {
        let Some(slot_key) = self.head.kind.derive(material)? else {
            return Ok(None);
        };
        let aad = self.head.aad(id);
        let key = Key::fill_with(|key| wrap::unwrap(&self.wrapped, &slot_key, &aad, key));
        // A key that came out of the slot itself fits it.
        let is_inside = matches!(
            self.head.kind,
            SlotKind::Tang(_) | SlotKind::Tpm(_) | SlotKind::Shared(_)
        );
        let key = key.map_err(|error| match error {
            Error::WrongKey if is_inside => Error::Damaged("a key slot"),
            error => error,
        })?;
        Ok(Some(WrappingKey::new(*id, key)))
    }

    /// Appends the slot and its parameters.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let params = self.head.kind.params();
        let slot = layout::StoredSlot {
            head: self.head.layout(&params),
            wrapped: self.wrapped,
        };
        out.extend_from_slice(slot.as_bytes());
        out.extend_from_slice(&params);
    }

    /// Takes a slot and its parameters from the front of `bytes`.
    pub(crate) fn decode(bytes: &mut &[u8]) -> Result<KeySlot> {
        let slot: layout::StoredSlot =
            layout::take(bytes).ok_or(Error::Damaged("a key slot is cut"))?;
        let layout::StoredSlot { head, wrapped } = slot;
        let params_len = usize::from(head.params_len.get());
        if params_len > layout::PARAMS_MAX || head.reserved != [0; 6] {
            return Err(Error::Damaged("the head of a key slot"));
        }
        let cut = Error::Damaged("the parameters of a key slot are cut");
        let (params, rest) = bytes.split_at_checked(params_len).ok_or(cut)?;
        *bytes = rest;
        let head = SlotMetadata {
            number: head.number.get(),
            priority: head.priority,
            created: head.created.get(),
            kind: SlotKind::decode(head.kind.get(), head.algorithm, params)?,
        };
        Ok(KeySlot { head, wrapped })
    }
}

impl SlotMetadata {
    /// The authenticated data of the wrapped key: domain, wrapping key id, head and parameters.
    fn aad(&self, id: &[u8; 16]) -> Vec<u8> {
        let params = self.kind.params();
        [DOMAIN, id, self.layout(&params).as_bytes(), &params].concat()
    }

    fn layout(&self, params: &[u8]) -> layout::SlotHead {
        let (kind, algorithm) = match &self.kind {
            SlotKind::Passphrase { .. } => {
                (layout::KIND_PASSPHRASE, layout::ALGORITHM_XAES_256_GCM)
            }
            SlotKind::Key { .. } => (layout::KIND_KEY, layout::ALGORITHM_XAES_256_GCM),
            SlotKind::Token(_) => (layout::KIND_TOKEN, layout::ALGORITHM_XAES_256_GCM),
            SlotKind::Tang(_) => (layout::KIND_TANG, layout::ALGORITHM_XAES_256_GCM),
            SlotKind::Tpm(_) => (layout::KIND_TPM, layout::ALGORITHM_XAES_256_GCM),
            SlotKind::Shared(_) => (layout::KIND_SHARED, layout::ALGORITHM_XAES_256_GCM),
            SlotKind::Other {
                kind, algorithm, ..
            } => (*kind, *algorithm),
        };
        layout::SlotHead {
            number: self.number.into(),
            kind: kind.into(),
            algorithm,
            priority: self.priority,
            created: self.created.into(),
            params_len: u16::try_from(params.len())
                .expect("at most PARAMS_MAX")
                .into(),
            reserved: [0; 6],
        }
    }
}

impl SlotKind {
    /// Returns whether this program can open such a slot.
    pub fn is_known(&self) -> bool {
        !matches!(self, SlotKind::Other { .. })
    }

    /// Returns whether the slot takes keys from this source.
    pub fn takes(&self, source: &KeySource) -> bool {
        match (source.location(), self) {
            (Location::Token(_), kind) if source.format() == MaterialFormat::Raw => {
                matches!(kind, SlotKind::Token(_))
            }
            (Location::Tang(server), SlotKind::Tang(slot)) => is_for_server(&slot.0, server),
            (Location::Tpm(tpm), SlotKind::Tpm(slot)) => is_for_tpm(&slot.0, tpm),
            (Location::Shared(_), kind) => matches!(kind, SlotKind::Shared(_)),
            (Location::Tang(_) | Location::Tpm(_), _) => false,
            (_, SlotKind::Passphrase { .. }) => source.format() == MaterialFormat::Passphrase,
            (_, SlotKind::Key { .. }) => source.format() != MaterialFormat::Passphrase,
            // Only from the sources above.
            (_, _) => false,
        }
    }

    /// The key of the slot; `None` if it is not for this kind of material.
    fn derive(&self, material: &KeyMaterial) -> Result<Option<Key>> {
        match (self, material) {
            (SlotKind::Passphrase { cost, salt }, KeyMaterial::Passphrase(passphrase)) => {
                Key::fill_with(|key| cost.derive(passphrase, salt, key)).map(Some)
            }
            (SlotKind::Key { salt }, KeyMaterial::Key(key)) => {
                derived_key(SLOT_KEY, &[key.expose(), salt]).map(Some)
            }
            (SlotKind::Key { salt }, KeyMaterial::Short(key)) => {
                derived_key(SLOT_KEY, &[key.expose(), salt]).map(Some)
            }
            (SlotKind::Token(slot), KeyMaterial::Token(token)) => token.unwrap(&slot.0).map(Some),
            (SlotKind::Tang(slot), KeyMaterial::Tang(server)) => server.unwrap(&slot.0),
            (SlotKind::Tpm(slot), KeyMaterial::Tpm(tpm)) => tpm.unwrap(&slot.0),
            (SlotKind::Shared(slot), KeyMaterial::Shared(shared)) => {
                shared.unwrap(&slot.0).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn params(&self) -> Vec<u8> {
        match self {
            SlotKind::Passphrase { cost, salt } => {
                passphrase_params(*cost, *salt).as_bytes().to_vec()
            }
            SlotKind::Key { salt } => layout::KeyParams { salt: *salt }.as_bytes().to_vec(),
            SlotKind::Token(slot) => slot.0.as_bytes().to_vec(),
            SlotKind::Tang(slot) => slot.0.clone().into_bytes(),
            SlotKind::Tpm(slot) => slot.0.encode(),
            SlotKind::Shared(slot) => slot.0.encode(),
            SlotKind::Other { params, .. } => params.clone(),
        }
    }

    fn decode(kind: u16, algorithm: u8, bytes: &[u8]) -> Result<SlotKind> {
        let other = || SlotKind::Other {
            kind,
            algorithm,
            params: bytes.to_vec(),
        };
        let damaged = Error::Damaged("the parameters of a key slot");
        match kind {
            _ if algorithm != layout::ALGORITHM_XAES_256_GCM => Ok(other()),
            layout::KIND_PASSPHRASE => {
                let params = layout::PassphraseParams::read_from_bytes(bytes);
                let params = params.map_err(|_| damaged)?;
                match stored_cost(&params)? {
                    Some(cost) => Ok(SlotKind::Passphrase {
                        cost,
                        salt: params.salt,
                    }),
                    None => Ok(other()),
                }
            }
            layout::KIND_KEY => match layout::KeyParams::read_from_bytes(bytes) {
                Ok(params) => Ok(SlotKind::Key { salt: params.salt }),
                Err(_) => Err(damaged),
            },
            layout::KIND_TOKEN => match TokenParams::read_from_bytes(bytes) {
                Ok(params) if params.reserved == [0; 4] => Ok(SlotKind::Token(TokenSlot(params))),
                _ => Err(damaged),
            },
            layout::KIND_TANG => match String::from_utf8(bytes.to_vec()) {
                Ok(sealed) => Ok(SlotKind::Tang(TangSlot(sealed))),
                Err(_) => Err(damaged),
            },
            layout::KIND_TPM => match SealedByTpm::decode(bytes)? {
                Some(sealed) => Ok(SlotKind::Tpm(TpmSlot(sealed))),
                None => Ok(other()),
            },
            layout::KIND_SHARED => Ok(SlotKind::Shared(SharedSlot(Shares::decode(bytes)?))),
            _ => Ok(other()),
        }
    }
}

/// The parameters of a slot for a passphrase. PBKDF2 has no memory and no lanes.
fn passphrase_params(cost: GuessCost, salt: [u8; 32]) -> layout::PassphraseParams {
    let (kdf, memory_kib, iterations, lanes) = match cost {
        GuessCost::Argon2id(params) => (
            layout::KDF_ARGON2ID,
            params.memory_kib(),
            params.iterations(),
            params.lanes(),
        ),
        GuessCost::Pbkdf2(params) => {
            let kdf = match params.digest() {
                Digest::Sha256 => layout::KDF_PBKDF2_SHA256,
                _ => layout::KDF_PBKDF2_SHA512,
            };
            (kdf, 0, params.iterations(), 0)
        }
    };
    layout::PassphraseParams {
        kdf,
        reserved: 0.into(),
        memory_kib: memory_kib.into(),
        iterations: iterations.into(),
        lanes: lanes.into(),
        salt,
    }
}

/// The cost in parameters as they are stored; `None` for a hash of a later version.
fn stored_cost(params: &layout::PassphraseParams) -> Result<Option<GuessCost>> {
    let (memory, lanes) = (params.memory_kib.get(), params.lanes.get());
    let pbkdf2 = |digest| match (memory, lanes) {
        (0, 0) => Pbkdf2Params::stored(digest, params.iterations.get()).map(GuessCost::Pbkdf2),
        _ => Err("the parameters of a key slot"),
    };
    let cost = match params.kdf {
        layout::KDF_ARGON2ID => {
            Argon2Params::stored(memory, params.iterations.get(), lanes).map(GuessCost::Argon2id)
        }
        layout::KDF_PBKDF2_SHA256 => pbkdf2(Digest::Sha256),
        layout::KDF_PBKDF2_SHA512 => pbkdf2(Digest::Sha512),
        _ => return Ok(None),
    };
    if params.reserved.get() != 0 {
        return Err(Error::Damaged("the parameters of a key slot"));
    }
    cost.map(Some).map_err(Error::Damaged)
}
