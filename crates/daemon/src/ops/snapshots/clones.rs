//! Clones, and the promotion of clones.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cipher::{Suite, SystemRandom};
use dataset::{Dataset, Resealer};
use keys::{KeyGeneration, KeySource, Keyring, WrappingKey, WrappingKeyAccess};
use pool::{Entry, MakeKeyring, NewClone, NewKeys, Origin, Reseal, SealInput};
use protocol::api::{FailureKind, ValueSource, command};

use crate::failure::{Failure, Result};
use crate::host::process::system::new_guid;
use crate::host::process::system::now_secs;
use crate::ops::datasets::spec::checked;
use crate::ops::keys::rewrap_right::RewrapRight;
use crate::ops::streams::receive_right::DANGEROUS;
use crate::state::callers::context::{CallerContext, ENTRY_TEXTS, first_of};
use crate::state::daemon::Daemon;
use crate::state::datasets::properties;
use crate::state::keys::key_material::material;
use crate::state::keys::keyring::{OwnKey, has_generation, new_wrapping};
use crate::state::pools::active_pool::ActivePool;

impl Daemon {
    /// Makes a clone. It is encrypted if its origin is. Its key is that of the dataset above. It has a key of its own
    /// if the dataset above has none, or if `keysource` is given.
    pub(crate) fn clone_snapshot(
        self: &Arc<Self>,
        clone: &command::Clone,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let (active, origin) = self.find(&clone.snapshot)?;
        if self.pool_of(&clone.name)?.pool.guid() != active.pool.guid() {
            return Err(Failure::usage(
                "a clone must be in the pool of its snapshot",
            ));
        }
        if !origin.is_snapshot() {
            return Err(Failure::usage(format!(
                "'{}' is not a snapshot; clones are made of snapshots",
                clone.snapshot
            )));
        }
        if active.pool.find(&clone.name).is_ok() {
            let name = clone.name.clone();
            return Err(pool::Error::Exists { name }.into());
        }
        context.check_texts(&active, ENTRY_TEXTS)?;
        let (above, _) = clone
            .name
            .rsplit_once('/')
            .ok_or_else(|| Failure::usage("a clone needs a name below a dataset: POOL/NAME"))?;
        if clone.parents {
            let above = command::Create {
                name: above.into(),
                parents: true,
                no_mount: clone.no_mount,
                ..command::Create::default()
            };
            self.create(&above, context)?;
        }
        let mut props = checked(&clone.props)?;
        if props.contains_key("encryption") {
            return Err(Failure::usage(
                "a clone is encrypted as its origin is; leave out -o encryption",
            ));
        }
        let parent = active.pool.find(above)?;
        if parent.suite != origin.suite {
            // The encryption differs from that of the dataset above, so it is stored here.
            let suite = Suite::from_id(origin.suite).map_or("off", |suite| suite.name());
            props.insert("encryption".into(), suite.into());
        }
        let mut own = None;
        if origin.suite != 0 {
            // Fails before the user is asked for a key in vain.
            active.loaded_key(active.key_root(&origin)?)?;
            let has_own = parent.suite == 0 || props.contains_key("keysource");
            active.may_clone_keys(&origin, &parent, has_own, context)?;
            if has_own {
                let default = KeySource::default().to_string();
                let source = props.entry("keysource".into()).or_insert(default);
                let source: KeySource = source.parse()?;
                let material =
                    material(&source, (&clone.name, origin.suite), true, context.channel)?;
                own = Some(new_wrapping(&material, None)?);
            }
        } else if props.contains_key("keysource") || clone.rekey {
            return Err(Failure::usage(format!(
                "'{}' is not encrypted, and so its clones have no keys",
                clone.snapshot
            )));
        }
        let _admin = active.lock(context.decision)?;
        let origin = active.same(&origin, &clone.snapshot, context.decision)?;
        let parent = active.same(&parent, above, context.decision)?;
        active.distrust(&origin, &parent, &mut props, context)?;
        let own_key = own.as_ref().map(|(_, key)| key.try_clone()).transpose()?;
        let keys = match origin.suite {
            0 => None,
            _ => {
                let handed = active.may_clone_keys(&origin, &parent, own.is_some(), context)?;
                Some(active.clone_keys(&origin, &parent, own, clone.rekey, handed)?)
            }
        };
        let (mut keyring, mut reseal, mut apart) = (None, None, false);
        if let Some(keys) = keys {
            (keyring, reseal, apart) = (Some(keys.keyring), Some(keys.reseal), keys.is_apart);
        }
        let (rotation, dataset) = match apart {
            true => active.rotation_of_origin(&origin, &clone.snapshot, context)?,
            false => (None, None),
        };
        context.record_owner(&mut props);
        if let Some(uid) = context.creator() {
            props.extend(active.grants_for_creator(&parent, uid)?);
        }
        let new = NewClone {
            guid: new_guid(),
            keyring,
            is_key_root: own_key.is_some(),
            reseal,
            props,
            is_rekeyed: clone.rekey,
            rotation,
        };
        let (pool, history) = (&active.pool, context.origin());
        let make = || pool.clone_snapshot(&clone.snapshot, &clone.name, new, &history);
        let made = match &dataset {
            Some(dataset) => dataset.with_log_held(make),
            None => make(),
        }?;
        if let Some(key) = own_key {
            active.keys.put(made.id, key);
            active.accept_as_set(made.id);
        }
        if apart {
            active.name_sharers(&made, context)?;
        }
        let made = [made];
        context.tell(active.apply_reservations(&made)?);
        if clone.no_mount {
            return Ok(());
        }
        let failures = self.offer_datasets(&active, &made, context.caller());
        let created = |failure: Failure| {
            failure.context(format_args!(
                "'{}' was created, but not mounted",
                clone.name
            ))
        };
        first_of(failures.into_iter().map(created).collect(), context)
    }

