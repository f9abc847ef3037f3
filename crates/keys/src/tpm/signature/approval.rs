//! Shows a TPM that the present values of PCRs are signed (TPM 2.0 Library, part 3): the key is loaded (12.3). The
//! TPM checks the signature of the policy of these PCRs (20.1). Then it takes this policy for that of the key
//! (23.16).

use super::policy::SignedPolicy;
use crate::tpm::blob::{Opens, SealedByTpm, name, unusable};
use crate::tpm::chip::device::Tpm;
use crate::tpm::chip::refusal::OTHER_PCRS;
use crate::tpm::chip::session::{SHA256, TpmSession};
use crate::tpm::chip::wire::{
    ResponseReader, TpmBytes, TpmCommand, TpmResponse, answer, not_understood,
};
use crate::{Error, Result};

/// RSASSA-PKCS1-v1_5.
const RSASSA: u16 = 0x0014;
/// `TPM_ST_VERIFIED`.
const VERIFIED: u16 = 0x8022;
/// The digest of a ticket is no longer.
const DIGEST_MAX: usize = 64;

impl Tpm {
    /// The first part of a policy. The session has none before.
    pub(crate) fn approve(
        &mut self,
        session: &TpmSession,
        sealed: &SealedByTpm,
        signed: &SignedPolicy,
    ) -> Result<()> {
        self.fulfil(session, Some(signed.pcrs), false)?;
        let policy = self.policy_digest(session)?;
        let signature = signed.signature(&policy)?;
        let public = self.public_of(sealed, signed)?;
        let key = self.load_public(&public);
        let key = key.map_err(|error| about(&signed.key_in_words(), error))?;
        let ticket = self.verify(key, &policy, signature);
        let ticket = ticket.map_err(|error| {
            let file = signed.file.display();
            about(&format!("the signature in the file {file}"), error)
        })?;
        let params = TpmBytes::default().sized(&policy).sized(&[]);
        let params = params.sized(&name(&public)).raw(&ticket).0;
        let text = self.run(
            TpmCommand::PolicyAuthorize,
            &[session.handle],
            None,
            &params,
        )?;
        answer(&text, false, false)?;
        Ok(())
    }

    fn policy_digest(&mut self, session: &TpmSession) -> Result<[u8; 32]> {
        let text = self.run(TpmCommand::PolicyGetDigest, &[session.handle], None, &[])?;
        digest(&answer(&text, false, false)?)
    }

    /// The public part of the key in the form that the policy of the sealed object has.
    fn public_of(&mut self, sealed: &SealedByTpm, signed: &SignedPolicy) -> Result<Vec<u8>> {
        let (pcrs, pin) = match sealed.opens {
            Opens::Always => (None, false),
            Opens::Policy { pcrs, pin } => (pcrs, pin),
        };
        for public in signed.publics() {
            if self.policy(Some(name(&public)), pcrs, pin)? == sealed.policy() {
                return Ok(public);
            }
        }
        Err(unusable(match pcrs {
            Some(_) => OTHER_PCRS,
            None => {
                "what it sealed has another policy than the token says; the token may be damaged"
            }
        }))
    }

    /// The ticket that says that the signature is valid.
    fn verify(&mut self, key: u32, policy: &[u8], signature: &[u8]) -> Result<Vec<u8>> {
        // The policy is followed by a reference, which is empty.
        let hash = cipher::Digest::Sha256.hash(&[policy]);
        let params = TpmBytes::default().sized(&hash).u16(RSASSA).u16(SHA256);
        let params = params.sized(signature).0;
        let text = self.run(TpmCommand::VerifySignature, &[key], None, &params)?;
        ticket(&answer(&text, false, false)?)
    }
}

/// With what it is about.
fn about(what: &str, error: Error) -> Error {
    match error {
        Error::Tpm(reason) => Error::Tpm(format!("{what}: {reason}")),
        other => other,
    }
}

fn digest(answer: &TpmResponse<'_>) -> Result<[u8; 32]> {
    let digest = ResponseReader(answer.params).sized()?;
    digest.try_into().map_err(|_| not_understood())
}

/// `TPMT_TK_VERIFIED`.
fn ticket(answer: &TpmResponse<'_>) -> Result<Vec<u8>> {
    let mut fields = ResponseReader(answer.params);
    let (tag, hierarchy, digest) = (fields.u16()?, fields.u32()?, fields.sized()?);
    if tag != VERIFIED || digest.len() > DIGEST_MAX {
        return Err(not_understood());
    }
    Ok(TpmBytes::default().u16(tag).u32(hierarchy).sized(digest).0)
}

/// Reads what may be the answer to a command.
#[cfg(fuzzing)]
pub(crate) fn look(bytes: &[u8]) {
    if let Ok(read) = answer(bytes, false, false) {
        let _ = digest(&read);
        let _ = ticket(&read);
    }
}
