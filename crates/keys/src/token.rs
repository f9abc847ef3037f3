//! Keys in PKCS#11 tokens: `pkcs11:` URIs (RFC 7512).
//!
//! With `raw,pkcs11:...` the key is an AES key that never leaves its token. What opens a slot is wrapped and
//! unwrapped inside of the token, by AES-GCM; the slot holds it wrapped. With `hex` and `passphrase` the
//! token is a safe: the text is read from a data object.
//!
//! Which module is loaded stands in a property, which whoever can write to the devices can set. So a module is
//! loaded only if it is in a list of this user's ([`TokenModules`]), and in a process of its own, which does one thing
//! and ends: a module that crashes or hangs is an error message.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cipher::Random;

use crate::layout::TokenParams;
use crate::material::{limit, material};
use crate::provider::check_trusted;
use crate::source::{decode, refuse};
use crate::{Error, Format, Key, KeyMaterial, Result, Secret};

mod helper;
mod inside;

use helper::Op;
pub use helper::serve_token;

/// A list of modules is no longer than this.
const LIST_MAX: usize = 64 << 10;

/// Which modules may be loaded, and what loads them.
#[derive(Clone, Debug)]
pub struct TokenModules {
    /// A file with the absolute path of one module in each line. `#` begins a comment.
    pub list: PathBuf,
    /// The program that loads a module and calls [`serve_token`], with its arguments.
    pub helper: Vec<OsString>,
    /// A module has this long to do one thing.
    pub time_max: Duration,
}

impl TokenModules {
    /// The module of a token, if it is listed, and nobody but root and this user can change it or the list.
    fn module(&self, uri: &TokenUri) -> Result<PathBuf> {
        let unusable = |path: &Path, why: String| {
            uri.failed(format_args!("its module {}: {why}", path.display()))
        };
        let list = self.list.display();
        let real = check_trusted(&uri.module).map_err(|(path, why)| unusable(&path, why))?;
        let unlisted = || {
            unusable(
                &uri.module,
                format!("it is not listed; write its path into a line of {list} to have it loaded"),
            )
        };
        if std::fs::symlink_metadata(&self.list)
            .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        {
            return Err(unlisted());
        }
        let failed = |why: String| uri.failed(format_args!("the list of modules {list}: {why}"));
        let path = check_trusted(&self.list).map_err(|(path, why)| match path == self.list {
            true => failed(why),
            false => failed(format!("{}: {why}", path.display())),
        })?;
        let mut file =
            crate::file::open_regular(&path).map_err(|error| failed(error.to_string()))?;
        let text = Secret::from_reader(&mut file, LIST_MAX)?;
        let text = String::from_utf8_lossy(text.expose());
        let lines = text.lines().map(str::trim);
        let mut listed = lines.filter(|line| line.starts_with('/'));
        match listed.any(|line| {
            Path::new(line)
                .canonicalize()
                .is_ok_and(|path| path == real)
        }) {
            true => Ok(real),
            false => Err(unlisted()),
        }
    }
}

/// Which object in which token, through which module; always one that can be looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenUri {
    /// As it was written.
    text: String,
    token: Option<String>,
    serial: Option<String>,
    manufacturer: Option<String>,
    model: Option<String>,
    object: Option<String>,
    id: Option<Vec<u8>>,
    module: PathBuf,
    pin: Option<PathBuf>,
}

