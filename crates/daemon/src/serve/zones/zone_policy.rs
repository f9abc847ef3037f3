//! The rules for tenants. `Serve::admit` of each command (`serve::commands`) applies them, and translates the
//! tenant's names into the daemon's.
//!
//! - All datasets that a command names, destroys or moves are inside the zone.
//! - The root keeps its name and kind. Datasets that the profile of the zone fixes do not change at all.
//! - A tenant can use the key that the root has or inherits, but cannot load or change it. A data key under this key is
//!   never wrapped with a key of the tenant, because the tenant could then read it.
//! - For a tenant the daemon reads no file and runs no program. It mounts only at places that follow from settings of
//!   the global zone.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use keys::{KeySource, Location};
use pool::{Entry, Reach};
use protocol::api::{FailureKind, Props, SendScope};

use crate::failure::{Failure, Result};
use crate::ops::streams::piece::StreamPiece;
use crate::serve::authorize::{below, dataset_of};
use crate::state::callers::decision::DatasetGuid;
use crate::state::pools::active_pool::ActivePool;

use crate::state::zones::rules::{denied, may_set};
use crate::state::zones::view::ZoneView;
use crate::state::zones::zone::{NameGuard, Zone};

/// The longest time that a command waits for others of its zone.
const PATIENCE: Duration = Duration::from_secs(5);

/// The effect of a command on names and keys in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameEffect {
    /// The command does not depend on names and keys.
    AsItIs,
    /// Names and keys must stay the same until the command ends.
    Shared,
    /// The command changes names or keys, and runs alone.
    Alone,
}

impl Zone {
    /// Locks the names in a zone for a command, from the decision until its end.
    pub(crate) fn guard_names(&self, names: NameEffect) -> Result<NameGuard<'_>> {
        let found = match names {
            NameEffect::AsItIs => return Ok(NameGuard::AsItIs),
            NameEffect::Shared => {
                let shared = self.names.try_read_for(PATIENCE);
                shared.map(NameGuard::Shared)
            }
            NameEffect::Alone => {
                let alone = self.names.try_write_for(PATIENCE);
                alone.map(NameGuard::Alone)
            }
        };
        found.ok_or_else(|| {
            Failure::new(
                FailureKind::Busy,
                "another command of this zone has not ended, and may wait for a key to be typed; \
                 end it, or try again",
            )
        })
    }
}

impl ZoneView {
    /// Translates a name of the zone into the daemon's.
    pub(in crate::serve) fn translate_name(&self, name: &mut String) -> Result<()> {
        *name = self.inward(name)?;
        Ok(())
    }

    pub(in crate::serve) fn translate_names(&self, names: &mut [String]) -> Result<()> {
        let mut names = names.iter_mut();
        names.try_for_each(|name| self.translate_name(name))
    }

    /// Translates the name of a dataset to change. Refuses datasets that the profile fixes.
    pub(in crate::serve) fn change(&self, name: &mut String) -> Result<()> {
        self.translate_name(name)?;
        self.may_change(name)
    }

    fn may_change(&self, name: &str) -> Result<()> {
        match self.is_fixed(name) {
            true => Err(self.fixed(name)),
            false => Ok(()),
        }
    }

    pub(in crate::serve) fn change_all(&self, names: &mut [String]) -> Result<()> {
        names.iter_mut().try_for_each(|name| self.change(name))
    }

    /// Translates the name of a new dataset. Refuses the root of the zone, and names that the profile fixes.
    pub(in crate::serve) fn new_name(&self, name: &mut String) -> Result<()> {
        self.translate_name(name)?;
        match self.is_roots(name) {
            true => Err(denied("the root of a zone is there already, and stays")),
            false => self.may_change(name),
        }
    }

    /// Returns whether a name of the daemon is that of the root, or of a snapshot of the root.
    fn is_roots(&self, name: &str) -> bool {
        self.outward(dataset_of(name)).as_ref() == Some(&self.alias)
    }

