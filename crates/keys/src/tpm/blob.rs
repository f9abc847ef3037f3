//! Data that a TPM sealed, as clevis and systemd store it, and as a key slot does.

use cipher::Digest;
use secret::Secret;
use zerocopy::IntoBytes;

use super::chip::session::SHA256;
use super::chip::wire::{ResponseReader, TpmBytes};
use super::signature::policy::SignedPolicy;
use crate::layout::{self, TpmParams};
use crate::source::Pcrs;
use crate::{Error, Result};

/// A key of a TPM protects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SealedByTpm {
    /// `TPMT_PUBLIC`.
    pub(super) public: Vec<u8>,
    /// The contents of `TPM2B_PRIVATE`.
    pub(super) private: Vec<u8>,
    pub(super) parent: Parent,
    /// The TPM's name of the parent, if it is known.
    pub(super) parent_name: Option<ObjectName>,
    pub(super) opens: Opens,
    /// The policy with the key whose signature the TPM wants first.
    pub(super) signed: Option<Box<SignedPolicy>>,
}

/// The TPM's name of an object: the number of SHA-256, and the hash of its public part.
pub(super) type ObjectName = [u8; 34];

/// The key of the TPM that protects others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// The key that the TPM makes of the owner's seed for the template of tpm2-tools. It is locked after wrong PINs.
    Made,
    /// The key for the template of a storage root key (TCG TPM v2.0 Provisioning Guidance, 7.5.1). The TPM makes it,
    /// or keeps such a key.
    StorageRoot,
    /// A key that the TPM keeps, by its handle.
    Kept(u32),
}

/// The condition under which the TPM opens an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opens {
    /// No condition: its password is empty.
    Always,
    /// The values of these PCRs, and a PIN.
    Policy { pcrs: Option<Pcrs>, pin: bool },
}

/// An object for data, and not a key.
pub(super) const KEYED_HASH: u16 = 0x0008;
/// The largest length of each part, in bytes.
const LEN_MAX: usize = 2048;

impl SealedByTpm {
    /// Takes `TPM2B_PRIVATE` and `TPM2B_PUBLIC`.
    pub(crate) fn new(
        private: &[u8],
        public: &[u8],
        parent: Parent,
        opens: Opens,
    ) -> Result<SealedByTpm> {
        let whole = |bytes| {
            let mut reader = ResponseReader(bytes);
            let inner = reader.sized().ok();
            inner.filter(|_| reader.0.is_empty()).map(<[u8]>::to_vec)
        };
        let (private, public) = (whole(private), whole(public));
        let (Some(private), Some(public)) = (private, public) else {
            return Err(unusable("what the TPM sealed is cut off"));
        };
        let mut fields = ResponseReader(&public);
        let kind = (fields.u16().ok(), fields.u16().ok());
        if kind != (Some(KEYED_HASH), Some(SHA256)) || private.len() + public.len() > LEN_MAX {
            return Err(unusable("it is not data that a TPM sealed with SHA-256"));
        }
        Ok(SealedByTpm {
            public,
            private,
            parent,
            parent_name: None,
            opens,
            signed: None,
        })
    }

    /// With a signature too.
    pub(super) fn signed_by(self, signed: Option<SignedPolicy>) -> SealedByTpm {
        let signed = signed.map(Box::new);
        SealedByTpm { signed, ..self }
    }

    /// Under the parent of this name only.
    pub(super) fn under(self, name: ObjectName) -> SealedByTpm {
        SealedByTpm {
            parent_name: Some(name),
            ..self
        }
    }

