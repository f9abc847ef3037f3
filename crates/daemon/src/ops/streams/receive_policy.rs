//! Decides how a stream is received: the keys and properties of the dataset, and the sealing of records that arrive
//! in the clear.

use std::collections::BTreeMap;
use std::sync::Arc;

use cipher::Suite;
use dataset::{Compression, RecordSealer};
use keys::{KeyGeneration, KeySource, Keyring, MaterialFormat, WrappingKey, WrappingKeyAccess};
use parking_lot::Mutex;
use pool::{Begin, Entry, ReceiveInto, ReceivePolicy, StreamSealer};
use protocol::api::{FailureKind, Props};
use protocol::property::{PROPERTIES, Property, ReceiveTreatment, Settable};

use crate::failure::{Failure, Result};
use crate::ops::datasets::commands::suite_above;
use crate::ops::datasets::spec::{DatasetSpec, checked};
use crate::ops::streams::receive_right::ReceiveRight;
use crate::state::callers::context::{CallerContext, ENTRY_TEXTS};
use crate::state::daemon::Daemon;
use crate::state::datasets::properties;
use crate::state::keys::keyring::keyring_of;
use crate::state::pools::active_pool::{ActivePool, MountState};

/// The property for the schedule of snapshots.
const SCHEDULE: &str = "snapshot-schedule";

/// The failure for a partial receive that cannot continue with these keys.
fn otherwise() -> Failure {
    Failure::usage(
        "the part that was received has keys of another encryption, or of a key above that was changed; receive it with the \
         same options, or throw it away (receive -A)",
    )
}

/// The properties for the encryption of a dataset.
const OF_KEYS: [&str; 2] = ["encryption", "keysource"];

/// The choices of the caller of a receive.
pub(crate) struct Chosen {
    /// Replace properties in the stream.
    props: BTreeMap<String, String>,
    exclude: Vec<String>,
    /// The encryption of a new dataset, if the stream is not raw.
    spec: Option<DatasetSpec>,
    /// True if the caller chose the encryption, instead of the dataset above.
    says_how: bool,
    /// True if a received dataset may be a clone of any snapshot of the pool: the caller may do everything there.
    may_clone: bool,
    /// The owner of a new dataset.
    owner: BTreeMap<String, String>,
}

impl Chosen {
    /// Checks the choices, and asks for a key if the dataset is to have its own key.
    pub(crate) fn new(
        active: &ActivePool,
        dataset: &str,
        given: &Props,
        exclude: Vec<String>,
        right: &ReceiveRight<'_>,
        context: &mut CallerContext<'_>,
    ) -> Result<Chosen> {
        context.check_texts(active, ENTRY_TEXTS)?;
        let mut props = checked(given)?;
        let is_of_keys = |name: &str| OF_KEYS.contains(&name);
        let says_how = props.keys().any(|name| is_of_keys(name))
            || exclude.iter().any(|name| is_of_keys(name));
        let is_new = right.is_new();
        if let (false, Some(name)) = (is_new, props.keys().next()) {
            return Err(Failure::usage(format!(
                "'{dataset}' exists already, and receive -o {name} is for a new dataset; use 'set' or 'key \
                 change'"
            )));
        }
        let is_distrusted = |name: &str| {
            Property::find(name)
                .is_some_and(|p| matches!(p.received, ReceiveTreatment::Distrusted(_)))
        };
        let mut denied = exclude.iter().filter(|name| is_distrusted(name));
        if let Some(name) = denied.find(|name| right.forbidden().contains(name.as_str())) {
            return Err(Failure::new(
                FailureKind::Permission,
                format!(
                    "-x {name}: a received dataset gets a safe value of this property, and you do not have the \
                     permission '{name}' to change it"
                ),
            ));
        }
        let spec = match is_new && dataset.contains('/') {
            true => {
                let above = suite_above(active, dataset)?;
                Some(DatasetSpec::new(above, dataset, given, context.channel)?)
            }
            false => None,
        };
        props.retain(|name, _| !is_of_keys(name));
        let mut owner = BTreeMap::new();
        // A token that only receives is on another machine. Its datasets are no homes of root, which logins here open.
        if !right.takes_only_sealed() {
            context.record_owner(&mut owner);
        }
        Ok(Chosen {
            props,
            exclude,
            spec,
            says_how,
            may_clone: context.view.is_none() && context.creator().is_none(),
            owner,
        })
    }
}

