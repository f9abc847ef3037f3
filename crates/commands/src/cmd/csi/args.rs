//! The CSI driver: serving it.

use std::path::PathBuf;

use clap::Args;

/// Serve volumes to Kubernetes and other clusters
///
/// A driver of the Container Storage Interface (CSI) for one node of a cluster. A volume is a dataset
/// below --parent: a file system, or a block device. It is encrypted as the parent is. Pools are local, so a volume
/// can be used on its node only, and each node runs a driver.
///
/// The driver is a client of the daemon of the node. If the driver ends, volumes stay mounted.
///
/// docs/CSI.md explains how to use it, and contrib/kubernetes has the files for a cluster.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  On a node, with the daemon of root:
    strongroom create -p -o encryption=on -o keysource=raw,file:///etc/keys/csi tank/csi
    strongroom csi --endpoint unix:///var/lib/kubelet/plugins/csi.strongroom/csi.sock \\
        --parent tank/csi --node-id node-1

EXIT CODES
  2 if the endpoint is malformed, or the parent is not a file system; 3 if the parent is missing;
  4 if the endpoint is served already; 6 if another user could replace the socket; 13 if the daemon
  cannot be reached.")]
pub(crate) struct Csi {
    /// The socket to listen at, as unix:///PATH; only its owner can connect
    #[arg(long, value_name = "URI", env = "CSI_ENDPOINT")]
    pub(crate) endpoint: String,
    /// The file system below which the volumes are made; it is for the driver alone
    #[arg(long, value_name = "DATASET")]
    pub(crate) parent: String,
    /// The name of this node in the cluster
    #[arg(long, value_name = "NAME")]
    pub(crate) node_id: String,
    /// The name of the driver in the cluster
    #[arg(long, value_name = "NAME", default_value = csi::DRIVER_NAME)]
    pub(crate) driver_name: String,
    /// The directory of the kubelet; volumes are mounted nowhere else
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/kubelet")]
    pub(crate) kubelet_dir: PathBuf,
    /// Directory where the daemon mounts the volumes; default: plugins/DRIVER/mounts in the directory of the kubelet
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) mounts: Option<PathBuf>,
    /// Let the controller make volumes larger, and not the nodes; only for a cluster of one node
    #[arg(long)]
    pub(crate) single_node: bool,
    /// A key source that a storage class may name, as raw,file:///etc/keys/shop; repeatable
    #[arg(long = "key-source", value_name = "SOURCE")]
    pub(crate) key_sources: Vec<String>,
}
