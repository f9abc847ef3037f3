//! Addresses of exports of NBD servers, as in `doc/uri.md` of the NBD project.
//!
//! An address has one spelling that is shown and remembered: scheme and host in small letters, no port if it is the usual
//! one, and the same characters escaped.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

use crate::api::Failure;

/// The port of NBD.
const PORT: u16 = 10809;

/// The address of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdUri {
    /// The server.
    pub server: NbdServer,
    /// The name of the export; the default export has an empty one.
    pub export: String,
    /// The location of the certificates, if the connection is encrypted.
    pub tls: Option<NbdTls>,
}

/// The address at which a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NbdServer {
    /// A host, without brackets around an IPv6 address, and a TCP port.
    Tcp(String, u16),
    /// A unix socket.
    Unix(PathBuf),
}

/// The files that an encrypted connection needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdTls {
    /// The directory with `ca-cert.pem`.
    pub certificates: PathBuf,
    /// The host in the certificate of the server, if it is not the one in the address.
    pub host: Option<String>,
}

/// The part of an address after `?`.
#[derive(Default)]
struct Query {
    socket: Option<PathBuf>,
    certificates: Option<PathBuf>,
    host: Option<String>,
}

impl NbdUri {
    /// Reads `nbd://HOST[:PORT]/EXPORT` or `nbd+unix:///EXPORT?socket=PATH`; with `nbds` in place of `nbd`, and
    /// `tls-certificates=DIR` after the question mark, for a connection with TLS.
    ///
    /// # Errors
    /// It is none; the message says what is wrong.
    pub fn parse(text: &str) -> Result<NbdUri, Failure> {
        read(text).map_err(|reason| Failure::usage(format!("{text}: {reason}")))
    }

    /// The host that the certificate of the server has to be for.
    pub fn certified_host(&self) -> Option<&str> {
        let given = self.tls.as_ref()?.host.as_deref();
        given.or(match &self.server {
            NbdServer::Tcp(host, _) => Some(host),
            NbdServer::Unix(_) => None,
        })
    }
}

fn read(text: &str) -> Result<NbdUri, String> {
    let (scheme, rest) = text.split_once("://").ok_or("this is no address")?;
    let (is_unix, is_secure) = match scheme {
        "nbd" => (false, false),
        "nbds" => (false, true),
        "nbd+unix" => (true, false),
        "nbds+unix" => (true, true),
        _ => {
            return Err(
                "the address of an export begins with nbd, nbds, nbd+unix or nbds+unix".into(),
            );
        }
    };
    if rest.contains('#') {
        return Err("an address has no part after '#'; write %23 for this character".into());
    }
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, export) = place.split_once('/').unwrap_or((place, ""));
    let query = Query::read(query)?;
    let server = match (is_unix, query.socket) {
        (true, Some(socket)) if host.is_empty() => NbdServer::Unix(socket),
        (true, Some(_)) => {
            return Err("a unix socket has no host; write three slashes, as in nbd+unix:///disk?socket=/run/nbd".into());
        }
        (true, None) => return Err("the socket is missing: ?socket=/run/nbd.sock".into()),
        (false, Some(_)) => return Err("a socket is for nbd+unix and nbds+unix".into()),
        (false, None) => read_host(host)?,
    };
    let tls = match (is_secure, query.certificates, query.host) {
        (true, Some(certificates), host) => Some(NbdTls { certificates, host }),
        (true, None, _) => {
            return Err(
                "the certificates are missing: ?tls-certificates=DIR, a directory with ca-cert.pem"
                    .into(),
            );
        }
        (false, None, None) => None,
        (false, ..) => return Err("certificates are for nbds and nbds+unix".into()),
    };
    if matches!(
        (&server, &tls),
        (NbdServer::Unix(_), Some(NbdTls { host: None, .. }))
    ) {
        return Err(
            "say for which host the certificate of the server is: &tls-hostname=HOST".into(),
        );
    }
    let export = decode(export)?;
    if export.len() > 4096 {
        return Err("the name of an export has at most 4096 bytes".into());
    }
    Ok(NbdUri {
        server,
        export,
        tls,
    })
}