/// Decides how the keys and properties in a stream are used.
pub(crate) struct ReceiveRules<'a> {
    daemon: &'a Arc<Daemon>,
    active: &'a Arc<ActivePool>,
    dataset: &'a str,
    /// True if the receive ends even if files of the dataset are open. These files return errors then.
    force: bool,
    /// True if the received part is kept after an interruption.
    resumable: bool,
    /// True if datasets that were mounted stay unmounted afterwards.
    no_mount: bool,
    /// The wrapping key of the dataset, if the dataset exists and its key is loaded.
    key: Option<WrappingKey>,
    props: BTreeMap<String, String>,
    exclude: Vec<String>,
    says_how: bool,
    may_clone: bool,
    right: &'a ReceiveRight<'a>,
    owner: BTreeMap<String, String>,
    spec: Mutex<Option<DatasetSpec>>,
    new: Mutex<NewDatasetSettings>,
    /// True once a stream was refused because a key is not loaded.
    no_key: Mutex<bool>,
    /// The reason why the received data was not made visible, if the caller may not do that any more.
    refusal: Mutex<Option<Failure>>,
    /// The names of the snapshots that were received so far.
    received: Mutex<Vec<String>>,
    /// The failures to mount datasets again.
    failures: Mutex<Vec<Failure>>,
}

/// The keys and properties of a new dataset whose stream is not raw.
#[derive(Default)]
struct NewDatasetSettings {
    /// The properties for the encryption.
    props: BTreeMap<String, String>,
    /// The dataset's own wrapping key.
    key: Option<WrappingKey>,
    /// The keys that seal its records. They are compared at the end.
    sealed_by: Option<SealedBy>,
}

/// The keys that seal records while they are received.
#[derive(Clone)]
enum SealedBy {
    /// A new keyring that is wrapped with the key of the dataset above.
    Above([u8; 16]),
    /// A generation of the existing keyring.
    Generation(u32),
}

