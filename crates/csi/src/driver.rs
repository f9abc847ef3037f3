//! The settings of the driver, and the daemon that it works for.

use std::path::PathBuf;

use protocol::api::{Failure, FailureKind};

use crate::busy::Busy;
use crate::daemon::DaemonClient;
use crate::proto::Topology;

/// The usual name of the driver in a cluster.
pub const DRIVER_NAME: &str = "csi.strongroom";

/// The settings that the driver is started with.
pub struct DriverSettings {
    /// The socket of the daemon.
    pub daemon: PathBuf,
    /// The dataset whose children are the volumes.
    pub parent: String,
    /// The name of this machine in the cluster.
    pub node_id: String,
    /// The name of the driver in the cluster.
    pub driver_name: String,
    /// The directory that all paths of volumes are below.
    pub kubelet_dir: PathBuf,
    /// The directory in which the daemon mounts the datasets.
    pub mounts: PathBuf,
    /// True if the controller makes volumes larger, and not the nodes. It reaches only the volumes of this node.
    pub single_node: bool,
    /// The key sources that a storage class may name.
    pub key_sources: Vec<String>,
}

/// The driver.
pub(crate) struct CsiDriver {
    pub(crate) settings: DriverSettings,
    pub(crate) daemon: DaemonClient,
    pub(crate) busy: Busy,
}

impl CsiDriver {
    pub(crate) fn new(settings: DriverSettings) -> CsiDriver {
        let socket = settings.daemon.clone();
        CsiDriver {
            settings,
            daemon: DaemonClient { socket },
            busy: Busy::default(),
        }
    }

    /// The topology of the volumes: this machine only, because pools are local.
    pub(crate) fn topology(&self) -> Topology {
        let (key, node) = (self.topology_key(), self.settings.node_id.clone());
        Topology {
            segments: [(key, node)].into(),
        }
    }

    pub(crate) fn topology_key(&self) -> String {
        format!("{}/node", self.settings.driver_name)
    }
}

/// Checks that the parent of the volumes is a file system of an imported pool.
///
/// # Errors
/// [`FailureKind::NotFound`] if it is missing; [`FailureKind::Usage`] for a volume or snapshot; those of the daemon.
pub fn check_parent(settings: &DriverSettings) -> Result<(), Failure> {
    let daemon = DaemonClient {
        socket: settings.daemon.clone(),
    };
    let rows = daemon.get(&settings.parent, 0, &["type"])?;
    match rows.first() {
        Some(row) if row.kind == "filesystem" => Ok(()),
        _ => Err(Failure::new(
            FailureKind::Usage,
            format!(
                "'{}' is not a file system, so volumes cannot be made below it",
                settings.parent
            ),
        )),
    }
}
