//! A site whose connections are served by threads of one process.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use admission::{ClientSource, ConnectionPlaces, Permit, PlaceLimit, PlaceLimits};
use protocol::api::CallerReport;
use rustix::event::PollFlags;

use crate::api::{ApiCaller, STREAM_COST, own_name};
use crate::http::{ClientStream, Problem};
use crate::serve::{SiteContext, Visitor, connection};

/// Connections at a time that have shown no token.
const STRANGERS: PlaceLimit = PlaceLimit {
    all: 128,
    site: 64,
    each: 32,
};
/// Connections at a time whose callers the daemon knows, and as many more of root.
const MEMBERS: PlaceLimit = PlaceLimit {
    all: 256,
    site: 32,
    each: 32,
};
/// Streams of events at a time, and of data: as many more of root.
const STREAMS: PlaceLimit = PlaceLimit {
    all: 64,
    site: 8,
    each: 8,
};
/// The time for a handshake, and to show a token or a cookie.
pub(super) const GREETING: Duration = Duration::from_secs(10);
/// A connection whose caller is known is kept so long without a request.
const IDLE: Duration = Duration::from_secs(60);

/// A site with the places of its connections and streams.
pub(super) struct ThreadedSite {
    site: SiteContext,
    pub(super) connections: Arc<ConnectionPlaces>,
    streams: Arc<ConnectionPlaces>,
    transfers: Arc<ConnectionPlaces>,
}

impl ThreadedSite {
    pub(super) fn new(site: SiteContext) -> ThreadedSite {
        ThreadedSite {
            site,
            connections: places(MEMBERS),
            streams: places(STREAMS),
            transfers: places(STREAMS),
        }
    }

    /// Serves a connection to its end. `client` is its descriptor, and the events by which its end shows.
    pub(super) fn serve<S: ClientStream>(
        &self,
        stream: &mut S,
        source: ClientSource,
        client: (Arc<OwnedFd>, PollFlags),
        permit: &Permit,
    ) -> io::Result<()> {
        let from = Visitor {
            source: Some(source),
            client,
            idle: &|| match permit.is_member() {
                true => IDLE,
                false => GREETING,
            },
            // Without a place the client is served, and gives way to others.
            admit: &|report| {
                let _ = permit.admit_as(source_of(report));
            },
            begin_stream: &|caller| Ok(Box::new(stream_place(&self.streams, caller)?)),
            begin_transfer: &|caller| {
                let place = stream_place(&self.transfers, caller)?;
                Ok(Box::new((place, caller.reserve(STREAM_COST)?)))
            },
        };
        connection(stream, &self.site, &from)
    }
}

fn places(members: PlaceLimit) -> Arc<ConnectionPlaces> {
    ConnectionPlaces::new(PlaceLimits {
        strangers: STRANGERS,
        members,
        reserved: members.all,
    })
}

/// A place for one more stream of a caller.
fn stream_place(places: &Arc<ConnectionPlaces>, caller: &ApiCaller) -> Result<Permit, Problem> {
    let place = places.enter(source_of(caller.known()?), || {});
    place.map_err(|_| Problem::TooMany("too many streams are open".into(), 10))
}

/// A caller, as the one that its places are counted for.
fn source_of(report: &CallerReport) -> ClientSource {
    let source = match (&report.zone, own_name(report)) {
        (Some(zone), _) => ClientSource::tenant(report.uid, zone),
        (None, Some(name)) => ClientSource::tenant(report.uid, &name),
        (None, None) => ClientSource::user(report.uid),
    };
    source.reserved(report.admin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_root_for_a_dataset_takes_no_places_of_others() {
        let report = |token: Option<&str>, apart| CallerReport {
            user: "root".into(),
            uid: 0,
            admin: false,
            zone: None,
            token: token.map(str::to_owned),
            expires: None,
            apart,
        };
        let source = |token, apart| source_of(&report(token, apart));
        assert_ne!(source(Some("1a"), true), source(Some("2b"), true));
        assert_ne!(source(Some("1a"), true), source(None, false));
        assert_eq!(source(Some("1a"), false), source(Some("2b"), false));
    }
}
