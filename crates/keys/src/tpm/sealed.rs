//! What a TPM sealed, as clevis and systemd store it.

use cipher::Digest;
use zeroize::Zeroizing;

use super::session::SHA256;
use super::wire::{Bytes, Reader};
use crate::{Error, Result};

/// A key of a TPM protects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SealedByTpm {
    /// `TPMT_PUBLIC`.
    pub(super) public: Vec<u8>,
    /// What is in `TPM2B_PRIVATE`.
    pub(super) private: Vec<u8>,
    pub(super) parent: Parent,
    pub(super) opens: Opens,
}

/// The key of the TPM that protects others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// That which the TPM makes of the owner's seed for the usual template.
    Made,
    /// One that the TPM keeps, by its handle.
    Kept(u32),
}

/// What the TPM wants before it opens it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opens {
    /// Nothing: its password is empty.
    Always,
    /// The values of these PCRs, and a PIN.
    Policy { pcrs: Option<Pcrs>, pin: bool },
}

/// Registers of a TPM with one hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pcrs {
    bank: u16,
    /// A bit for each.
    registers: u32,
}

/// An object for data, and not a key.
const KEYED_HASH: u16 = 0x0008;
/// A TPM has 24.
const REGISTERS: u32 = 24;

impl SealedByTpm {
    /// Takes `TPM2B_PRIVATE` and `TPM2B_PUBLIC`.
    pub(crate) fn new(
        private: &[u8],
        public: &[u8],
        parent: Parent,
        opens: Opens,
    ) -> Result<SealedByTpm> {
        let whole = |bytes| {
            let mut reader = Reader(bytes);
            let inner = reader.sized().ok();
            inner.filter(|_| reader.0.is_empty()).map(<[u8]>::to_vec)
        };
        let (private, public) = (whole(private), whole(public));
        let (Some(private), Some(public)) = (private, public) else {
            return Err(unusable("what the TPM sealed is cut off"));
        };
        let mut fields = Reader(&public);
        let kind = (fields.u16().ok(), fields.u16().ok());
        if kind != (Some(KEYED_HASH), Some(SHA256)) || private.len() + public.len() > 2048 {
            return Err(unusable("it is not data that a TPM sealed with SHA-256"));
        }
        Ok(SealedByTpm {
            public,
            private,
            parent,
            opens,
        })
    }

    /// Whether a person has to give a PIN.
    pub(crate) fn has_pin(&self) -> bool {
        matches!(self.opens, Opens::Policy { pin: true, .. })
    }

    /// What the TPM calls the object, computed here so that it cannot take another one.
    pub(super) fn name(&self) -> Vec<u8> {
        let hash = Digest::Sha256.hash(&[&self.public]);
        Bytes::default().u16(SHA256).raw(&hash).0
    }
}

impl Pcrs {
    /// Registers by their numbers, in the bank of a hash.
    pub(crate) fn new(bank: &str, numbers: impl Iterator<Item = Option<u64>>) -> Result<Pcrs> {
        let bank = match bank {
            "sha1" => 0x0004,
            "sha256" => SHA256,
            "sha384" => 0x000c,
            "sha512" => 0x000d,
            _ => return Err(unusable("it names PCRs of an unknown hash")),
        };
        let mut registers = 0;
        for number in numbers {
            let number = number.and_then(|number| u32::try_from(number).ok());
            let number = number.filter(|number| *number < REGISTERS);
            registers |= 1 << number.ok_or_else(|| unusable("it names a PCR that no TPM has"))?;
        }
        Ok(Pcrs { bank, registers })
    }

    /// `TPML_PCR_SELECTION`.
    pub(super) fn selection(self) -> Vec<u8> {
        let [one, two, three, _] = self.registers.to_le_bytes();
        let bytes = Bytes::default().u32(1).u16(self.bank).u8(3);
        bytes.raw(&[one, two, three]).0
    }
}

/// The password of an object with this PIN, as systemd makes it.
pub(super) fn password(pin: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut password = Zeroizing::new(Digest::Sha256.hash(&[pin]).to_vec());
    // A TPM takes zeros at the end off.
    let len = password
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1);
    password.truncate(len);
    password
}

pub(super) fn unusable(reason: &str) -> Error {
    Error::Tpm(reason.into())
}
