//! Opening a container by a token: the passphrase comes from where the token says, and nobody is asked.

use std::path::Path;

use console::key_file::ask_pin;
use console::outcome::Result;
use console::session::Session;
use daemon::container_tokens::{self, TokenHolder, TokenPassphrase};
use protocol::api::Failure;
use secret::Secret;
use serde_json::Value;

use super::device::look;
use crate::cmd::luks::args::{LuksContainer, LuksTokenChoice};

/// Does something with the passphrase of each token that is meant, until that opens the container.
pub(super) fn open_by_token<T>(
    choice: &LuksTokenChoice,
    container: &LuksContainer,
    session: &mut Session,
    open: impl Fn(TokenPassphrase, &mut Session) -> std::result::Result<T, Failure>,
) -> Result<T> {
    let header = look(container, session)?;
    let choice = container_tokens::TokenChoice {
        id: choice.token_id,
        kind: choice.token_type.as_deref(),
        signature: choice.tpm2_signature.as_deref(),
    };
    let device = container.header_device();
    let open = |found| open(found, session);
    container_tokens::open_by_token(choice, &header, device, &mut TokenUser(device), open)
}

/// The person with an authenticator or the PIN for this device.
struct TokenUser<'a>(&'a Path);

impl TokenHolder for TokenUser<'_> {
    fn pin(&mut self) -> Result<Secret> {
        ask_pin(self.0)
    }

    fn authenticator(&mut self, token: &Value) -> Result<Secret> {
        keys::FidoToken::read(token)?.passphrase(self)
    }
}

impl keys::FidoHolder for TokenUser<'_> {
    type Error = Failure;

    fn pin(&mut self) -> Result<Secret> {
        ask_pin(self.0)
    }

    fn touch(&mut self, path: &str) {
        let device = self.0.display();
        eprintln!("strongroom: touch the authenticator {path} when it blinks, to open '{device}'");
    }
}
