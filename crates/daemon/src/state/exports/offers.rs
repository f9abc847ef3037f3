//! The exports at one address, for any protocol.

use std::sync::Arc;

use block::BlockDevice;
use iscsi::{Counts, SessionNow, Target};
use nbd::{Attachment, Export};
use protocol::api::ReservationRow;

use crate::failure::Result;
use crate::host::listen::Bound;

/// A running server. Dropping this stops it.
pub(crate) enum Running {
    Nbd(
        #[expect(dead_code)] nbd::Server,
        #[expect(dead_code)] Option<Bound>,
    ),
    Iscsi(#[expect(dead_code)] iscsi::Server),
}

/// All exports that a server offers.
#[derive(Clone)]
pub(crate) enum Offers {
    Nbd(Arc<nbd::Exports>),
    Iscsi(Arc<iscsi::Targets>),
}

/// One export of a server.
#[derive(Clone)]
pub(crate) enum Offered {
    Nbd(Arc<Export>),
    Iscsi(Arc<Target>, Arc<dyn BlockDevice>),
    /// To the kernel of this machine.
    Kernel(Arc<Attachment>),
}

impl Offers {
    /// Withdraws an export. Leaves another export with the same name. Does nothing if it is not offered.
    pub(crate) fn remove(&self, offered: &Offered, force: bool) -> Result<()> {
        match (self, offered) {
            (Offers::Nbd(exports), Offered::Nbd(export)) => {
                match exports.remove(export.name(), force) {
                    Ok(_) | Err(nbd::Error::NoSuchExport { .. }) => Ok(()),
                    Err(error) => Err(error.into()),
                }
            }
            (Offers::Iscsi(targets), Offered::Iscsi(target, _)) => {
                Ok(targets.remove_this(target, force)?)
            }
            (Offers::Nbd(_), Offered::Iscsi(..) | Offered::Kernel(_))
            | (Offers::Iscsi(_), Offered::Nbd(_) | Offered::Kernel(_)) => Ok(()),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Offers::Nbd(exports) => exports.all().is_empty(),
            Offers::Iscsi(targets) => targets.all().is_empty(),
        }
    }
}

impl Offered {
    pub(crate) fn device(&self) -> &Arc<dyn BlockDevice> {
        match self {
            Offered::Nbd(export) => export.device(),
            Offered::Iscsi(_, device) => device,
            Offered::Kernel(attachment) => attachment.export().device(),
        }
    }

    /// The number of connections that use it.
    pub(crate) fn clients(&self) -> usize {
        match self {
            Offered::Nbd(export) => export.clients(),
            Offered::Iscsi(target, _) => target.sessions().len(),
            Offered::Kernel(attachment) => attachment.export().clients(),
        }
    }

    /// The counts of its iSCSI commands.
    pub(crate) fn commands(&self) -> Option<Counts> {
        match self {
            Offered::Nbd(_) | Offered::Kernel(_) => None,
            Offered::Iscsi(target, _) => Some(target.counts()),
        }
    }

    /// Its iSCSI reservation.
    pub(crate) fn reservation(&self) -> Option<ReservationRow> {
        match self {
            Offered::Nbd(_) | Offered::Kernel(_) => None,
            Offered::Iscsi(target, _) => {
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
            Offered::Nbd(_) | Offered::Kernel(_) => Vec::new(),
            Offered::Iscsi(target, _) => target.sessions(),
        }
    }
}
