//! The source of the key of a dataset: the property `keysource=FORMAT,LOCATION` of Solaris ZFS.
//!
//! `FORMAT` is `raw` (32 bytes), `hex` (64 digits) or `passphrase`; `LOCATION` is `prompt`, or a URL: of a
//! file with an absolute path, in which `%XX` stands for a byte (RFC 8089, RFC 3986 section 2.1), of a key
//! server ([`KeyUrl`]), of a program ([`ProviderSource`]), of a token ([`TokenUri`]), of a server that helps to
//! recover a key ([`TangUrl`]) of a TPM ([`TpmSource`]), or of several of these ([`SharedSource`]). What is refused
//! is refused with the spelling that works.
//!
//! A rejected text is not repeated in the message: it may be a passphrase, typed in place of the
//! location.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;

use super::provider::ProviderSource;
use super::server::KeyUrl;
use super::tang::TangUrl;
use super::token::TokenUri;
use super::tpm2::TpmSource;
use super::url::{decode, encode_path, refuse};
use crate::{Error, MaterialFormat, Result};

/// The location of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A person types it.
    Prompt,
    /// In the file with this absolute path.
    File(PathBuf),
    /// On a server.
    Https(KeyUrl),
    /// A program has it, or can get it.
    Provider(ProviderSource),
    /// In a PKCS#11 token.
    Token(TokenUri),
    /// A Tang server helps to recover the key.
    Tang(TangUrl),
    /// The TPM of this machine sealed it.
    Tpm(TpmSource),
    /// Several of these hold it together.
    Shared(SharedSource),
}

/// Sources of raw keys that hold a key together, and how many of them open it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedSource {
    threshold: usize,
    parts: Vec<Location>,
}

impl SharedSource {
    /// The number of parts that open the slot.
    pub fn threshold(&self) -> usize {
        self.threshold
    }

    /// The locations of the keys of the parts.
    pub fn parts(&self) -> &[Location] {
        &self.parts
    }
}

/// The format and the location of a key. Always one that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySource {
    format: MaterialFormat,
    location: Location,
}

impl KeySource {
    /// The source with this format and location.
    ///
    /// # Errors
    /// [`Error::KeySource`] for a raw key at the prompt, a path that is not absolute, or a text of a Tang server or
    /// TPM.
    pub fn new(format: MaterialFormat, location: Location) -> Result<KeySource> {
        match &location {
            Location::Prompt if format == MaterialFormat::Raw => {
                refuse("the bytes of a raw key cannot be typed; use hex,prompt")
            }
            Location::File(path) if !path.is_absolute() => {
                refuse("the path of a key file must be absolute, as in file:///etc/keys/k")
            }
            Location::File(path) if path.as_os_str().as_bytes().contains(&0) => {
                refuse("the path of a key file cannot contain a zero byte")
            }
            Location::Tang(_) if format != MaterialFormat::Raw => {
                refuse("what a Tang server helps to recover is a raw key; write raw,tang:...")
            }
            Location::Tpm(_) if format != MaterialFormat::Raw => {
                refuse("what a TPM seals is a raw key; write raw,tpm2:...")
            }
            Location::Shared(_) if format != MaterialFormat::Raw => {
                refuse("what several sources hold together is a raw key; write raw,sss:...")
            }
            _ => Ok(KeySource { format, location }),
        }
    }

    /// The format of the key.
    pub fn format(&self) -> MaterialFormat {
        self.format
    }

    /// The location of the key.
    pub fn location(&self) -> &Location {
        &self.location
    }
}

impl Location {
    /// Returns whether a person has to give the key, a PIN, or a part.
    pub fn asks(&self) -> bool {
        match self {
            Location::Prompt => true,
            Location::Token(token) => token.pin_source().is_none(),
            Location::Tpm(tpm) => tpm.has_pin(),
            Location::Shared(shared) => shared.parts.iter().any(Location::asks),
            Location::File(_) | Location::Https(_) | Location::Tang(_) | Location::Provider(_) => {
                false
            }
        }
    }
}

impl Default for KeySource {
    /// `passphrase,prompt`
    fn default() -> KeySource {
        KeySource {
            format: MaterialFormat::Passphrase,
            location: Location::Prompt,
        }
    }
}

impl FromStr for KeySource {
    type Err = Error;

    fn from_str(text: &str) -> Result<KeySource> {
        let Some((format, location)) = text.split_once(',') else {
            return refuse("write FORMAT,LOCATION, as in passphrase,prompt or raw,file:///path");
        };
        let format = match format {
            "raw" => MaterialFormat::Raw,
            "hex" => MaterialFormat::Hex,
            "passphrase" => MaterialFormat::Passphrase,
            _ => return refuse("the format is one of raw, hex and passphrase"),
        };
        KeySource::new(format, parse_location(location)?)
    }
}

