//! Exports of other NBD servers as devices.

use std::sync::Arc;

use block::{BlockDevice, DeviceAccess};
use nbd::{Address, ClientTimeouts, ClientTls, Remote, RemoteExport};
use protocol::nbd_uri::{NbdServer, NbdUri};

use crate::failure::{Failure, Result};
use crate::state::daemon::Daemon;

impl Daemon {
    /// Opens the export with this address for `user`.
    ///
    /// # Errors
    /// The address is wrong, the server does not answer or refuses, or something else on this machine uses the export.
    pub(crate) fn open_remote_export(
        &self,
        text: &str,
        access: DeviceAccess,
        user: &str,
    ) -> Result<Arc<dyn BlockDevice>> {
        let uri = NbdUri::parse(text)?;
        let address = match &uri.server {
            NbdServer::Tcp(host, port) => Address::Tcp(host.clone(), *port),
            NbdServer::Unix(socket) if self.exported.listens_at(socket) => {
                return Err(Failure::usage(format!(
                    "{uri} is an export of this daemon; name the device that it offers, as in volume:tank/disk"
                )));
            }
            NbdServer::Unix(socket) => Address::Unix(socket.clone()),
        };
        let tls = uri.tls.as_ref().zip(uri.certified_host());
        let tls = tls.map(|(tls, host)| ClientTls::from_dir(&tls.certificates, host));
        let remote = Remote {
            address,
            export: uri.export.clone(),
            tls: tls.transpose()?,
            name: uri.to_string(),
            patience: ClientTimeouts::default(),
        };
        let name = remote.name.clone();
        let open = |_: Option<&RemoteExport>| Ok::<_, Failure>(RemoteExport::open(remote, access)?);
        self.remote_exports.open(&name, access, user, open)
    }
}