fn read_host(text: &str) -> Result<NbdServer, String> {
    if text.contains('@') {
        return Err("users in addresses are not supported".into());
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest
                .split_once(']')
                .ok_or("']' is missing after the address")?;
            let host: Ipv6Addr = host
                .parse()
                .map_err(|_| format!("'{host}' is no IPv6 address"))?;
            (
                host.to_string(),
                behind.strip_prefix(':').or(behind.is_empty().then_some("")),
            )
        }
        None => {
            let (host, port) = text.split_once(':').unwrap_or((text, ""));
            (host.to_ascii_lowercase(), Some(port))
        }
    };
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    if host.is_empty() || !host.chars().all(is_host) {
        return Err("the host is missing or wrong, as in nbd://server.example.org/disk".into());
    }
    let port = match port {
        Some("") => PORT,
        Some(port) => port
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or("this is no port")?,
        None => return Err("a port follows ':' after the address".into()),
    };
    Ok(NbdServer::Tcp(host, port))
}

impl Query {
    fn read(text: &str) -> Result<Query, String> {
        let mut query = Query::default();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let value = decode(value)?;
            let path = |value: String| match value.starts_with('/') {
                true => Ok(PathBuf::from(value)),
                false => Err(format!("{key}: '{value}' is not a path from the root")),
            };
            let is_new = match key {
                "socket" => query.socket.replace(path(value)?).is_none(),
                "tls-certificates" => query.certificates.replace(path(value)?).is_none(),
                "tls-hostname" => query.host.replace(value).is_none(),
                other => {
                    return Err(format!(
                        "the parameter '{other}' is not supported; socket, tls-certificates and tls-hostname are"
                    ));
                }
            };
            if !is_new {
                return Err(format!("the parameter '{key}' is given twice"));
            }
        }
        Ok(query)
    }
}

/// Text with its escapes undone.
pub(crate) fn decode(text: &str) -> Result<String, String> {
    let wrong = || format!("'{text}': an escape is '%' and two hexadecimal digits, of UTF-8 text");
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        bytes.push(match (first, behind) {
            (b'%', [high, low, behind @ ..]) => {
                rest = behind;
                let digit = |c: u8| char::from(c).to_digit(16).ok_or_else(wrong);
                (digit(*high)? * 16 + digit(*low)?) as u8
            }
            (b'%', _) => return Err(wrong()),
            (plain, _) => *plain,
        });
    }
    match bytes.contains(&0) {
        true => Err(wrong()),
        false => String::from_utf8(bytes).map_err(|_| wrong()),
    }
}

