//! Authenticators: which there are, what each can do, and what one answers.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secret::Secret;

use super::program::{FidoCommand, FidoOutput};
use crate::{Error, Result};

/// The time for an authenticator that waits for nobody. `fido2-assert` waits 21 s for one in use.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// The time for a person to touch it. Most give up after half of it.
const TOUCH_MAX: Duration = Duration::from_secs(60);
/// systemd signs a hash of zeros. The signature is not used.
const CLIENT_DATA_HASH: [u8; 32] = [0; 32];

/// The usual cause of libfido2's internal error.
const CANNOT_OPEN: &str = "it cannot be opened: another program uses it, or this user may not";

/// An authenticator that computes secrets (the extension `hmac-secret`).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Authenticator {
    pub(super) path: String,
    /// True if it asks for a touch when it is told to.
    pub(super) has_touch: bool,
    /// True if it has a PIN.
    pub(super) has_pin: bool,
    /// True if it can recognize its user by itself.
    pub(super) has_verification: bool,
    /// The number of wrong PINs that it takes until it is locked.
    tries: Option<u32>,
}

/// The request for a secret.
#[derive(Clone, Copy)]
pub(super) struct AssertionRequest<'a> {
    /// The relying party of the credential.
    pub(super) rp: &'a str,
    /// Base64.
    pub(super) credential: &'a str,
    pub(super) touch: Option<bool>,
    pub(super) verification: Option<bool>,
}

/// The answer of an authenticator without a secret.
pub(super) enum AssertionFailure {
    /// The name of an error of libfido2.
    Code(String),
    /// No answer in the given time.
    Late,
    /// Another failure.
    Failed(Error),
}

impl AssertionFailure {
    /// Empty for what is no answer.
    pub(super) fn code(&self) -> &str {
        match self {
            AssertionFailure::Code(code) => code,
            _ => "",
        }
    }
}

impl From<Error> for AssertionFailure {
    fn from(error: Error) -> AssertionFailure {
        AssertionFailure::Failed(error)
    }
}

type FidoResult<T> = std::result::Result<T, AssertionFailure>;

/// Their paths.
pub(super) fn list() -> Result<Vec<String>> {
    let listed = token_tool(&["-L"], "")?;
    let listed = String::from_utf8_lossy(listed.output.expose()).into_owned();
    Ok(listed.lines().filter_map(path_of).collect())
}

/// `/dev/hidraw0: vendor=0x1050, product=0x0407 (Yubico YubiKey)`. The names in brackets are those of the device.
fn path_of(line: &str) -> Option<String> {
    let (path, _) = line.split_once(": vendor=")?;
    let is_path = !path.is_empty() && !path.starts_with('-');
    (is_path && path.bytes().all(|byte| byte.is_ascii_graphic())).then(|| path.to_owned())
}

fn token_tool(words: &[&str], path: &str) -> Result<FidoOutput> {
    let call = FidoCommand {
        program: "fido2-token",
        words,
        input: "",
        pin: None,
        time_max: ANSWER_MAX,
    };
    let failed = |what: &str| Error::fido(format_args!("{path}{what}"));
    match call.run()? {
        Some(ended) if ended.is_success => Ok(ended),
        Some(ended) => Err(failed(match code(&ended.errors).as_str() {
            "FIDO_ERR_INTERNAL" => CANNOT_OPEN,
            _ => "it does not answer as one",
        })),
        None => Err(failed("it does not answer")),
    }
}

impl Authenticator {
    /// The authenticator at this path. `None` if it cannot compute secrets.
    pub(super) fn at(path: &str) -> Result<Option<Authenticator>> {
        let ended = token_tool(&["-I", path], &format!("{path}: "))?;
        let text = String::from_utf8_lossy(ended.output.expose()).into_owned();
        Ok(Authenticator::read(path, &text))
    }

