//! The TLS of a connection to a key server: who vouches for the server, and why a connection is refused.
//!
//! `ureq` has a connector of its own, which takes root certificates only. This one also accepts a server that shows
//! a certificate which the user named, with any use of that certificate: the certificate that `openssl req -x509`
//! makes says that it is one of an authority.

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, OtherError,
    RootCertStore, SignatureScheme, StreamOwned,
};
use ureq::unversioned::transport::time::{Duration, Instant};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport, TransportAdapter,
};

/// Makes TLS connections, on which servers are known by these certificates.
#[derive(Debug)]
pub(crate) struct TlsConnector {
    config: Arc<ClientConfig>,
}

impl TlsConnector {
    /// With the certificates of authorities, and those of servers if `is_pinned`: then a server may show one
    /// of them itself. `None` if none of them can be read.
    pub(crate) fn new(
        certificates: Vec<CertificateDer<'static>>,
        is_pinned: bool,
    ) -> Option<TlsConnector> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().cloned());
        let provider = Arc::new(default_provider());
        let authorities =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .ok()?;
        let pinned = match is_pinned {
            true => certificates,
            false => Vec::new(),
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .ok()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier {
                authorities,
                pinned,
            }))
            .with_no_client_auth();
        Some(TlsConnector {
            config: Arc::new(config),
        })
    }
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = TlsTransport;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<TlsTransport>, ureq::Error> {
        let host = details.uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let (Some(transport), Ok(name)) = (chained, ServerName::try_from(host.to_owned())) else {
            return Err(ureq::Error::BadUri(String::new()));
        };
        let mut conn = ClientConnection::new(Arc::clone(&self.config), name)?;
        let mut sock = TransportAdapter::new(transport.boxed(), Arc::clone(&details.current_time));
        sock.set_timeout(what_is_left(details));
        conn.complete_io(&mut sock)?;
        Ok(Some(TlsTransport {
            buffers: LazyBuffers::new(
                details.config.input_buffer_size(),
                details.config.output_buffer_size(),
            ),
            stream: StreamOwned { conn, sock },
        }))
    }
}

/// The time that the whole request has, less what the connection took.
fn what_is_left(details: &ConnectionDetails<'_>) -> NextTimeout {
    let mut timeout = details.timeout;
    if let (Duration::Exact(limit), Instant::Exact(start)) = (timeout.after, details.now) {
        timeout.after = Duration::Exact(limit.saturating_sub(start.elapsed()));
    }
    timeout
}

/// A connection on which TLS is spoken.
pub(crate) struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is in the buffers is a key.
        f.write_str("TlsTransport")
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.get_mut().set_timeout(timeout);
        self.stream.write_all(&self.buffers.output()[..amount])?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.get_mut().set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

/// Accepts the servers that the authorities vouch for, and those that show a pinned certificate.
#[derive(Debug)]
struct Verifier {
    authorities: Arc<WebPkiServerVerifier>,
    pinned: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self
            .authorities
            .verify_server_cert(shown, between, name, ocsp, now)
        {
            // The time of the certificate is right: that is looked at before what the certificate is for.
            Err(error) if is_of_an_authority(&error) && self.pinned.contains(shown) => {
                verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities
            .verify_tls12_signature(message, shown, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities
            .verify_tls13_signature(message, shown, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// The server shows the certificate of an authority as its own.
fn is_of_an_authority(error: &Error) -> bool {
    other(error) == Some(&webpki::Error::CaUsedAsEndEntity)
}

fn other(error: &Error) -> Option<&webpki::Error> {
    match error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(error))) => {
            error.downcast_ref()
        }
        _ => None,
    }
}

/// The reason why there is no TLS connection.
pub(crate) fn reason(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(why) => format!(
            "its certificate is not trusted: {}",
            match is_of_an_authority(error) {
                true =>
                    "it is the certificate of an authority; to trust it for this server, name it with #ca=FILE",
                false => doubt(why),
            }
        ),
        Error::InvalidMessage(_) => "it does not speak TLS".into(),
        Error::AlertReceived(_) => "it closed the TLS connection".into(),
        Error::PeerIncompatible(_) => "it speaks no version of TLS that is safe".into(),
        _ => "it breaks the rules of TLS".into(),
    }
}

fn doubt(why: &CertificateError) -> &'static str {
    use CertificateError as E;
    match why {
        E::Expired | E::ExpiredContext { .. } => "it has expired",
        E::NotValidYet | E::NotValidYetContext { .. } => {
            "it is not valid yet; compare the clocks of both machines"
        }
        E::Revoked => "it is revoked",
        E::UnknownIssuer => "no trusted authority signed it; name one that did with #ca=FILE",
        E::NotValidForName | E::NotValidForNameContext { .. } => {
            "it is for another name; the name of the server must be in its subjectAltName"
        }
        E::BadSignature => "its signature is wrong",
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => "it is not for servers",
        E::BadEncoding => "it cannot be read",
        _ => "it is not a correct certificate",
    }
}
