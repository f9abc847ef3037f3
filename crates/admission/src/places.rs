//! The table of connections: who has a place, and who gives way.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::source::ClientSource;

/// In a crowd a source may have this part of its usual number of places.
const CROWD: usize = 8;

/// The largest numbers of connections at a time.
#[derive(Clone, Copy, Debug)]
pub struct PlaceLimit {
    /// The limit of all sources.
    pub all: usize,
    /// The limit of a /48 network of IPv6.
    pub site: usize,
    /// The limit of each source.
    pub each: usize,
}

/// The limits of a table.
#[derive(Clone, Copy, Debug)]
pub struct PlaceLimits {
    /// The limits of clients that are not authenticated. Those with reserved places have as many again.
    pub strangers: PlaceLimit,
    /// The limits of authenticated clients.
    pub members: PlaceLimit,
    /// The largest number of authenticated clients with reserved places.
    pub reserved: usize,
}

impl PlaceLimits {
    /// Limits that count members only, of all sources.
    pub fn of_members(all: usize) -> PlaceLimits {
        let limit = PlaceLimit {
            all,
            site: usize::MAX,
            each: usize::MAX,
        };
        PlaceLimits {
            strangers: limit,
            members: limit,
            reserved: all,
        }
    }
}

/// The reason why a client does not become a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// The source of the client has too many places already.
    OfSource,
    /// All sources together have too many.
    OfAll,
    /// The client had to give way, or the table is closed.
    Closed,
}

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoPlace::OfSource => "this user or address has too many connections; close one",
            NoPlace::OfAll => "there are too many connections; try again",
            NoPlace::Closed => "the connection was closed to accept another, or the server ends",
        })
    }
}

/// The connections of a server.
pub struct ConnectionPlaces {
    table: Mutex<PlaceTable>,
    left: Condvar,
    limits: PlaceLimits,
}

/// Ends a connection: its thread notices that soon.
type ConnectionCut = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct PlaceTable {
    /// Numbers grow, so that the first is the oldest.
    next: u64,
    taken: BTreeMap<u64, PlaceHolder>,
    is_closed: bool,
}

struct PlaceHolder {
    source: ClientSource,
    is_member: bool,
    cut: ConnectionCut,
}

/// The place of a connection. It is free again when this is dropped.
pub struct Permit {
    places: Arc<ConnectionPlaces>,
    number: u64,
}

impl ConnectionPlaces {
    /// An empty table.
    pub fn new(limits: PlaceLimits) -> Arc<ConnectionPlaces> {
        Arc::new(ConnectionPlaces {
            table: Mutex::default(),
            left: Condvar::new(),
            limits,
        })
    }

    /// A place for a stranger. If there is none, another stranger gives way: it is cut.
    pub fn greet(
        self: &Arc<Self>,
        source: ClientSource,
        cut: impl Fn() + Send + Sync + 'static,
    ) -> Permit {
        let mut table = self.table.lock();
        let mut cuts = Vec::new();
        while let Some(number) = table.gives_way(&source, &self.limits.strangers) {
            cuts.extend(table.taken.remove(&number).map(|holder| holder.cut));
        }
        let cut: ConnectionCut = Arc::new(cut);
        if table.is_closed {
            cuts.push(Arc::clone(&cut));
        }
        let number = table.insert(source, false, cut);
        drop(table);
        cuts.iter().for_each(|cut| cut());
        let places = Arc::clone(self);
        Permit { places, number }
    }

    /// A place for a client that is authenticated already.
    ///
    /// # Errors
    /// There is none.
    pub fn enter(
        self: &Arc<Self>,
        source: ClientSource,
        cut: impl Fn() + Send + Sync + 'static,
    ) -> Result<Permit, NoPlace> {
        let mut table = self.table.lock();
        table.check_member(&source, None, &self.limits)?;
        let number = table.insert(source, true, Arc::new(cut));
        let places = Arc::clone(self);
        Ok(Permit { places, number })
    }

    /// Cuts all connections, and admits no more. Waits for their end. False if one is still there after `patience`.
    pub fn close(&self, patience: Duration) -> bool {
        let mut table = self.table.lock();
        table.is_closed = true;
        for cut in table.cuts(|_| true) {
            cut();
        }
        let some = |table: &mut PlaceTable| !table.taken.is_empty();
        self.left.wait_while_for(&mut table, some, patience);
        table.taken.is_empty()
    }

    /// Cuts all strangers, and admits no more connections.
    pub fn close_to_strangers(&self) {
        let mut table = self.table.lock();
        table.is_closed = true;
        for cut in table.cuts(|holder| !holder.is_member) {
            cut();
        }
    }
}