    fn read(path: &str, text: &str) -> Option<Authenticator> {
        let field = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(": "));
            let line = lines.find(|(label, _)| *label == name);
            line.map_or("", |(_, value)| value)
        };
        let has = |list: &str, one: &str| list.split(", ").any(|item| item == one);
        let options = field("options");
        let authenticator = Authenticator {
            path: path.to_owned(),
            // What is not said is true of this one only.
            has_touch: !has(options, "noup"),
            has_pin: has(options, "clientPin"),
            has_verification: has(options, "uv"),
            tries: field("pin retries").parse().ok(),
        };
        has(field("extension strings"), "hmac-secret").then_some(authenticator)
    }

    /// Returns whether it has a credential, which it tells without a person. `None` if it does not tell.
    pub(super) fn has_credential(&self, question: &AssertionRequest<'_>) -> Result<Option<bool>> {
        let question = AssertionRequest {
            touch: self.has_touch.then_some(false),
            verification: None,
            ..*question
        };
        match self.assert(&question, None, None, ANSWER_MAX) {
            Ok(_) => Ok(Some(true)),
            Err(AssertionFailure::Code(code)) if is_absence(&code) => Ok(Some(false)),
            Err(AssertionFailure::Code(code)) if is_silence(&code) => Ok(None),
            Err(refusal) => Err(self.explain(refusal)),
        }
    }

    /// The secret for a salt, in base64 as the salt.
    pub(super) fn secret(
        &self,
        question: &AssertionRequest<'_>,
        salt: &str,
        pin: Option<&Secret>,
    ) -> FidoResult<Secret> {
        let ended = self.assert(question, Some(salt), pin, TOUCH_MAX)?;
        let odd = || Error::fido(format_args!("{}: its answer is not a secret", self.path));
        // Client data hash, relying party, authenticator data, signature, secret.
        let mut lines = ended.output.expose().split(|byte| *byte == b'\n');
        let line = lines.nth(4).ok_or_else(odd)?;
        let mut bytes = Secret::zeroed(line.len()).map_err(Error::from)?;
        match STANDARD.decode_slice(line, bytes.expose_mut()) {
            Ok(32) => Ok(Secret::from_slice(line).map_err(Error::from)?),
            _ => Err(odd().into()),
        }
    }

    fn assert(
        &self,
        question: &AssertionRequest<'_>,
        salt: Option<&str>,
        pin: Option<&Secret>,
        time_max: Duration,
    ) -> FidoResult<FidoOutput> {
        let mut words = vec!["-G".to_owned()];
        words.extend(salt.map(|_| "-h".into()));
        let options = [
            ("up", question.touch),
            ("uv", question.verification),
            ("pin", pin.map(|_| true)),
        ];
        for (name, value) in options {
            let option = value.map(|value| ["-t".into(), format!("{name}={value}")]);
            words.extend(option.into_iter().flatten());
        }
        words.push(self.path.clone());
        let hash = STANDARD.encode(CLIENT_DATA_HASH);
        let lines = [
            Some(&*hash),
            Some(question.rp),
            Some(question.credential),
            salt,
        ];
        let input: String = lines
            .iter()
            .flatten()
            .map(|line| format!("{line}\n"))
            .collect();
        let call = FidoCommand {
            program: "fido2-assert",
            words: &words.iter().map(String::as_str).collect::<Vec<_>>(),
            input: &input,
            pin,
            time_max,
        };
        match call.run()? {
            None => Err(AssertionFailure::Late),
            Some(ended) if ended.is_success => Ok(ended),
            Some(ended) => Err(AssertionFailure::Code(code(&ended.errors))),
        }
    }

    /// The error for a refusal, with advice.
    pub(super) fn explain(&self, refusal: AssertionFailure) -> Error {
        let code = match refusal {
            AssertionFailure::Failed(error) => return error,
            AssertionFailure::Late => "FIDO_ERR_TIMEOUT".into(),
            AssertionFailure::Code(code) => code,
        };
        let reason = match code.as_str() {
            "FIDO_ERR_PIN_INVALID" => {
                let now = Authenticator::at(&self.path).ok().flatten();
                let reason = match now.and_then(|now| now.tries) {
                    Some(1) => "; one try is left".into(),
                    Some(tries) => format!("; {tries} tries are left"),
                    None => String::new(),
                };
                return Error::FidoPin(format!("{}: the PIN is wrong{reason}", self.path));
            }
            "FIDO_ERR_PIN_AUTH_BLOCKED" => {
                "it takes no PIN after three wrong ones; unplug it, plug it in again, and try again"
            }
            "FIDO_ERR_PIN_BLOCKED" => {
                "its PIN is locked after too many wrong ones; use a passphrase: only a reset, which destroys its \
                 keys, unlocks it"
            }
            "FIDO_ERR_PIN_NOT_SET" => {
                "it has no PIN, and the token was made with one; plug in the right authenticator"
            }
            "FIDO_ERR_UV_INVALID" => "it did not recognize its user; try again",
            "FIDO_ERR_UV_BLOCKED" => {
                "it recognizes nobody after too many failures; unplug it, plug it in again, and try again"
            }
            "FIDO_ERR_ACTION_TIMEOUT" | "FIDO_ERR_USER_ACTION_TIMEOUT" | "FIDO_ERR_TIMEOUT" => {
                "it was not touched in time; try again, and touch it when it blinks"
            }
            "FIDO_ERR_OPERATION_DENIED" => "its user refused",
            "FIDO_ERR_RX" | "FIDO_ERR_TX" => "it was unplugged, or does not answer; try again",
            "FIDO_ERR_INTERNAL" => CANNOT_OPEN,
            "" => "fido2-assert failed, and does not say why",
            code => return Error::fido(format_args!("{}: it answers {code}", self.path)),
        };
        Error::fido(format_args!("{}: {reason}", self.path))
    }
}

