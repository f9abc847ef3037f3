//! A Tang server, which is asked over HTTP: what is sent and what is answered are no secrets.

use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use serde_json::Value;
use ureq::Agent;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, TcpConnector};

use super::jose::unusable;
use crate::https::reason;
use crate::tls::TlsConnector;
use crate::{Error, Result};

const HEADER_MAX: usize = 16 << 10;
/// An answer is one key.
const ANSWER_MAX: u64 = 16 << 10;

/// What the server at `url` makes of a point with its key of this name.
pub(super) fn ask(url: &str, id: &str, point: &Value, time_max: Duration) -> Result<Value> {
    let url = address(url)?;
    let failed = |reason: String| Error::KeyServer {
        url: url.clone(),
        reason,
    };
    let agent = agent(&url, time_max).map_err(failed)?;
    let post = agent
        .post(format!("{url}/rec/{id}"))
        .header("Content-Type", "application/jwk+json");
    // As for keys by https: a malformed answer must not end the program.
    let answered = catch_unwind(AssertUnwindSafe(|| post.send(point.to_string())));
    let answered = answered.map_err(|_| failed("its answer cannot be understood".into()))?;
    let mut response = answered.map_err(|error| failed(reason(&error)))?;
    match response.status().as_u16() {
        200 => {}
        404 => return Err(failed("it does not have the key any more".into())),
        status => return Err(failed(format!("it answers with status {status}"))),
    }
    let mut text = Vec::new();
    let body = response.body_mut().as_reader();
    let read = body.take(ANSWER_MAX).read_to_end(&mut text);
    read.map_err(|_| failed("its answer is cut off".into()))?;
    serde_json::from_slice(&text).map_err(|_| failed("its answer is not a key".into()))
}

/// The address of a server; `http` if that is not said, as with curl.
fn address(url: &str) -> Result<String> {
    let refuse = || {
        Err(unusable(
            "the address of its server is not one of http or https",
        ))
    };
    let url = url.trim_end_matches('/');
    let whole = match url.split_once("://") {
        None => format!("http://{url}"),
        Some(("http" | "https", _)) => url.to_owned(),
        Some(_) => return refuse(),
    };
    let is_plain =
        whole.bytes().all(|byte| byte.is_ascii_graphic()) && !whole.contains(['#', '?', '@']);
    match is_plain && whole.len() < 1024 {
        true => Ok(whole),
        false => refuse(),
    }
}

fn agent(url: &str, time_max: Duration) -> std::result::Result<Agent, String> {
    let config = Agent::config_builder()
        .proxy(None)
        .http_status_as_error(false)
        .max_redirects(0)
        .max_response_header_size(HEADER_MAX)
        .timeout_global(Some(time_max))
        .user_agent("strongroom")
        .build();
    let resolver = DefaultResolver::default();
    if url.starts_with("http://") {
        return Ok(Agent::with_parts(config, TcpConnector::default(), resolver));
    }
    let system = rustls_native_certs::load_native_certs().certs;
    let tls = TlsConnector::new(system, false);
    let tls = tls.ok_or("this system trusts no certificates; install ca-certificates")?;
    let connector = TcpConnector::default().chain(tls);
    Ok(Agent::with_parts(config, connector, resolver))
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
            assert_eq!(address(given).unwrap(), used);
        }
        for wrong in [
            "file:///etc/shadow",
            "http://a b",
            "http://a/?x",
            "http://u@a",
            "gopher://a",
        ] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
