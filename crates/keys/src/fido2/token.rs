//! Tokens of the type `systemd-fido2`, which `systemd-cryptenroll` puts into a LUKS2 header.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secret::Secret;
use serde_json::Value;

use super::authenticator::{AssertionFailure, AssertionRequest, Authenticator, is_absence, list};
use crate::{Error, Result};

/// No credential is longer (CTAP 2.1, `maxCredentialIdLength`).
const CREDENTIAL_MAX: usize = 1023;
/// No relying party has a longer name, as it is one of DNS.
const RP_MAX: usize = 255;
/// The relying party of tokens that do not name one.
const RP: &str = "io.systemd.cryptsetup";
/// Shortest and longest PIN, in bytes (CTAP 2.0, 5.5.5).
const PIN_LEN: std::ops::RangeInclusive<usize> = 4..=63;

/// A passphrase, which an authenticator computes from a salt.
#[derive(Debug)]
pub struct FidoToken {
    /// Base64.
    credential: String,
    /// Base64.
    salt: String,
    rp: String,
    pin: Option<bool>,
    touch: Option<bool>,
    verification: Option<bool>,
}

/// The person with the authenticator.
pub trait FidoHolder {
    /// The error of the holder.
    type Error: From<Error>;

    /// Gives the PIN.
    ///
    /// # Errors
    /// If there is none.
    fn pin(&mut self) -> std::result::Result<Secret, Self::Error>;

    /// Has to touch the authenticator with this path now.
    fn touch(&mut self, path: &str);
}

impl FidoToken {
    /// Reads a token, which anybody may have written.
    ///
    /// # Errors
    /// [`Error::Fido`] for what systemd does not make.
    pub fn read(token: &Value) -> Result<FidoToken> {
        let bytes = |name: &str| {
            let text = token.get(name).and_then(Value::as_str).unwrap_or_default();
            STANDARD.decode(text).unwrap_or_default()
        };
        let wanted = |name: &str| match token.get(name) {
            None => Ok(None),
            Some(Value::Bool(wanted)) => Ok(Some(*wanted)),
            Some(_) => Err(Error::fido(format_args!(
                "'{name}' of the token is not true or false"
            ))),
        };
        let (credential, salt) = (bytes("fido2-credential"), bytes("fido2-salt"));
        if !(1..=CREDENTIAL_MAX).contains(&credential.len()) {
            return Err(Error::fido("the token has no credential"));
        }
        if salt.len() != 32 {
            return Err(Error::fido("the token has no salt of 32 bytes"));
        }
        let rp = token.get("fido2-rp").map_or(Some(RP), Value::as_str);
        let is_name =
            |rp: &&str| (1..=RP_MAX).contains(&rp.len()) && !rp.chars().any(char::is_control);
        let rp = rp
            .filter(is_name)
            .ok_or_else(|| Error::fido("'fido2-rp' of the token is not a name"))?;
        Ok(FidoToken {
            credential: STANDARD.encode(credential),
            salt: STANDARD.encode(salt),
            rp: rp.into(),
            pin: wanted("fido2-clientPin-required")?,
            touch: wanted("fido2-up-required")?,
            verification: wanted("fido2-uv-required")?,
        })
    }

    /// The passphrase of the key slot, from the first authenticator here that has the credential.
    ///
    /// # Errors
    /// [`Error::Fido`]; [`Error::FidoPin`] for a wrong PIN; those of the person.
    pub fn passphrase<H: FidoHolder>(
        &self,
        holder: &mut H,
    ) -> std::result::Result<Secret, H::Error> {
        let paths = list()?;
        if paths.is_empty() {
            return Err(Error::fido("there is none that this user may use; plug it in").into());
        }
        let mut failure = None;
        let (mut sure, mut silent) = (Vec::new(), Vec::new());
        for path in &paths {
            match self.look(path) {
                Ok(Some((found, Some(true)))) => sure.push(found),
                Ok(Some((found, None))) => silent.push(found),
                Ok(_) => {}
                Err(error) => failure = Some(error),
            }
        }
        if sure.is_empty() && silent.len() > 1 {
            // Each wrong PIN counts.
            return Err(Error::fido(format_args!(
                "of {} none tells whether it has the credential of the token; unplug the others",
                paths.join(", ")
            ))
            .into());
        }
        for authenticator in sure.iter().chain(&silent) {
            if let Some(passphrase) = self.ask(authenticator, holder)? {
                return Ok(passphrase);
            }
        }
        let absent = || {
            Error::fido(format_args!(
                "{} does not have the credential of the token; plug in the one that the token was made with",
                paths.join(", ")
            ))
        };
        Err(failure.unwrap_or_else(absent).into())
    }

