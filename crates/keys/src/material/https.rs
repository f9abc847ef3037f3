//! Keys from a server: `https://HOST[:PORT]/PATH`, and who vouches for the server.
//!
//! The certificates are the system's, or those of a file that is named behind the URL, as in
//! `https://keys.example.org/tank#ca=/etc/keys/ca.pem`: a fragment is never sent. The key passes through
//! the buffers of TLS, which are ordinary memory; from there on it is in locked memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use ureq::Agent;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, TcpConnector};

use secret::Secret;

use crate::format::limit;
use crate::material::key_material::material;
use crate::network::http::{io_reason, reason, words};
use crate::network::tls::TlsConnector;
use crate::system::file;
use crate::{KeyMaterial, KeyUrl, MaterialFormat, Result};

/// Some key servers send on to another place.
const REDIRECTS_MAX: u32 = 3;
const HEADER_MAX: usize = 16 << 10;
/// A file with certificates is no longer than this.
const CA_FILE_MAX: u64 = 4 << 20;

/// Fetches a key, within `time_max` from the first look at the host's name to the last byte.
///
/// # Errors
/// [`crate::Error::KeyServer`] if the server cannot be reached or does not answer in time, is not who it should be,
/// sends on to what is not https, or refuses; as [`crate::read_file`] for what the key is.
pub fn fetch(url: &KeyUrl, format: MaterialFormat, time_max: Duration) -> Result<KeyMaterial> {
    let tls = connector(url)?;
    let config = Agent::config_builder()
        .https_only(true)
        // What the environment of the daemon says of proxies is not about keys.
        .proxy(None)
        .http_status_as_error(false)
        .max_redirects(REDIRECTS_MAX)
        .max_response_header_size(HEADER_MAX)
        .timeout_global(Some(time_max))
        .user_agent("strongroom")
        .build();
    let connector = TcpConnector::default().chain(tls);
    let agent = Agent::with_parts(config, connector, DefaultResolver::default());
    // A redirect with a malformed trailer makes this version of the library (ureq 3.5.1) panic.
    let answered = catch_unwind(AssertUnwindSafe(|| agent.get(&url.url).call()));
    let answered = answered.map_err(|_| url.failed("its answer cannot be understood"))?;
    let mut response = answered.map_err(|error| url.failed(reason(&error)))?;
    if response.status() != 200 {
        let status = response.status().as_u16();
        return Err(url.failed(format!("it answers with status {status} instead of a key")));
    }
    // One byte more than a key has, to see that there are too many.
    let mut body = response.body_mut().as_reader();
    let text =
        Secret::from_reader(&mut body, limit(format, true)).map_err(|error| match error {
            secret::Error::Read(error) => url.failed(io_reason(&error)),
            other => other.into(),
        })?;
    material(format, text, url.shown(), None)
}

/// Knows the server by the certificates of the system, or by those of the file that the URL names.
fn connector(url: &KeyUrl) -> Result<TlsConnector> {
    let Some(path) = &url.ca else {
        let system = rustls_native_certs::load_native_certs().certs;
        return TlsConnector::new(system, false).ok_or_else(|| {
            url.failed(
                "this system trusts no certificates; install ca-certificates, or name a file with #ca=PATH",
            )
        });
    };
    let unusable = |reason: &str| {
        url.failed(format!(
            "the file with certificates, {}: {reason}",
            path.display()
        ))
    };
    let pem = file::read_regular(path, CA_FILE_MAX).map_err(|error| unusable(&words(&error)))?;
    let certificates: std::result::Result<Vec<_>, PemError> =
        CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(none) if none.is_empty() => Err(unusable("the file has no certificate in PEM form")),
        Ok(certificates) => TlsConnector::new(certificates, true)
            .ok_or_else(|| unusable("the PEM block in the file is not a certificate")),
        Err(_) => Err(unusable("the file is cut off, or is not PEM")),
    }
}