fn parse_location(text: &str) -> Result<Location> {
    if text == "prompt" {
        return Ok(Location::Prompt);
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return refuse(LOCATIONS);
    };
    match scheme {
        "file" => parse_path("file", rest).map(Location::File),
        "https" => KeyUrl::parse(rest).map(Location::Https),
        "exec" => parse_provider("exec", rest),
        "unix" => parse_provider("unix", rest),
        "pkcs11" => TokenUri::parse(rest).map(Location::Token),
        "tang" => TangUrl::parse(rest).map(Location::Tang),
        "tpm2" => TpmSource::parse(rest).map(Location::Tpm),
        "sss" => parse_shared(rest).map(Location::Shared),
        "http" => refuse("http:// would show the key to everyone on the network"),
        _ => refuse(LOCATIONS),
    }
}

const LOCATIONS: &str = "the location is prompt or a file URL, as in file:///etc/keys/k, or begins with \
                         https://, exec:///, unix:///, pkcs11:, tang:, tpm2: or sss:";

/// Takes what follows `sss:`.
fn parse_shared(rest: &str) -> Result<SharedSource> {
    let mut parts = rest.split('|');
    let threshold = parts.next().and_then(|number| number.parse().ok());
    let parts = parts.map(parse_location).collect::<Result<Vec<_>>>()?;
    let cannot = |part: &Location| {
        matches!(
            part,
            Location::Prompt | Location::Token(_) | Location::Shared(_)
        )
    };
    if parts.iter().any(cannot) {
        return refuse(
            "the parts of sss: are files, servers, programs, tang: and tpm2:, and neither a prompt nor a token",
        );
    }
    if (1..parts.len()).any(|at| parts[..at].contains(&parts[at])) {
        return refuse("sss: names a part twice, which would count as two");
    }
    if parts.iter().filter(|part| part.asks()).count() > 1 {
        return refuse(
            "sss: takes one TPM with a PIN: each PIN would be tried at both parts, and the TPM counts wrong ones",
        );
    }
    match threshold {
        Some(threshold) if (2..=PARTS_MAX).contains(&parts.len()) => match threshold {
            0 => refuse(SHARED),
            threshold if threshold > parts.len() => refuse("sss: has fewer parts than it takes"),
            threshold => Ok(SharedSource { threshold, parts }),
        },
        _ => refuse(SHARED),
    }
}

const SHARED: &str = "write how many of the parts open it, and 2 to 16 parts with | between them, as in \
                      sss:2|tpm2:#pcrs=7|file:///media/stick/key|file:///etc/keys/k";
const PARTS_MAX: usize = 16;

/// A program that is started (`exec`) or listens (`unix`); what follows a `?` is for it.
fn parse_provider(scheme: &str, rest: &str) -> Result<Location> {
    let (path, argument) = rest.split_once('?').unwrap_or((rest, ""));
    if !argument.bytes().all(|byte| byte.is_ascii_graphic()) {
        return refuse("what follows the ? is plain text without spaces; write others as %XX");
    }
    Ok(Location::Provider(ProviderSource {
        listens: scheme == "unix",
        path: parse_path(scheme, path)?,
        argument: argument.to_owned(),
    }))
}

/// The path of a URL, from what follows its scheme.
fn parse_path(scheme: &str, rest: &str) -> Result<PathBuf> {
    let absolute = || {
        let what = match scheme {
            "file" => "a key file must be absolute, as in file:///etc/keys/k",
            "exec" => "a program must be absolute, as in exec:///usr/local/libexec/keys",
            _ => "a socket must be absolute, as in unix:///run/keys.sock",
        };
        refuse(format!("the path of {what}"))
    };
    let Some(authority) = rest.strip_prefix("//") else {
        return match rest.starts_with('/') {
            true => refuse(format!("write three slashes: {scheme}://{rest}")),
            false => absolute(),
        };
    };
    let Some(slash) = authority.find('/') else {
        return absolute();
    };
    let (host, path) = authority.split_at(slash);
    if !host.is_empty() {
        return refuse(format!(
            "{} is on this machine; leave out the host: {scheme}://{path}",
            if scheme == "file" { "a key file" } else { "it" }
        ));
    }
    decode(path)
}

impl fmt::Display for KeySource {
    /// The property's value; parsing it gives this source again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.format, self.location)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Prompt => f.write_str("prompt"),
            Location::File(path) => {
                f.write_str("file://")?;
                encode_path(path, f)
            }
            Location::Https(url) => url.fmt(f),
            Location::Token(uri) => uri.fmt(f),
            Location::Tang(url) => url.fmt(f),
            Location::Tpm(tpm) => tpm.fmt(f),
            Location::Shared(shared) => {
                write!(f, "sss:{}", shared.threshold)?;
                shared
                    .parts
                    .iter()
                    .try_for_each(|part| write!(f, "|{part}"))
            }
            Location::Provider(provider) => {
                f.write_str(if provider.listens {
                    "unix://"
                } else {
                    "exec://"
                })?;
                encode_path(&provider.path, f)?;
                match provider.argument.as_str() {
                    "" => Ok(()),
                    argument => write!(f, "?{argument}"),
                }
            }
        }
    }
}