    fn fixed(&self, name: &str) -> Failure {
        denied(&format!(
            "the profile '{}' of this zone fixes '{}'; only the global zone can change it",
            self.profile.name(),
            self.outward(dataset_of(name)).unwrap_or_default(),
        ))
    }

    fn find(&self, name: &str) -> Result<Arc<Entry>> {
        let found = self.active.pool.find(name);
        found.map_err(|_| self.absent(&self.outward(name).unwrap_or_default()))
    }

    /// Returns whether an entry is the root, or below it, or a snapshot of one of these.
    fn is_inside(&self, entry: &Entry) -> Result<bool> {
        let (mut id, mut parent) = (entry.id, entry.parent);
        loop {
            if id == self.root.id {
                return Ok(true);
            }
            if parent == 0 {
                return Ok(false);
            }
            let above = self.active.pool.entry(parent)?;
            (id, parent) = (above.id, above.parent);
        }
    }

    pub(in crate::serve) fn has(&self, dataset: DatasetGuid) -> Result<bool> {
        let heads = self.active.heads_below(&self.root)?;
        let pool = self.active.pool.guid();
        Ok(heads.iter().any(|head| (pool, head.guid) == dataset))
    }

    /// Returns whether the tenant gave the key of a dataset: its key root is below the root of the zone. True for a
    /// clear dataset.
    fn has_own_key(&self, entry: &Entry) -> Result<bool> {
        let root = self.active.key_root(entry)?;
        if root == 0 {
            return Ok(true);
        }
        let is_global = root == self.root.id;
        Ok(!is_global && self.is_inside(&*self.active.pool.entry(root)?)?)
    }

    /// Refuses a dataset whose key the tenant did not give.
    pub(crate) fn own_key(&self, entry: &Entry) -> Result<()> {
        match self.has_own_key(entry)? {
            true => Ok(()),
            false => Err(denied(
                "the key is inherited from the global zone, which alone loads, changes and hands it out",
            )),
        }
    }

    /// Checks and completes the properties of a new dataset.
    pub(in crate::serve) fn new_props(&self, name: &str, props: &mut Props) -> Result<()> {
        let fixed = ["encryption", "keysource", "volblocksize"];
        let (at_creation, others): (Vec<_>, Vec<_>) = props
            .iter()
            .cloned()
            .partition(|(name, _)| fixed.contains(&name.as_str()));
        self.props(name, &others)?;
        let sources = at_creation.iter().filter(|(name, _)| name == "keysource");
        for (_, source) in sources {
            check_source(Some(source), None)?;
        }
        let given: HashSet<String> = props.iter().map(|(name, _)| name.clone()).collect();
        let own = self.props_of_new(name).into_iter();
        props.extend(own.filter(|(name, _)| !given.contains(name)));
        Ok(())
    }

    pub(in crate::serve) fn props(&self, name: &str, props: &Props) -> Result<()> {
        let mut props = props.iter();
        props.try_for_each(|(property, _)| self.property(name, property))
    }

    pub(in crate::serve) fn property(&self, name: &str, property: &str) -> Result<()> {
        if may_set(property, self.is_roots(name)) {
            return Ok(());
        }
        // A value that no property has is told by who sets it.
        Err(denied(&format!(
            "'{property}' is not for a tenant to set there; it is for the global zone"
        )))
    }

    pub(in crate::serve) fn destroy(&self, name: &mut String, reach: Reach) -> Result<()> {
        self.change(name)?;
        if self.is_roots(name) && !name.contains('@') {
            return Err(denied("the root of a zone stays; destroy what is in it"));
        }
        // One that is outside could come to be before this is carried out.
        match reach {
            Reach::Clones => Err(denied("destroy the clones one by one, without -R")),
            _ => Ok(()),
        }
    }

