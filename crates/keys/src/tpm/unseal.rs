//! Has the TPM of this machine open what it sealed.

use cipher::{Point, Random};
use secret::Secret;
use zeroize::Zeroizing;

use super::sealed::{Opens, Parent, Pcrs, SealedByTpm, password};
use super::session::{ANSWER_ENCRYPTED, About, Beginning, Kind, NULL_HANDLE, SHA256, Session};
use super::transport::Transport;
use super::wire::{Answer, Bytes, Code, Reader, answer, command, no_password, not_understood};
use crate::Result;

const OWNER: u32 = 0x4000_0001;
const ECC: u16 = 0x0023;
const P256: u16 = 0x0003;
const AES: u16 = 0x0006;
const CFB: u16 = 0x0043;
const NULL: u16 = 0x0010;
/// Restricted, decrypts, made in the TPM, stays there, and is used with its password.
const ATTRIBUTES: u32 = 0x0003_0072;

/// The TPM of this machine.
pub(super) struct Tpm {
    transport: Transport,
    /// Handles that are to be forgotten when this one goes.
    handles: Vec<u32>,
}

/// Opens it. `pin` is empty if [`SealedByTpm::has_pin`] says that none is needed.
///
/// # Errors
/// [`Error::Tpm`](crate::Error::Tpm) if there is no TPM, or another one sealed it, or the machine was started otherwise;
/// [`Error::TpmPin`](crate::Error::TpmPin).
pub(crate) fn unseal(sealed: &SealedByTpm, pin: &[u8], random: &dyn Random) -> Result<Secret> {
    let mut tpm = Tpm::open()?;
    let (parent, key) = tpm.parent(sealed.parent)?;
    let object = tpm.load(parent, sealed)?;
    let (kind, password, proves_password) = match &sealed.opens {
        Opens::Always => (Kind::Password, Zeroizing::default(), true),
        Opens::Policy { pin: true, .. } => (Kind::Policy, password(pin), true),
        Opens::Policy { .. } => (Kind::Policy, Zeroizing::default(), false),
    };
    let mut session = tpm.session(kind, parent, &key, random)?;
    if let Opens::Policy { pcrs, pin } = &sealed.opens {
        tpm.fulfil(&session, *pcrs, *pin)?;
    }
    let name = sealed.name();
    let about = About {
        code: Code::Unseal,
        names: &[&name],
        password: &password,
        proves_password,
    };
    let auth = session.prove(&about, ANSWER_ENCRYPTED, random)?;
    let text = tpm.run(Code::Unseal, &[object], Some(&auth), &[])?;
    let answer = answer(&text, false, true)?;
    tpm.handles.retain(|handle| *handle != session.handle);
    let params = session.check(&about, ANSWER_ENCRYPTED, &answer)?;
    Ok(Secret::from_slice(Reader(&params).sized()?)?)
}

impl Tpm {
    pub(super) fn open() -> Result<Tpm> {
        Ok(Tpm {
            transport: Transport::open()?,
            handles: Vec::new(),
        })
    }

