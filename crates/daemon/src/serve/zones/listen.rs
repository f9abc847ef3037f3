//! The sockets of zones.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use admission::StopSignal;

use crate::failure::{Failure, Result};
use crate::host::listen::{SocketFile, bind};
use crate::serve::unix::ConnectionEnd;
use crate::state::callers::command_connections::attend;
use crate::state::daemon::Daemon;

use crate::state::zones::zone::{Zone, ZoneListener};

impl Daemon {
    /// The socket of a zone: `zones/NAME` beside the daemon's socket. If the daemon's socket has an unusual name, the
    /// name of the directory contains it, because one directory can have the sockets of several daemons.
    pub(crate) fn zone_socket(&self, zone: &str) -> PathBuf {
        let name = self.socket.file_name().unwrap_or_default();
        let mut dir = OsString::new();
        if name != "socket" {
            dir.push(name);
            dir.push(".");
        }
        dir.push("zones");
        self.socket.with_file_name(dir).join(zone)
    }

    /// Makes the socket of a zone, so that its tenant can connect and wait. If the zone has an owner other than root,
    /// every user can reach the socket, and each connection is checked.
    pub(crate) fn open_listener(&self, zone: &Zone) -> Result<()> {
        let path = self.zone_socket(&zone.name);
        let failed = |error: std::io::Error| {
            Failure::other(format!("cannot listen at {}: {error}", path.display()))
        };
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(failed)?;
            fs::set_permissions(dir, Permissions::from_mode(0o711)).map_err(failed)?;
        }
        let listener = bind(&path)?;
        let socket = SocketFile::new(path.clone());
        if zone.is.owner.is_some() {
            fs::set_permissions(&path, Permissions::from_mode(0o666)).map_err(failed)?;
        }
        *zone.listening.lock() = Some(ZoneListener {
            listener: Arc::new(listener),
            stop: StopSignal::new().map_err(failed)?,
            _socket: socket,
        });
        Ok(())
    }

    /// Serves the tenant of a zone, if the zone has a socket.
    pub(crate) fn attend(self: &Arc<Self>, zone: &Arc<Zone>) -> Result<()> {
        let listening = zone.listening.lock();
        let Some(ZoneListener { listener, stop, .. }) = &*listening else {
            return Ok(());
        };
        let (listener, stop) = (Arc::clone(listener), stop.clone());
        let guests = Arc::clone(&self.guests);
        let (daemon, zone) = (Arc::downgrade(self), Arc::downgrade(zone));
        let serve = move || {
            attend(&listener, &stop, &guests, |stream, mut guest| {
                // Without them the thread is told to end.
                let Some((daemon, zone)) = daemon.upgrade().zip(zone.upgrade()) else {
                    return;
                };
                Daemon::serve_on_thread("command", move || {
                    let _: ConnectionEnd = daemon.serve_one(&stream, Some(&zone), &mut guest);
                    drop(guest);
                });
            });
        };
        threads::start("zone", serve)
            .map(|_| ())
            .map_err(|error| Failure::other(format!("a zone's tenant cannot be served: {error}")))
    }
}
