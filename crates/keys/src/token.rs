//! Keys in PKCS#11 tokens: `pkcs11:` URIs (RFC 7512).
//!
//! With `raw,pkcs11:...` the key is an AES key that never leaves its token. What opens a slot is wrapped and
//! unwrapped inside of the token, by AES-GCM; the slot holds it wrapped. With `hex` and `passphrase` the
//! token is a safe: the text is read from a data object.
//!
//! A module is loaded once and stays, since many do not survive being unloaded; it is initialized for each
//! operation, so that a token that was put in since is seen, and one that was taken out is missed.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error as Failed, RvError};
use cryptoki::mechanism::Mechanism;
use cryptoki::mechanism::aead::GcmParams;
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::Slot;
use cryptoki::types::RawAuthPin;
use zeroize::Zeroizing;

use cipher::Random;

use crate::layout::TokenParams;
use crate::material::{limit, material};
use crate::provider::{check_trusted, is_in};
use crate::source::{decode, refuse};
use crate::{Error, Format, Key, KeyMaterial, Result, Secret};

/// Bits of an authentication tag.
const TAG_BITS: u64 = 128;

/// Modules are in one of these: which one it is stands in a property, which whoever can write to the devices
/// can set.
const PLACES: &[&str] = &["/usr/lib", "/usr/lib64", "/usr/local/lib", "/opt"];

