//! The methods of the three services.

use std::os::unix::net::UnixListener;
use std::sync::Arc;

use prost::Message;
use protocol::api::Failure;

use crate::driver::{CsiDriver, DriverSettings};
use crate::grpc;
use crate::names::shown;
use crate::status::{GrpcCode, GrpcStatus, Result};

/// Serves the driver at a listener. Does not return but with a failure.
///
/// # Errors
/// If the listener cannot be used.
pub fn run(settings: DriverSettings, listener: UnixListener) -> std::result::Result<(), Failure> {
    let driver = CsiDriver::new(settings);
    let answers = move |method: &str, message: &[u8]| {
        let result = answer(&driver, method, message);
        if let Err(status) = &result {
            // Messages may hold secrets; reasons do not.
            eprintln!("strongroom: {}: {}", shown(method), status.message);
        }
        result
    };
    grpc::serve(&listener, Arc::new(answers))
        .map_err(|error| Failure::other(format!("the driver cannot be served: {error}")))
}

fn answer(driver: &CsiDriver, method: &str, message: &[u8]) -> Result<Vec<u8>> {
    /// A method, and what does it.
    macro_rules! methods {
        ($($service:literal { $($method:literal => $does:ident,)* })*) => {
            match method {
                $($(concat!("/csi.v1.", $service, "/", $method) => {
                    with(message, |request| driver.$does(&request))
                })*)*
                other => Err(GrpcStatus::new(
                    GrpcCode::Unimplemented,
                    format!("the driver has no method {}", shown(other)),
                )),
            }
        };
    }
    methods! {
        "Identity" {
            "GetPluginInfo" => plugin_info,
            "GetPluginCapabilities" => plugin_capabilities,
            "Probe" => probe,
        }
        "Controller" {
            "CreateVolume" => create_volume,
            "DeleteVolume" => delete_volume,
            "ValidateVolumeCapabilities" => validate_volume,
            "ListVolumes" => list_volumes,
            "GetCapacity" => capacity,
            "ControllerGetCapabilities" => controller_capabilities,
            "CreateSnapshot" => create_snapshot,
            "DeleteSnapshot" => delete_snapshot,
            "ListSnapshots" => list_snapshots,
            "ControllerExpandVolume" => expand_volume,
        }
        "Node" {
            "NodeStageVolume" => stage,
            "NodeUnstageVolume" => unstage,
            "NodePublishVolume" => publish,
            "NodeUnpublishVolume" => unpublish,
            "NodeGetVolumeStats" => volume_stats,
            "NodeExpandVolume" => expand_on_node,
            "NodeGetCapabilities" => node_capabilities,
            "NodeGetInfo" => node_info,
        }
    }
}

/// Takes a message apart, and makes one of the answer.
fn with<Q: Message + Default, A: Message>(
    message: &[u8],
    does: impl FnOnce(Q) -> Result<A>,
) -> Result<Vec<u8>> {
    let request = Q::decode(message)
        .map_err(|error| GrpcStatus::invalid(format!("the request is not understood: {error}")))?;
    Ok(does(request)?.encode_to_vec())
}