    /// Reads the parameters of a key slot; `None` for those of a later version.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<SealedByTpm>> {
        let damaged = || Error::Damaged("the parameters of a key slot");
        let mut rest = bytes;
        let head: TpmParams = layout::take(&mut rest).ok_or_else(damaged)?;
        if head.parent != layout::TPM_STORAGE_ROOT || head.flags & !layout::TPM_PIN != 0 {
            return Ok(None);
        }
        let pcrs = match (head.bank.get(), head.registers.get()) {
            (0, 0) => None,
            (bank, registers) => Some(Pcrs::of_bits(bank, registers).ok_or_else(damaged)?),
        };
        if head.reserved != [0; 6] {
            return Err(damaged());
        }
        // Each has its length before it.
        let mut parts = ResponseReader(rest);
        let private_len = parts.sized().map(|part| 2 + part.len());
        let (private, public) = rest.split_at(private_len.map_err(|_| damaged())?);
        let opens = Opens::of(pcrs, head.flags & layout::TPM_PIN != 0);
        let sealed = SealedByTpm::new(private, public, Parent::StorageRoot, opens);
        let sealed = sealed.map_err(|_| damaged())?;
        Ok(Some(sealed.under(head.parent_name)))
    }

    /// The parameters of a key slot.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let pcrs = self.opens.pcrs();
        let head = TpmParams {
            flags: if self.has_pin() { layout::TPM_PIN } else { 0 },
            parent: layout::TPM_STORAGE_ROOT,
            bank: pcrs.map_or(0, Pcrs::bank).into(),
            registers: pcrs.map_or(0, Pcrs::registers).into(),
            parent_name: self.parent_name.expect("it was sealed here"),
            reserved: [0; 6],
        };
        TpmBytes(head.as_bytes().to_vec())
            .sized(&self.private)
            .sized(&self.public)
            .0
    }

    /// Returns whether the TPM takes both for the same object.
    pub(super) fn is_same_object(&self, other: &SealedByTpm) -> bool {
        (&self.public, &self.private) == (&other.public, &other.private)
    }

    /// Returns whether a person has to give a PIN.
    pub(crate) fn has_pin(&self) -> bool {
        matches!(self.opens, Opens::Policy { pin: true, .. })
    }

    /// The digest of its policy; empty if there is none.
    pub(super) fn policy(&self) -> &[u8] {
        // Kind, hash and attributes stand before it.
        let rest = self.public.get(8..).unwrap_or_default();
        ResponseReader(rest).sized().unwrap_or_default()
    }

    /// The TPM's name of the object, computed here so that the TPM cannot take another object.
    pub(super) fn name(&self) -> ObjectName {
        name(&self.public)
    }
}

impl Opens {
    pub(crate) fn of(pcrs: Option<Pcrs>, pin: bool) -> Opens {
        match (pcrs, pin) {
            (None, false) => Opens::Always,
            (pcrs, pin) => Opens::Policy { pcrs, pin },
        }
    }

    fn pcrs(self) -> Option<Pcrs> {
        match self {
            Opens::Always => None,
            Opens::Policy { pcrs, .. } => pcrs,
        }
    }
}

/// The name of an object with this public part.
pub(super) fn name(public: &[u8]) -> ObjectName {
    let mut name = [0; 34];
    name[..2].copy_from_slice(&SHA256.to_be_bytes());
    name[2..].copy_from_slice(&Digest::Sha256.hash(&[public]));
    name
}

/// `TPML_PCR_SELECTION`.
pub(super) fn selection(pcrs: Pcrs) -> Vec<u8> {
    let [one, two, three, _] = pcrs.registers().to_le_bytes();
    let bytes = TpmBytes::default().u32(1).u16(pcrs.bank()).u8(3);
    bytes.raw(&[one, two, three]).0
}

/// The password of an object with this PIN, as systemd makes it.
pub(super) fn password(pin: &[u8]) -> Result<Secret> {
    let password = Digest::Sha256.hash(&[pin]);
    // A TPM takes zeros at the end off.
    let last = password.iter().rposition(|byte| *byte != 0);
    Ok(Secret::from_slice(
        &password[..last.map_or(0, |at| at + 1)],
    )?)
}

pub(super) fn unusable(reason: &str) -> Error {
    Error::Tpm(reason.into())
}
