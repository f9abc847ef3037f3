//! TLS with stores: the authorities that vouch for a server.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// A file with certificates is no longer than this.
const FILE_MAX: u64 = 4 << 20;

/// Settings of TLS with the authorities of the system, or those of a file in PEM form.
///
/// # Errors
/// A sentence about the file, or about a system without certificates.
pub(super) fn settings(authorities: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    let (usable, _) = match authorities {
        Some(path) => {
            let unusable =
                |reason: &str| format!("the file with certificates, {}: {reason}", path.display());
            let certificates = read(path).map_err(|reason| unusable(&reason))?;
            roots.add_parsable_certificates(certificates)
        }
        None => roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs),
    };
    // Without those of the system each server is refused with the reason. A store without TLS needs none.
    if let (0, Some(path)) = (usable, authorities) {
        return Err(format!("{} has no certificate in PEM form", path.display()));
    }
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_root_certificates(roots).with_no_client_auth())
        .map_err(|error| error.to_string())
}

fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let about = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !about.is_file() || about.len() > FILE_MAX {
        return Err(format!("it is no file of at most {FILE_MAX} bytes"));
    }
    let pem = std::fs::read(path).map_err(|error| error.to_string())?;
    CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|_| "it is cut off, or is not PEM".to_owned())
}
