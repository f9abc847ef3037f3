//! Connections of commands that may take long, or wait for the user. The daemon can close them when their work has to
//! end.

use std::sync::Arc;
use std::time::Duration;

use admission::{ClientSource, ConnectionPlaces, NoPlace, Permit, PlaceLimits};
use protocol::api::FailureKind;

use crate::failure::{Failure, Result};
use crate::state::callers::channel::DataChannel;

/// After connections were closed, the longest wait for their commands to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The open connections.
pub(crate) struct Connections(Arc<ConnectionPlaces>);

impl Connections {
    /// A table for at most `max` connections at a time.
    pub(crate) fn new(max: usize) -> Connections {
        Connections(ConnectionPlaces::new(PlaceLimits::of_members(max)))
    }

    /// Counts a connection as long as what is returned exists.
    pub(crate) fn begin(&self, data: &Arc<dyn DataChannel>) -> Result<Permit> {
        let data = Arc::clone(data);
        // The limit is for all of them together. Users have theirs where they connect.
        let permit = self
            .0
            .enter(ClientSource::user(0), move || data.break_off());
        permit.map_err(|why| {
            let text = match why {
                NoPlace::Closed => "the pool or daemon is ending",
                _ => "too many commands run at the same time; try again",
            };
            Failure::new(FailureKind::Busy, text)
        })
    }

    /// Closes all connections, as if the callers had disconnected, and accepts no more. False if one of their commands
    /// still runs.
    pub(crate) fn break_off(&self) -> bool {
        self.0.close(PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn there_are_so_many_and_they_can_be_ended() {
        let connections = Connections::new(1);
        let (here, _there) = UnixStream::pair().unwrap();
        let here: Arc<dyn DataChannel> = Arc::new(here);
        let first = connections.begin(&here).unwrap();
        assert!(connections.begin(&here).is_err());
        drop(first);
        drop(connections.begin(&here).unwrap());
        assert!(connections.break_off());
        assert!(connections.begin(&here).is_err());
    }
}
