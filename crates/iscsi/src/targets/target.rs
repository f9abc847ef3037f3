//! The offered devices, and their sessions.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::{Duration, Instant};

use block::BlockDevice;
use meter::{Histogram, Times};
use parking_lot::{Condvar, Mutex, RwLock};

use crate::login::chap::Chap;
use crate::scsi::reservation::Nexus;
use crate::scsi::unit::ScsiUnit;
use crate::targets::logical_unit::{
    LogicalUnit, LunView, PATIENCE, ReservedNow, check_name, reserved,
};
use crate::wire::link::InitiatorLink;
use crate::wire::output::{FAREWELL_SECONDS, ResponseSender};
use crate::{Error, Result};

/// The initiators that may use a target, and their rights.
#[derive(Clone, Debug, Default)]
pub struct TargetAccess {
    /// True if initiators cannot change the units.
    pub read_only: bool,
    /// The names of the initiators that may log in; all if there are none.
    pub initiators: Vec<String>,
    /// The secrets that they prove; if absent they prove nothing.
    pub chap: Option<Arc<dyn Chap>>,
}

/// Units under a name.
pub struct IscsiTarget {
    name: String,
    access: RwLock<TargetAccess>,
    views: RwLock<Views>,
    /// The number of changes of the views or the access.
    version: AtomicU64,
    /// `ADDRESS:PORT` of the portals at which it is offered.
    portals: RwLock<Vec<String>>,
    /// The durations of commands.
    pub(crate) latency: Histogram,
    /// Commands that were refused because another initiator has reserved a unit.
    pub(crate) conflicts: AtomicU64,
    sessions: Mutex<SessionTable>,
    left: Condvar,
}

type Views = Arc<[LunView]>;

#[derive(Default)]
struct SessionTable {
    next: u16,
    all: BTreeMap<u16, OpenSession>,
    is_closed: bool,
}

struct OpenSession {
    link: Arc<dyn InitiatorLink>,
    who: Who,
    /// The sender of responses, once the session is in use.
    output: Option<Arc<ResponseSender>>,
}

/// The identity of the initiator of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    /// The name of the initiator, in small letters.
    pub(crate) initiator: String,
    /// The number that the initiator gave the session.
    pub(crate) isid: [u8; 6],
    /// The user whose secret it has proved to know.
    pub(crate) user: Option<String>,
}

impl Who {
    fn nexus(&self) -> Nexus {
        Nexus {
            initiator: self.initiator.clone(),
            isid: self.isid,
        }
    }
}

/// The reason for which a session is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttachRefusal {
    /// The initiator may not see the target any more.
    Hidden,
    /// The login would end the session of another user.
    OfAnother,
    /// The target takes no more.
    Full,
}

/// A session, for people.
#[derive(Clone, Debug)]
pub struct SessionNow {
    /// The name of the initiator.
    pub initiator: String,
    /// The address of the initiator.
    pub address: String,
    /// The number of the session at its target.
    pub number: u16,
    /// True if the initiator has registered a key for persistent reservations.
    pub is_registered: bool,
}

/// The counters of the commands of a target.
#[derive(Clone, Debug)]
pub struct CommandCounts {
    /// Commands that have no answer yet.
    pub waiting: usize,
    /// Commands that were refused because another initiator has reserved the unit.
    pub conflicts: u64,
    /// The durations of commands, from the arrival of all their data.
    pub latency: Times,
}

impl IscsiTarget {
    /// A target for a device, with the number 0. `number` tells its unit from all others.
    ///
    /// # Errors
    /// As [`IscsiTarget::with_views`] and [`LogicalUnit::new`].
    pub fn new(
        name: &str,
        number: u64,
        device: Arc<dyn BlockDevice>,
        access: TargetAccess,
    ) -> Result<IscsiTarget> {
        let unit = LogicalUnit::new(name, number, device, access.read_only)?;
        let view = unit.view(0, None, access.read_only)?;
        IscsiTarget::with_views(name, access, vec![view])
    }