/// Text with escapes where a URI needs them.
pub fn percent(text: &[u8]) -> String {
    let mut out = String::new();
    for byte in text {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' | b':' => {
                out.push(char::from(*byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// The name of an export. The slashes of one that is not like a path are escaped: programs take `a//b` and `a/b` for the
/// same path.
fn percent_export(name: &str) -> String {
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    let escaped = percent(name.as_bytes());
    match name.split('/').all(is_plain) {
        true => escaped,
        false => escaped.replace('/', "%2F").replace('.', "%2E"),
    }
}

/// The address as it is shown and remembered.
impl fmt::Display for NbdUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secure = if self.tls.is_some() { "s" } else { "" };
        let export = percent_export(&self.export);
        let path = |path: &Path| percent(path.as_os_str().as_encoded_bytes());
        let mut parameters = Vec::new();
        match &self.server {
            NbdServer::Tcp(host, port) => {
                let brackets = if host.contains(':') {
                    ("[", "]")
                } else {
                    ("", "")
                };
                write!(f, "nbd{secure}://{}{host}{}", brackets.0, brackets.1)?;
                if *port != PORT {
                    write!(f, ":{port}")?;
                }
                write!(f, "/{export}")?;
            }
            NbdServer::Unix(socket) => {
                write!(f, "nbd{secure}+unix:///{export}")?;
                parameters.push(format!("socket={}", path(socket)));
            }
        }
        if let Some(tls) = &self.tls {
            parameters.push(format!("tls-certificates={}", path(&tls.certificates)));
            let host = tls.host.as_ref().map(|host| percent(host.as_bytes()));
            parameters.extend(host.map(|host| format!("tls-hostname={host}")));
        }
        match parameters.is_empty() {
            true => Ok(()),
            false => write!(f, "?{}", parameters.join("&")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_one_spelling() {
        #[rustfmt::skip]
        let rows = [
            ("nbd://host", "nbd://host/"),
            ("nbd://Host:10809/disk", "nbd://host/disk"),
            ("nbd://192.0.2.7:1/tank/vol%40a", "nbd://192.0.2.7:1/tank/vol%40a"),
            ("nbd://[2001:DB8::0:1]:/x", "nbd://[2001:db8::1]/x"),
            ("nbd://h/a b+%2b", "nbd://h/a%20b%2B%2B"),
            ("nbd://h//a", "nbd://h/%2Fa"),
            ("nbd://h/a/./b", "nbd://h/a%2F%2E%2Fb"),
            ("nbd+unix:///?socket=/run/a%20b", "nbd+unix:///?socket=/run/a%20b"),
            ("nbd+unix://?socket=/run/nbd", "nbd+unix:///?socket=/run/nbd"),
            (
                "nbds+unix:///x?tls-hostname=h&socket=/s&tls-certificates=/p/",
                "nbds+unix:///x?socket=/s&tls-certificates=/p/&tls-hostname=h",
            ),
            ("nbds://h/x?tls-certificates=/pki", "nbds://h/x?tls-certificates=/pki"),
        ];
        for (text, spelling) in rows {
            let uri = NbdUri::parse(text).unwrap();
            assert_eq!(uri.to_string(), spelling);
            assert_eq!(NbdUri::parse(spelling).unwrap(), uri);
        }
        let uri = NbdUri::parse("nbds://h/x?tls-certificates=/pki").unwrap();
        assert_eq!(uri.certified_host(), Some("h"));
        let uri = NbdUri::parse("nbds://h/x?tls-certificates=/pki&tls-hostname=i").unwrap();
        assert_eq!(uri.certified_host(), Some("i"));
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_reason() {
        for (text, reason) in [
            ("nbd+vsock://2/x", "begins with"),
            ("nbd:///x", "host is missing"),
            ("nbd://h:0/x", "no port"),
            ("nbd://h:70000/x", "no port"),
            ("nbd://[::1/x", "']' is missing"),
            ("nbd://[::g]/x", "no IPv6 address"),
            ("nbd://[::1]10/x", "follows ':'"),
            ("nbd://me@h/x", "users"),
            ("nbd://h x/x", "host is missing or wrong"),
            ("nbd://h/x#y", "%23"),
            ("nbd://h/%", "escape"),
            ("nbd://h/%zz", "escape"),
            ("nbd://h/%ff", "UTF-8"),
            ("nbd://h/a%00b", "escape"),
            ("nbd://h/x?socket=/s", "nbd+unix"),
            ("nbd://h/x?tls-certificates=/s", "nbds"),
            (
                "nbd://h/x?tls-psk-file=/s",
                "'tls-psk-file' is not supported",
            ),
            ("nbds://h/x", "tls-certificates=DIR"),
            (
                "nbds+unix:///x?socket=/s&tls-certificates=/p",
                "tls-hostname",
            ),
            ("nbd+unix:///x", "?socket="),
            ("nbd+unix:///x?socket=s", "path from the root"),
            ("nbd+unix:///x?socket=/s&socket=/t", "twice"),
            ("nbd+unix://h/x?socket=/s", "three slashes"),
        ] {
            let refusal = NbdUri::parse(text).unwrap_err().message;
            assert!(refusal.starts_with(&format!("{text}: ")), "{refusal}");
            assert!(refusal.contains(reason), "{text}: {refusal}");
        }
        assert!(NbdUri::parse(&format!("nbd://h/{}", "x".repeat(4097))).is_err());
    }
}