    /// Gives a clone the snapshots that it shares with the dataset of its origin. That dataset becomes the clone.
    pub(crate) fn promote(&self, name: &str, context: &mut CallerContext<'_>) -> Result<()> {
        let (active, entry) = self.find(name)?;
        let _admin = active.lock(context.decision)?;
        let clone = active.same(&entry, name, context.decision)?;
        let moving = active.pool.promoted_by(name)?;
        let reseal = match clone.suite {
            0 => None,
            _ => {
                // The snapshots that move are read with the clone's key from then on.
                let to = active.keyring(&clone)?;
                let owner = active.pool.entry(moving[0].parent)?;
                let handed = context.may_hand(&active, &owner, Some(to.wrapping().id()))?;
                Some(active.reseal_for(&clone, &moving, handed)?)
            }
        };
        let owner = active.pool.entry(moving[0].parent)?;
        // Before the promotion, so that a power cut between the two leaves what allows less.
        active.pass_on_distrust(&owner, &clone, &context.origin())?;
        Ok(active.pool.promote(name, reseal, &context.origin())?)
    }
}

impl ActivePool {
    /// Checks that the caller may wrap the data keys of an origin with the key of the dataset above the clone, or with
    /// the clone's own key.
    fn may_clone_keys(
        &self,
        origin: &Entry,
        parent: &Entry,
        has_own: bool,
        context: &CallerContext<'_>,
    ) -> Result<RewrapRight> {
        let inherited = match has_own {
            true => None,
            false => Some(*self.keyring(parent)?.wrapping().id()),
        };
        context.may_hand(self, origin, inherited.as_ref())
    }

