//! Has the TPM of this machine seal a key.

use std::path::Path;

use cipher::Random;
use secret::Secret;

use super::blob::{KEYED_HASH, Opens, Parent, SealedByTpm, password, unusable};
use super::chip::device::{NO_LOCKOUT, ParentKey, Tpm};
use super::chip::session::{About, COMMAND_ENCRYPTED, Kind, SHA256};
use super::chip::wire::{ResponseReader, TpmBytes, TpmCommand, answer, not_understood};
use super::unseal::unseal_by;
use crate::Result;

/// The attributes of an object that stays in this TPM and below this parent.
const STAYS: u32 = 0x0000_0012;
/// The attribute of an object that opens with its password, and not only by its policy.
const BY_PASSWORD: u32 = 0x0000_0040;
/// No scheme.
const NULL: u16 = 0x0010;

/// Seals a key of up to 128 bytes, and opens it again before it says that it is done.
///
/// # Errors
/// [`Error::Tpm`](crate::Error::Tpm) if there is no TPM, or it does not seal, or its owner has a password and it
/// keeps no storage root key; [`Error::TpmLocked`](crate::Error::TpmLocked) for a key with a PIN.
pub(crate) fn seal(
    device: Option<&Path>,
    key: &[u8],
    opens: Opens,
    pin: &[u8],
    random: &dyn Random,
) -> Result<SealedByTpm> {
    let mut tpm = Tpm::open(device)?;
    let done = seal_by(&mut tpm, key, opens, pin, random);
    tpm.explained(done)
}

fn seal_by(
    tpm: &mut Tpm,
    key: &[u8],
    opens: Opens,
    pin: &[u8],
    random: &dyn Random,
) -> Result<SealedByTpm> {
    let parent = tpm.parent(Parent::StorageRoot, None)?;
    let public = public(tpm, opens)?;
    let (private, public) = create(tpm, &parent, key, &public, (opens, pin), random)?;
    let sealed = SealedByTpm::new(&private, &public, Parent::StorageRoot, opens)?;
    let sealed = sealed.under(parent.name);
    let opened = unseal_by(tpm, &parent, &sealed, pin, random)?;
    match cipher::eq(opened.expose(), key) {
        true => Ok(sealed),
        false => Err(unusable("it does not give back what it sealed")),
    }
}

/// `TPMT_PUBLIC` of what is made, without the part that the TPM adds at the end.
fn public(tpm: &mut Tpm, opens: Opens) -> Result<Vec<u8>> {
    let (attributes, policy) = match opens {
        Opens::Always => (BY_PASSWORD | NO_LOCKOUT, Vec::new()),
        Opens::Policy { pcrs, pin } => {
            // Wrong PINs have to count.
            let counts = if pin { 0 } else { NO_LOCKOUT };
            (counts, tpm.policy(None, pcrs, pin)?.to_vec())
        }
    };
    let bytes = TpmBytes::default().u16(KEYED_HASH).u16(SHA256);
    let bytes = bytes.u32(STAYS | attributes).sized(&policy).u16(NULL);
    Ok(bytes.0)
}

/// `TPM2B_PRIVATE` and `TPM2B_PUBLIC` of a new object. The key and the PIN are encrypted on their way.
fn create(
    tpm: &mut Tpm,
    parent: &ParentKey,
    key: &[u8],
    public: &[u8],
    (opens, pin): (Opens, &[u8]),
    random: &dyn Random,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let password = match opens {
        Opens::Policy { pin: true, .. } => password(pin)?,
        _ => Secret::new(),
    };
    let whole_public = TpmBytes::default().raw(public).sized(&[]).0;
    // The part that is encrypted, and what follows.
    let len = |bytes: &[u8]| u16::try_from(bytes.len()).expect("less than a message");
    let (password, rest) = (password.expose(), TpmBytes::default().sized(&whole_public));
    let sensitive_len = 4 + len(password) + len(key);
    let mut params = Secret::from_slice(&sensitive_len.to_be_bytes())?;
    for part in [password, key] {
        params.push_slice(&len(part).to_be_bytes())?;
        params.push_slice(part)?;
    }
    params.push_slice(&rest.sized(&[]).u32(0).0)?;
    let mut session = tpm.session(Kind::Password, parent, random)?;
    let about = About {
        code: TpmCommand::Create,
        names: &[&parent.name],
        password: &[],
        proves_password: true,
    };
    let auth = session.prove(&about, params.expose_mut(), COMMAND_ENCRYPTED, random)?;
    let text = tpm.run(
        TpmCommand::Create,
        &[parent.handle],
        Some(&auth),
        params.expose(),
    )?;
    let answer = answer(&text, false, true)?;
    tpm.forget(&session);
    let made = session.check(&about, COMMAND_ENCRYPTED, &answer)?;
    let mut parts = ResponseReader(made.expose());
    let (private, made_public) = (parts.sized()?, parts.sized()?);
    // With the policy that was asked for.
    match made_public.starts_with(public) {
        true => Ok((
            TpmBytes::default().sized(private).0,
            TpmBytes::default().sized(made_public).0,
        )),
        false => Err(not_understood()),
    }
}
