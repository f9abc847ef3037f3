//! Replaces the wrapping key of a dataset, and adds data keys.
//!
//! A change wraps all keyrings below the key root again, in one commit. So no keyring ever names a wrapping key that no
//! slot unwraps. [`ActivePool::replace_keyrings`] checks this before each commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cipher::SystemRandom;
use dataset::{Dataset, NewGeneration, Resealer};
use keys::{DataKeys, GuessCost, KeySource, Keyring, WrappingKey, WrappingKeyAccess};
use parking_lot::Mutex;
use pool::{Entry, MakeKeyring, NewKeyring, NewKeys, Origin, Reseal, SealInput};
use protocol::api::{FailureKind, command};

use crate::failure::{Failure, Result};
use crate::host::process::system::now_secs;
use crate::ops::keys::rewrap_right::RewrapRight;
use crate::state::callers::channel::Channel;
use crate::state::callers::context::CallerContext;
use crate::state::callers::decision::Decide;
use crate::state::keys::key_material::{material, unlocked};
use crate::state::keys::keyring::{
    changed_meanwhile, cost, keyring_of, new_wrapping, numbers, replace_slots,
};
use crate::state::pools::active_pool::ActivePool;

/// The text in the history for a keyring that was wrapped with another key.
const REWRAPPED: &str = "keyring rewrapped";

struct RotationResult {
    /// For the dataset, if it is open.
    new: NewGeneration,
    /// For the seal over it.
    resealer: Resealer,
}

impl RotationResult {
    fn new(keys: DataKeys, keyring: &Keyring, key: &WrappingKey) -> keys::Result<RotationResult> {
        Ok(RotationResult {
            new: NewGeneration::new(keys)?,
            resealer: Resealer::new(keyring.family(), keyring.open(key)?)?,
        })
    }
}

impl ActivePool {
    /// Replaces the key of a dataset, or gives a dataset that inherits its key a key of its own. Takes the lock of the
    /// pool, but not while a user is asked.
    pub(crate) fn change_key(
        &self,
        entry: &Entry,
        change: &command::KeyChange,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let name = self.pool.name_of(entry.id)?;
        check_has_keyring(entry, &name)?;
        // Fails before the user is asked for a key in vain.
        self.loaded_key(entry.key_root)?;
        if change.inherit {
            return self.inherit_key(entry, &name, context);
        }
        context.may_hand_all(self, entry, None)?;
        let is_root = entry.key_root == entry.id;
        let source = match &change.keysource {
            Some(text) => text.parse::<KeySource>()?,
            None if is_root => self.accepted_source(entry)?,
            None => KeySource::default(),
        };
        if is_root {
            self.check_choice_of_slot(entry, change, &name)?;
        }
        let material = material(&source, (&name, entry.suite), true, context.channel)?;
        if let Some(slot) = change.slot {
            let cost = cost(&material, change.pbkdf)?;
            return self.change_slot(entry, (slot, cost), &source, &material, context);
        }
        let (wrapping, new) = new_wrapping(&material, change.pbkdf)?;
        let _admin = self.lock(context.decision)?;
        let now = self.again(entry, &name, context.decision)?;
        if now.key_root != entry.key_root {
            return Err(changed_meanwhile(&name));
        }
        if is_root && !change.only && self.keyring(&now)?.wrapping().slots().len() > 1 {
            return Err(changed_meanwhile(&name));
        }
        let handed = context.may_hand_all(self, &now, None)?;
        let mut changes = self.rewrapped(&now, now.id, &wrapping, &new, handed)?;
        for change in changes.iter_mut().filter(|change| change.id == now.id) {
            change.props = vec![("keysource".to_owned(), Some(source.to_string()))];
        }
        self.replace_keyrings(&changes, &context.origin())?;
        self.keys.put(entry.id, new);
        self.accept_as_set(entry.id);
        Ok(())
    }