    /// Checks a rollback: as [`ZoneView::destroy`], of the clones of later snapshots.
    pub(in crate::serve) fn rollback(&self, name: &mut String, clones: bool) -> Result<()> {
        self.change(name)?;
        match clones {
            true => Err(denied("destroy the clones one by one, without -R")),
            false => Ok(()),
        }
    }

    /// Checks a clone. It has the data keys of its origin. If a key of the global zone wraps these, it must wrap those
    /// of the clone too.
    pub(in crate::serve) fn clone(
        &self,
        snapshot: &str,
        name: &str,
        props: &Props,
        parents: bool,
    ) -> Result<()> {
        if parents {
            return Err(denied("make the datasets one by one, without -p"));
        }
        let origin = self.find(snapshot)?;
        if self.has_own_key(&origin)? {
            return Ok(());
        }
        let (above, _) = name.rsplit_once('/').unwrap_or((name, ""));
        let above = self.find(above)?;
        let has_source = props.iter().any(|(name, _)| name == "keysource");
        match has_source || above.suite == 0 || self.has_own_key(&above)? {
            false => Ok(()),
            true => Err(denied(
                "the data keys of the origin are wrapped by a key of the global zone, and so are those of \
                 its clones: clone it where that key is inherited, without a keysource",
            )),
        }
    }

    /// Checks a promotion. The snapshots that the clone takes over belong to another dataset.
    pub(in crate::serve) fn promote(&self, name: &mut String) -> Result<()> {
        self.change(name)?;
        let clone = self.find(name)?;
        let Ok(origin) = self.active.pool.entry(clone.origin) else {
            // It says itself that it is no clone.
            return Ok(());
        };
        if clone.id == self.root.id || !self.is_inside(&origin)? {
            return Err(denied("its origin is not in this zone"));
        }
        self.may_change(&self.active.pool.name_of(origin.id)?)?;
        // It takes the data keys that these need with it.
        match self.has_own_key(&origin)? == self.has_own_key(&clone)? {
            true => Ok(()),
            false => self.own_key(&origin),
        }
    }

    pub(in crate::serve) fn send(&self, what: &mut SendScope) -> Result<()> {
        let (name, from) = match what {
            SendScope::Snapshot { name, from, .. } => (name, from),
            SendScope::Rest { of: None, .. } => return Ok(()),
            SendScope::Rest { of: Some(name), .. } => return self.translate_name(name),
        };
        self.translate_name(name)?;
        match from.as_mut().filter(|from| !from.starts_with(['@', '#'])) {
            Some(from) => self.translate_name(from),
            None => Ok(()),
        }
    }

    /// Refuses to send a dataset outside of the zone, or one with wrapped keys that are not the tenant's, because the
    /// stream contains them.
    pub(crate) fn may_send(&self, active: &Arc<ActivePool>, pieces: &[StreamPiece]) -> Result<()> {
        for piece in pieces {
            for id in [Some(piece.to), piece.from].into_iter().flatten() {
                let entry = active.pool.entry(id)?;
                if !Arc::ptr_eq(active, &self.active) || !self.is_inside(&entry)? {
                    return Err(self.absent("what the token names"));
                }
                self.own_key(&entry)?;
            }
            if let Some(mark) = &piece.mark
                && !self.is_inside(&*active.pool.entry(mark.dataset)?)?
            {
                return Err(self.absent("what the token names"));
            }
        }
        Ok(())
    }

    /// Checks a receive. Properties in the stream are accepted only if the tenant may set them
    /// ([`crate::state::callers::context::CallerContext::forbidden`]). A tenant cannot keep a partial receive: it would count against
    /// the quotas of the global zone, and its token would show the origin.
    pub(in crate::serve) fn receive(
        &self,
        target: &mut String,
        resumable: bool,
        props: &mut Props,
    ) -> Result<()> {
        if resumable {
            return Err(denied(
                "in a zone nothing is kept of a receive that is interrupted; leave out -s",
            ));
        }
        self.change(target)?;
        let dataset = dataset_of(target);
        match self.active.pool.find(dataset) {
            Ok(_) => self.props(dataset, props),
            Err(_) => self.new_props(dataset, props),
        }
    }