    /// The properties that are off on a dataset because its files are not trusted, and that `heir` does not pass on as
    /// off. A dataset with the same files must have them off as well.
    fn distrusted(&self, entry: &Entry, heir: &Entry) -> Result<Vec<&'static str>> {
        let mut found = Vec::new();
        for name in DANGEROUS.into_iter().filter(|_| entry.volume().is_none()) {
            let (value, source) = properties::effective(&self.pool, entry, name)?;
            let (of_heir, _) = properties::effective(&self.pool, heir, name)?;
            if value == "off" && (source == ValueSource::Local || of_heir != "off") {
                found.push(name);
            }
        }
        Ok(found)
    }

    /// Turns properties of a new clone off whose files are not trusted. A user who may set such a property may decide that
    /// the clone is trusted. The caller holds the lock of the pool.
    fn distrust(
        &self,
        origin: &Entry,
        parent: &Entry,
        props: &mut BTreeMap<String, String>,
        context: &CallerContext<'_>,
    ) -> Result<()> {
        let forbidden = context.forbidden(self, parent)?;
        let head = self.pool.entry(origin.parent)?;
        for name in self.distrusted(&head, parent)? {
            if forbidden.contains(name) || !props.contains_key(name) {
                props.insert(name.into(), "off".into());
            }
        }
        Ok(())
    }

    /// A clone that takes over snapshots of `from` must not allow more than `from`. A value that was set on the clone
    /// itself stays.
    fn pass_on_distrust(&self, from: &Entry, clone: &Entry, origin: &Origin) -> Result<()> {
        let mut off = Vec::new();
        for name in self.distrusted(from, clone)? {
            if !clone.props.contains_key(name) {
                off.push((name.to_owned(), Some("off".to_owned())));
            }
        }
        if off.is_empty() {
            return Ok(());
        }
        let name = self.pool.name_of(clone.id)?;
        let done: Vec<&str> = off.iter().map(|(name, _)| name.as_str()).collect();
        let origin = Origin {
            text: format!(
                "{} off on {name}, as where its files are from",
                done.join(", ")
            ),
            ..origin.clone()
        };
        self.pool.set_props(&[name], &off, &origin)?;
        self.apply_settings().map(drop)
    }

    /// Makes the new seal of a dataset that is rolled back to a snapshot, if the key is loaded and the seal of the
    /// snapshot is too old for a dataset. The caller accepts the state of the snapshot by naming it.
    pub(crate) fn accepts(&self, snapshot: &Entry) -> Option<Reseal> {
        let keys = self.data_keys(snapshot).ok().flatten()?;
        let resealer = Resealer::new(snapshot.family, keys).ok()?;
        let guid = self.pool.entry(snapshot.parent).ok()?.guid;
        let was = SealInput::of(snapshot, guid);
        let is_right = resealer.seals_head(&was, &snapshot.seal);
        // A snapshot that no key of the dataset has sealed keeps its seal, and is refused when it is opened.
        if is_right || resealer.reseal_head(&was, &snapshot.seal, &was).is_none() {
            return None;
        }
        Some(Box::new(move |snapshot, input| {
            let was = SealInput::of(snapshot, guid);
            let seal = resealer.reseal_head(&was, &snapshot.seal, input);
            seal.ok_or_else(|| not_of_one_moment(snapshot))
        }))
    }

    /// Makes the keyring of a clone, and its first seal.
    fn clone_keys(
        &self,
        origin: &Entry,
        parent: &Entry,
        own: Option<OwnKey>,
        rekey: bool,
        _: RewrapRight,
    ) -> Result<KeysOfClone> {
        let old = self.loaded_key(self.key_root(origin)?)?;
        let (wrapping, new) = match own {
            Some(own) => own,
            None => {
                let key = self.loaded_key(self.key_root(parent)?)?;
                (WrappingKeyAccess::Inherited { id: *key.id() }, key)
            }
        };
        let (ring, _) = self.opened_keyring(origin)?;
        let until = origin.keys_txg();
        let is_apart = old.id() != new.id();
        let before = Resealer::new(ring.family(), ring.open(&old)?)?;
        let make = move |txg, old: &WrappingKey, new: &WrappingKey| -> keys::Result<_> {
            let of_origin = ring.newest().number();
            let shared = (until, is_apart);
            let mut ring = ring.for_clone(shared, old, wrapping, new, &SystemRandom)?;
            let after = match is_apart {
                // The origin gets the number after its newest in the same commit.
                true => of_origin.saturating_add(1),
                false => ring.newest().number(),
            };
            // The keys of a snapshot from before a rotation may not seal the present state of a dataset.
            if rekey || ring.seals_no_heads() {
                let suite = ring.newest().suite();
                ring.rotate_beyond(after, new, txg, suite, now_secs(), &SystemRandom)?;
            }
            let resealer = Resealer::new(ring.family(), ring.open(new)?)?;
            Ok((ring.encode(), resealer))
        };
        // The keyring is made before the seal.
        let made: Arc<Mutex<Option<Resealer>>> = Arc::default();
        let place = Arc::clone(&made);
        let keyring: MakeKeyring = Box::new(move |txg| {
            let (bytes, resealer) = make(txg, &old, &new).map_err(|error| error.to_string())?;
            *place.lock().expect("no thread panics with it") = Some(resealer);
            Ok(bytes)
        });
        let guid = self.pool.entry(origin.parent)?.guid;
        let reseal: Reseal = Box::new(move |snapshot, input| {
            let made = made.lock().expect("no thread panics with it");
            let was = SealInput::of(snapshot, guid);
            // The clone may lack the seal key of the snapshot, which the keyring of its dataset has.
            let made = made
                .as_ref()
                .filter(|_| before.sealed_by(&was, &snapshot.seal).is_some());
            let seal = made.and_then(|made| made.seal_as_newest(input));
            seal.ok_or_else(|| not_of_one_moment(snapshot))
        });
        Ok(KeysOfClone {
            keyring,
            reseal,
            is_apart,
        })
    }

    /// Names the other datasets that go on sealing with data keys which a new clone with another key has: earlier clones
    /// with the key of the origin.
    fn name_sharers(&self, made: &Entry, context: &mut CallerContext<'_>) -> Result<()> {
        let own = self.keyring(made)?;
        for head in self.all_heads()? {
            let is_other = head.family == made.family && head.id != made.id && head.suite != 0;
            // One that was received and not changed is named already.
            if !is_other || head.sealed_mark().is_some() {
                continue;
            }
            let shares = self
                .keyring(&head)
                .is_ok_and(|ring| has_generation(&own, ring.newest()));
            if shares {
                let name = self.pool.name_of(head.id)?;
                context.channel.notice(format!(
                    "'{name}' goes on with data keys that the clone has too; 'strongroom key rotate {name}' ends that"
                ));
            }
        }
        Ok(())
    }

    /// New keys for the dataset of a snapshot that gets a clone with another wrapping key, and its files if it is open.
    /// None for a dataset that was received and not changed since: the dataset where it comes from decides on its keys.
    fn rotation_of_origin(
        &self,
        snapshot: &Entry,
        name: &str,
        context: &mut CallerContext<'_>,
    ) -> Result<(Option<NewKeys>, Option<Arc<Dataset>>)> {
        let head = self.pool.entry(snapshot.parent)?;
        let (name, _) = name.split_once('@').unwrap_or((name, ""));
        if head.sealed_mark().is_some() {
            context.channel.notice(format!(
                "'{name}' was received and keeps its data keys, which the clone has too; so the key of the clone opens \
                 what is received there later, until the keys are rotated where it comes from"
            ));
            return Ok((None, None));
        }
        let rotation = self.rotation_of(&head).map_err(|failure| {
            failure.context(format_args!(
                "a clone with another key takes new data keys for '{name}'"
            ))
        });
        let (keys, dataset) = rotation?;
        Ok((Some(keys), dataset))
    }

    /// Makes the seals of the snapshots that a clone takes over, with the keys of the clone. Refuses if the clone lacks
    /// keys of these snapshots.
    fn reseal_for(&self, clone: &Entry, moving: &[Arc<Entry>], _: RewrapRight) -> Result<Reseal> {
        let newest = &moving[0];
        let owner = self.pool.entry(newest.parent)?;
        let (own, _) = self.opened_keyring(clone)?;
        let (theirs, _) = self.opened_keyring(&owner)?;
        let mut needed = theirs.generations().iter();
        let lacking = needed.find(|needed| {
            let is_needed = needed.txg() <= newest.keys_txg();
            is_needed && !has_generation(&own, needed)
        });
        if let Some(lacking) = lacking {
            let (name, owner) = (self.pool.name_of(clone.id)?, self.pool.name_of(owner.id)?);
            return Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "the keyring of '{name}' does not have generation {} any more, and the snapshots of \
                     '{owner}' that would move to '{name}' need it",
                    lacking.number()
                ),
            ));
        }
        let new = Resealer::new(clone.family, own.open(&self.loaded_key(clone.key_root)?)?)?;
        // The clone may lack seal keys of these snapshots: then the keyring of their dataset tells that they are right.
        let is_known = |snapshot: &Arc<Entry>| {
            let was = SealInput::of(snapshot, owner.guid);
            !snapshot.was_written() || new.sealed_by(&was, &snapshot.seal).is_some()
        };
        let old = match moving.iter().all(is_known) {
            true => None,
            false => {
                let key = self.loaded_key(owner.key_root)?;
                Some(Resealer::new(owner.family, theirs.open(&key)?)?)
            }
        };
        Ok(Box::new(move |snapshot, input| {
            let was = SealInput::of(snapshot, owner.guid);
            let with_theirs = || {
                old.as_ref()?.sealed_by(&was, &snapshot.seal)?;
                new.seal_by(sealing_until(&own, snapshot.keys_txg())?, input)
            };
            let seal = new.reseal(&was, &snapshot.seal, input);
            let seal = seal.or_else(with_theirs);
            seal.ok_or_else(|| not_of_one_moment(snapshot))
        }))
    }
}

/// The generation of a keyring that seals a snapshot which may need generations up to `until`: the newest of these that
/// has a seal key. So it goes with streams of the snapshot. If none of them has one, all generations go with streams.
fn sealing_until(keyring: &Keyring, until: u64) -> Option<u32> {
    let mut sealing = keyring.generations().iter().rev().filter(|g| g.seals());
    let newest = sealing.clone().next();
    let found = sealing.find(|g| g.txg() <= until).or(newest);
    found.map(KeyGeneration::number)
}

struct KeysOfClone {
    keyring: MakeKeyring,
    /// Makes its first seal.
    reseal: Reseal,
    /// True if its wrapping key is another one than that of the origin.
    is_apart: bool,
}

/// The message for a snapshot that cannot be taken over.
fn not_of_one_moment(snapshot: &Entry) -> String {
    format!(
        "the seal of the snapshot '@{}' does not match it: its parts are not of the same moment",
        snapshot.name
    )
}