/// Modules that were loaded; locked while one is used.
static MODULES: Mutex<Option<HashMap<PathBuf, Pkcs11>>> = Mutex::new(None);

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

    /// What a module says, so that somebody can do something about it.
    fn explained(&self, error: Failed) -> Error {
        let Failed::Pkcs11(rv, _) = &error else {
            return self.failed(error);
        };
        match rv {
            RvError::PinIncorrect | RvError::PinInvalid | RvError::PinLenRange => {
                self.refused("the PIN is wrong")
            }
            RvError::PinLocked => self.refused("the PIN was wrong too often, and is locked"),
            RvError::PinExpired => self.refused("the PIN has expired"),
            RvError::TokenNotPresent
            | RvError::TokenNotRecognized
            | RvError::DeviceRemoved
            | RvError::DeviceError
            | RvError::SlotIdInvalid
            | RvError::SessionClosed
            | RvError::SessionHandleInvalid => self.failed("it was taken away, or does not work"),
            RvError::MechanismInvalid
            | RvError::KeyTypeInconsistent
            | RvError::KeyFunctionNotPermitted => self.failed(
                "its key cannot be used: it has to be an AES key that may encrypt and decrypt, and the \
                 token has to know AES-GCM",
            ),
            RvError::TokenWriteProtected | RvError::SessionReadOnly => {
                self.failed("nothing can be written to it")
            }
            other => self.failed(other),
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
    uri: TokenUri,
    pin: Secret,
}

/// What a token has for a slot of this format. With [`Format::Raw`] the token is used only when a slot is
/// made or opened.
///
/// # Errors
/// [`Error::Token`] if it is not there, or has no such object; [`Error::TokenPin`]; as
/// [`crate::read_file`] for what is in a data object.
pub fn token_material(uri: &TokenUri, format: Format, pin: Secret) -> Result<KeyMaterial> {
    if format == Format::Raw {
        let uri = uri.clone();
        return Ok(KeyMaterial::Token(Box::new(TokenKey { uri, pin })));
    }
    let token = Token::open(uri, &pin, false)?;
    let object = token.find(&[Attribute::Class(ObjectClass::DATA)], "data object")?;
    let values = token
        .session()?
        .get_attributes(object, &[AttributeType::Value]);
    let Ok([Attribute::Value(value)]) = values.as_deref() else {
        return Err(uri.failed("its data object cannot be read"));
    };
    let text = Secret::from_slice(&value[..value.len().min(limit(format, true))]);
    let origin = format!("the token '{}'", uri.shown());
    let found = material(format, text?, &origin, Some(value.len() as u64));
    values.into_iter().flatten().for_each(wipe_value);
    found
}

fn wipe_value(attribute: Attribute) {
    if let Attribute::Value(value) = attribute {
        drop(Zeroizing::new(value));
    }
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
/// As [`token_material`]; [`Error::Token`] also if there is one of that name.
pub fn token_keygen(uri: &TokenUri, pin: Secret) -> Result<()> {
    let token = Token::open(uri, &pin, true)?;
    if !token
        .matching(&[Attribute::Class(ObjectClass::SECRET_KEY)])?
        .is_empty()
    {
        return Err(Error::TokenKeyExists {
            token: uri.shown().to_owned(),
        });
    }
    let mut template = vec![
        Attribute::Token(true),
        Attribute::Private(true),
        Attribute::Sensitive(true),
        Attribute::Extractable(false),
        Attribute::Encrypt(true),
        Attribute::Decrypt(true),
        Attribute::ValueLen((Key::LEN as u64).into()),
    ];
    template.extend(
        uri.object
            .iter()
            .map(|name| Attribute::Label(name.clone().into_bytes())),
    );
    template.extend(uri.id.clone().map(Attribute::Id));
    let made = token
        .session()?
        .generate_key(&Mechanism::AesKeyGen, &template);
    made.map(|_| ()).map_err(|error| uri.explained(error))
}

impl TokenKey {
    /// Wraps the key of a slot inside the token.
    pub(crate) fn wrap(&self, key: &Key, random: &dyn Random) -> Result<TokenParams> {
        let mut nonce = [0; 12];
        random.fill(&mut nonce)?;
        let token = Token::open(&self.uri, &self.pin, false)?;
        let object = token.aes_key()?;
        let mut iv = nonce;
        let gcm = GcmParams::new(&mut iv, &[], TAG_BITS.into()).map_err(|e| self.uri.failed(e))?;
        let wrapped = token
            .session()?
            .encrypt(&Mechanism::AesGcm(gcm), object, key.expose());
        let wrapped = wrapped.map_err(|error| self.uri.explained(error))?;
        let wrapped = wrapped.try_into().map_err(|_| {
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
        let token = Token::open(&self.uri, &self.pin, false)?;
        let object = token.aes_key()?;
        let mut iv = params.nonce;
        let gcm = GcmParams::new(&mut iv, &[], TAG_BITS.into()).map_err(|e| self.uri.failed(e))?;
        let opened = token
            .session()?
            .decrypt(&Mechanism::AesGcm(gcm), object, &params.wrapped);
        let opened = Zeroizing::new(opened.map_err(|error| match error {
            // A tag that is wrong; tokens call it by different names.
            Failed::Pkcs11(
                RvError::EncryptedDataInvalid
                | RvError::EncryptedDataLenRange
                | RvError::GeneralError
                | RvError::FunctionFailed,
                _,
            ) => Error::WrongKey,
            error => self.uri.explained(error),
        })?);
        Key::fill_with(|key| match opened.len() == key.len() {
            true => {
                key.copy_from_slice(&opened);
                Ok(())
            }
            false => Err(Error::WrongKey),
        })
    }
}

/// A token that was logged in to. Modules are not used by several at once.
struct Token<'a> {
    uri: &'a TokenUri,
    module: Pkcs11,
    /// `None` once it is closed.
    session: Option<Session>,
    _modules: MutexGuard<'static, Option<HashMap<PathBuf, Pkcs11>>>,
}

impl<'a> Token<'a> {
    fn open(uri: &'a TokenUri, pin: &Secret, to_write: bool) -> Result<Token<'a>> {
        let mut modules = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
        let module = module(uri, modules.get_or_insert_default())?;
        let arguments = CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK);
        module
            .initialize(arguments)
            .map_err(|error| uri.explained(error))?;
        // From here on it is finalized whatever happens.
        let mut token = Token {
            uri,
            module,
            session: None,
            _modules: modules,
        };
        let slot = token.slot()?;
        let session = match to_write {
            true => token.module.open_rw_session(slot),
            false => token.module.open_ro_session(slot),
        };
        let session = session.map_err(|error| uri.explained(error))?;
        let pin = RawAuthPin::new(Box::new(pin.expose().to_vec()));
        let login = session.login_with_raw(UserType::User, &pin);
        token.session = Some(session);
        login.map_err(|error| uri.explained(error))?;
        Ok(token)
    }

    fn session(&self) -> Result<&Session> {
        self.session
            .as_ref()
            .ok_or_else(|| self.uri.failed("it is closed"))
    }

    /// The one slot with the token that is meant.
    fn slot(&self) -> Result<Slot> {
        let slots = self.module.get_slots_with_token();
        let slots = slots.map_err(|error| self.uri.explained(error))?;
        let is_meant = |slot: &Slot| {
            let Ok(info) = self.module.get_token_info(*slot) else {
                return false;
            };
            let is = |wanted: &Option<String>, found: &str| {
                wanted.as_ref().is_none_or(|wanted| wanted == found)
            };
            info.token_initialized()
                && is(&self.uri.token, info.label())
                && is(&self.uri.serial, info.serial_number())
                && is(&self.uri.manufacturer, info.manufacturer_id())
                && is(&self.uri.model, info.model())
        };
        let found: Vec<Slot> = slots.into_iter().filter(is_meant).collect();
        match found[..] {
            [slot] => Ok(slot),
            [] => Err(self.uri.failed("it is not there")),
            _ => Err(self
                .uri
                .failed("there are several; name the one that is meant with serial=")),
        }
    }

    fn aes_key(&self) -> Result<ObjectHandle> {
        let class = Attribute::Class(ObjectClass::SECRET_KEY);
        self.find(&[class, Attribute::KeyType(KeyType::AES)], "AES key")
    }

    /// The one object that is meant.
    fn find(&self, template: &[Attribute], what: &str) -> Result<ObjectHandle> {
        let name = self.uri.object.as_deref().unwrap_or("of that id");
        match self.matching(template)?[..] {
            [object] => Ok(object),
            [] => Err(self.uri.failed(format_args!("it has no {what} '{name}'"))),
            _ => Err(self.uri.failed(format_args!(
                "it has several of the {what} '{name}'; name the one that is meant with id="
            ))),
        }
    }

    fn matching(&self, template: &[Attribute]) -> Result<Vec<ObjectHandle>> {
        let mut template = template.to_vec();
        let uri = self.uri;
        template.extend(
            uri.object
                .iter()
                .map(|name| Attribute::Label(name.clone().into_bytes())),
        );
        template.extend(uri.id.clone().map(Attribute::Id));
        let found = self.session()?.find_objects(&template);
        found.map_err(|error| uri.explained(error))
    }
}

impl Drop for Token<'_> {
    fn drop(&mut self) {
        // The session is closed before the module is done with.
        self.session = None;
        let _ = self.module.clone().finalize();
    }
}

/// The module of a token, loaded at the first use. It runs with the rights of this process.
fn module(uri: &TokenUri, modules: &mut HashMap<PathBuf, Pkcs11>) -> Result<Pkcs11> {
    let unusable =
        |path: &Path, why: String| uri.failed(format_args!("its module {}: {why}", path.display()));
    let path = check_trusted(&uri.module).map_err(|(path, why)| unusable(&path, why))?;
    if !is_in(&path, PLACES) {
        let places = PLACES.join(", ");
        return Err(unusable(&path, format!("it is in none of {places}")));
    }
    if let Some(module) = modules.get(&path) {
        return Ok(module.clone());
    }
    let module = Pkcs11::new(&path).map_err(|error| unusable(&path, error.to_string()))?;
    modules.insert(path, module.clone());
    Ok(module)
}
