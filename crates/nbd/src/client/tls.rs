//! TLS of a client: which servers it believes, and how it shows who it is.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::Result;
use crate::wire::link::PeerLink;
use crate::wire::tls;
use crate::wire::tls::{TlsLink, authorities, certificates, private_key, revoked, unusable};

/// The certificates and keys that a client needs for TLS.
#[derive(Clone, Debug)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    /// The certificate of the server has to be for it.
    server: ServerName<'static>,
}

impl ClientTls {
    /// Reads a directory as NBD programs have it: `ca-cert.pem` with the certificates that have to have signed the
    /// server's, and, if the server asks for them, `client-cert.pem` and `client-key.pem`. Certificates that
    /// `ca-crl.pem` revokes, if it is there, are not believed. `server` is the host name or address in the
    /// certificate of the server.
    ///
    /// # Errors
    /// [`crate::Error::Certificates`], which names the file.
    pub fn from_dir(dir: &Path, server: &str) -> Result<ClientTls> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let roots = Arc::new(authorities(dir)?);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .with_crls(revoked(&dir.join("ca-crl.pem"))?)
            .build()
            .map_err(|error| unusable(&dir.join(tls::AUTHORITIES), error))?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(dir, error))?
            .with_webpki_verifier(verifier);
        let own = dir.join("client-cert.pem");
        let key = dir.join("client-key.pem");
        let config = match own.exists() || key.exists() {
            true => config
                .with_client_auth_cert(certificates(&own)?, private_key(&key)?)
                .map_err(|error| unusable(&own, error))?,
            false => config.with_no_client_auth(),
        };
        let bad_name = |_| {
            unusable(
                Path::new(server),
                "this is neither a host name nor an address",
            )
        };
        Ok(ClientTls {
            config: Arc::new(config),
            server: ServerName::try_from(server.to_owned()).map_err(bad_name)?,
        })
    }

    /// Has the server show who it is.
    pub(super) fn greet(&self, socket: Arc<dyn PeerLink>) -> std::io::Result<TlsLink> {
        let config = Arc::clone(&self.config);
        let state = ClientConnection::new(config, self.server.clone());
        TlsLink::greet(socket, state.map_err(std::io::Error::other)?.into())
    }
}
