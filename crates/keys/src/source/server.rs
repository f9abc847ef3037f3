//! The address of a key on a server.

use std::fmt;
use std::path::PathBuf;

use super::url::{decode, encode_path, refuse};
use crate::{Error, Result};

/// The URL of a key, and the file with the certificates that vouch for its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUrl {
    pub(crate) url: String,
    pub(crate) ca: Option<PathBuf>,
}

impl KeyUrl {
    /// Takes what follows `https:`.
    pub(crate) fn parse(rest: &str) -> Result<KeyUrl> {
        let (address, fragment) = match rest.split_once('#') {
            Some((address, fragment)) => (address, Some(fragment)),
            None => (rest, None),
        };
        let Some(authority) = address.strip_prefix("//") else {
            return refuse("write the address of a key as https://HOST/PATH");
        };
        let host_end = authority.find(['/', '?']).unwrap_or(authority.len());
        let (host, _) = authority.split_at(host_end);
        if host.is_empty() {
            return refuse("write the address of a key as https://HOST/PATH");
        }
        if host.contains('@') {
            return refuse(
                "a name and password in an address can be read by all users; leave them out",
            );
        }
        if !address.bytes().all(|byte| byte.is_ascii_graphic()) {
            return refuse("in the address of a key, write spaces and letters with accents as %XX");
        }
        let ca = match fragment {
            None => None,
            Some(fragment) => match fragment.strip_prefix("ca=") {
                Some(path) if path.starts_with('/') => Some(decode(path)?),
                _ => {
                    return refuse(
                        "write the file with the trusted certificates behind #, as in #ca=/etc/keys/ca.pem",
                    );
                }
            },
        };
        Ok(KeyUrl {
            url: format!("https:{address}"),
            ca,
        })
    }

    /// Without what may be meant for the server only.
    pub(crate) fn shown(&self) -> &str {
        self.url.split('?').next().unwrap_or_default()
    }

    pub(crate) fn failed(&self, reason: impl Into<String>) -> Error {
        Error::KeyServer {
            url: self.shown().to_owned(),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for KeyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)?;
        match &self.ca {
            None => Ok(()),
            Some(path) => {
                f.write_str("#ca=")?;
                encode_path(path, f)
            }
        }
    }
}
