//! A Tang server, which is asked over HTTP: what is sent and what is answered are no secrets.

use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use serde_json::Value;
use ureq::http::Response;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, TcpConnector};
use ureq::{Agent, Body};

use crate::network::http::{reason, timed_out};
use crate::network::tls::TlsConnector;
use crate::{Error, Result};

const HEADER_MAX: usize = 16 << 10;
/// An answer is one key, or the keys of a server with their signatures.
const ANSWER_MAX: u64 = 64 << 10;

/// A server, and how long it may take.
pub(super) struct TangServer<'a> {
    /// The address, as [`tang_address`](crate::source::tang_address) gives it.
    pub(super) url: &'a str,
    pub(super) until: Instant,
}

impl TangServer<'_> {
    /// The server's product of a point with its key of this name; `None` if it does not have the key.
    pub(super) fn recover(&self, id: &str, point: &Value) -> Result<Option<Value>> {
        self.answer(|agent| {
            let post = agent.post(format!("{}/rec/{id}", self.url));
            let post = post.header("Content-Type", "application/jwk+json");
            post.send(point.to_string())
        })
    }

    /// The keys that the server signed with the key of this thumbprint; `None` if it does not have that.
    pub(super) fn advertisement(&self, thumbprint: &str) -> Result<Option<Value>> {
        self.answer(|agent| agent.get(format!("{}/adv/{thumbprint}", self.url)).call())
    }

    pub(super) fn failed(&self, reason: impl Into<String>) -> Error {
        Error::KeyServer {
            url: self.url.to_owned(),
            reason: reason.into(),
        }
    }

    fn answer(
        &self,
        request: impl FnOnce(&Agent) -> std::result::Result<Response<Body>, ureq::Error>,
    ) -> Result<Option<Value>> {
        let agent = agent(self.url, self.until).map_err(|reason| self.failed(reason))?;
        // As for keys by https: a malformed answer must not end the program.
        let answered = catch_unwind(AssertUnwindSafe(|| self.read(request(&agent))));
        answered.map_err(|_| self.failed("its answer cannot be understood"))?
    }

    fn read(
        &self,
        answered: std::result::Result<Response<Body>, ureq::Error>,
    ) -> Result<Option<Value>> {
        let mut response = answered.map_err(|error| self.failed(reason(&error)))?;
        match response.status().as_u16() {
            200 => {}
            404 => return Ok(None),
            status => return Err(self.failed(format!("it answers with status {status}"))),
        }
        let mut text = Vec::new();
        let body = response.body_mut().as_reader();
        let read = body.take(ANSWER_MAX).read_to_end(&mut text);
        read.map_err(|_| self.failed("its answer is cut off"))?;
        let answer = serde_json::from_slice(&text);
        let answer = answer.map_err(|_| self.failed("its answer is not that of a Tang server"))?;
        Ok(Some(answer))
    }
}

fn agent(url: &str, until: Instant) -> std::result::Result<Agent, String> {
    let time_max = until.saturating_duration_since(Instant::now());
    if time_max.is_zero() {
        return Err(timed_out());
    }
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
