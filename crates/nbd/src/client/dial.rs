//! A connection with an export that can be used as a device.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use block::{DeviceAccess, Error, Result, SectorSizes};

use super::connect::connect;
use super::connection::{ClientConnection, reason};
use super::handshake::{NAME_MAX, RemoteParameters, negotiate};
use super::remote::Remote;
use crate::error::CloseCause;
use crate::wire::input::ReceiveBuffer;
use crate::wire::link::{PeerLink, PeerSocket};
use crate::wire::proto::can;

/// Sectors are no larger than this; nothing here is laid out for more.
const SECTOR_MAX: u32 = 4096;

pub(super) fn open_error<T>(remote: &Remote, opened: io::Result<T>) -> Result<T> {
    opened.map_err(|source| Error::Open {
        path: remote.name.clone(),
        source,
    })
}

/// Connects, and agrees with the server on the export.
pub(super) fn dial(remote: &Remote, access: DeviceAccess) -> io::Result<ClientConnection> {
    if remote.export.len() > NAME_MAX {
        let reason = "the name of the export is longer than 4096 bytes";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let end = Instant::now() + remote.patience.connect;
    let fd = connect(&remote.address, end)?;
    let left = end.saturating_duration_since(Instant::now());
    let mut link: Arc<dyn PeerLink> = Arc::new(PeerSocket::new(fd, left));
    let mut input = ReceiveBuffer::new();
    let agreed = negotiate(&mut link, &mut input, &remote.export, remote.tls.as_ref());
    let agreed = agreed.map_err(|gone| match &gone {
        CloseCause::Io(error) if error.kind() == io::ErrorKind::TimedOut => {
            let reason = "the server does not answer; it may have all the clients that it allows";
            io::Error::new(io::ErrorKind::TimedOut, reason)
        }
        _ => io::Error::other(reason(&gone)),
    })?;
    check(&agreed, access).map_err(io::Error::other)?;
    Ok(ClientConnection::new(
        link,
        input,
        agreed,
        remote.patience.answer,
    ))
}

/// Returns whether an export can be used.
fn check(agreed: &RemoteParameters, access: DeviceAccess) -> std::result::Result<(), String> {
    let sectors = sectors(agreed);
    if agreed.blocks.minimum > SECTOR_MAX {
        return Err(format!(
            "the server takes blocks of at least {} bytes only, and more than {SECTOR_MAX} are not supported",
            agreed.blocks.minimum
        ));
    }
    if i64::try_from(agreed.size).is_err() || size(agreed, sectors) == 0 {
        return Err(format!("an export of {} bytes cannot be used", agreed.size));
    }
    if access == DeviceAccess::ReadOnly {
        return Ok(());
    }
    if agreed.can(can::READ_ONLY) {
        return Err("the server offers the export read-only".into());
    }
    match agreed.can(can::FLUSH) || agreed.can(can::FUA) {
        true => Ok(()),
        false => Err(
            "the server cannot make writes durable: it has neither flush nor FUA; change its configuration".into(),
        ),
    }
}

pub(super) fn sectors(agreed: &RemoteParameters) -> SectorSizes {
    let logical = agreed.blocks.minimum.max(SectorSizes::COMMON.logical);
    SectorSizes {
        logical,
        physical: agreed
            .blocks
            .preferred
            .clamp(logical, SECTOR_MAX.max(logical)),
    }
}

/// The size in whole sectors.
pub(super) fn size(agreed: &RemoteParameters, sectors: SectorSizes) -> u64 {
    agreed.size - agreed.size % u64::from(sectors.logical)
}