impl<'a> ReceiveRules<'a> {
    pub(crate) fn new(
        daemon: &'a Arc<Daemon>,
        active: &'a Arc<ActivePool>,
        into: &ReceiveInto<'a>,
        no_mount: bool,
        chosen: Chosen,
        right: &'a ReceiveRight<'a>,
    ) -> ReceiveRules<'a> {
        let (dataset, _) = into.target.split_once('@').unwrap_or((into.target, ""));
        let head = active.pool.find(dataset).ok();
        ReceiveRules {
            daemon,
            active,
            dataset,
            force: into.force,
            resumable: into.resumable,
            no_mount,
            key: head.and_then(|head| active.loaded_key(head.key_root).ok()),
            props: chosen.props,
            exclude: chosen.exclude,
            says_how: chosen.says_how,
            may_clone: chosen.may_clone,
            right,
            owner: chosen.owner,
            spec: Mutex::new(chosen.spec),
            new: Mutex::default(),
            no_key: Mutex::default(),
            refusal: Mutex::default(),
            received: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    /// The names of the received snapshots, and the failures to mount datasets again.
    pub(crate) fn into_received(self) -> (Vec<String>, Vec<Failure>) {
        (self.received.into_inner(), self.failures.into_inner())
    }

    /// The failure of a receive, with its kind if the cause was not in the pool.
    pub(crate) fn explained(&self, mut failure: Failure) -> Failure {
        if let Some(refusal) = self.refusal.lock().take() {
            return refusal;
        }
        if *self.no_key.lock() {
            failure.kind = FailureKind::NoKey;
        }
        failure
    }

    /// Returns whether the dataset is mounted. It stays mounted until the end of each stream.
    pub(crate) fn is_mounted(&self) -> bool {
        let head = self.active.pool.find(self.dataset);
        head.is_ok_and(|head| self.active.mounts.lock().contains_key(&head.id))
    }

    /// The mounts that must end before the dataset can change: its own, and those inside it.
    fn mounted_in(&self) -> Vec<u64> {
        let Ok(head) = self.active.pool.find(self.dataset) else {
            return Vec::new();
        };
        let mounts = self.active.mounts.lock();
        let Some(dir) = mounts.get(&head.id).map(MountState::dir) else {
            return Vec::new();
        };
        let inside = mounts
            .iter()
            .filter(|(_, state)| state.dir().starts_with(&dir));
        inside.map(|(id, _)| *id).collect()
    }

    /// The `keysource` of the received dataset. A user who may not choose what the daemon reads or runs gets the
    /// prompt; a raw key can be typed as digits.
    fn keysource(&self, sent: Option<String>) -> String {
        let sent = sent.and_then(|sent| sent.parse::<KeySource>().ok());
        let sent = sent.unwrap_or_default();
        if !self.right.forbidden().contains("keysource") {
            return sent.to_string();
        }
        match sent.format() {
            MaterialFormat::Passphrase => "passphrase,prompt".into(),
            MaterialFormat::Raw | MaterialFormat::Hex => "hex,prompt".into(),
        }
    }

    fn above(&self) -> Result<Arc<Entry>> {
        let (above, _) = self.dataset.rsplit_once('/').unwrap_or((self.dataset, ""));
        Ok(self.active.pool.find(above)?)
    }

    /// Decides how records are sealed for an existing dataset.
    fn seal_for(&self, head: &Entry) -> Result<StreamSealer> {
        let keys = self.active.data_keys(head)?;
        let newest = keys.as_ref().and_then(|keys| keys.last());
        self.new.lock().sealed_by = newest.map(|keys| SealedBy::Generation(keys.generation));
        let settings = properties::settings(&self.active.pool, head)?;
        let engine = &self.daemon.engine;
        Ok(StreamSealer {
            records: Arc::new(RecordSealer::new(engine, head.family, keys, &settings)?),
            suite: head.suite,
            keyring: None,
            is_key_root: false,
        })
    }

    /// Decides how records are sealed for a new dataset.
    fn seal_new(
        &self,
        begin: &Begin,
        family: u64,
        txg: u64,
        kept: Option<&[u8]>,
    ) -> Result<StreamSealer> {
        let gone = || Failure::usage("the dataset was destroyed meanwhile; try again");
        let spec = self.spec.lock().take().ok_or_else(gone)?;
        let above = self.above()?;
        let (made, props) = spec.keys(Some((self.active, &above)), self.dataset, family)?;
        self.new.lock().props = props;
        if made.is_none() && begin.suite != 0 && !self.says_how {
            return Err(Failure::usage(
                "the sent dataset is encrypted, and the received one would be in the clear: receive it below an \
                 encrypted dataset or with -o encryption=on, or allow it with -o encryption=off",
            ));
        }
        let mut settings = properties::settings(&self.active.pool, &above)?;
        let own = self.props(begin).map_err(Failure::usage)?;
        if let Some(value) = own.get("compression") {
            settings.compression = Compression::from_name(value).unwrap_or(settings.compression);
        }
        if let Some(value) = own.get("dedup") {
            settings.dedup = value == "on";
        }
        let engine = &self.daemon.engine;
        let Some(made) = made else {
            if kept.is_some() {
                return Err(otherwise());
            }
            return Ok(StreamSealer {
                records: Arc::new(RecordSealer::new(engine, family, None, &settings)?),
                suite: 0,
                keyring: None,
                is_key_root: false,
            });
        };
        let bytes = match kept {
            Some(kept) => kept.to_vec(),
            None => (made.keyring)(txg).map_err(Failure::other)?,
        };
        let suite = made.suite.id();
        let keyring = keyring_of(&bytes, family, suite).map_err(|error| match kept {
            Some(_) => otherwise(),
            None => error.into(),
        })?;
        let is_key_root = made.own.is_some();
        if is_key_root && kept.is_some() {
            return Err(otherwise());
        }
        if is_key_root && self.resumable {
            return Err(Failure::usage(
                "with -s a plain stream gets the key of the dataset above; receive it below an encrypted dataset, and give \
                 it a key of its own afterwards (key change), or receive it without -s",
            ));
        }
        let keys = match made.own {
            Some(own) => {
                let keys = keyring.open(&own)?;
                self.new.lock().key = Some(own);
                keys
            }
            None => {
                self.new.lock().sealed_by = Some(SealedBy::Above(*keyring.wrapping().id()));
                let key = self.active.loaded_key(self.active.key_root(&above)?)?;
                if kept.is_some() && keyring.wrapping().id() != key.id() {
                    return Err(otherwise());
                }
                keyring.open(&key)?
            }
        };
        let records = RecordSealer::new(engine, family, Some(keys), &settings)?;
        Ok(StreamSealer {
            records: Arc::new(records),
            suite: made.suite.id(),
            keyring: Some(bytes),
            is_key_root,
        })
    }

    /// Loads the key that a new dataset got, as 'create' does. The caller holds the lock of the pool.
    fn keep_key(&self) {
        let own = self.new.lock().key.take();
        if let (Some(own), Ok(made)) = (own, self.active.pool.find(self.dataset)) {
            self.active.keys.put(made.id, own);
            self.active.accept_as_set(made.id);
        }
    }

    /// Refuses to finish a receive if the keys were changed meanwhile.
    fn check_keys(&self) -> Result<()> {
        let sealed_by = self.new.lock().sealed_by.clone();
        let is_same = match sealed_by {
            None => true,
            Some(SealedBy::Above(id)) => {
                let ring = self.active.keyring(&*self.above()?)?;
                *ring.wrapping().id() == id
            }
            Some(SealedBy::Generation(number)) => {
                let head = self.active.pool.find(self.dataset)?;
                self.active.keyring(&head)?.generation(number).is_some()
            }
        };
        match is_same {
            true => Ok(()),
            false => Err(Failure::usage(
                "its keys were changed meanwhile; receive it again",
            )),
        }
    }
}

impl ReceivePolicy for ReceiveRules<'_> {
    fn keyring(
        &self,
        begin: &Begin,
        current: Option<&[u8]>,
    ) -> std::result::Result<Option<Vec<u8>>, String> {
        let bad = |error: keys::Error| format!("the keyring that comes with it: {error}");
        let sent = keyring_of(&begin.keyring, begin.family, begin.suite).map_err(bad)?;
        let Some(current) = current else {
            return match sent.wrapping() {
                WrappingKeyAccess::Own { .. } => Ok(Some(begin.keyring.clone())),
                WrappingKeyAccess::Inherited { .. } => Err("the stream brings no key slots".into()),
            };
        };
        let bad = |error: keys::Error| format!("its keyring: {error}");
        let own = keyring_of(current, begin.family, begin.suite).map_err(bad)?;
        let key = self
            .key
            .as_ref()
            .filter(|key| key.id() == own.wrapping().id());
        let own = match key {
            // Another receive may have brought generations that do not open.
            Some(key) => own.opened_by(key).map_err(bad)?.0,
            None => own,
        };
        let mut merged = merge(&own, &sent)?;
        if let (Some(merged), Some(key)) = (&mut merged, key) {
            let opened = merged.open(key).map(drop);
            let settled = opened.and_then(|()| merged.settle_heads(key));
            settled.map_err(|error| {
                format!("the data keys that the stream brings do not open with the key of the dataset: {error}")
            })?;
        }
        Ok(merged.map(|keyring| keyring.encode()))
    }

