//! The work of a token's module, in a process of its own: see [`super::helper`].

use std::path::Path;

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error as Failed, RvError};
use cryptoki::mechanism::Mechanism;
use cryptoki::mechanism::aead::GcmParams;
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::Slot;
use cryptoki::types::RawAuthPin;
use secret::Secret;
use zeroize::Zeroizing;

use crate::{Error, Result, TokenUri};

/// Bits of an authentication tag.
const TAG_BITS: u64 = 128;

/// The value of a data object: as much as `max` bytes of it, and how long all of it is.
pub(super) fn read(
    module: &Path,
    uri: &TokenUri,
    pin: &Secret,
    max: usize,
) -> Result<(Secret, u64)> {
    let token = OpenToken::open(module, uri, pin, false)?;
    let object = token.find(&[Attribute::Class(ObjectClass::DATA)], "data object")?;
    let values = token
        .session()?
        .get_attributes(object, &[AttributeType::Value]);
    let Ok([Attribute::Value(value)]) = values.as_deref() else {
        return Err(uri.failed("its data object cannot be read"));
    };
    let text = Secret::from_slice(&value[..value.len().min(max)]);
    let len = value.len() as u64;
    values.into_iter().flatten().for_each(wipe_value);
    Ok((text?, len))
}

fn wipe_value(attribute: Attribute) {
    if let Attribute::Value(value) = attribute {
        drop(Zeroizing::new(value));
    }
}

/// Makes a new AES key, which cannot be taken out.
pub(super) fn keygen(module: &Path, uri: &TokenUri, bytes: u8, pin: &Secret) -> Result<()> {
    let token = OpenToken::open(module, uri, pin, true)?;
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
        Attribute::ValueLen(u64::from(bytes).into()),
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

/// Encrypts the key of a slot.
pub(super) fn wrap(
    module: &Path,
    uri: &TokenUri,
    pin: &Secret,
    nonce: [u8; 12],
    key: &[u8],
) -> Result<Vec<u8>> {
    let token = OpenToken::open(module, uri, pin, false)?;
    let object = token.aes_key()?;
    let mut iv = nonce;
    let gcm = GcmParams::new(&mut iv, &[], TAG_BITS.into()).map_err(|e| uri.failed(e))?;
    let wrapped = token
        .session()?
        .encrypt(&Mechanism::AesGcm(gcm), object, key);
    wrapped.map_err(|error| uri.explained(error))
}

/// Decrypts it.
pub(super) fn unwrap(
    module: &Path,
    uri: &TokenUri,
    pin: &Secret,
    nonce: [u8; 12],
    wrapped: &[u8],
) -> Result<Secret> {
    let token = OpenToken::open(module, uri, pin, false)?;
    let object = token.aes_key()?;
    let mut iv = nonce;
    let gcm = GcmParams::new(&mut iv, &[], TAG_BITS.into()).map_err(|e| uri.failed(e))?;
    let opened = token
        .session()?
        .decrypt(&Mechanism::AesGcm(gcm), object, wrapped);
    let opened = Zeroizing::new(opened.map_err(|error| match error {
        // A tag that is wrong; tokens call it by different names.
        Failed::Pkcs11(
            RvError::EncryptedDataInvalid
            | RvError::EncryptedDataLenRange
            | RvError::GeneralError
            | RvError::FunctionFailed,
            _,
        ) => Error::WrongKey,
        error => uri.explained(error),
    })?);
    Ok(Secret::from_slice(&opened)?)
}

/// Makes 64 bytes of a fixed text. Its four blocks, each with its number at the end, are encrypted by no other use
/// of the key. The nonces of [`wrap`] are random, so that their counter blocks are others.
pub(super) fn derive(module: &Path, uri: &TokenUri, pin: &Secret) -> Result<Secret> {
    let token = OpenToken::open(module, uri, pin, false)?;
    let object = token.aes_key()?;
    let block = |number: u8| [&b"strongroom luks"[..], &[number]].concat();
    let text: Vec<u8> = (1..=4).flat_map(block).collect();
    let made = token.session()?.encrypt(&Mechanism::AesEcb, object, &text);
    let made = Zeroizing::new(made.map_err(|error| uri.explained(error))?);
    match made.len() == text.len() {
        true => Ok(Secret::from_slice(&made)?),
        false => Err(uri.failed("its key encrypts to another length")),
    }
}

impl TokenUri {
    /// The error of a module, with what the user can do about it.
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
            | RvError::SessionHandleInvalid => self.failed("the token was removed, or does not work"),
            RvError::MechanismInvalid
            | RvError::KeyTypeInconsistent
            | RvError::KeyFunctionNotPermitted => self.failed(
                "its key cannot be used: it must be an AES key that may encrypt and decrypt, on a token with \
                 AES-GCM, or with AES-ECB for LUKS",
            ),
            RvError::TokenWriteProtected | RvError::SessionReadOnly => {
                self.failed("the token is read-only")
            }
            other => self.failed(other),
        }
    }
}

/// A token that was logged in to.
struct OpenToken<'a> {
    uri: &'a TokenUri,
    module: Pkcs11,
    /// `None` once it is closed.
    session: Option<Session>,
}

impl<'a> OpenToken<'a> {
    fn open(path: &Path, uri: &'a TokenUri, pin: &Secret, to_write: bool) -> Result<OpenToken<'a>> {
        let module = Pkcs11::new(path)
            .map_err(|error| uri.failed(format_args!("its module {}: {error}", path.display())))?;
        let arguments = CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK);
        module
            .initialize(arguments)
            .map_err(|error| uri.explained(error))?;
        // From here on it is finalized whatever happens.
        let mut token = OpenToken {
            uri,
            module,
            session: None,
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
                .failed("several tokens have this name; choose one with serial=")),
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
                "the token has several {what}s '{name}'; choose one with id="
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

impl Drop for OpenToken<'_> {
    fn drop(&mut self) {
        // The session is closed before the module is done with.
        self.session = None;
        let _ = self.module.clone().finalize();
    }
}
