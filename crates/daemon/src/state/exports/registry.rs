//! The exports there are, and who offers them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use block::DeviceMeter;
use nbd::{Export, Exports, Server};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};
use crate::host::listen::Bound;
use crate::state::active_pool::ActivePool;
use crate::state::exports::device::Exportable;
use crate::state::exports::listen::Place;

/// The exports there are.
#[derive(Default)]
pub(crate) struct Exported {
    /// Commands that change anything here run one after the other; it is taken before anything of a pool.
    pub(crate) changing: Mutex<()>,
    /// By name; short.
    pub(crate) all: Mutex<BTreeMap<String, Entry>>,
    /// Who offers them, by where; short.
    pub(crate) servers: Mutex<BTreeMap<Place, Offering>>,
}

/// An export.
pub(crate) struct Entry {
    pub(crate) is: Definition,
    pub(crate) state: State,
}

pub(crate) enum State {
    /// It is being opened.
    Opening,
    Open(Arc<Export>, Arc<DeviceMeter>),
    /// It could not be opened, and why.
    Failed(String),
}

/// What is remembered of an export.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Definition {
    pub(crate) device: Exportable,
    pub(crate) description: String,
    pub(crate) read_only: bool,
    pub(crate) listen: Place,
    /// The directory with the certificates.
    pub(crate) certificates: Option<PathBuf>,
    /// Which volume it is. Absent for other devices, and in what an older program wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) volume: Option<VolumeGuid>,
}

/// A volume or snapshot of one, whatever its name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VolumeGuid {
    pub(crate) pool: u64,
    pub(crate) dataset: u64,
}

impl VolumeGuid {
    pub(crate) fn of(imported: &ActivePool, entry: &pool::Entry) -> VolumeGuid {
        VolumeGuid {
            pool: imported.pool.guid(),
            dataset: entry.guid,
        }
    }
}

/// A server, and what it offers.
pub(crate) struct Offering {
    pub(crate) exports: Arc<Exports>,
    pub(crate) certificates: Option<PathBuf>,
    pub(crate) _server: Server,
    pub(crate) _bound: Option<Bound>,
}

/// An export at one moment, for metrics.
pub(crate) struct ExportNow {
    pub(crate) name: String,
    pub(crate) clients: usize,
    pub(crate) meter: Arc<DeviceMeter>,
}

impl Exported {
    pub(crate) fn set(&self, name: &str, is: Definition, state: State) {
        self.all.lock().insert(name.into(), Entry { is, state });
    }

    /// The exports offered at the place of this one. A server listens there from now on.
    pub(crate) fn serve(&self, is: &Definition) -> Result<Arc<Exports>> {
        let mut servers = self.servers.lock();
        if let Some(offering) = servers.get(&is.listen) {
            if offering.certificates != is.certificates {
                return Err(Failure::usage(format!(
                    "exports are offered at {} with other certificates; use these, or listen elsewhere",
                    is.listen
                )));
            }
            return Ok(Arc::clone(&offering.exports));
        }
        let open = is.listen.open(is.certificates.as_deref())?;
        let exports = Arc::new(Exports::default());
        let offering = Offering {
            exports: Arc::clone(&exports),
            certificates: is.certificates.clone(),
            _server: Server::start(open.listener, Arc::clone(&exports))?,
            _bound: open.bound,
        };
        servers.insert(is.listen.clone(), offering);
        Ok(exports)
    }
}
