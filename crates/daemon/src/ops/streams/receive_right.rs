//! The right to receive into one dataset. It is decided before the data of each stream, and again under the lock of the
//! pool, in the commit that makes the data visible. Meanwhile the caller or another user may have made, replaced or
//! changed the dataset, or lost the right.

use std::cell::{Cell, Ref, RefCell};
use std::collections::BTreeSet;

use protocol::api::FailureKind;

use crate::failure::{Failure, Result};
use crate::host::callers::scope::PeerToken;
use crate::host::callers::users::Peer;
use crate::state::callers::context::{CallerContext, forbidden};
use crate::state::callers::decision::{DatasetGuid, Decide};
use crate::state::pools::active_pool::ActivePool;
use crate::state::zones::view::ZoneView;

/// The properties that allow files to give their users more rights. They are off on received datasets.
pub(crate) const DANGEROUS: [&str; 2] = ["devices", "setuid"];

/// Decides whether a caller may receive into the dataset or snapshot of this name. The `bool` is true if this receive
/// has made the dataset: then the right to make it is enough.
pub(crate) type MayReceive<'a> = dyn Fn(&str, bool, &Peer) -> Result<()> + 'a;

/// The right of a caller to receive into one dataset.
pub(crate) struct ReceiveRight<'a> {
    active: &'a ActivePool,
    target: String,
    may: &'a MayReceive<'a>,
    peer: Peer,
    view: Option<&'a ZoneView>,
    decision: &'a dyn Decide,
    /// The guid of the dataset; `None` as long as it does not exist.
    head: Cell<Option<u64>>,
    /// True if this receive has made the dataset.
    is_own: Cell<bool>,
    /// The properties that the caller may not set, by the last decision.
    forbidden: RefCell<BTreeSet<&'static str>>,
}

impl<'a> ReceiveRight<'a> {
    /// Decides for the first time. `target` is a dataset, or a snapshot to receive.
    pub(crate) fn new<'c: 'a>(
        active: &'a ActivePool,
        target: &str,
        may: &'a MayReceive<'a>,
        context: &CallerContext<'c>,
    ) -> Result<ReceiveRight<'a>> {
        let right = ReceiveRight {
            active,
            target: target.into(),
            may,
            peer: context.peer.clone(),
            view: context.view,
            decision: context.decision,
            head: Cell::default(),
            is_own: Cell::default(),
            forbidden: RefCell::default(),
        };
        right.head.set(right.present_head());
        right.again()?;
        Ok(right)
    }

    /// The properties that the caller may not set on the dataset, by the last decision. A stream may not set them
    /// either.
    pub(crate) fn forbidden(&self) -> Ref<'_, BTreeSet<&'static str>> {
        self.forbidden.borrow()
    }

    /// Returns whether no key of this machine may seal what arrives.
    pub(crate) fn takes_only_sealed(&self) -> bool {
        let token = self.peer.token.as_ref();
        token.is_some_and(PeerToken::only_receives)
    }

    /// Returns whether the dataset did not exist before this receive, and does not yet.
    pub(crate) fn is_new(&self) -> bool {
        self.head.get().is_none()
    }

    /// Enters that a stream has made the dataset, or extended it. The caller holds the lock of the pool.
    pub(crate) fn has_received(&self) {
        if self.is_new() {
            self.head.set(self.present_head());
            self.is_own.set(true);
        }
    }

    fn dataset(&self) -> &str {
        let target = self.target.as_str();
        target
            .split_once('@')
            .map_or(target, |(dataset, _)| dataset)
    }

    fn present_head(&self) -> Option<u64> {
        let head = self.active.pool.find(self.dataset()).ok();
        head.map(|head| head.guid)
    }

    fn check_head(&self) -> Result<()> {
        let why = match (self.head.get(), self.present_head()) {
            (was, is) if was == is => return Ok(()),
            (None, _) => "was made",
            (Some(_), None) => "was destroyed or renamed",
            (Some(_), Some(_)) => "was replaced by another dataset",
        };
        Err(Failure::new(
            FailureKind::Busy,
            format!(
                "'{}' {why} while the stream came; nothing was changed, receive it again",
                self.dataset()
            ),
        ))
    }

    /// The properties that the caller may not set there. A received file may be owned by root and set-user-ID. So these
    /// properties stay off, unless the caller may set them.
    fn find_forbidden(&self) -> Result<BTreeSet<&'static str>> {
        let (active, dataset) = (self.active, self.dataset());
        let of = |entry: &pool::Entry| forbidden(&self.peer, self.view, active, entry);
        let above = || -> Result<_> {
            let (above, _) = dataset.rsplit_once('/').unwrap_or((dataset, ""));
            of(&*active.pool.find(above)?)
        };
        let Ok(head) = active.pool.find(dataset) else {
            return above();
        };
        let forbidden = match self.is_own.get() {
            true => above()?,
            false => of(&head)?,
        };
        let is_off = |name: &str| head.props.get(name).is_some_and(|value| value == "off");
        let mut dangerous = DANGEROUS.iter();
        match dangerous.find(|name| forbidden.contains(*name) && !is_off(name)) {
            None => Ok(forbidden),
            Some(name) => Err(Failure::new(
                FailureKind::Permission,
                format!(
                    "'{dataset}': a stream may hold programs and devices that only root can make; ask root to set \
                     {name}=off there, or to give you the permission '{name}'"
                ),
            )),
        }
    }
}

impl Decide for ReceiveRight<'_> {
    fn again(&self) -> Result<()> {
        match self.view {
            // The rules of a zone are for the names and properties of the command, and the dataset may be made by now.
            Some(_) if !self.is_own.get() => self.decision.again()?,
            _ => self.decision.check_caller()?,
        }
        self.check_head()?;
        if self.view.is_none() {
            (self.may)(&self.target, self.is_own.get(), &self.peer)?;
        }
        *self.forbidden.borrow_mut() = self.find_forbidden()?;
        Ok(())
    }

    fn check_caller(&self) -> Result<()> {
        self.decision.check_caller()
    }

    fn covers(&self, _: DatasetGuid, _: &str) -> Result<()> {
        Ok(())
    }
}
