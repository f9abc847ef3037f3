//! Opening a container by a token in its header: the passphrase comes from where the token says.

use std::path::Path;
use std::time::Duration;

use cipher::SystemRandom;
use luks::Container;
use protocol::api::FailureKind;
use secret::Secret;
use serde_json::Value;

use crate::failure::{Failure, Result};

/// The time limit for a server to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// The types of tokens that open containers here. Those that wait for a person come last.
const KINDS: [&str; 4] = ["clevis", "systemd-tpm2", "luks2-keyring", AUTHENTICATOR];

const AUTHENTICATOR: &str = "systemd-fido2";

/// The tokens that may open a container.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenChoice<'a> {
    /// Only this one.
    pub id: Option<u32>,
    /// Only those of this type.
    pub kind: Option<&'a str>,
    /// The file of signatures of PCRs.
    pub signature: Option<&'a Path>,
}

/// The passphrase of a token, and the only key slot that it is for, if there is one.
pub struct TokenPassphrase {
    /// The passphrase.
    pub passphrase: Secret,
    /// The key slot.
    pub slot: Option<u32>,
}

/// The person whom tokens ask.
pub trait TokenHolder {
    /// The PIN of a TPM, asked for once, because a wrong one counts.
    ///
    /// # Errors
    /// It was not given.
    fn pin(&mut self) -> Result<Secret>;

    /// The passphrase that an authenticator computes.
    ///
    /// # Errors
    /// There is no authenticator here, or it refuses.
    fn authenticator(&mut self, token: &Value) -> Result<Secret>;
}

/// Does something with the passphrase of each token that is meant, until that opens the container.
///
/// # Errors
/// The failure of the first token, unless a later one gave a wrong passphrase; [`FailureKind::NotFound`] without a token.
pub fn open_by_token<T>(
    choice: TokenChoice<'_>,
    header: &Container,
    device: &Path,
    holder: &mut dyn TokenHolder,
    mut open: impl FnMut(TokenPassphrase) -> Result<T>,
) -> Result<T> {
    let mut failure: Option<Failure> = None;
    for id in wanted(choice, header)? {
        match passphrase(choice, header, id, holder).and_then(&mut open) {
            Ok(opened) => return Ok(opened),
            Err(next) => {
                let next = next.context(format_args!("token {id}"));
                // The first one is reported, unless a later one was tried and is the wrong one.
                failure = match failure {
                    Some(first) if next.kind != FailureKind::WrongKey => Some(first),
                    _ => Some(next),
                };
            }
        }
    }
    Err(failure.unwrap_or_else(|| {
        let device = device.display();
        Failure::new(
            FailureKind::NotFound,
            format!("{device} has no token that opens it here; 'luks dump' shows its tokens"),
        )
    }))
}

/// The numbers of the tokens to try.
fn wanted(choice: TokenChoice<'_>, header: &Container) -> Result<Vec<u32>> {
    if let Some(id) = choice.id {
        header.token(id)?;
        return Ok(vec![id]);
    }
    let mut wanted = Vec::new();
    for id in header.tokens() {
        let kind = kind_of(header.token(id)?);
        let is_meant = match choice.kind {
            Some(given) => given == kind,
            None => KINDS.contains(&kind),
        };
        wanted.extend(is_meant.then_some((kind == AUTHENTICATOR, id)));
    }
    // Those that wait for a person come last.
    wanted.sort_unstable();
    Ok(wanted.into_iter().map(|(_, id)| id).collect())
}

fn kind_of(token: &Value) -> &str {
    token["type"].as_str().unwrap_or_default()
}

fn passphrase(
    choice: TokenChoice<'_>,
    header: &Container,
    id: u32,
    holder: &mut dyn TokenHolder,
) -> Result<TokenPassphrase> {
    secret::harden_process()?;
    let token = header.token(id)?;
    let passphrase = match kind_of(token) {
        "clevis" => keys::clevis(token, PATIENCE)?,
        "systemd-tpm2" => {
            let mut token = keys::TpmToken::read(token)?;
            token.find_signatures(choice.signature)?;
            let pin = match token.has_pin() {
                true => holder.pin()?,
                false => Secret::zeroed(0)?,
            };
            token.passphrase(pin.expose(), &SystemRandom)?
        }
        AUTHENTICATOR => holder.authenticator(token)?,
        "luks2-keyring" => keys::user_key(token["key_description"].as_str().unwrap_or_default())?,
        other => return Err(cannot_open(other)),
    };
    let slot = match token["keyslots"].as_array().map(Vec::as_slice) {
        Some([Value::String(slot)]) => slot.parse().ok(),
        _ => None,
    };
    Ok(TokenPassphrase { passphrase, slot })
}

fn cannot_open(kind: &str) -> Failure {
    if kind == "systemd-recovery" {
        let reason = "a token of the type 'systemd-recovery' marks a recovery key, which is typed: open the \
                      container without --token-only";
        return Failure::new(FailureKind::NoKey, reason);
    }
    let kind = kind.escape_debug();
    Failure::new(
        FailureKind::TooNew,
        format!(
            "tokens of the type '{kind}' do not open containers here; those of the types 'clevis', \
             'systemd-tpm2', 'systemd-fido2' and 'luks2-keyring' do"
        ),
    )
}
