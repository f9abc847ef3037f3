//! The identity of the driver.

use crate::driver::CsiDriver;
use crate::proto::plugin_capability::{self, Service, VolumeExpansion, service, volume_expansion};
use crate::proto::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, PluginCapability, ProbeRequest, ProbeResponse,
};
use crate::status::Result;

impl CsiDriver {
    pub(crate) fn plugin_info(&self, _: &GetPluginInfoRequest) -> Result<GetPluginInfoResponse> {
        Ok(GetPluginInfoResponse {
            name: self.settings.driver_name.clone(),
            vendor_version: env!("CARGO_PKG_VERSION").into(),
            manifest: [].into(),
        })
    }

    pub(crate) fn plugin_capabilities(
        &self,
        _: &GetPluginCapabilitiesRequest,
    ) -> Result<GetPluginCapabilitiesResponse> {
        let of_service =
            |is: service::Type| plugin_capability::Type::Service(Service { r#type: is.into() });
        let online = VolumeExpansion {
            r#type: volume_expansion::Type::Online.into(),
        };
        let all = [
            of_service(service::Type::ControllerService),
            of_service(service::Type::VolumeAccessibilityConstraints),
            plugin_capability::Type::VolumeExpansion(online),
        ];
        let capabilities = all.map(|is| PluginCapability { r#type: Some(is) });
        Ok(GetPluginCapabilitiesResponse {
            capabilities: capabilities.into(),
        })
    }

    /// Returns ready if the daemon answers and has the parent of the volumes.
    pub(crate) fn probe(&self, _: &ProbeRequest) -> Result<ProbeResponse> {
        let found = self.daemon.get(&self.settings.parent, 0, &["type"]);
        found.map_err(|failure| self.no_parent(failure))?;
        Ok(ProbeResponse { ready: Some(true) })
    }
}
