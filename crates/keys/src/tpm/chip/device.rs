//! The TPM of this machine, and the commands that it is given.

use std::path::Path;

use cipher::{Digest, Point, Random};
use zeroize::Zeroizing;

use super::session::{Kind, NULL_HANDLE, SHA256, SessionRequest, TpmSession};
use super::transport::Transport;
use super::wire::{
    ResponseReader, TpmBytes, TpmCommand, TpmResponse, answer, command, no_password, not_understood,
};
use crate::source::Pcrs;
use crate::tpm::blob::{ObjectName, Parent, SealedByTpm, name, selection, unusable};
use crate::{Error, Result};

const OWNER: u32 = 0x4000_0001;
const ECC: u16 = 0x0023;
const P256: u16 = 0x0003;
const AES: u16 = 0x0006;
const CFB: u16 = 0x0043;
const NULL: u16 = 0x0010;
/// Restricted, decrypts, made in the TPM, stays there, and is used with its password.
const ATTRIBUTES: u32 = 0x0003_0072;
/// Wrong passwords do not count, and it is used while the TPM is locked.
pub(crate) const NO_LOCKOUT: u32 = 0x0000_0400;
/// `TPM_CAP_TPM_PROPERTIES`.
const PROPERTIES: u32 = 6;
/// `TPM_PT_LOCKOUT_COUNTER`, and behind it the most tries, and the seconds after which one is forgotten.
const LOCKOUT: u32 = 0x20e;

/// The handle of the storage root key, where a TPM keeps one.
const SRK: u32 = 0x8100_0001;

/// The TPM of this machine.
pub(crate) struct Tpm {
    transport: Transport,
    /// Handles that are to be forgotten when this one goes.
    handles: Vec<u32>,
}

/// A key of the TPM that protects others.
pub(crate) struct ParentKey {
    pub(crate) handle: u32,
    pub(crate) point: Point,
    pub(crate) name: ObjectName,
}

impl Tpm {
    pub(crate) fn open(device: Option<&Path>) -> Result<Tpm> {
        Ok(Tpm {
            transport: Transport::open(device)?,
            handles: Vec::new(),
        })
    }

