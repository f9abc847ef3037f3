//! A key that a Tang server helps to recover: what opens a slot is sealed to the server.

use std::time::{Duration, Instant};

use cipher::{Policy, Random, SystemRandom};
use secret::{Key, Secret};
use serde_json::Value;

use super::jose::{self, Jwe};
use super::server::TangServer;
use super::tang::{self, ServerKeys, Tang};
use crate::layout::PARAMS_MAX;
use crate::{Error, Result, TangUrl};

/// A Tang server that is known by the key that it signs with.
#[derive(Debug)]
pub struct TangKey {
    server: TangUrl,
    until: Instant,
    /// The keys that the server advertised, if a slot is to be made.
    advertised: Option<ServerKeys>,
}

impl TangKey {
    /// A server, which is asked when a slot is made or opened. It has this long for all that is asked.
    ///
    /// # Errors
    /// [`Error::KeyServer`] in FIPS mode.
    pub fn new(server: &TangUrl, time_max: Duration) -> Result<TangKey> {
        if Policy::current().is_fips() {
            return Err(server.failed("the key exchange of Tang is not approved in FIPS mode"));
        }
        Ok(TangKey {
            server: server.clone(),
            until: Instant::now() + time_max,
            advertised: None,
        })
    }

    /// Asks the server for its keys now, so that nothing waits for it when a slot is made.
    ///
    /// # Errors
    /// [`Error::KeyServer`] if it does not answer, or is not the one that is meant.
    pub fn ask(mut self) -> Result<TangKey> {
        self.advertised = Some(ServerKeys::ask(&self.server(), &self.server.thumbprint)?);
        Ok(self)
    }

    fn server(&self) -> TangServer<'_> {
        TangServer {
            url: &self.server.url,
            until: self.until,
        }
    }

    /// Seals the key of a slot to the server.
    pub(crate) fn wrap(&self, key: &Key, random: &dyn Random) -> Result<String> {
        self.seal(&Secret::from_slice(key.expose())?, None, random)
    }

    /// Seals a share of the key of a slot to the server. It is shorter than a whole key with the key of the server.
    pub(crate) fn seal_share(&self, share: &Secret, random: &dyn Random) -> Result<String> {
        self.seal(share, Some(&self.server.thumbprint), random)
    }

    fn seal(&self, text: &Secret, signer: Option<&str>, random: &dyn Random) -> Result<String> {
        let TangUrl { url, thumbprint } = &self.server;
        let sealed = match &self.advertised {
            Some(keys) => tang::seal(url, keys, signer, text, random)?,
            None => {
                let keys = ServerKeys::ask(&self.server(), thumbprint)?;
                tang::seal(url, &keys, signer, text, random)?
            }
        };
        match sealed.len() <= PARAMS_MAX {
            true => Ok(sealed),
            false => Err(self.server.failed("its keys are too long for a key slot")),
        }
    }

    /// Recovers the key of a slot; `None` if the slot was made for another server.
    ///
    /// # Errors
    /// [`Error::KeyServer`]; [`Error::Damaged`] for a slot that no program made.
    pub(crate) fn unwrap(&self, sealed: &str) -> Result<Option<Key>> {
        let Some(opened) = self.open_text(sealed)? else {
            return Ok(None);
        };
        let opened = opened.expose().try_into();
        let opened = opened.map_err(|_| Error::Damaged("the parameters of a key slot"))?;
        Ok(Some(Key::from_bytes(opened)?))
    }

    /// Opens like [`TangKey::unwrap`], for text that may be no key.
    pub(crate) fn open_text(&self, sealed: &str) -> Result<Option<Secret>> {
        let damaged = |error| match error {
            Error::Clevis(_) => Error::Damaged("the parameters of a key slot"),
            other => other,
        };
        let sealed = Jwe::read(&Value::from(sealed)).map_err(damaged)?;
        if !tang::is_of(&sealed, &self.server.thumbprint) {
            return Ok(None);
        }
        // The address is that of the source of the key, which was accepted; the slot may have another one.
        let tang = Tang::read(&sealed.header).map_err(damaged)?;
        let shared = tang.recover(&self.server(), &SystemRandom);
        let Some(shared) = shared.map_err(damaged)? else {
            return Err(self.no_key());
        };
        let key = jose::derive(&shared, &sealed.header).map_err(damaged)?;
        let Some(opened) = sealed.open(&key).map_err(damaged)? else {
            return Err(self.server.failed(
                "its answer does not open the key slot: the slot is damaged, or it is another server, or its \
                 answer was changed on the way",
            ));
        };
        Ok(Some(opened))
    }

    pub(crate) fn url(&self) -> &TangUrl {
        &self.server
    }

    /// The server does not have the key of a slot: is it another one?
    fn no_key(&self) -> Error {
        match self.server().advertisement(&self.server.thumbprint) {
            Ok(Some(_)) => self
                .server
                .failed("it deleted the key that the key slot was made with; use another key slot"),
            Ok(None) => self.server.failed(tang::OTHER_SERVER),
            Err(error) => error,
        }
    }
}

/// Returns whether a slot was made for this server. False if the slot cannot be read.
pub(crate) fn is_for_server(sealed: &str, server: &TangUrl) -> bool {
    let sealed = Jwe::read(&Value::from(sealed));
    sealed.is_ok_and(|sealed| tang::is_of(&sealed, &server.thumbprint))
}
