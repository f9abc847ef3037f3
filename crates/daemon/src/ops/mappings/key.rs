//! Gets the key of a mapping: from the caller, or from where the daemon finds it when it starts.

use std::path::Path;
use std::time::Duration;

use keys::{HashCaller, TokenUri};
use luks::Container;
use protocol::api::{Ask, AskFormat, FailureKind, MappingKeyPlace, command};
use protocol::wire::KEY_FILE_MAX;
use secret::Secret;
use serde_json::Value;

use crate::failure::{Failure, Result};
use crate::host::pkcs11::token_modules;
use crate::ops::mappings::container_tokens::{TokenChoice, TokenHolder, open_by_token};
use crate::state::callers::channel::Channel;
use crate::state::daemon::Daemon;
use crate::state::keys::wrong_keys::{LockedObject, WrongKey};

/// The time limit for the file system of a key file.
const KEY_TIME: Duration = Duration::from_secs(30);

/// Opens a container with the key of a new mapping, wherever that is. `open` takes a key and the only slot to try.
pub(super) fn unlock_new<T>(
    new: &command::LuksOpen,
    container: &Container,
    channel: &mut dyn Channel,
    open: impl Fn(&Secret, Option<u32>) -> luks::Result<T>,
) -> Result<T> {
    match new.at_start.as_deref() {
        None | Some(MappingKeyPlace::Prompt) => {
            let open = |given: &Secret| open(given, new.key_slot);
            unlock(&shown(new), new.with_key_file, channel, open)
        }
        Some(MappingKeyPlace::Token {
            id,
            kind,
            signature,
        }) => {
            let choice = TokenChoice {
                id: *id,
                kind: kind.as_deref(),
                signature: signature.as_deref(),
            };
            let device = new.header.as_ref().unwrap_or(&new.device);
            let holder = &mut PinCaller { device, channel };
            open_by_token(choice, container, device, holder, |found| {
                Ok(open(&found.passphrase, new.key_slot.or(found.slot))?)
            })
        }
        Some(MappingKeyPlace::File { path, offset, len }) => {
            Ok(open(&file_part(path, *offset, *len)?, new.key_slot)?)
        }
        Some(MappingKeyPlace::Pkcs11 { uri }) => {
            Ok(open(&token_secret(uri, channel)?, new.key_slot)?)
        }
    }
}

/// The key of a new mapping without a header, and whether it is the key itself and not a passphrase.
pub(super) fn plain_key(
    new: &command::LuksOpen,
    key_len: usize,
    channel: &mut dyn Channel,
) -> Result<(Secret, bool)> {
    match new.at_start.as_deref() {
        None | Some(MappingKeyPlace::Prompt) => {
            let given = passphrase_of(&shown(new), new.with_key_file, channel)?;
            Ok((given, new.with_key_file))
        }
        Some(MappingKeyPlace::Token { .. }) => Err(Failure::usage(
            "a device without a header has no tokens; use a key file",
        )),
        Some(MappingKeyPlace::File { path, offset, len }) => {
            Ok((file_part(path, *offset, len.or(Some(key_len)))?, true))
        }
        Some(MappingKeyPlace::Pkcs11 { uri }) => Ok((token_secret(uri, channel)?, true)),
    }
}

/// Reads a key file, for no longer than [`KEY_TIME`].
fn file_part(path: &Path, offset: u64, len: Option<usize>) -> Result<Secret> {
    secret::harden_process()?;
    let (shown, path) = (path.display().to_string(), path.to_owned());
    let read = move || keys::read_private_part(&path, offset, len, KEY_FILE_MAX as usize);
    Ok(keys::in_time(&shown, KEY_TIME, read)?)
}

/// The secret of an object in a PKCS#11 token.
fn token_secret(uri: &str, channel: &mut dyn Channel) -> Result<Secret> {
    let uri = TokenUri::from_text(uri)?;
    let pin = match uri.pin_source() {
        Some(path) => {
            let (shown, path) = (path.display().to_string(), path.to_owned());
            keys::in_time(&shown, KEY_TIME, move || keys::read_pin(&path))?
        }
        None => ask_pin(uri.shown().to_owned(), channel)?,
    };
    Ok(keys::token_secret(&token_modules(None), &uri, pin)?)
}

/// Asks the caller for a PIN, once, because a wrong one counts.
fn ask_pin(device: String, channel: &mut dyn Channel) -> Result<Secret> {
    let ask = Ask {
        dataset: device.clone(),
        format: AskFormat::Pin,
        twice: false,
        again: false,
    };
    channel.ask(ask)?.ok_or_else(|| {
        Failure::new(
            FailureKind::NoKey,
            format!("the PIN of '{device}' was not given"),
        )
    })
}

/// The caller of a command, who knows a PIN.
struct PinCaller<'a> {
    device: &'a Path,
    channel: &'a mut dyn Channel,
}

impl TokenHolder for PinCaller<'_> {
    fn pin(&mut self) -> Result<Secret> {
        ask_pin(self.device.display().to_string(), self.channel)
    }

    fn authenticator(&mut self, _: &Value) -> Result<Secret> {
        Err(Failure::new(
            FailureKind::NoKey,
            "an authenticator waits for a touch, so the daemon does not use it at its start; open the \
             mapping with --token-only and without --persistent-open",
        ))
    }
}

/// The device of a new mapping, for people.
pub(super) fn shown(new: &command::LuksOpen) -> String {
    new.device.display().to_string()
}

/// Counts a wrong key of the container on a device, and returns the result of the try.
pub(super) fn counted<T>(daemon: &Daemon, device: &str, tried: luks::Result<T>) -> luks::Result<T> {
    if let Err(luks::Error::WrongPassphrase { .. }) = tried {
        let wrong = WrongKey {
            thing: LockedObject::Container(device.to_owned()),
            name: device,
            payer: HashCaller::present().payer,
        };
        daemon.events.add_wrong_key("-", &wrong);
    }
    tried
}

/// The whole content of the key file, or the passphrase that a person types. The client reads the file: so the
/// file may be a pipe, and a user cannot have the daemon read a file that the user may not read.
pub(crate) fn passphrase_of(
    device: &str,
    with_key_file: bool,
    channel: &mut dyn Channel,
) -> Result<Secret> {
    channel
        .ask(question(device, with_key_file))?
        .ok_or_else(|| {
            Failure::new(
                FailureKind::NoKey,
                format!("the passphrase of {device} was not given"),
            )
        })
}

/// Opens a container by a passphrase or key file with `open`. After a wrong passphrase the caller may give another one.
pub(crate) fn unlock<T, E: Into<Failure>>(
    device: &str,
    with_key_file: bool,
    channel: &mut dyn Channel,
    open: impl Fn(&Secret) -> std::result::Result<T, E>,
) -> Result<T> {
    let mut given = passphrase_of(device, with_key_file, channel)?;
    loop {
        let failure = match open(&given).map_err(E::into) {
            Ok(opened) => return Ok(opened),
            Err(wrong) if wrong.kind == FailureKind::WrongKey && !with_key_file => wrong,
            Err(other) => return Err(other),
        };
        let again = Ask {
            again: true,
            ..question(device, false)
        };
        given = match channel.ask(again)? {
            Some(next) => next,
            None => return Err(failure),
        };
    }
}

fn question(device: &str, with_key_file: bool) -> Ask {
    Ask {
        dataset: device.into(),
        format: match with_key_file {
            true => AskFormat::KeyFile,
            false => AskFormat::Passphrase,
        },
        twice: false,
        again: false,
    }
}
