//! The bytes of a keyring. Everything about its layout is here, and nothing else is.
//!
//! ```text
//! Header · Slot 1 · parameters · Slot 2 · parameters · ... · Generation 1 · Generation 2 · ... · Trailer
//! ```
//!
//! Numbers are little-endian, nothing is padded, and what is reserved is zero. The magic, length and version (the
//! first 14 bytes) and the trailer are the same in every version. So any program can tell damage from a format that
//! it does not know.
//!
//! `docs/FORMAT.md` describes the fields and what each wrapped key is bound to.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The most slots of a wrapping key.
pub const SLOTS_MAX: usize = 32;

/// The first bytes of a keyring.
pub(crate) const MAGIC: [u8; 8] = *b"SRKEYRNG";

/// The version of a keyring whose generations say nothing of heads.
pub(crate) const VERSION: u16 = 1;
/// The version of a keyring with a generation that says which seals heads have.
pub(crate) const VERSION_HEADS: u16 = 2;
/// The version of a keyring with a generation whose keys are wrapped in parts.
pub(crate) const VERSION_SPLIT: u16 = 3;

/// [`GenerationHead::parts`]: all keys are wrapped as one.
pub(crate) const PARTS_WHOLE: u8 = 0;
/// [`GenerationHead::parts`]: the keys that read, then the key that seals.
pub(crate) const PARTS_BOTH: u8 = 1;
/// [`GenerationHead::parts`]: only the keys that read.
pub(crate) const PARTS_READS: u8 = 2;

/// [`GenerationHead::heads`]: nothing is said.
pub(crate) const HEADS_ANY: u8 = 0;
/// [`GenerationHead::heads`]: a head has the seal of this generation or of a later one.
pub(crate) const HEADS_FROM_HERE: u8 = 1;
/// [`GenerationHead::heads`]: a head has the seal of a later generation.
pub(crate) const HEADS_LATER: u8 = 2;

/// [`Header::wrapping`]: slots of this keyring unlock the wrapping key.
pub(crate) const WRAPPING_OWN: u8 = 1;
/// [`Header::wrapping`]: an ancestor's keyring has the wrapping key; there are no slots.
pub(crate) const WRAPPING_INHERITED: u8 = 2;

/// [`SlotHead::kind`]: unlocked by a passphrase; parameters [`PassphraseParams`].
pub(crate) const KIND_PASSPHRASE: u16 = 1;
/// [`SlotHead::kind`]: unlocked by a key; parameters [`KeyParams`].
pub(crate) const KIND_KEY: u16 = 2;

/// [`SlotHead::kind`]: unlocked by a key in a token; parameters [`TokenParams`].
pub(crate) const KIND_TOKEN: u16 = 3;

/// [`SlotHead::kind`]: unlocked with the help of a Tang server; parameters a JSON Web Encryption in the compact form.
pub(crate) const KIND_TANG: u16 = 4;

/// [`SlotHead::kind`]: the TPM of a machine sealed the slot key; parameters [`TpmParams`].
pub(crate) const KIND_TPM: u16 = 5;

/// [`SlotHead::kind`]: several sources hold shares of the slot key; parameters [`SharesHead`].
pub(crate) const KIND_SHARED: u16 = 6;

/// [`TpmParams::flags`]: the TPM wants a PIN.
pub(crate) const TPM_PIN: u8 = 1;
/// [`TpmParams::parent`]: a storage root key that the TPM makes of the owner's seed, or keeps.
pub(crate) const TPM_STORAGE_ROOT: u8 = 1;

/// [`PassphraseParams::kdf`]: Argon2id, version 0x13.
pub(crate) const KDF_ARGON2ID: U16 = U16::new(1);

/// [`PassphraseParams::kdf`]: PBKDF2 with HMAC-SHA-256.
pub(crate) const KDF_PBKDF2_SHA256: U16 = U16::new(2);

/// [`PassphraseParams::kdf`]: PBKDF2 with HMAC-SHA-512.
pub(crate) const KDF_PBKDF2_SHA512: U16 = U16::new(3);

/// [`SlotHead::algorithm`] and [`GenerationHead::algorithm`]: XAES-256-GCM with a commitment.
pub(crate) const ALGORITHM_XAES_256_GCM: u8 = 1;

/// The longest parameters of a slot, in bytes.
pub(crate) const PARAMS_MAX: usize = 4096;

/// The beginning of a keyring.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Header {
    pub(crate) magic: [u8; 8],
    /// The length of the whole keyring, from the magic to the checksum.
    pub(crate) length: U32,
    pub(crate) version: U16,
    /// `WRAPPING_*`.
    pub(crate) wrapping: u8,
    /// The number of slots that follow: 1 to 32, or 0 if the wrapping key is inherited.
    pub(crate) slots: u8,
    /// The number of generations that follow, at least 1.
    pub(crate) generations: U32,
    pub(crate) reserved: U32,
    /// The clone family of the dataset.
    pub(crate) family: U64,
    /// The id of the wrapping key.
    pub(crate) wrapping_key: [u8; 16],
}

