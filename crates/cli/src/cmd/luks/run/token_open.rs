//! Opening a container by a token: the passphrase comes from where the token says, and nobody is asked.

use std::path::Path;
use std::time::Duration;

use cipher::SystemRandom;
use daemon::Failure;
use luks::Container;
use protocol::api::FailureKind;
use secret::Secret;
use serde_json::Value;

use super::device::look;
use super::key::ask_pin;
use crate::cmd::luks::args::{LuksContainer, LuksTokenChoice};
use crate::outcome::LocalResult as Result;
use crate::session::Session;

/// So long a server has to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A passphrase, and the only key slot that it is for, if there is one.
pub(super) struct Found {
    pub(super) passphrase: Secret,
    pub(super) slot: Option<u32>,
}

/// Does something with the passphrase of each token that is meant, until that opens the container.
pub(super) fn open_by_token<T>(
    choice: &LuksTokenChoice,
    container: &LuksContainer,
    session: &mut Session,
    open: impl Fn(Found, &mut Session) -> std::result::Result<T, Failure>,
) -> Result<T> {
    let header = look(container, session)?;
    let device = container.header_device();
    let mut failure: Option<Failure> = None;
    for id in wanted(choice, &header)? {
        let opened = found(choice, &header, id, device).and_then(|found| open(found, session));
        match opened {
            Ok(opened) => return Ok(opened),
            Err(next) => {
                let next = next.context(format_args!("token {id}"));
                // The first one is said, unless a later one was tried and is the wrong one.
                failure = match failure {
                    Some(first) if next.kind != FailureKind::WrongKey => Some(first),
                    _ => Some(next),
                };
            }
        }
    }
    Err(failure.unwrap_or_else(|| {
        let device = container.device.display();
        Failure::new(
            FailureKind::NotFound,
            format!("{device} has no token that opens it here; 'luks dump' shows its tokens"),
        )
    }))
}

/// The numbers of the tokens to try.
fn wanted(choice: &LuksTokenChoice, header: &Container) -> Result<Vec<u32>> {
    if let Some(id) = choice.token_id {
        header.token(id)?;
        return Ok(vec![id]);
    }
    let mut wanted = Vec::new();
    for id in header.tokens() {
        let kind = kind_of(header.token(id)?);
        let is_meant = match &choice.token_type {
            Some(given) => given == kind,
            None => ["clevis", "systemd-tpm2", "luks2-keyring", "systemd-fido2"].contains(&kind),
        };
        wanted.extend(is_meant.then_some((kind == "systemd-fido2", id)));
    }
    // Those that wait for a person come last.
    wanted.sort_unstable();
    Ok(wanted.into_iter().map(|(_, id)| id).collect())
}

fn kind_of(token: &Value) -> &str {
    token["type"].as_str().unwrap_or_default()
}

fn found(choice: &LuksTokenChoice, header: &Container, id: u32, device: &Path) -> Result<Found> {
    secret::harden_process().map_err(|error| Failure::other(error.to_string()))?;
    let token = header.token(id)?;
    let passphrase = match kind_of(token) {
        "clevis" => keys::clevis(token, PATIENCE)?,
        "systemd-tpm2" => {
            let mut token = keys::TpmToken::read(token)?;
            token.find_signatures(choice.tpm2_signature.as_deref())?;
            let pin = match token.has_pin() {
                true => ask_pin(device)?,
                false => Secret::zeroed(0)?,
            };
            token.passphrase(pin.expose(), &SystemRandom)?
        }
        "systemd-fido2" => keys::FidoToken::read(token)?.passphrase(&mut Holder(device))?,
        "luks2-keyring" => keys::user_key(token["key_description"].as_str().unwrap_or_default())?,
        "systemd-recovery" => {
            let reason = "a token of the type 'systemd-recovery' marks a recovery key, which is typed: open \
                          the container without --token-only";
            return Err(Failure::new(FailureKind::NoKey, reason));
        }
        other => {
            let kind = other.escape_debug();
            return Err(Failure::new(
                FailureKind::TooNew,
                format!(
                    "tokens of the type '{kind}' do not open containers here; those of the types 'clevis', \
                     'systemd-tpm2', 'systemd-fido2' and 'luks2-keyring' do"
                ),
            ));
        }
    };
    let slot = match token["keyslots"].as_array().map(Vec::as_slice) {
        Some([Value::String(slot)]) => slot.parse().ok(),
        _ => None,
    };
    Ok(Found { passphrase, slot })
}

/// The person with an authenticator for this device.
struct Holder<'a>(&'a Path);

impl keys::FidoHolder for Holder<'_> {
    type Error = Failure;

    fn pin(&mut self) -> Result<Secret> {
        ask_pin(self.0)
    }

    fn touch(&mut self, path: &str) {
        let device = self.0.display();
        eprintln!("strongroom: touch the authenticator {path} when it blinks, to open '{device}'");
    }
}
