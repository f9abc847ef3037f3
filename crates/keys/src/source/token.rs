//! Objects in PKCS#11 tokens: `pkcs11:` URIs (RFC 7512).

use std::fmt;
use std::path::{Path, PathBuf};

use super::url::{decode, refuse};
use crate::{Error, Result};

/// The URI of an object in a token, with the module that reaches it. It always names something to search for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenUri {
    /// The URI as it was written.
    pub(crate) text: String,
    pub(crate) token: Option<String>,
    pub(crate) serial: Option<String>,
    pub(crate) manufacturer: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) object: Option<String>,
    pub(crate) id: Option<Vec<u8>>,
    /// True if the URI says that the object is a data object.
    pub(crate) is_data: bool,
    pub(crate) module: PathBuf,
    pub(crate) pin: Option<PathBuf>,
}

impl TokenUri {
    /// Reads a whole URI, as `pkcs11:token=pool;object=disk?module-path=/usr/lib/softhsm/libsofthsm2.so`.
    ///
    /// # Errors
    /// [`Error::KeySource`]
    pub fn from_text(text: &str) -> Result<TokenUri> {
        match text.strip_prefix("pkcs11:") {
            Some(rest) => TokenUri::parse(rest),
            None => refuse("the URI of an object in a token begins with pkcs11:"),
        }
    }

    /// Takes what follows `pkcs11:`.
    pub(crate) fn parse(rest: &str) -> Result<TokenUri> {
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return refuse("in a pkcs11: URI, write spaces and letters with accents as %XX");
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut uri = TokenUri {
            text: rest.to_owned(),
            token: None,
            serial: None,
            manufacturer: None,
            model: None,
            object: None,
            id: None,
            is_data: false,
            module: PathBuf::new(),
            pin: None,
        };
        for (name, value) in attributes(path, ';') {
            let bytes = value_bytes(value)?;
            let text = || String::from_utf8_lossy(&bytes).into_owned();
            match name {
                "token" => uri.token = Some(text()),
                "serial" => uri.serial = Some(text()),
                "manufacturer" => uri.manufacturer = Some(text()),
                "model" => uri.model = Some(text()),
                "object" => uri.object = Some(text()),
                "id" => uri.id = Some(bytes),
                // For keys of datasets the format says which kind of object it is.
                "type" => uri.is_data = bytes == b"data",
                _ => {
                    return refuse(
                        "a pkcs11: URI has the attributes token, serial, manufacturer, model, object, id and \
                         type; after '?' module-path and pin-source only",
                    );
                }
            }
        }
        for (name, value) in attributes(query, '&') {
            match name {
                "module-path" => uri.module = decode(value)?,
                "pin-source" => {
                    let path = value.strip_prefix("file:").unwrap_or(value);
                    uri.pin = Some(decode(path.strip_prefix("//").unwrap_or(path))?);
                }
                "pin-value" => {
                    return refuse(
                        "a PIN in a property can be read by all users; use pin-source=file:/PATH, or none \
                         to be asked",
                    );
                }
                _ => {
                    return refuse(
                        "behind the ? a pkcs11: URI has module-path and pin-source only",
                    );
                }
            }
        }
        uri.checked()
    }

    fn checked(self) -> Result<TokenUri> {
        if self.object.is_none() && self.id.is_none() {
            return refuse("a pkcs11: URI names an object, as in pkcs11:token=pool;object=tank");
        }
        if !self.module.is_absolute() {
            return refuse(
                "a pkcs11: URI names the module of its token, as in \
                 pkcs11:object=tank?module-path=/usr/lib/softhsm/libsofthsm2.so",
            );
        }
        match self.pin.as_ref().is_some_and(|pin| !pin.is_absolute()) {
            true => refuse(
                "the file with a PIN is named from the root, as in pin-source=file:/etc/keys/pin",
            ),
            false => Ok(self),
        }
    }

    /// The file with the PIN; where there is none, the user has to be asked.
    pub fn pin_source(&self) -> Option<&Path> {
        self.pin.as_deref()
    }

    /// The name of the token in messages: its label, or its serial number.
    pub fn shown(&self) -> &str {
        let name = self.token.as_ref().or(self.serial.as_ref());
        name.map_or("", String::as_str)
    }

    pub(crate) fn failed(&self, reason: impl fmt::Display) -> Error {
        Error::Token {
            token: self.shown().to_owned(),
            reason: reason.to_string(),
        }
    }

    pub(crate) fn refused(&self, reason: &str) -> Error {
        Error::TokenPin {
            token: self.shown().to_owned(),
            reason: reason.to_owned(),
        }
    }
}

impl fmt::Display for TokenUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pkcs11:{}", self.text)
    }
}

/// `name=value` pairs.
fn attributes(text: &str, separator: char) -> impl Iterator<Item = (&str, &str)> {
    let parts = text.split(separator).filter(|part| !part.is_empty());
    parts.map(|part| part.split_once('=').unwrap_or((part, "")))
}

fn value_bytes(value: &str) -> Result<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt;
    Ok(decode(value)?.into_os_string().into_vec())
}