    pub(crate) fn run(
        &mut self,
        code: TpmCommand,
        handles: &[u32],
        auth: Option<&[u8]>,
        params: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>> {
        self.transport
            .exchange(&command(code, handles, auth, params))
    }

    /// A key that protects others, of this name if it is known.
    pub(crate) fn parent(
        &mut self,
        parent: Parent,
        known: Option<ObjectName>,
    ) -> Result<ParentKey> {
        let is_it = |key: &ParentKey| known.is_none_or(|name| name == key.name);
        let found = match parent {
            Parent::Made => self.make_parent(ATTRIBUTES)?,
            Parent::Kept(handle) => self.kept_parent(handle)?,
            Parent::StorageRoot => match self.make_parent(ATTRIBUTES | NO_LOCKOUT) {
                Ok(made) if is_it(&made) => made,
                Ok(_) => self.kept_parent(SRK).map_err(|_| another())?,
                Err(Error::TpmPin(_)) => self.kept_parent(SRK).map_err(|_| needs_owner())?,
                Err(error) => return Err(error),
            },
        };
        match is_it(&found) {
            true => Ok(found),
            false => Err(another()),
        }
    }

    fn kept_parent(&mut self, handle: u32) -> Result<ParentKey> {
        let text = self.run(TpmCommand::ReadPublic, &[handle], None, &[])?;
        parent_key(handle, &answer(&text, false, false)?)
    }

    /// Makes the parent key. The key is the same each time, since the TPM makes it of a seed that it keeps.
    fn make_parent(&mut self, attributes: u32) -> Result<ParentKey> {
        let nothing = TpmBytes::default().sized(&[]).sized(&[]).0;
        let params = TpmBytes::default()
            .sized(&nothing)
            .sized(&template(attributes))
            .sized(&[])
            .u32(0)
            .0;
        let text = self.run(
            TpmCommand::CreatePrimary,
            &[OWNER],
            Some(&no_password()),
            &params,
        )?;
        let made = answer(&text, true, true)?;
        self.handles.push(made.handle);
        parent_key(made.handle, &made)
    }

    pub(crate) fn load(&mut self, parent: &ParentKey, sealed: &SealedByTpm) -> Result<u32> {
        let params = TpmBytes::default()
            .sized(&sealed.private)
            .sized(&sealed.public)
            .0;
        let text = self.run(
            TpmCommand::Load,
            &[parent.handle],
            Some(&no_password()),
            &params,
        )?;
        self.loaded(&answer(&text, true, true)?, sealed.name())
    }

    /// Loads a key that is not the TPM's, by its public part.
    pub(crate) fn load_public(&mut self, public: &[u8]) -> Result<u32> {
        let params = TpmBytes::default().sized(&[]).sized(public).u32(OWNER).0;
        let text = self.run(TpmCommand::LoadExternal, &[], None, &params)?;
        self.loaded(&answer(&text, true, false)?, name(public))
    }

    /// The handle of a loaded object, if it is the object of this name.
    fn loaded(&mut self, loaded: &TpmResponse<'_>, name: ObjectName) -> Result<u32> {
        self.handles.push(loaded.handle);
        match ResponseReader(loaded.params).sized()? == name {
            true => Ok(loaded.handle),
            false => Err(not_understood()),
        }
    }

    pub(crate) fn session(
        &mut self,
        kind: Kind,
        parent: &ParentKey,
        random: &dyn Random,
    ) -> Result<TpmSession> {
        let beginning = SessionRequest::new(kind, &parent.point, random)?;
        let handles = [parent.handle, NULL_HANDLE];
        let text = self.run(
            TpmCommand::StartAuthSession,
            &handles,
            None,
            &beginning.params,
        )?;
        let begun = answer(&text, true, false)?;
        self.handles.push(begun.handle);
        beginning.begun(&begun)
    }

    /// Shows the TPM that the policy is fulfilled.
    pub(crate) fn fulfil(
        &mut self,
        session: &TpmSession,
        pcrs: Option<Pcrs>,
        pin: bool,
    ) -> Result<()> {
        if let Some(pcrs) = pcrs {
            let params = TpmBytes::default().sized(&[]).raw(&selection(pcrs)).0;
            let text = self.run(TpmCommand::PolicyPcr, &[session.handle], None, &params)?;
            answer(&text, false, false)?;
        }
        if pin {
            let text = self.run(TpmCommand::PolicyAuthValue, &[session.handle], None, &[])?;
            answer(&text, false, false)?;
        }
        Ok(())
    }

    /// The policy digest that [`Tpm::fulfil`] leads to while PCRs have their present values (TPM 2.0 Library, part 3,
    /// 23.7 and 23.17), also
    /// after the approval by a key of this name (23.16).
    pub(crate) fn policy(
        &mut self,
        approved_by: Option<ObjectName>,
        pcrs: Option<Pcrs>,
        pin: bool,
    ) -> Result<[u8; 32]> {
        let mut policy = [0; 32];
        let mut extend = |parts: &[&[u8]]| {
            let hash = Digest::Sha256.hash(&[&[&policy[..]], parts].concat());
            policy.copy_from_slice(&hash);
        };
        if let Some(key) = approved_by {
            extend(&[&(TpmCommand::PolicyAuthorize as u32).to_be_bytes(), &key]);
            // The reference of the policy, which is empty.
            extend(&[]);
        }
        if let Some(pcrs) = pcrs {
            let values = Digest::Sha256.hash(&[&self.pcr_values(pcrs)?]);
            let code = (TpmCommand::PolicyPcr as u32).to_be_bytes();
            extend(&[&code, &selection(pcrs), &values]);
        }
        if pin {
            extend(&[&(TpmCommand::PolicyAuthValue as u32).to_be_bytes()]);
        }
        Ok(policy)
    }

    /// The values of PCRs, one after the other.
    fn pcr_values(&mut self, pcrs: Pcrs) -> Result<Vec<u8>> {
        let mut values = Vec::new();
        let mut left = Some(pcrs);
        // A TPM tells of several at a time, but not of all.
        while let Some(wanted) = left {
            let text = self.run(TpmCommand::PcrRead, &[], None, &selection(wanted))?;
            let read = pcrs_read(&answer(&text, false, false)?, wanted, &mut values)?;
            left = Pcrs::of_bits(wanted.bank(), wanted.registers() & !read);
        }
        Ok(values)
    }

    /// With an error of a TPM that is locked, for how long it is.
    pub(crate) fn explained<T>(&mut self, done: Result<T>) -> Result<T> {
        done.map_err(|error| match error {
            Error::TpmLocked(reason) => Error::TpmLocked(format!("{reason}{}", self.lockout())),
            other => other,
        })
    }

    fn lockout(&mut self) -> String {
        let params = TpmBytes::default().u32(PROPERTIES).u32(LOCKOUT).u32(4).0;
        let text = self.run(TpmCommand::GetCapability, &[], None, &params);
        let read = text.and_then(|text| lockout(&answer(&text, false, false)?));
        let clear = "; 'tpm2_dictionarylockout --clear-lockout' ends this, with the password of its lockout \
                     hierarchy";
        match read {
            Ok([counted, most, seconds]) => {
                format!(" ({counted} of {most}): it forgets one every {seconds} seconds{clear}")
            }
            Err(_) => format!(": it forgets them with time{clear}"),
        }
    }
}

impl Drop for Tpm {
    fn drop(&mut self) {
        // A resource manager does this when the device is closed; a TPM in software has none.
        for handle in std::mem::take(&mut self.handles).into_iter().rev() {
            let params = handle.to_be_bytes();
            let _ = self.run(TpmCommand::FlushContext, &[], None, &params);
        }
    }
}

impl Tpm {
    /// A session that ended with its command.
    pub(crate) fn forget(&mut self, session: &TpmSession) {
        self.handles.retain(|handle| *handle != session.handle);
    }
}

fn another() -> Error {
    unusable("another TPM sealed the key, or this one was cleared")
}

fn needs_owner() -> Error {
    unusable(
        "its owner has a password, so it makes no storage root key, and it keeps none at 0x81000001; \
         'tpm2_evictcontrol' has it keep one",
    )
}

/// A key for other keys: ECC on P-256.
fn template(attributes: u32) -> Vec<u8> {
    TpmBytes::default()
        .u16(ECC)
        .u16(SHA256)
        .u32(attributes)
        .sized(&[])
        .u16(AES)
        .u16(128)
        .u16(CFB)
        .u16(NULL)
        .u16(P256)
        .u16(NULL)
        .sized(&[])
        .sized(&[])
        .0
}

/// A key on P-256 with SHA-256, from an answer that begins with its public part.
fn parent_key(handle: u32, answer: &TpmResponse<'_>) -> Result<ParentKey> {
    let public = ResponseReader(answer.params).sized()?;
    let mut fields = ResponseReader(public);
    let (kind, hash, _attributes) = (fields.u16()?, fields.u16()?, fields.u32()?);
    let (_policy, cipher) = (fields.sized()?, fields.u16()?);
    if cipher != NULL {
        // Bits and mode.
        fields.raw(4)?;
    }
    let (scheme, curve, kdf) = (fields.u16()?, fields.u16()?, fields.u16()?);
    if (kind, hash, scheme, curve, kdf) != (ECC, SHA256, NULL, P256, NULL) {
        return Err(unusable(
            "its key that protects others is not one of the curve P-256",
        ));
    }
    let padded = |bytes: &[u8]| match 32_usize.checked_sub(bytes.len()) {
        Some(zeros) => Ok([&vec![0; zeros][..], bytes].concat()),
        None => Err(not_understood()),
    };
    let (x, y) = (padded(fields.sized()?)?, padded(fields.sized()?)?);
    Ok(ParentKey {
        handle,
        point: Point { x, y },
        name: name(public),
    })
}

/// Appends the values of those PCRs of `wanted` that the TPM told of, which are returned.
fn pcrs_read(answer: &TpmResponse<'_>, wanted: Pcrs, values: &mut Vec<u8>) -> Result<u32> {
    let mut fields = ResponseReader(answer.params);
    let (_counter, banks) = (fields.u32()?, fields.u32()?);
    let mut read = 0;
    // A bank that the TPM does not have is left out, or has no registers.
    if banks == 1 {
        let (bank, len) = (fields.u16()?, fields.u8()?);
        let bits = fields.raw(usize::from(len))?;
        let mut bytes = [0; 4];
        for (byte, bits) in bytes.iter_mut().zip(bits) {
            *byte = *bits;
        }
        read = u32::from_le_bytes(bytes);
        if bank != wanted.bank() || read & !wanted.registers() != 0 || len > 4 {
            return Err(not_understood());
        }
    }
    if read == 0 {
        return Err(Error::Tpm(format!(
            "it has no PCRs {wanted} with {}; 'tpm2_pcrread' shows which it has",
            wanted.bank_name()
        )));
    }
    if fields.u32()? != read.count_ones() {
        return Err(not_understood());
    }
    for _ in 0..read.count_ones() {
        values.extend_from_slice(fields.sized()?);
    }
    Ok(read)
}

/// The number of wrong PINs, the number that locks the TPM, and the seconds after which one is forgotten.
fn lockout(answer: &TpmResponse<'_>) -> Result<[u32; 3]> {
    let mut fields = ResponseReader(answer.params);
    let (_more, kind, count) = (fields.u8()?, fields.u32()?, fields.u32()?);
    let mut read = [0; 3];
    if kind != PROPERTIES || count < 3 {
        return Err(not_understood());
    }
    for (property, value) in (LOCKOUT..).zip(&mut read) {
        if fields.u32()? != property {
            return Err(not_understood());
        }
        *value = fields.u32()?;
    }
    Ok(read)
}

/// Reads what may be the answer to a command.
#[cfg(fuzzing)]
pub(crate) fn look(bytes: &[u8]) {
    for (has_handle, has_sessions) in [(true, true), (true, false), (false, false), (false, true)] {
        let Ok(read) = answer(bytes, has_handle, has_sessions) else {
            continue;
        };
        let _ = parent_key(0, &read);
        let pcrs = Pcrs::of_bits(SHA256, 0x00ff_ffff).expect("all there are");
        let _ = pcrs_read(&read, pcrs, &mut Vec::new());
        let _ = lockout(&read);
        super::session::look(&read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_other_pcrs_than_those_that_were_asked_for_are_refused() {
        let pcrs = Pcrs::of_bits(SHA256, 1 << 7 | 1 << 16).unwrap();
        let read = |bank: u16, bits: [u8; 3], digests: u32| {
            let params = TpmBytes::default().u32(1).u32(1).u16(bank).u8(3).raw(&bits);
            let mut params = params.u32(digests);
            for _ in 0..digests {
                params = params.sized(&[1; 32]);
            }
            let (handle, auth, params) = (0, &[][..], &params.0[..]);
            let answer = TpmResponse {
                handle,
                params,
                auth,
            };
            let mut values = Vec::new();
            pcrs_read(&answer, pcrs, &mut values).map(|read| (read, values.len()))
        };
        assert_eq!(read(SHA256, [0x80, 0, 0], 1).unwrap(), (1 << 7, 32));
        assert_eq!(
            read(SHA256, [0x80, 0, 1], 2).unwrap(),
            (1 << 7 | 1 << 16, 64)
        );
        for (bank, bits, digests) in [
            (SHA256, [0x81, 0, 0], 2),
            (SHA256, [0x80, 0, 0], 2),
            (4, [0x80, 0, 0], 1),
        ] {
            assert!(read(bank, bits, digests).is_err());
        }
        let none = read(SHA256, [0; 3], 0).unwrap_err().to_string();
        assert!(none.contains("no PCRs 7+16 with sha256"), "{none}");
    }
}
