//! Has the TPM of this machine open what it sealed.

use std::path::Path;

use cipher::Random;
use secret::Secret;

use super::blob::{Opens, SealedByTpm, password};
use super::chip::device::{ParentKey, Tpm};
use super::chip::session::{ANSWER_ENCRYPTED, About, Kind};
use super::chip::wire::{ResponseReader, TpmCommand, answer};
use crate::Result;

/// Opens it with this TPM, or the usual one. `pin` is empty if [`SealedByTpm::has_pin`] says that none is needed.
///
/// # Errors
/// [`Error::Tpm`](crate::Error::Tpm) if there is no TPM, or another one sealed it, or the machine was started
/// otherwise; [`Error::TpmPin`](crate::Error::TpmPin); [`Error::TpmLocked`](crate::Error::TpmLocked).
pub(crate) fn unseal(
    device: Option<&Path>,
    sealed: &SealedByTpm,
    pin: &[u8],
    random: &dyn Random,
) -> Result<Secret> {
    let mut tpm = Tpm::open(device)?;
    let parent = tpm.parent(sealed.parent, sealed.parent_name);
    let opened = parent.and_then(|parent| unseal_by(&mut tpm, &parent, sealed, pin, random));
    tpm.explained(opened)
}

/// Unseals like [`unseal`], below a key of an open TPM.
pub(super) fn unseal_by(
    tpm: &mut Tpm,
    parent: &ParentKey,
    sealed: &SealedByTpm,
    pin: &[u8],
    random: &dyn Random,
) -> Result<Secret> {
    let object = tpm.load(parent, sealed)?;
    let (kind, password, proves_password) = match sealed.opens {
        Opens::Always => (Kind::Password, Secret::new(), true),
        Opens::Policy { pin: true, .. } => (Kind::Policy, password(pin)?, true),
        Opens::Policy { .. } => (Kind::Policy, Secret::new(), false),
    };
    let mut session = tpm.session(kind, parent, random)?;
    if let Some(signed) = &sealed.signed {
        tpm.approve(&session, sealed, signed)?;
    }
    if let Opens::Policy { pcrs, pin } = sealed.opens {
        tpm.fulfil(&session, pcrs, pin)?;
    }
    let name = sealed.name();
    let about = About {
        code: TpmCommand::Unseal,
        names: &[&name],
        password: password.expose(),
        proves_password,
    };
    let auth = session.prove(&about, &mut [], ANSWER_ENCRYPTED, random)?;
    let text = tpm.run(TpmCommand::Unseal, &[object], Some(&auth), &[])?;
    let answer = answer(&text, false, true)?;
    tpm.forget(&session);
    let params = session.check(&about, ANSWER_ENCRYPTED, &answer)?;
    Ok(Secret::from_slice(
        ResponseReader(params.expose()).sized()?,
    )?)
}