impl PlaceTable {
    fn insert(&mut self, source: ClientSource, is_member: bool, cut: ConnectionCut) -> u64 {
        self.next += 1;
        let holder = PlaceHolder {
            source,
            is_member,
            cut,
        };
        self.taken.insert(self.next, holder);
        self.next
    }

    fn cuts(&self, of: impl Fn(&PlaceHolder) -> bool) -> Vec<ConnectionCut> {
        let holders = self.taken.values().filter(|holder| of(holder));
        holders.map(|holder| Arc::clone(&holder.cut)).collect()
    }

    /// The stranger that gives way to one more of this source.
    fn gives_way(&self, source: &ClientSource, limit: &PlaceLimit) -> Option<u64> {
        let strangers = || {
            let own = { self.taken.iter() }
                .filter(|(_, holder)| holder.source.is_reserved() == source.is_reserved());
            own.filter(|(_, holder)| !holder.is_member)
        };
        let of_source = || strangers().filter(|(_, holder)| holder.source == *source);
        let site = source.site();
        let of_site = || strangers().filter(|(_, holder)| holder.source.site() == site);
        let oldest = if of_source().count() >= limit.each {
            of_source().next()
        } else if of_site().count() >= limit.site {
            of_site().next()
        } else if strangers().count() >= limit.all {
            return oldest_of_most(strangers());
        } else {
            None
        };
        oldest.map(|(number, _)| *number)
    }

    /// Checks that one more of this source may be a member. The one of this number does not count.
    fn check_member(
        &self,
        source: &ClientSource,
        except: Option<u64>,
        limits: &PlaceLimits,
    ) -> Result<(), NoPlace> {
        if self.is_closed {
            return Err(NoPlace::Closed);
        }
        let members = || {
            let others = { self.taken.iter() }.filter(|(number, _)| Some(**number) != except);
            let sources = others.filter(|(_, holder)| holder.is_member);
            let sources = sources.map(|(_, holder)| &holder.source);
            sources.filter(|other| other.is_reserved() == source.is_reserved())
        };
        let all = members().count();
        let limit = &limits.members;
        let all_max = match source.is_reserved() {
            true => limits.reserved,
            false => limit.all,
        };
        if all >= all_max {
            return Err(NoPlace::OfAll);
        }
        if source.is_reserved() {
            return Ok(());
        }
        let most = |usual: usize| match all >= all_max / 2 {
            true => usual.div_ceil(CROWD),
            false => usual,
        };
        let of_source = members().filter(|other| *other == source).count();
        let site = source.site();
        let of_site = members().filter(|other| other.site() == site).count();
        match of_source >= most(limit.each) || of_site >= most(limit.site) {
            true => Err(NoPlace::OfSource),
            false => Ok(()),
        }
    }
}

/// The oldest connection of the site that has the most; of several such, the oldest of all.
fn oldest_of_most<'a>(strangers: impl Iterator<Item = (&'a u64, &'a PlaceHolder)>) -> Option<u64> {
    let mut sites: HashMap<ClientSource, (usize, u64)> = HashMap::new();
    for (number, holder) in strangers {
        sites.entry(holder.source.site()).or_insert((0, *number)).0 += 1;
    }
    let most = |(count, oldest): &(usize, u64)| (*count, std::cmp::Reverse(*oldest));
    sites
        .into_values()
        .max_by_key(most)
        .map(|(_, oldest)| oldest)
}

impl Permit {
    /// Makes the client a member.
    ///
    /// # Errors
    /// There is no place. The client stays a stranger.
    pub fn admit(&self) -> Result<(), NoPlace> {
        self.change(None)
    }

    /// Makes the client a member of another source: it has shown which user it is.
    ///
    /// # Errors
    /// As [`Permit::admit`].
    pub fn admit_as(&self, source: ClientSource) -> Result<(), NoPlace> {
        self.change(Some(source))
    }

    fn change(&self, to: Option<ClientSource>) -> Result<(), NoPlace> {
        let mut table = self.places.table.lock();
        let holder = table.taken.get(&self.number).ok_or(NoPlace::Closed)?;
        let to = to.unwrap_or_else(|| holder.source.clone());
        if holder.is_member && holder.source == to {
            return Ok(());
        }
        table.check_member(&to, Some(self.number), &self.places.limits)?;
        if let Some(holder) = table.taken.get_mut(&self.number) {
            (holder.source, holder.is_member) = (to, true);
        }
        Ok(())
    }

    /// Returns whether the client still has its place.
    pub fn is_valid(&self) -> bool {
        self.places.table.lock().taken.contains_key(&self.number)
    }

    /// Returns whether the client is a member.
    pub fn is_member(&self) -> bool {
        let table = self.places.table.lock();
        table
            .taken
            .get(&self.number)
            .is_some_and(|holder| holder.is_member)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.places.table.lock().taken.remove(&self.number);
        self.places.left.notify_all();
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
