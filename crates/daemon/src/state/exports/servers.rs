//! The exports at one address, for any protocol.

use std::sync::Arc;

use block::BlockDevice;
use iscsi::{CommandCounts, IscsiTarget, SessionNow};
use nbd::Export;
use protocol::api::ReservationRow;

use crate::failure::Result;
use crate::host::listen::SocketFile;
use crate::state::exports::kernel_attachment::KernelAttachment;

/// A running server. Dropping this stops it.
pub(crate) enum ExportServer {
    Nbd(
        #[expect(dead_code)] nbd::ExportService,
        #[expect(dead_code)] Option<SocketFile>,
    ),
    Iscsi(#[expect(dead_code)] iscsi::PortalServer),
}

/// All exports that a server offers.
#[derive(Clone)]
pub(crate) enum ServerExports {
    Nbd(Arc<nbd::Exports>),
    Iscsi(Arc<iscsi::Targets>),
}

#[derive(Clone)]
pub(crate) enum ServerExport {
    Nbd(Arc<Export>),
    Iscsi(Arc<IscsiTarget>, Arc<dyn BlockDevice>),
    /// To the kernel of this machine.
    Kernel(Arc<dyn KernelAttachment>),
}

impl ServerExports {
    /// Withdraws an export. Leaves another export with the same name. Does nothing if it is not offered.
    pub(crate) fn remove(&self, offered: &ServerExport, force: bool) -> Result<()> {
        match (self, offered) {
            (ServerExports::Nbd(exports), ServerExport::Nbd(export)) => {
                match exports.remove(export.name(), force) {
                    Ok(_) | Err(nbd::Error::NoSuchExport { .. }) => Ok(()),
                    Err(error) => Err(error.into()),
                }
            }
            (ServerExports::Iscsi(targets), ServerExport::Iscsi(target, _)) => {
                Ok(targets.remove_this(target, force)?)
            }
            (ServerExports::Nbd(_), ServerExport::Iscsi(..) | ServerExport::Kernel(_))
            | (ServerExports::Iscsi(_), ServerExport::Nbd(_) | ServerExport::Kernel(_)) => Ok(()),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            ServerExports::Nbd(exports) => exports.all().is_empty(),
            ServerExports::Iscsi(targets) => targets.all().is_empty(),
        }
    }
}

impl ServerExport {
    pub(crate) fn device(&self) -> &Arc<dyn BlockDevice> {
        match self {
            ServerExport::Nbd(export) => export.device(),
            ServerExport::Iscsi(_, device) => device,
            ServerExport::Kernel(attachment) => attachment.device(),
        }
    }

    /// The number of connections that use it.
    pub(crate) fn clients(&self) -> usize {
        match self {
            ServerExport::Nbd(export) => export.clients(),
            ServerExport::Iscsi(target, _) => target.sessions().len(),
            ServerExport::Kernel(attachment) => attachment.clients(),
        }
    }

    /// The counts of its iSCSI commands.
    pub(crate) fn commands(&self) -> Option<CommandCounts> {
        match self {
            ServerExport::Nbd(_) | ServerExport::Kernel(_) => None,
            ServerExport::Iscsi(target, _) => Some(target.counts()),
        }
    }

    /// The iSCSI reservation of the export.
    pub(crate) fn reservation(&self) -> Option<ReservationRow> {
        match self {
            ServerExport::Nbd(_) | ServerExport::Kernel(_) => None,
            ServerExport::Iscsi(target, _) => {
                let now = target.reserved();
                Some(ReservationRow {
                    registrations: now.registrations,
                    kind: now.kind.map(str::to_owned),
                    holders: now.holders,
                })
            }
        }
    }

    /// The sessions of initiators.
    pub(crate) fn sessions(&self) -> Vec<SessionNow> {
        match self {
            ServerExport::Nbd(_) | ServerExport::Kernel(_) => Vec::new(),
            ServerExport::Iscsi(target, _) => target.sessions(),
        }
    }
}