    fn sealing(
        &self,
        begin: &Begin,
        family: u64,
        txg: u64,
        kept: Option<&[u8]>,
    ) -> std::result::Result<StreamSealer, String> {
        if self.right.takes_only_sealed() {
            return Err("the token receives streams as they are sealed: send it with -w".into());
        }
        let sealing = match self.active.pool.find(self.dataset) {
            Ok(head) => self.seal_for(&head),
            Err(_) => self.seal_new(begin, family, txg, kept),
        };
        sealing.map_err(|failure| {
            *self.no_key.lock() = failure.kind == FailureKind::NoKey;
            failure.message
        })
    }

    fn props(&self, begin: &Begin) -> std::result::Result<BTreeMap<String, String>, String> {
        let mut props = begin.props.clone();
        props.retain(|name, value| {
            let is_known = properties::check(name, value, Settable::WithKey).is_ok();
            let may_set = name == "keysource"
                || !self
                    .right
                    .forbidden()
                    .contains(properties::permission_for(name));
            let travels = Property::find(name).is_none_or(|p| p.received == ReceiveTreatment::Kept);
            is_known && may_set && travels && !self.exclude.iter().any(|left| left == name)
        });
        for property in PROPERTIES {
            let ReceiveTreatment::Distrusted(value) = property.received else {
                continue;
            };
            let name = property.name;
            let is_trusted = self.exclude.iter().any(|left| left == name)
                && !self.right.forbidden().contains(name);
            if begin.volume.is_none() && !is_trusted {
                props.insert(name.into(), value.into());
            }
        }
        props.remove(properties::OWNER);
        props.extend(self.owner.clone());
        // Received snapshots have the names of the sender's schedule. A schedule of this pool would prune them.
        if !self.exclude.iter().any(|left| left == SCHEDULE)
            || self.right.forbidden().contains(SCHEDULE)
        {
            props.insert(SCHEDULE.into(), "none".into());
        }
        if begin.plain.is_some() {
            props.retain(|name, _| !OF_KEYS.contains(&name.as_str()));
            props.extend(self.new.lock().props.clone());
            return Ok(props);
        }
        if self.says_how {
            return Err(
                "the stream was sent with -w, so its dataset stays encrypted as at the sender; send it without \
                 -w to choose the encryption here, or use 'key change' afterwards"
                    .into(),
            );
        }
        if begin.suite == 0 {
            props.remove("keysource");
        } else {
            let suite = Suite::from_id(begin.suite).ok_or("its cipher is not known")?;
            props.insert("encryption".into(), suite.name().into());
            let source = props.remove("keysource");
            props.insert("keysource".into(), self.keysource(source));
        }
        props.extend(self.props.clone());
        Ok(props)
    }