impl TokenUri {
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
                // What kind of object it is goes with the format.
                "type" => {}
                _ => {
                    return refuse(
                        "of a pkcs11: URI, token, serial, manufacturer, model, object, id and type are known",
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
                        "a PIN in a property can be read by everybody; use pin-source=file:/PATH, or none \
                         to be asked",
                    );
                }
                _ => {
                    return refuse(
                        "behind the ? of a pkcs11: URI, module-path and pin-source are known",
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

    /// The file with the PIN; where there is none, somebody has to be asked.
    pub fn pin_source(&self) -> Option<&Path> {
        self.pin.as_deref()
    }

    /// What the token is called in messages: its label, or its serial number.
    pub fn shown(&self) -> &str {
        let name = self.token.as_ref().or(self.serial.as_ref());
        name.map_or("", String::as_str)
    }

    fn failed(&self, reason: impl fmt::Display) -> Error {
        Error::Token {
            token: self.shown().to_owned(),
            reason: reason.to_string(),
        }
    }

    fn refused(&self, reason: &str) -> Error {
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

/// An AES key in a token, and what opens the token.
#[derive(Debug)]
pub struct TokenKey {
    modules: TokenModules,
    uri: TokenUri,
    pin: Secret,
}

/// What a token has for a slot of this format. With [`Format::Raw`] the token is used only when a slot is
/// made or opened.
///
/// # Errors
/// [`Error::Token`] if its module is not listed or does not work, or it is not there, or has no such object;
/// [`Error::TokenPin`]; as [`crate::read_file`] for what is in a data object.
pub fn token_material(
    modules: &TokenModules,
    uri: &TokenUri,
    format: Format,
    pin: Secret,
) -> Result<KeyMaterial> {
    let key = TokenKey {
        modules: modules.clone(),
        uri: uri.clone(),
        pin,
    };
    if format == Format::Raw {
        return Ok(KeyMaterial::Token(Box::new(key)));
    }
    let max = limit(format, true) as u64;
    let mut answer = key.ask(Op::Read, &max.to_le_bytes())?;
    let len = answer
        .expose()
        .first_chunk()
        .map(|len| u64::from_le_bytes(*len))
        .ok_or_else(|| uri.failed("its module's answer is too short"))?;
    let text = Secret::from_slice(&answer.expose_mut()[8..])?;
    let origin = format!("the token '{}'", uri.shown());
    material(format, text, &origin, Some(len))
}

/// Reads a PIN from its file: the first line.
///
/// # Errors
/// [`Error::KeyFileMissing`] or [`Error::KeyFileUnreadable`].
pub fn read_pin(path: &Path) -> Result<Secret> {
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound => Error::KeyFileMissing(path.to_owned()),
        _ => Error::KeyFileUnreadable {
            path: path.to_owned(),
            source,
        },
    };
    let mut file = crate::file::open_regular(path).map_err(failed)?;
    let mut pin = Secret::from_reader(&mut file, limit(Format::Passphrase, true))?;
    pin.trim_newline();
    Ok(pin)
}

/// Makes a new AES key of 256 bits in a token, which cannot be taken out.
///
/// # Errors
/// As [`token_material`]; [`Error::TokenKeyExists`] if there is one of that name.
pub fn token_keygen(modules: &TokenModules, uri: &TokenUri, pin: Secret) -> Result<()> {
    let key = TokenKey {
        modules: modules.clone(),
        uri: uri.clone(),
        pin,
    };
    key.ask(Op::Keygen, &[]).map(|_| ())
}

impl TokenKey {
    /// Has the module do something.
    fn ask(&self, op: Op, payload: &[u8]) -> Result<Secret> {
        let module = self.modules.module(&self.uri)?;
        helper::ask(&self.modules, &module, (op, &self.uri, &self.pin), payload)
    }

    /// Wraps the key of a slot inside the token.
    pub(crate) fn wrap(&self, key: &Key, random: &dyn Random) -> Result<TokenParams> {
        let mut nonce = [0; 12];
        random.fill(&mut nonce)?;
        let mut payload = Secret::from_slice(&nonce)?;
        payload.push_slice(key.expose())?;
        let wrapped = self.ask(Op::Wrap, payload.expose())?;
        let wrapped = wrapped.expose().try_into().map_err(|_| {
            self.uri
                .failed("what it wraps has another length than it should")
        })?;
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
        let opened = self.ask(Op::Unwrap, &payload)?;
        let opened = opened.expose().try_into().map_err(|_| Error::WrongKey)?;
        Key::from_bytes(opened)
    }
}
