//! The check that a request names this site, and does not come from a page of another one.

use std::net::IpAddr;

use crate::http::{Problem, Request};

/// The names of this site.
#[derive(Clone, Debug)]
pub(crate) struct SiteNames {
    /// Besides addresses and `localhost`.
    names: Vec<String>,
    /// True if any address of the network is a name of the site.
    has_addresses: bool,
}

impl SiteNames {
    /// The site at a unix socket: a program on this machine, or the near end of a tunnel.
    pub(crate) fn local() -> SiteNames {
        SiteNames {
            names: Vec::new(),
            has_addresses: false,
        }
    }

    /// A site on the network.
    pub(crate) fn of(names: Vec<String>) -> SiteNames {
        SiteNames {
            names: names.into_iter().map(|n| n.to_ascii_lowercase()).collect(),
            has_addresses: true,
        }
    }

    /// Returns whether a host, perhaps with a port, is this site. A page of another site cannot choose an address or a
    /// name of this list, even if its own name leads here.
    fn has(&self, host: &str) -> bool {
        let Some(name) = without_port(host) else {
            return false;
        };
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let bare = name.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
        match bare.unwrap_or(&name).parse::<IpAddr>() {
            Ok(address) => address.is_loopback() || self.has_addresses,
            Err(_) => name == "localhost" || self.names.contains(&name),
        }
    }
}

/// The name in `NAME:PORT`.
fn without_port(host: &str) -> Option<&str> {
    let (name, rest) = match host.starts_with('[') {
        true => host.split_at(host.find(']')? + 1),
        false => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    match rest.strip_prefix(':') {
        None if rest.is_empty() => Some(name),
        Some(port) if port.bytes().all(|digit| digit.is_ascii_digit()) => Some(name),
        _ => None,
    }
}

/// Returns whether a path is one of the API, and not a file of the pages.
pub(crate) fn is_api(path: &str) -> bool {
    path.starts_with("/v1/") || path == "/metrics"
}

/// Refuses a request that a page of another site may have made.
pub(crate) fn check(request: &Request, names: &SiteNames, is_secure: bool) -> Result<(), Problem> {
    let refused = |why: &str| Err(Problem::Refused(403, why.into()));
    if !names.has(&request.host) {
        let why = "this is not a name of this site; use 'localhost' at the unix socket, and on the network the name \
                   of the machine or one that --name gives";
        return Err(Problem::Refused(421, why.into()));
    }
    let scheme = if is_secure { "https" } else { "http" };
    let own = format!("{scheme}://{}", request.host);
    if request.origin.as_ref().is_some_and(|origin| *origin != own) {
        return refused("the request comes from a page of another site");
    }
    // A link on another page may lead to the page of this site, and to nothing else.
    let is_page = request.method.is_safe() && !is_api(&request.path);
    let is_near = |site: &str| matches!(site, "same-origin" | "none");
    if !is_page && !request.fetch_site.as_deref().is_none_or(is_near) {
        return refused("the request comes from a page of another site");
    }
    if request.method.is_safe() {
        return Ok(());
    }
    if !request.is_marked {
        return refused("a request that changes something needs the header 'X-Strongroom: 1'");
    }
    let kind = request.content_type.as_deref().unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let (what, wanted) = match request.has_stream() {
        true => ("the stream", "application/octet-stream"),
        false => ("JSON", "application/json"),
    };
    match kind.eq_ignore_ascii_case(wanted) {
        true => Ok(()),
        false => {
            let why = format!("send {what}, with 'Content-Type: {wanted}'");
            Err(Problem::Refused(415, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_not_ours() {
        let (near, far) = (
            SiteNames::local(),
            SiteNames::of(vec!["Nas.Example".into()]),
        );
        for (host, is_near, is_far) in [
            ("localhost", true, true),
            ("localhost:8080", true, true),
            ("127.0.0.1:1", true, true),
            ("[::1]:8080", true, true),
            ("LOCALHOST.", true, true),
            ("192.0.2.1", false, true),
            ("[2001:db8::1]", false, true),
            ("nas.example:443", false, true),
            ("evil.example", false, false),
            ("localhost.evil.example", false, false),
            ("localhost@evil.example", false, false),
            ("localhost:80:90", false, false),
            ("localhost:x", false, false),
            ("[::1", false, false),
            ("", false, false),
        ] {
            assert_eq!((near.has(host), far.has(host)), (is_near, is_far), "{host}");
        }
    }
}
