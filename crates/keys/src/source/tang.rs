//! Tang servers: `tang:http://HOST[:PORT]#thp=THUMBPRINT`.

use std::fmt;

use super::url::refuse;
use crate::{Error, Result};

/// A thumbprint by SHA-256, in base64url.
const THUMBPRINT_LEN: usize = 43;
/// An address is no longer than this.
const ADDRESS_MAX: usize = 1023;

/// The address of a Tang server, and the thumbprint of the key that it signs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TangUrl {
    pub(crate) url: String,
    pub(crate) thumbprint: String,
}

impl TangUrl {
    /// Takes what follows `tang:`.
    pub(crate) fn parse(rest: &str) -> Result<TangUrl> {
        let (address, fragment) = rest.split_once('#').unwrap_or((rest, ""));
        let has_scheme = address.starts_with("http://") || address.starts_with("https://");
        let Some(url) = tang_address(address).filter(|_| has_scheme) else {
            return refuse(
                "write the address of a Tang server as tang:http://HOST:PORT#thp=THUMBPRINT, or with https",
            );
        };
        let Some(thumbprint) = fragment.strip_prefix("thp=") else {
            return refuse(
                "a Tang server is known by the thumbprint of its signing key, which 'tang-show-keys PORT' prints \
                 on the server; write it behind the address, as in tang:http://HOST:PORT#thp=THUMBPRINT",
            );
        };
        let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        match thumbprint.len() == THUMBPRINT_LEN && thumbprint.bytes().all(is_base64) {
            true => Ok(TangUrl {
                url,
                thumbprint: thumbprint.to_owned(),
            }),
            false => refuse(format!(
                "the thumbprint of a Tang server has {THUMBPRINT_LEN} letters, digits, '-' and '_' (SHA-256)"
            )),
        }
    }

    pub(crate) fn failed(&self, reason: impl Into<String>) -> Error {
        Error::KeyServer {
            url: self.url.clone(),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for TangUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tang:{}#thp={}", self.url, self.thumbprint)
    }
}

/// The address of a Tang server without a slash at its end. Its scheme is `http` if none is given, as with curl.
/// `None` for what is no such address.
pub(crate) fn tang_address(text: &str) -> Option<String> {
    let (scheme, host) = match text.split_once("://") {
        None => ("http", text),
        Some((scheme @ ("http" | "https"), host)) => (scheme, host),
        Some(_) => return None,
    };
    let host = host.trim_end_matches('/');
    let has_host = !host.is_empty() && !host.starts_with(['/', ':']);
    let is_plain =
        host.bytes().all(|byte| byte.is_ascii_graphic()) && !host.contains(['#', '?', '@']);
    let whole = format!("{scheme}://{host}");
    (has_host && is_plain && whole.len() <= ADDRESS_MAX).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_servers() {
        for (given, used) in [
            ("192.0.2.1", "http://192.0.2.1"),
            ("http://tang:7500/", "http://tang:7500"),
            ("https://tang.example.org/a", "https://tang.example.org/a"),
        ] {
            assert_eq!(tang_address(given).as_deref(), Some(used));
        }
        for wrong in [
            "file:///etc/shadow",
            "http://a b",
            "http://a/?x",
            "http://u@a",
            "gopher://a",
            "http://",
            "http:///a",
            "",
        ] {
            assert_eq!(tang_address(wrong), None, "{wrong}");
        }
    }
}