    /// Checks the choice of a slot: a dataset with several slots needs one, and a chosen slot must exist.
    fn check_choice_of_slot(
        &self,
        entry: &Entry,
        change: &command::KeyChange,
        name: &str,
    ) -> Result<()> {
        let keyring = self.keyring(entry)?;
        let slots = keyring.wrapping().slots();
        match change.slot {
            Some(slot) if slots.iter().all(|known| known.number() != slot) => {
                Err(keys::Error::NoSlot(slot).into())
            }
            None if slots.len() > 1 && !change.only => Err(Failure::usage(format!(
                "'{name}' has {} key slots; to replace one of them: --slot N; to replace all of them: --only \
                 ('key slots {name}' shows them)",
                slots.len()
            ))),
            _ => Ok(()),
        }
    }

    /// Replaces the key of one slot. The wrapping key and the other slots stay.
    fn change_slot(
        &self,
        entry: &Entry,
        (slot, cost): (u32, GuessCost),
        source: &KeySource,
        material: &keys::KeyMaterial,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        // `keysource` may be for another slot, and opens that one still.
        let name = self.pool.name_of(entry.id)?;
        let key = self.loaded_key(entry.id)?;
        let before = self.keyring(entry)?.wrapping().clone();
        let mut others = before.clone();
        let are_others = others.remove_slot(slot, &key).is_ok();
        let old = self.keysource(entry)?;
        let stands = are_others
            && !self.is_proposed(entry, &old)
            && may_open(&others, &old, (&name, entry.suite), context.channel);
        let change = ("keysource".to_owned(), Some(source.to_string()));
        // A password hash waits for its turn, so it is made before the lock of the pool is taken.
        let mut tried = before.clone();
        tried.replace_slot(slot, &key, material, cost, now_secs(), &SystemRandom)?;
        self.change_slots(
            entry,
            context.decision,
            &context.origin(),
            |now, wrapping| {
                context.may_hand_all(self, now, None)?;
                replace_slots(wrapping, &before, tried, &name)?;
                Ok(SlotChange {
                    done: format!("key slot {slot} changed"),
                    props: if stands { Vec::new() } else { vec![change] },
                })
            },
        )?;
        if !stands {
            self.accept_as_set(entry.id);
        }
        Ok(())
    }

    /// Makes a dataset inherit the key of the dataset above it again.
    fn inherit_key(&self, entry: &Entry, name: &str, context: &CallerContext<'_>) -> Result<()> {
        let _admin = self.lock(context.decision)?;
        let now = self.again(entry, name, context.decision)?;
        let above = match self.pool.entry(now.parent) {
            Ok(above) if above.suite != 0 => above,
            _ => {
                return Err(Failure::other(format!(
                    "'{name}' has no encrypted dataset above it to inherit a key from"
                )));
            }
        };
        if now.key_root != now.id {
            let root = self.pool.name_of(now.key_root)?;
            return Err(Failure::new(
                FailureKind::Exists,
                format!("'{name}' has its key from '{root}' already"),
            ));
        }
        let new = self.loaded_key(above.key_root)?;
        let wrapping = WrappingKeyAccess::Inherited { id: *new.id() };
        let handed = context.may_hand_all(self, &now, Some(new.id()))?;
        let mut changes = self.rewrapped(&now, above.key_root, &wrapping, &new, handed)?;
        for change in changes.iter_mut().filter(|change| change.id == now.id) {
            change.props = vec![("keysource".to_owned(), None)];
        }
        self.replace_keyrings(&changes, &context.origin())?;
        self.keys.remove(&[now.id]);
        Ok(())
    }

    /// Gives a dataset new data keys, and seals its present state with them. All later writes use the new keys. This
    /// takes as long as a commit, for a dataset of any size.
    pub(crate) fn rotate_key(
        &self,
        entry: &Entry,
        decision: &dyn Decide,
        origin: &Origin,
    ) -> Result<()> {
        let name = self.pool.name_of(entry.id)?;
        check_has_keyring(entry, &name)?;
        let _admin = self.lock(decision)?;
        let now = self.again(entry, &name, decision)?;
        let (keys, dataset) = self.rotation_of(&now)?;
        let rotate = || self.pool.rotate_keyring(now.id, keys, origin);
        Ok(match &dataset {
            Some(dataset) => dataset.with_log_held(rotate),
            None => rotate(),
        }?)
    }