/// The authenticated part of a slot, besides its parameters.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct SlotHead {
    /// Ascending from one slot to the next.
    pub(crate) number: U32,
    /// `KIND_*`.
    pub(crate) kind: U16,
    /// `ALGORITHM_*`.
    pub(crate) algorithm: u8,
    /// Slots with a higher priority are tried first.
    pub(crate) priority: u8,
    /// Seconds since 1970.
    pub(crate) created: U64,
    /// The number of bytes of parameters that follow the slot, at most 4,096.
    pub(crate) params_len: U16,
    pub(crate) reserved: [u8; 6],
}

/// A slot. Its parameters follow.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct StoredSlot {
    pub(crate) head: SlotHead,
    pub(crate) wrapped: WrappedKey<32>,
}

/// The parameters of a slot that a passphrase unlocks.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct PassphraseParams {
    /// `KDF_*`.
    pub(crate) kdf: U16,
    pub(crate) reserved: U16,
    pub(crate) memory_kib: U32,
    pub(crate) iterations: U32,
    pub(crate) lanes: U32,
    pub(crate) salt: [u8; 32],
}

/// The parameters of a slot that a key unlocks.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct KeyParams {
    pub(crate) salt: [u8; 32],
}

/// The parameters of a slot that a key in a token unlocks.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub(crate) struct TokenParams {
    pub(crate) reserved: [u8; 4],
    pub(crate) nonce: [u8; 12],
    /// The key of the slot, sealed by the token's key with AES-GCM: 32 bytes and a tag.
    pub(crate) wrapped: [u8; 48],
}

/// The parameters of a slot that a TPM opens. `TPM2B_PRIVATE` and `TPM2B_PUBLIC` of the sealed object follow.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct TpmParams {
    /// `TPM_PIN`.
    pub(crate) flags: u8,
    /// `TPM_STORAGE_ROOT`: the key of the TPM that protects the object.
    pub(crate) parent: u8,
    /// The number of the hash of the PCRs; 0 without PCRs.
    pub(crate) bank: U16,
    /// A bit for each PCR.
    pub(crate) registers: U32,
    /// The TPM's name of the parent.
    pub(crate) parent_name: [u8; 34],
    pub(crate) reserved: [u8; 6],
}

/// The beginning of the parameters of a slot that shares open. The shares follow.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct SharesHead {
    /// The number of shares that open the slot.
    pub(crate) threshold: u8,
    /// The number of shares that follow.
    pub(crate) shares: u8,
    pub(crate) reserved: [u8; 2],
}

/// The beginning of a share. What protects it follows, as in a slot of this kind.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct ShareHead {
    /// `KIND_*`.
    pub(crate) kind: U16,
    pub(crate) len: U16,
}

/// A share that a key wraps.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct KeyShareParams {
    pub(crate) salt: [u8; 32],
    pub(crate) wrapped: WrappedKey<64>,
}

/// The authenticated part of a generation.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct GenerationHead {
    /// Ascending from one generation to the next.
    pub(crate) number: U32,
    /// The id of the cipher suite.
    pub(crate) suite: u8,
    /// `ALGORITHM_*`.
    pub(crate) algorithm: u8,
    /// `HEADS_*`.
    pub(crate) heads: u8,
    /// `PARTS_*`.
    pub(crate) parts: u8,
    /// The transaction group that made it.
    pub(crate) txg: U64,
    /// Seconds since 1970.
    pub(crate) created: U64,
    /// The id of the wrapping key: that of the header.
    pub(crate) wrapping_key: [u8; 16],
}

/// `LEN` bytes of keys, wrapped.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub(crate) struct WrappedKey<const LEN: usize> {
    pub(crate) nonce: [u8; 24],
    /// To the key that wrapped, the nonce and what is authenticated.
    pub(crate) commitment: [u8; 32],
    pub(crate) sealed: [u8; LEN],
    pub(crate) tag: [u8; 16],
}

/// The end of a keyring.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Trailer {
    /// BLAKE3 of everything before.
    pub(crate) checksum: [u8; 32],
}

const _: () = {
    assert!(size_of::<Header>() == 48);
    assert!(size_of::<SlotHead>() == 24);
    assert!(size_of::<WrappedKey<32>>() == 104);
    assert!(size_of::<StoredSlot>() == 128);
    assert!(size_of::<PassphraseParams>() == 48);
    assert!(size_of::<KeyParams>() == 32);
    assert!(size_of::<TokenParams>() == 64);
    assert!(size_of::<TpmParams>() == 48);
    assert!(size_of::<SharesHead>() == 4);
    assert!(size_of::<ShareHead>() == 4);
    assert!(size_of::<KeyShareParams>() == 168);
    assert!(size_of::<GenerationHead>() == 40);
    assert!(size_of::<WrappedKey<96>>() == 168);
    assert!(size_of::<WrappedKey<64>>() == 136);
    assert!(size_of::<Trailer>() == 32);
};

/// Takes a structure from the front of `bytes`.
pub(crate) fn take<T: FromBytes + Unaligned + KnownLayout + Immutable + Copy>(
    bytes: &mut &[u8],
) -> Option<T> {
    let (value, rest) = T::read_from_prefix(bytes).ok()?;
    *bytes = rest;
    Some(value)
}