/// Returns whether this code says that the credential is missing.
pub(super) fn is_absence(code: &str) -> bool {
    [
        "FIDO_ERR_NO_CREDENTIALS",
        "FIDO_ERR_INVALID_CREDENTIAL",
        "FIDO_ERR_INVALID_LENGTH",
        "FIDO_ERR_LIMIT_EXCEEDED",
    ]
    .contains(&code)
}

/// Returns whether this code says that it answers only when a person is there.
fn is_silence(code: &str) -> bool {
    [
        "FIDO_ERR_UNSUPPORTED_OPTION",
        "FIDO_ERR_UP_REQUIRED",
        "FIDO_ERR_PIN_REQUIRED",
    ]
    .contains(&code)
}

/// The error of libfido2 in what a program complained of. Empty if there is none.
fn code(errors: &str) -> String {
    let at = errors.find("FIDO_ERR_").unwrap_or(errors.len());
    let is_part = |char: &char| char.is_ascii_uppercase() || *char == '_';
    errors[at..].chars().take_while(is_part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_programs_print_is_read() {
        let line = "/dev/hidraw3: vendor=0x1050, product=0x0407 (Yubico: vendor=1)";
        assert_eq!(path_of(line).as_deref(), Some("/dev/hidraw3"));
        for line in [
            "",
            ": vendor=0x1",
            "-x: vendor=0x1",
            "/dev/a\u{1b}b: vendor=0x1",
        ] {
            assert_eq!(path_of(line), None, "{line}");
        }
        let text = "proto: 0x02\nextension strings: credProtect, hmac-secret\n\
                    options: rk, noup, noclientPin, uv\npin retries: 7\n";
        let read = Authenticator::read("/dev/hidraw3", text).unwrap();
        let wanted = Authenticator {
            path: "/dev/hidraw3".into(),
            has_touch: false,
            has_pin: false,
            has_verification: true,
            tries: Some(7),
        };
        assert_eq!(read, wanted);
        assert_eq!(Authenticator::read("x", "options: rk\n"), None);
        assert_eq!(code("Enter PIN for x: f: FIDO_ERR_RX: 7"), "FIDO_ERR_RX");
        assert_eq!(code("input error"), "");
    }
}