    /// New data keys for a dataset, and its files if it is open: their log is to be held during the commit. The caller
    /// holds the lock of the pool.
    pub(crate) fn rotation_of(&self, now: &Entry) -> Result<(NewKeys, Option<Arc<Dataset>>)> {
        let key = self.loaded_key(now.key_root)?;
        let (mut keyring, _) = self.opened_keyring(now)?;
        // A rotation seals the state again only if the present seal is valid: it must not accept another state.
        dataset::verify_seal(&self.pool, now, keyring.open(&key)?)?;
        let before = Resealer::new(keyring.family(), keyring.open(&key)?)?;
        let made: Arc<Mutex<Option<RotationResult>>> = Arc::default();
        let place = Arc::clone(&made);
        let make: MakeKeyring = Box::new(move |txg| {
            let suite = keyring.newest().suite();
            let rotated = keyring.rotate(&key, txg, suite, now_secs(), &SystemRandom);
            let rotated = rotated.and_then(|keys| RotationResult::new(keys, &keyring, &key));
            *place.lock() = Some(rotated.map_err(|error| error.to_string())?);
            Ok(keyring.encode())
        });
        let (guid, place) = (now.guid, Arc::clone(&made));
        let reseal: Reseal = Box::new(move |entry, input| {
            let was = SealInput::of(entry, guid);
            let made = place.lock();
            made.as_ref()
                .filter(|_| before.seals_head(&was, &entry.seal))
                .and_then(|made| made.resealer.reseal_head(&was, &entry.seal, input))
                .ok_or_else(|| "the seal of the dataset does not match its present state".into())
        });
        let dataset = self.files_of(now.id);
        let user = dataset.clone();
        let done = Box::new(move || {
            if let (Some(dataset), Some(made)) = (user, made.lock().take()) {
                dataset.use_generation(made.new);
            }
        });
        Ok((NewKeys { make, reseal, done }, dataset))
    }

    /// The keyrings of a dataset and of those below it with the same key root, wrapped with another wrapping key.
    /// `key_root` has the slots of that key. Snapshots have no keyrings of their own.
    fn rewrapped(
        &self,
        entry: &Entry,
        key_root: u64,
        wrapping: &WrappingKeyAccess,
        new: &WrappingKey,
        _: RewrapRight,
    ) -> Result<Vec<NewKeyring>> {
        let old = self.loaded_key(entry.key_root)?;
        let mut changes = Vec::new();
        for below in self.heads_below(entry)? {
            if below.key_root != entry.key_root {
                continue;
            }
            let wrapping = match below.id == entry.id {
                true => wrapping.clone(),
                false => WrappingKeyAccess::Inherited { id: *new.id() },
            };
            let (keyring, foreign) = self.opened_keyring(&below)?;
            let keyring = keyring.rewrap(&old, wrapping, new, &SystemRandom)?;
            changes.push(NewKeyring {
                id: below.id,
                keyring: keyring.encode(),
                key_root,
                props: Vec::new(),
                done: match numbers(&foreign) {
                    None => REWRAPPED.into(),
                    Some(foreign) => {
                        format!("{REWRAPPED} without generation {foreign}, which did not open")
                    }
                },
            });
        }
        Ok(changes)
    }

    /// Replaces all these keyrings or none. Refuses changes that leave a key which no slot unwraps.
    pub(crate) fn replace_keyrings(&self, changes: &[NewKeyring], origin: &Origin) -> Result<()> {
        self.check_unwrapped(changes)?;
        Ok(self.pool.replace_keyrings(changes, origin)?)
    }