    fn run(
        &mut self,
        code: Code,
        handles: &[u32],
        auth: Option<&[u8]>,
        params: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>> {
        self.transport
            .exchange(&command(code, handles, auth, params))
    }

    /// A key that protects others, and its public part.
    pub(super) fn parent(&mut self, parent: Parent) -> Result<(u32, Point)> {
        match parent {
            Parent::Made => {
                let nothing = Bytes::default().sized(&[]).sized(&[]).0;
                let params = Bytes::default()
                    .sized(&nothing)
                    .sized(&template())
                    .sized(&[])
                    .u32(0)
                    .0;
                let text =
                    self.run(Code::CreatePrimary, &[OWNER], Some(&no_password()), &params)?;
                let made = answer(&text, true, true)?;
                self.handles.push(made.handle);
                Ok((made.handle, public_point(&made)?))
            }
            Parent::Kept(handle) => {
                let text = self.run(Code::ReadPublic, &[handle], None, &[])?;
                Ok((handle, public_point(&answer(&text, false, false)?)?))
            }
        }
    }

    fn load(&mut self, parent: u32, sealed: &SealedByTpm) -> Result<u32> {
        let params = Bytes::default()
            .sized(&sealed.private)
            .sized(&sealed.public)
            .0;
        let text = self.run(Code::Load, &[parent], Some(&no_password()), &params)?;
        let loaded = answer(&text, true, true)?;
        self.handles.push(loaded.handle);
        match Reader(loaded.params).sized()? == sealed.name() {
            true => Ok(loaded.handle),
            false => Err(not_understood()),
        }
    }

    pub(super) fn session(
        &mut self,
        kind: Kind,
        parent: u32,
        key: &Point,
        random: &dyn Random,
    ) -> Result<Session> {
        let beginning = Beginning::new(kind, key, random)?;
        let handles = [parent, NULL_HANDLE];
        let text = self.run(Code::StartAuthSession, &handles, None, &beginning.params)?;
        let begun = answer(&text, true, false)?;
        self.handles.push(begun.handle);
        beginning.begun(&begun)
    }

    /// Shows the TPM that the policy is fulfilled.
    fn fulfil(&mut self, session: &Session, pcrs: Option<Pcrs>, pin: bool) -> Result<()> {
        if let Some(pcrs) = pcrs {
            let params = Bytes::default().sized(&[]).raw(&pcrs.selection()).0;
            let text = self.run(Code::PolicyPcr, &[session.handle], None, &params)?;
            answer(&text, false, false)?;
        }
        if pin {
            let text = self.run(Code::PolicyAuthValue, &[session.handle], None, &[])?;
            answer(&text, false, false)?;
        }
        Ok(())
    }
}

impl Drop for Tpm {
    fn drop(&mut self) {
        // A resource manager does this when the device is closed; a TPM in software has none.
        for handle in std::mem::take(&mut self.handles).into_iter().rev() {
            let params = handle.to_be_bytes();
            let _ = self.run(Code::FlushContext, &[], None, &params);
        }
    }
}

/// The key of which tpm2-tools and systemd make a parent: ECC on P-256.
fn template() -> Vec<u8> {
    Bytes::default()
        .u16(ECC)
        .u16(SHA256)
        .u32(ATTRIBUTES)
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

/// The public part of a key on P-256 with SHA-256, from an answer that begins with it.
fn public_point(answer: &Answer<'_>) -> Result<Point> {
    let public = Reader(answer.params).sized()?;
    let mut fields = Reader(public);
    let (kind, hash, _attributes) = (fields.u16()?, fields.u16()?, fields.u32()?);
    let (_policy, cipher) = (fields.sized()?, fields.u16()?);
    if cipher != NULL {
        // Bits and mode.
        fields.raw(4)?;
    }
    let (scheme, curve, kdf) = (fields.u16()?, fields.u16()?, fields.u16()?);
    if (kind, hash, scheme, curve, kdf) != (ECC, SHA256, NULL, P256, NULL) {
        return Err(super::sealed::unusable(
            "its key that protects others is not one of the curve P-256",
        ));
    }
    let padded = |bytes: &[u8]| match 32_usize.checked_sub(bytes.len()) {
        Some(zeros) => Ok([&vec![0; zeros][..], bytes].concat()),
        None => Err(not_understood()),
    };
    let (x, y) = (padded(fields.sized()?)?, padded(fields.sized()?)?);
    Ok(Point { x, y })
}

/// Reads what may be the answer to a command.
#[cfg(fuzzing)]
pub(crate) fn look(bytes: &[u8]) {
    for (has_handle, has_sessions) in [(true, true), (true, false), (false, false), (false, true)] {
        let Ok(read) = answer(bytes, has_handle, has_sessions) else {
            continue;
        };
        let _ = public_point(&read);
        super::session::look(&read);
    }
}
