//! Keys in PKCS#11 tokens.
//!
//! With `raw,pkcs11:...` the key is an AES key that never leaves its token. What opens a slot is wrapped and
//! unwrapped inside of the token, by AES-GCM; the slot holds it wrapped. With `hex` and `passphrase` the
//! token is a safe: the text is read from a data object. LUKS needs a secret that is always the same: an AES key
//! makes it by encrypting a fixed text.
//!
//! A property names the module, and an attacker who can write to the devices can set it. So a module is loaded only
//! if it is in a list of this user's ([`TokenModules`]). It runs in a process of its own, which does one operation
//! and ends. So a module that crashes or hangs is an error message.

mod helper;
mod inside;
mod key;
mod modules;

use secret::Secret;

use crate::format::limit;
use crate::material::key_material::material;
use crate::{KeyMaterial, MaterialFormat, Result, TokenUri};
use helper::TokenOperation;
pub use helper::serve_token;
pub use key::TokenKey;
pub use modules::TokenModules;

/// The material of a token for a slot of this format. With [`MaterialFormat::Raw`] the token is used only when a slot
/// is made or opened.
///
/// # Errors
/// [`crate::Error::Token`] if its module is not listed or does not work, or it is not there, or has no such object;
/// [`crate::Error::TokenPin`]; as [`crate::read_file`] for what is in a data object.
pub fn token_material(
    modules: &TokenModules,
    uri: &TokenUri,
    format: MaterialFormat,
    pin: Secret,
) -> Result<KeyMaterial> {
    let key = TokenKey {
        modules: modules.clone(),
        uri: uri.clone(),
        pin,
    };
    if format == MaterialFormat::Raw {
        return Ok(KeyMaterial::Token(Box::new(key)));
    }
    let max = limit(format, true) as u64;
    let mut answer = key.ask(TokenOperation::Read, &max.to_le_bytes())?;
    let len = answer
        .expose()
        .first_chunk()
        .map(|len| u64::from_le_bytes(*len))
        .ok_or_else(|| uri.failed("its module's answer is too short"))?;
    let text = Secret::from_slice(&answer.expose_mut()[8..])?;
    let origin = format!("the token '{}'", uri.shown());
    material(format, text, &origin, Some(len))
}

/// The longest secret that a data object has, in bytes.
const SECRET_MAX: usize = 8 << 10;

/// The secret for a LUKS container or a plain mapping: the value of a data object, if the URI has `type=data`. Else
/// 64 bytes that an AES key in the token makes of a fixed text. They are as secret as the key, which stays in the
/// token.
///
/// # Errors
/// As [`token_material`].
pub fn token_secret(modules: &TokenModules, uri: &TokenUri, pin: Secret) -> Result<Secret> {
    let key = TokenKey {
        modules: modules.clone(),
        uri: uri.clone(),
        pin,
    };
    if !uri.is_data {
        return key.ask(TokenOperation::Derive, &[]);
    }
    let answer = key.ask(TokenOperation::Read, &(SECRET_MAX as u64).to_le_bytes())?;
    let read = answer.expose().split_first_chunk();
    let (len, value) = read.ok_or_else(|| uri.failed("its module's answer is too short"))?;
    match u64::from_le_bytes(*len) {
        0 => Err(uri.failed("its data object is empty")),
        len if len > SECRET_MAX as u64 => Err(uri.failed(format_args!(
            "its data object is longer than {SECRET_MAX} bytes"
        ))),
        _ => Ok(Secret::from_slice(value)?),
    }
}

/// Makes a new AES key of 16, 24 or 32 bytes in a token, which cannot be taken out.
///
/// # Errors
/// As [`token_material`]; [`crate::Error::TokenKeyExists`] if there is one of that name.
pub fn token_keygen(modules: &TokenModules, uri: &TokenUri, bytes: u8, pin: Secret) -> Result<()> {
    let key = TokenKey {
        modules: modules.clone(),
        uri: uri.clone(),
        pin,
    };
    key.ask(TokenOperation::Keygen, &[bytes]).map(|_| ())
}