    /// Checks the keyrings after these changes: the key root of each must have slots for the wrapping key that the
    /// keyring names.
    fn check_unwrapped(&self, changes: &[NewKeyring]) -> Result<()> {
        let mut changed = BTreeMap::new();
        let mut roots = BTreeSet::new();
        for change in changes {
            let entry = self.pool.entry(change.id)?;
            let keyring = keyring_of(&change.keyring, entry.family, entry.suite)?;
            roots.extend([change.key_root, entry.key_root]);
            changed.insert(change.id, (change.key_root, keyring));
        }
        let after = |entry: &Entry| -> Result<(u64, Keyring)> {
            match changed.get(&entry.id) {
                Some((root, keyring)) => Ok((*root, keyring.clone())),
                None => Ok((entry.key_root, self.keyring(entry)?)),
            }
        };
        for entry in self.all_heads()? {
            if !changed.contains_key(&entry.id) && !roots.contains(&entry.key_root) {
                continue;
            }
            // A keyring that was damaged before is not checked.
            let Ok((root, keyring)) = after(&entry) else {
                continue;
            };
            let (own_root, of_root) = after(&*self.pool.entry(root)?)?;
            let slots = of_root.wrapping().slots();
            let opens = own_root == root && slots.iter().any(|slot| slot.kind().is_known());
            if !opens || of_root.wrapping().id() != keyring.wrapping().id() {
                let name = self.pool.name_of(entry.id)?;
                return Err(Failure::other(format!(
                    "no key slot would unwrap the keys of '{name}' any more, so nothing was changed"
                )));
            }
        }
        Ok(())
    }
}

/// The text for a change of slots in the history, and the properties that change with it.
pub(crate) struct SlotChange {
    pub(crate) done: String,
    pub(crate) props: Vec<(String, Option<String>)>,
}

/// Refuses an entry without a keyring of its own.
pub(crate) fn check_has_keyring(entry: &Entry, name: &str) -> Result<()> {
    if entry.suite == 0 {
        return Err(Failure::other(format!("'{name}' is not encrypted")));
    }
    if entry.is_snapshot() {
        return Err(Failure::other(format!(
            "'{name}' is a snapshot and has the key of its dataset; name the dataset"
        )));
    }
    Ok(())
}

/// Refuses slots of which the source in `keysource` opens none.
pub(crate) fn still_opens(
    wrapping: &WrappingKeyAccess,
    source: &KeySource,
    number: u32,
    dataset: (&str, u8),
    channel: &mut dyn Channel,
) -> Result<()> {
    let why = match tried(wrapping, source, dataset, channel) {
        SlotMatch::Opens => return Ok(()),
        SlotMatch::OpensNone(why) | SlotMatch::Unknown(why) => why,
    };
    Err(Failure::usage(format!(
        "without key slot {number} the keysource of '{}', {source}, opens no slot{why}; give another keysource with \
         -o keysource=..., or use -f",
        dataset.0
    )))
}

/// Returns whether the source in `keysource` opens one of these slots. A source that gives no key now, as a TPM that is
/// locked, may open them later.
fn may_open(
    wrapping: &WrappingKeyAccess,
    source: &KeySource,
    dataset: (&str, u8),
    channel: &mut dyn Channel,
) -> bool {
    match tried(wrapping, source, dataset, channel) {
        SlotMatch::Opens => true,
        SlotMatch::OpensNone(_) => false,
        SlotMatch::Unknown(why) => {
            channel.notice(format!(
                "the keysource of '{}' stays {source}, which could not be tried{why}; 'key remove -o keysource=...' \
                 names another one",
                dataset.0
            ));
            true
        }
    }
}

/// The use of a source for slots. The text is the end of a sentence.
enum SlotMatch {
    /// The source opens a slot, or the person who gives the key knows whether it does.
    Opens,
    /// The source opens no slot.
    OpensNone(String),
    /// The source is for one of the slots, and gives no key now.
    Unknown(String),
}

fn tried(
    wrapping: &WrappingKeyAccess,
    source: &KeySource,
    dataset: (&str, u8),
    channel: &mut dyn Channel,
) -> SlotMatch {
    let mut slots = wrapping.slots().iter();
    if !slots.any(|slot| slot.kind().takes(source)) {
        return SlotMatch::OpensNone(String::new());
    }
    if source.location().asks() {
        return SlotMatch::Opens;
    }
    let found = match material(source, dataset, false, channel) {
        Ok(found) => found,
        Err(failure) => return SlotMatch::Unknown(format!(" ({})", failure.message)),
    };
    match unlocked(wrapping, found) {
        Ok(_) => SlotMatch::Opens,
        Err(error @ (keys::Error::WrongKey | keys::Error::KindMismatch(_))) => {
            SlotMatch::OpensNone(format!(" ({error})"))
        }
        Err(error) => SlotMatch::Unknown(format!(" ({error})")),
    }
}
