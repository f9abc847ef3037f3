//! The targets that a portal offers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::RwLock;

use crate::login::chap::{Chap, Decoy};
use crate::targets::target::IscsiTarget;
use crate::{Error, Result};

/// The other portals to which a login at a portal is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRedirect {
    /// `ADDRESS:PORT` of other portals. Logins get them in turn.
    pub to: Vec<String>,
    /// True if an initiator may use the other portal from now on, without asking here again.
    pub permanently: bool,
}

#[derive(Debug)]
struct PortalTarget {
    target: Arc<IscsiTarget>,
    moved: Option<LoginRedirect>,
    /// The number of logins that were sent to another portal.
    sent: AtomicUsize,
}

/// Targets by name, which a portal offers.
#[derive(Debug, Default)]
pub struct Targets(RwLock<BTreeMap<String, PortalTarget>>);

impl Targets {
    /// Adds a target.
    ///
    /// # Errors
    /// [`Error::Exists`]
    pub fn insert(&self, target: Arc<IscsiTarget>) -> Result<()> {
        self.insert_moved(target, None)
    }

    /// Adds a target whose initiators may be sent to another portal.
    ///
    /// # Errors
    /// [`Error::Exists`]
    pub fn insert_moved(
        &self,
        target: Arc<IscsiTarget>,
        moved: Option<LoginRedirect>,
    ) -> Result<()> {
        let mut all = self.0.write();
        let name = target.name().to_owned();
        if all.contains_key(&name) {
            return Err(Error::Exists { name });
        }
        let sent = AtomicUsize::new(0);
        let offer = PortalTarget {
            target,
            moved,
            sent,
        };
        all.insert(name, offer);
        Ok(())
    }

    /// Sends initiators of a target elsewhere from now on, or serves them here. Open sessions stay.
    pub fn set_moved(&self, target: &Arc<IscsiTarget>, moved: Option<LoginRedirect>) {
        let mut all = self.0.write();
        if let Some(offer) = all.get_mut(target.name())
            && Arc::ptr_eq(&offer.target, target)
        {
            offer.moved = moved;
        }
    }

    /// Removes a target. Returns when it has no more users.
    ///
    /// # Errors
    /// [`Error::NoSuchTarget`]; [`Error::InUse`] if there are sessions, or with `force` if one still does what
    /// it was asked for. Then it stays, but with `force` takes no more.
    pub fn remove(&self, name: &str, force: bool) -> Result<Arc<IscsiTarget>> {
        let target = self.find(name);
        let target = target.ok_or_else(|| Error::NoSuchTarget { name: name.into() })?;
        target.close(force)?;
        self.0.write().remove(name);
        Ok(target)
    }

    /// Removes this target, and no other of its name. It may be absent.
    ///
    /// # Errors
    /// As [`Targets::remove`].
    pub fn remove_this(&self, target: &Arc<IscsiTarget>, force: bool) -> Result<()> {
        if !self.has(target) {
            return Ok(());
        }
        target.close(force)?;
        self.take(target);
        Ok(())
    }

    /// Removes this target here, while other portals still show it. Its sessions stay.
    pub fn take(&self, target: &Arc<IscsiTarget>) {
        let mut all = self.0.write();
        if { all.get(target.name()) }.is_some_and(|it| Arc::ptr_eq(&it.target, target)) {
            all.remove(target.name());
        }
    }

    fn has(&self, target: &Arc<IscsiTarget>) -> bool {
        let found = self.find(target.name());
        found.is_some_and(|it| Arc::ptr_eq(&it, target))
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<Arc<IscsiTarget>> {
        let all = self.0.read();
        all.values().map(|it| Arc::clone(&it.target)).collect()
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<IscsiTarget>> {
        let all = self.0.read();
        all.get(name).map(|it| Arc::clone(&it.target))
    }

    /// Secrets that nobody knows, for logins to a target that the initiator may not see or that does not exist. `None` if
    /// no target here asks for a secret.
    pub(crate) fn decoy(&self) -> Option<Arc<dyn Chap>> {
        let all = self.0.read();
        let real = { all.values() }.find_map(|it| it.target.chap())?;
        Some(Arc::new(Decoy::new(real)))
    }

    /// Returns whether initiators of a target are sent to another portal.
    pub(crate) fn is_moved(&self, name: &str) -> bool {
        let all = self.0.read();
        all.get(name).is_some_and(|it| it.moved.is_some())
    }

    /// The portal to which the next initiator is sent that asked at the address `asked`, and whether for good. It is one
    /// of the same protocol, if there is one.
    pub(crate) fn elsewhere(&self, name: &str, asked: &str) -> Option<(String, bool)> {
        let all = self.0.read();
        let offer = all.get(name)?;
        let moved = offer.moved.as_ref()?;
        let is_v4 = |text: &str| text.parse::<SocketAddr>().is_ok_and(|it| it.is_ipv4());
        let near = |to: &&String| is_v4(to) == is_v4(asked);
        let mut to: Vec<&String> = moved.to.iter().filter(near).collect();
        if to.is_empty() {
            to = moved.to.iter().collect();
        }
        let turn = offer.sent.fetch_add(1, Relaxed);
        let to = to.get(turn % to.len().max(1))?;
        Some(((*to).clone(), moved.permanently))
    }
}