    /// A target that shows units. An initiator that two views show one number to sees the first of them.
    ///
    /// # Errors
    /// [`Error::Name`]
    pub fn with_views(
        name: &str,
        access: TargetAccess,
        views: Vec<LunView>,
    ) -> Result<IscsiTarget> {
        check_name(name)?;
        for initiator in &access.initiators {
            check_name(initiator)?;
        }
        Ok(IscsiTarget {
            name: name.into(),
            access: RwLock::new(access),
            views: RwLock::new(views.into()),
            version: AtomicU64::new(0),
            portals: RwLock::default(),
            latency: Histogram::default(),
            conflicts: AtomicU64::new(0),
            sessions: Mutex::default(),
            left: Condvar::new(),
        })
    }

    /// Shows other units from now on. Open sessions stay, and their initiators are told. A command for a unit that is
    /// not shown any more is carried out if it has begun.
    pub fn set_views(&self, views: Vec<LunView>) {
        *self.views.write() = views.into();
        self.version.fetch_add(1, Release);
    }

    /// The views, and which they are. One that is set at this moment has a later version.
    pub(crate) fn views(&self) -> (u64, Views) {
        let version = self.version();
        (version, Arc::clone(&self.views.read()))
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// The name of the target.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The sessions that it has.
    pub fn sessions(&self) -> Vec<SessionNow> {
        let (_, views) = self.views();
        let reservations: Vec<_> = views.iter().map(|it| it.unit.reservations()).collect();
        let sessions = self.sessions.lock();
        let now = sessions.all.iter().map(|(number, open)| SessionNow {
            initiator: open.who.initiator.clone(),
            address: open.link.peer(),
            number: *number,
            is_registered: { reservations.iter() }.any(|it| it.is_registered(&open.who.nexus())),
        });
        now.collect()
    }

    /// Returns the reservation of the first unit.
    pub fn reserved(&self) -> ReservedNow {
        let (_, views) = self.views();
        let first = views.iter().min_by_key(|view| view.lun);
        first.map_or_else(ReservedNow::default, |view| reserved(&view.unit))
    }

    /// Ends a session. False if there is none of this number.
    pub fn end_session(&self, number: u16) -> bool {
        let sessions = self.sessions.lock();
        let found = sessions.all.get(&number);
        found.inspect(|open| open.link.cut()).is_some()
    }

    /// A session is in use, and can be told something.
    pub(crate) fn can_be_told(&self, number: u16, output: &Arc<ResponseSender>) {
        if let Some(open) = self.sessions.lock().all.get_mut(&number) {
            open.output = Some(Arc::clone(output));
        }
    }

    /// Returns the counters of its commands.
    pub fn counts(&self) -> CommandCounts {
        let sessions = self.sessions.lock();
        let outputs = sessions.all.values().filter_map(|it| it.output.as_ref());
        CommandCounts {
            waiting: outputs.map(|it| it.waiting()).sum(),
            conflicts: self.conflicts.load(Relaxed),
            latency: self.latency.totals(),
        }
    }

    /// Discovery tells these portals, `ADDRESS:PORT`, besides the one that was asked.
    pub fn set_portals(&self, portals: Vec<String>) {
        *self.portals.write() = portals;
    }

    /// Returns the portals of the target for an initiator that asks at `asked`: that one first.
    pub(crate) fn portals(&self, asked: String) -> Vec<String> {
        let portals = self.portals.read();
        let others = portals.iter().filter(|portal| {
            let address: Option<SocketAddr> = portal.parse().ok();
            // All addresses of this host: which ones an initiator reaches is not known.
            **portal != asked && address.is_some_and(|it| !it.ip().is_unspecified())
        });
        let others: Vec<String> = others.cloned().collect();
        std::iter::once(asked).chain(others).collect()
    }

    /// Returns whether this initiator may log in.
    pub(crate) fn admits(&self, initiator: &str) -> bool {
        let may = &self.access.read().initiators;
        may.is_empty() || may.iter().any(|name| name.eq_ignore_ascii_case(initiator))
    }

    /// The secrets that initiators have to prove.
    pub(crate) fn chap(&self) -> Option<Arc<dyn Chap>> {
        self.access.read().chap.clone()
    }

    /// Lets others in from now on. Sessions of those that may not be here any more end. What units are read-only does
    /// not change: views say that.
    ///
    /// # Errors
    /// [`Error::Name`] if an initiator has no name of the protocol.
    pub fn set_access(&self, access: TargetAccess) -> Result<()> {
        for initiator in &access.initiators {
            check_name(initiator)?;
        }
        // A login that looked before sees in `attach` what is now.
        let sessions = self.sessions.lock();
        *self.access.write() = access;
        // Commands that wait look again.
        self.version.fetch_add(1, Release);
        let all = sessions.all.values();
        all.filter(|open| !self.keeps(&open.who))
            .for_each(|open| open.link.cut());
        Ok(())
    }

    /// Returns whether a session may stay.
    fn keeps(&self, who: &Who) -> bool {
        let has_proved = |chap: Arc<dyn Chap>| {
            let user = who.user.as_deref();
            user.is_some_and(|user| chap.has_user(user))
        };
        self.admits(&who.initiator) && self.chap().is_none_or(has_proved)
    }

    /// Counts a session for as long as what is returned exists. One that the same initiator had under this number of
    /// its own is ended first, if it was of the same user: an initiator can call itself what it likes.
    pub(crate) fn attach(
        self: &Arc<Self>,
        link: &Arc<dyn InitiatorLink>,
        who: Who,
    ) -> std::result::Result<TargetSession, AttachRefusal> {
        let mut sessions = self.sessions.lock();
        let is_same =
            |open: &OpenSession| (&open.who.initiator, open.who.isid) == (&who.initiator, who.isid);
        let mut olds = sessions.all.values().filter(|open| is_same(open));
        if !self.keeps(&who) {
            return Err(AttachRefusal::Hidden);
        }
        if olds.clone().any(|open| open.who.user != who.user) {
            return Err(AttachRefusal::OfAnother);
        }
        olds.by_ref().for_each(|open| open.link.cut());
        let some = |sessions: &mut SessionTable| sessions.all.values().any(is_same);
        self.left.wait_while_for(&mut sessions, some, PATIENCE);
        if sessions.is_closed || some(&mut sessions) {
            return Err(AttachRefusal::Full);
        }
        let numbers = (1..=u16::MAX).map(|n| sessions.next.wrapping_add(n));
        let number = { numbers }.find(|n| *n != 0 && !sessions.all.contains_key(n));
        let number = number.ok_or(AttachRefusal::Full)?;
        sessions.next = number;
        let open = OpenSession {
            link: Arc::clone(link),
            who: who.clone(),
            output: None,
        };
        sessions.all.insert(number, open);
        Ok(TargetSession {
            target: Arc::clone(self),
            number,
            nexus: who.nexus(),
            who,
        })
    }

    /// Ends the sessions of several targets beside each other, and takes no more: asks initiators to log out, waits a
    /// second, and does not wait longer than ten more for commands that have begun. Returns those that have not ended.
    pub fn end_sessions(targets: &[Arc<IscsiTarget>]) -> Vec<Error> {
        let begin = Instant::now();
        let mut asked = false;
        for target in targets {
            let mut sessions = target.sessions.lock();
            sessions.is_closed = true;
            asked |= ask_to_log_out(&sessions);
        }
        if asked {
            let end = begin + Duration::from_secs(FAREWELL_SECONDS.into());
            targets.iter().for_each(|target| target.await_end(end));
        }
        for target in targets {
            let sessions = target.sessions.lock();
            sessions.all.values().for_each(|open| open.link.cut());
        }
        let end = Instant::now() + PATIENCE;
        let left = targets.iter().filter_map(|target| {
            target.await_end(end);
            target.in_use()
        });
        left.collect()
    }

    /// Waits until it has no sessions, at most until then.
    fn await_end(&self, end: Instant) {
        let mut sessions = self.sessions.lock();
        let some = |sessions: &mut SessionTable| !sessions.all.is_empty();
        self.left.wait_while_until(&mut sessions, some, end);
    }

    fn in_use(&self) -> Option<Error> {
        let sessions = self.sessions.lock().all.len();
        let name = self.name.clone();
        (sessions > 0).then_some(Error::InUse { name, sessions })
    }

    /// Takes no more sessions, if there are none, or `force` ends them. Those that have not ended after a while
    /// are what it fails with.
    pub(crate) fn close(self: &Arc<Self>, force: bool) -> Result<()> {
        if force {
            let left = IscsiTarget::end_sessions(std::slice::from_ref(self));
            return left.into_iter().next().map_or(Ok(()), Err);
        }
        let mut sessions = self.sessions.lock();
        if !sessions.all.is_empty() {
            return Err(Error::InUse {
                name: self.name.clone(),
                sessions: sessions.all.len(),
            });
        }
        sessions.is_closed = true;
        Ok(())
    }
}

impl fmt::Debug for IscsiTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A session that uses a target.
pub(crate) struct TargetSession {
    pub(crate) target: Arc<IscsiTarget>,
    /// The number of the session at the target.
    pub(crate) number: u16,
    /// The initiator of the session.
    who: Who,
    /// The same, for units.
    pub(crate) nexus: Nexus,
}

impl TargetSession {
    /// Looks whether the initiator still sees a unit under a number, and whether for reading only. `None` if it does
    /// not, or may not use the target any more.
    pub(crate) fn view_now(&self, lun: u16, unit: &Arc<ScsiUnit>) -> Option<bool> {
        if !self.target.keeps(&self.who) {
            return None;
        }
        let (_, views) = self.target.views();
        let mut shown = views.iter().filter(|view| view.shows(&self.who.initiator));
        let first = shown.find(|view| view.lun == lun);
        let is_this = |view: &&LunView| Arc::ptr_eq(&view.unit, unit);
        first.filter(is_this).map(|view| view.read_only)
    }
}

impl Drop for TargetSession {
    fn drop(&mut self) {
        self.target.sessions.lock().all.remove(&self.number);
        self.target.left.notify_all();
    }
}

/// Asks the initiators to log out, each on a thread of its own: one that does not receive delays no other. False if
/// none could be asked.
fn ask_to_log_out(sessions: &SessionTable) -> bool {
    let outputs = sessions.all.values().filter_map(|it| it.output.clone());
    let ask = |output: Arc<ResponseSender>| {
        threads::start("iscsi-farewell", move || drop(output.ask_to_log_out())).is_ok()
    };
    outputs.map(ask).fold(false, |any, asked| any | asked)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::{Sender, channel};

    use block::MemoryDevice;

    use super::*;

    /// Says when it is cut.
    struct Cut(Mutex<Sender<()>>);

    impl InitiatorLink for Cut {
        fn receive(&self, _: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }

        fn send(&self, _: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn begin_session(&self, _: Duration) {}

        fn cut(&self) {
            self.0.lock().send(()).expect("it is heard");
        }

        fn portal(&self) -> String {
            String::new()
        }

        fn peer(&self) -> String {
            String::new()
        }
    }

    fn who(initiator: &str, user: &str) -> Who {
        Who {
            initiator: initiator.into(),
            isid: [1; 6],
            user: Some(user.into()),
        }
    }

    #[test]
    fn a_session_is_ended_by_its_own_user_only() {
        let device = Arc::new(MemoryDevice::new(1 << 20));
        let target = IscsiTarget::new("iqn.x:disk", 1, device, TargetAccess::default());
        let target = Arc::new(target.expect("a target"));
        let (cut, heard) = channel();
        let link: Arc<dyn InitiatorLink> = Arc::new(Cut(Mutex::new(cut)));
        let ann = target.attach(&link, who("iqn.x:ann", "ann"));
        let ann = ann.unwrap_or_else(|_| panic!("it is open"));

        // Calls itself as the initiator of another user.
        let taken = target.attach(&link, who("iqn.x:ann", "bob")).map(drop);
        assert_eq!(taken, Err(AttachRefusal::OfAnother));
        assert!(heard.try_recv().is_err());

        let ends = std::thread::spawn(move || {
            heard.recv().expect("it is cut");
            drop(ann);
        });
        let again = target.attach(&link, who("iqn.x:ann", "ann"));
        assert!(again.is_ok());
        ends.join().expect("no panic");
        assert_eq!(target.sessions().len(), 1);
    }
}
