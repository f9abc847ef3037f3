//! Shows headers.

use cipher::SystemRandom;
use console::outcome::{Outcome, Result};
use console::session::Session;
use console::show::json;
use luks::Header;
use protocol::api::{DeviceUse, Failure, FailureKind};

use super::device::{device, look, open};
use super::format;
use crate::cmd::luks::args::{LuksDump, LuksIsLuks, LuksUuid};

pub(super) fn dump(args: &LuksDump, session: &Session) -> Result {
    let container = look(&args.container, session)?;
    Ok(Outcome::text(match session.json {
        true => json::show(&container.dump_json()),
        false => container.dump(),
    }))
}

pub(super) fn uuid(args: &LuksUuid, session: &Session) -> Result {
    let changes = [&args.uuid, &args.label, &args.subsystem];
    if changes.iter().all(|change| change.is_none()) {
        let container = look(&args.container, session)?;
        return Ok(Outcome::text(format!("{}\n", container.uuid())));
    }
    let uuid = args.uuid.as_deref().map(format::parse_uuid).transpose()?;
    let (label, subsystem) = (args.label.as_deref(), args.subsystem.as_deref());
    let mut container = open(&args.container, DeviceUse::ChangeHeader, session)?;
    container.rename(uuid.as_deref(), label, subsystem, &SystemRandom)?;
    Ok(Outcome::done())
}

pub(super) fn is_luks(args: &LuksIsLuks, session: &Session) -> Result {
    let device = device(args.container.header_device(), DeviceUse::Look, session)?;
    let version = match Header::read(&*device) {
        Ok(Header::V1(_)) => Some(luks::ContainerVersion::V1),
        Ok(Header::V2(_)) => Some(luks::ContainerVersion::V2),
        Err(luks::Error::Damaged { .. } | luks::Error::TooSmall { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    match (args.version, version) {
        (Some(wanted), Some(found)) if wanted.version() != found => Err(Failure::new(
            FailureKind::NotFound,
            format!("{} is a container of {found}", device.name()),
        )),
        _ => Ok(Outcome::done()),
    }
}