    fn may_clone(&self, _: &Entry) -> bool {
        self.may_clone
    }

    /// Keyrings change one after the other.
    fn finish(&self, finish: &mut dyn FnMut() -> pool::Result<String>) -> pool::Result<String> {
        let refused = |failure: Failure| pool::Error::Refused {
            name: self.dataset.into(),
            reason: failure.message,
        };
        let _admin = self.active.lock(self.right).map_err(|failure| {
            let reason = failure.message.clone();
            *self.refusal.lock() = Some(failure);
            pool::Error::Refused {
                name: self.dataset.into(),
                reason,
            }
        })?;
        self.check_keys().map_err(refused)?;
        let withdrawn = self
            .daemon
            .withdraw(&[(self.active, self.mounted_in())], self.force)
            .map_err(|failure| {
                tracing::info!(reason = failure.message, "a receive cannot end");
                pool::Error::Busy {
                    name: format!(
                        "'{}' stays as it was: its mount (close its files, or receive with -F)",
                        self.dataset
                    ),
                }
            })?;
        let finished = finish();
        if finished.is_ok() {
            self.right.has_received();
            self.keep_key();
        }
        if self.force && finished.is_ok() {
            // It may have taken the dataset back. Mounting it compares it with the state that this machine saw.
            let taken_back = self.active.pool.find(self.dataset);
            taken_back
                .iter()
                .for_each(|entry| self.active.forget_seen(entry));
        }
        // A token that only receives changes no mounts: what was mounted is mounted again.
        if self.no_mount && finished.is_ok() && !self.right.takes_only_sealed() {
            return finished;
        }
        let failures = withdrawn.offer_again(self.daemon);
        let cuts = self.active.take_cuts().into_iter().map(Failure::other);
        self.failures
            .lock()
            .extend(failures.into_iter().chain(cuts));
        finished
    }

    fn received(&self, name: &str) {
        self.received.lock().push(name.into());
    }
}

/// The highest number of a generation that is accepted from a stream. Rotations never reach it in practice, and numbers
/// above it remain for later rotations.
const NUMBER_MAX: u32 = 1 << 31;

/// Adds to a keyring the generations that only the other keyring of the same dataset has; `None` if there are none.
/// The slots and the wrapping key stay.
fn merge(own: &Keyring, sent: &Keyring) -> std::result::Result<Option<Keyring>, String> {
    let mut new = Vec::new();
    for generation in sent.generations() {
        match own.generation(generation.number()) {
            Some(known) if known.is_same(generation) => {}
            Some(_) => {
                return Err(format!(
                    "its keys were rotated here and at the sender separately: generation {} of its keyring is \
                     another one there; receive a full stream under another name (if that generation came with \
                     a stream of another user, load the key of the dataset first)",
                    generation.number()
                ));
            }
            None if generation.suite() != own.newest().suite()
                || generation.number() > NUMBER_MAX =>
            {
                return Err(format!(
                    "the stream has data keys (generation {}) that 'key rotate' cannot have made; it is \
                     damaged or forged",
                    generation.number()
                ));
            }
            None => new.push(generation.clone()),
        }
    }
    let Some(first) = new.first() else {
        return Ok(None);
    };
    if sent.wrapping().id() != own.wrapping().id() {
        return Err(format!(
            "the stream has data keys (generation {}) that are wrapped by another wrapping key: 'key change' \
             was used here or at the sender since. A receive replaces no key: receive a full stream under \
             another name",
            first.number()
        ));
    }
    let mut all = [own.generations(), &new].concat();
    all.sort_by_key(KeyGeneration::number);
    let merged = Keyring::new(own.family(), own.wrapping().clone(), all);
    merged.map(Some).map_err(|error| error.to_string())
}