    /// The authenticator at this path, and whether it has the credential.
    fn look(&self, path: &str) -> Result<Option<(Authenticator, Option<bool>)>> {
        let Some(found) = Authenticator::at(path)? else {
            return Ok(None);
        };
        // One that recognizes its user may hide the credential from others.
        let has_it = match self.verification == Some(true) && found.has_verification {
            true => None,
            false => found.has_credential(&self.question())?,
        };
        Ok(Some((found, has_it)))
    }

    fn question(&self) -> AssertionRequest<'_> {
        AssertionRequest {
            rp: &self.rp,
            credential: &self.credential,
            touch: self.touch,
            verification: self.verification,
        }
    }

    /// Has an authenticator compute the passphrase. `None` if it does not have the credential.
    ///
    /// Tokens of systemd 248 do not say what is needed: nothing is tried first, then what the authenticator demands.
    fn ask<H: FidoHolder>(
        &self,
        authenticator: &Authenticator,
        holder: &mut H,
    ) -> std::result::Result<Option<Secret>, H::Error> {
        let mut question = self.question();
        let touch = self.touch.unwrap_or(false);
        question.touch = authenticator.has_touch.then_some(touch);
        question.verification = self.verification.filter(|_| authenticator.has_verification);
        if self.pin == Some(true) && !authenticator.has_pin {
            let refusal = AssertionFailure::Code("FIDO_ERR_PIN_NOT_SET".into());
            return Err(authenticator.explain(refusal).into());
        }
        let mut pin = match self.pin {
            Some(true) => Some(pin_of(holder)?),
            _ => None,
        };
        loop {
            if question.touch == Some(true) || question.verification == Some(true) {
                holder.touch(&authenticator.path);
            }
            let refusal = match authenticator.secret(&question, &self.salt, pin.as_ref()) {
                Ok(secret) => return Ok(Some(secret)),
                Err(refusal) => refusal,
            };
            match refusal.code() {
                code if is_absence(code) => return Ok(None),
                "FIDO_ERR_PIN_REQUIRED" if self.pin.is_none() && pin.is_none() => {
                    pin = Some(pin_of(holder)?);
                }
                "FIDO_ERR_UP_REQUIRED" | "FIDO_ERR_UNSUPPORTED_OPTION"
                    if self.touch.is_none() && question.touch == Some(false) =>
                {
                    question.touch = Some(true);
                }
                _ => return Err(authenticator.explain(refusal).into()),
            }
        }
    }
}

/// A PIN that an authenticator can have. Another one does not cost a try.
fn pin_of<H: FidoHolder>(holder: &mut H) -> std::result::Result<Secret, H::Error> {
    let pin = holder.pin()?;
    let is_line = !pin
        .expose()
        .iter()
        .any(|byte| matches!(byte, 0 | b'\n' | b'\r'));
    match PIN_LEN.contains(&pin.len()) && is_line {
        true => Ok(pin),
        false => Err(Error::FidoPin("the PIN is wrong: one has 4 to 63 bytes".into()).into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_systemd_makes_is_read() {
        let salt = STANDARD.encode([7; 32]);
        let token = json!({"fido2-credential": "AAAA", "fido2-salt": salt});
        let read = FidoToken::read(&token).unwrap();
        assert_eq!((&*read.rp, read.pin, read.touch), (RP, None, None));
        for (name, value) in [
            ("fido2-credential", json!(null)),
            ("fido2-credential", json!("")),
            ("fido2-credential", json!("A")),
            ("fido2-credential", json!(STANDARD.encode([0; 1024]))),
            ("fido2-salt", json!("AAAA")),
            ("fido2-salt", json!(7)),
            ("fido2-rp", json!("")),
            ("fido2-rp", json!("a\nb")),
            ("fido2-rp", json!(["a"])),
            ("fido2-up-required", json!("true")),
            ("fido2-uv-required", json!(null)),
        ] {
            let mut token = token.clone();
            token[name] = value.clone();
            let refused = FidoToken::read(&token);
            assert!(matches!(refused, Err(Error::Fido(_))), "{name}: {value}");
        }
        assert!(FidoToken::read(&json!([])).is_err());
    }
}
