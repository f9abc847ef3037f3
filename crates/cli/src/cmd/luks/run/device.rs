//! The device that a header is on.

use std::path::Path;
use std::sync::Arc;

use block::{Access, BlockDevice, FileDevice};
use cipher::SystemRandom;
use luks::Container;
use protocol::api::{Borrowing, FailureKind};

use super::remote_device::Borrowed;
use crate::cmd::luks::args::LuksContainer;
use crate::outcome::LocalResult as Result;
use crate::session::{Session, absolute, is_volume};

/// A device with a header, or for one. A volume is borrowed from the daemon, and so is what the daemon has
/// open, if that can be.
pub(super) fn device(
    path: &Path,
    how: Borrowing,
    session: &Session,
) -> Result<Arc<dyn BlockDevice>> {
    if is_volume(path) {
        return Ok(Arc::new(Borrowed(session.borrow(path, how)?)));
    }
    let access = match how {
        Borrowing::Look => Access::ReadOnly,
        Borrowing::ChangeHeader | Borrowing::Own => Access::Exclusive,
    };
    let busy = match FileDevice::open(path, access) {
        Err(error @ block::Error::Busy { .. }) => error,
        opened => return Ok(Arc::new(opened?)),
    };
    match session.borrow_running(&absolute(path)?, how) {
        Ok(device) => Ok(Arc::new(Borrowed(device))),
        Err(failure) if failure.kind == FailureKind::Busy => Err(failure.into()),
        // It is not the daemon that has it.
        Err(_) => Err(busy.into()),
    }
}

/// The header, to look at.
pub(super) fn look(container: &LuksContainer, session: &Session) -> Result<Container> {
    let header = device(container.header_device(), Borrowing::Look, session)?;
    Ok(Container::look(header)?)
}

/// The header, to change.
pub(super) fn open(
    container: &LuksContainer,
    how: Borrowing,
    session: &Session,
) -> Result<Container> {
    let header = device(container.header_device(), how, session)?;
    let container = Container::open(header, &SystemRandom)?;
    // Before passphrases are asked for in vain.
    container.check_writable()?;
    Ok(container)
}
