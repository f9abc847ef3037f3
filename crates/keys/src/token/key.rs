//! A key that stays in its token.

use cipher::Random;
use secret::{Key, Secret};

use super::helper::{self, TokenOperation};
use super::modules::TokenModules;
use crate::layout::TokenParams;
use crate::{Error, Result, TokenUri};

/// An AES key in a token, and what opens the token.
#[derive(Debug)]
pub struct TokenKey {
    pub(super) modules: TokenModules,
    pub(super) uri: TokenUri,
    pub(super) pin: Secret,
}

impl TokenKey {
    /// Has the module do something.
    pub(super) fn ask(&self, op: TokenOperation, payload: &[u8]) -> Result<Secret> {
        let module = self.modules.module(&self.uri)?;
        helper::ask(&self.modules, &module, (op, &self.uri, &self.pin), payload)
    }

    /// Wraps the key of a slot inside the token.
    pub(crate) fn wrap(&self, key: &Key, random: &dyn Random) -> Result<TokenParams> {
        let mut nonce = [0; 12];
        random.fill(&mut nonce)?;
        let mut payload = Secret::from_slice(&nonce)?;
        payload.push_slice(key.expose())?;
        let wrapped = self.ask(TokenOperation::Wrap, payload.expose())?;
        let wrapped = wrapped
            .expose()
            .try_into()
            .map_err(|_| self.uri.failed("the key that it wraps has a wrong length"))?;
        Ok(TokenParams {
            nonce,
            wrapped,
            reserved: [0; 4],
        })
    }

    /// Unwraps it.
    ///
    /// # Errors
    /// [`Error::WrongKey`] if another key wrapped it.
    pub(crate) fn unwrap(&self, params: &TokenParams) -> Result<Key> {
        let payload = [&params.nonce[..], &params.wrapped].concat();
        let opened = self.ask(TokenOperation::Unwrap, &payload)?;
        let opened = opened.expose().try_into().map_err(|_| Error::WrongKey)?;
        Ok(Key::from_bytes(opened)?)
    }
}
