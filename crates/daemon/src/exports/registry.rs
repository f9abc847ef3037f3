//! The exports there are, and who offers them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use block::DeviceMeter;
use nbd::{Export, Exports, Server};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::device::Exportable;
use super::listen::Place;
use crate::api::Failure;
use crate::failure::Result;
use crate::listen::Bound;

/// The exports there are.
#[derive(Default)]
pub(crate) struct Exported {
    /// Commands that change anything here run one after the other; it is taken before anything of a pool.
    pub(super) changing: Mutex<()>,
    /// By name; short.
    pub(super) all: Mutex<BTreeMap<String, Entry>>,
    /// Who offers them, by where; short.
    pub(super) servers: Mutex<BTreeMap<Place, Offering>>,
}

/// An export.
pub(super) struct Entry {
    pub(super) is: Definition,
    pub(super) state: State,
}

pub(super) enum State {
    /// It is being opened.
    Opening,
    Open(Arc<Export>, Arc<DeviceMeter>),
    /// It could not be opened, and why.
    Failed(String),
}

/// What is remembered of an export.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Definition {
    pub(super) device: Exportable,
    pub(super) description: String,
    pub(super) read_only: bool,
    pub(super) listen: Place,
    /// The directory with the certificates.
    pub(super) certificates: Option<PathBuf>,
}

/// A server, and what it offers.
pub(super) struct Offering {
    pub(super) exports: Arc<Exports>,
    pub(super) certificates: Option<PathBuf>,
    pub(super) _server: Server,
    pub(super) _bound: Option<Bound>,
}

/// An export at one moment, for metrics.
pub(crate) struct ExportNow {
    pub(crate) name: String,
    pub(crate) clients: usize,
    pub(crate) meter: Arc<DeviceMeter>,
}

impl Exported {
    pub(super) fn set(&self, name: &str, is: Definition, state: State) {
        self.all.lock().insert(name.into(), Entry { is, state });
    }

    /// The exports offered at the place of this one. A server listens there from now on.
    pub(super) fn serve(&self, is: &Definition) -> Result<Arc<Exports>> {
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