    pub(in crate::serve) fn rename(
        &self,
        from: &mut String,
        to: &mut String,
        parents: bool,
    ) -> Result<()> {
        self.change(from)?;
        if parents {
            return Err(denied("make the datasets one by one, without -p"));
        }
        let is_snapshot = from.contains('@');
        if self.is_roots(from) && !is_snapshot {
            return Err(denied("the root of a zone keeps its name"));
        }
        match is_snapshot {
            true if to.starts_with('@') => Ok(()),
            true => self.change(to),
            false => self.new_name(to),
        }
    }

    /// Checks a mount at the place in the properties. A key is loaded only if it is the tenant's.
    pub(in crate::serve) fn mount(&self, name: &mut String, load_keys: bool) -> Result<()> {
        self.translate_name(name)?;
        let entry = self.find(name)?;
        match load_keys && !self.active.has_key(self.active.key_root(&entry)?) {
            true => self.own_key(&entry),
            false => Ok(()),
        }
    }

    /// The names of all datasets in the zone that are encrypted.
    pub(in crate::serve) fn encrypted(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for head in self.active.heads_below(&self.root)? {
            if head.suite != 0 {
                names.push(self.active.pool.name_of(head.id)?);
            }
        }
        Ok(names)
    }

    /// Checks several datasets: their keys must be the tenant's.
    pub(in crate::serve) fn all_own_keys(
        &self,
        names: &mut [String],
        recursive: bool,
    ) -> Result<()> {
        if names.is_empty() {
            return Err(denied("name the datasets whose keys this is about"));
        }
        let mut done = HashSet::new();
        for name in names {
            self.translate_name(name)?;
            let entry = self.find(name)?;
            if done.contains(&entry.id) {
                continue;
            }
            self.own_key(&entry)?;
            for head in below(&self.active, &entry, recursive)? {
                if done.insert(head.id) {
                    self.own_key(&head)?;
                }
            }
        }
        Ok(())
    }

    /// Checks changing the key of a dataset to one from this source.
    pub(in crate::serve) fn change_key(
        &self,
        name: &mut String,
        source: Option<&str>,
    ) -> Result<()> {
        check_source(source, None)?;
        self.rotate_key(name)
    }

    /// Checks changing the data keys of a dataset.
    pub(in crate::serve) fn rotate_key(&self, name: &mut String) -> Result<()> {
        self.own_keys(name, false)?;
        self.may_change(name)
    }

    /// Checks unloading keys, which unmounts the datasets.
    pub(in crate::serve) fn unload_keys(
        &self,
        names: &mut [String],
        recursive: bool,
    ) -> Result<()> {
        self.all_own_keys(names, recursive)?;
        names.iter().try_for_each(|name| self.may_change(name))
    }

    /// Checks a dataset, and with `recursive` those below it: their keys must be the tenant's.
    pub(in crate::serve) fn own_keys(&self, name: &mut String, recursive: bool) -> Result<()> {
        self.translate_name(name)?;
        let entry = self.find(name)?;
        self.own_key(&entry)?;
        if recursive && !entry.is_snapshot() {
            for head in self.active.heads_below(&entry)? {
                self.own_key(&head)?;
            }
        }
        Ok(())
    }
}

/// Refuses all sources of keys but a prompt.
pub(in crate::serve) fn check_source(source: Option<&str>, location: Option<&str>) -> Result<()> {
    let parsed = source.map(str::parse::<KeySource>).transpose()?;
    let parsed = parsed.as_ref().map(KeySource::location);
    let is_typed = location.is_none_or(|location| location == "prompt");
    match parsed {
        None | Some(Location::Prompt) if is_typed => Ok(()),
        _ => Err(denied(
            "in a zone keys are typed: what the daemon reads and runs is for the global zone to say",
        )),
    }
}
