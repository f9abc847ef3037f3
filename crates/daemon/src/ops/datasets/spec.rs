//! The specification of a new dataset. It is complete, with the key, before the pool is locked.

use std::collections::BTreeMap;

use cipher::Suite;
use keys::{KeySource, WrappingKey};
use pool::{DatasetKind, Entry, MakeKeyring, NewDataset, VolumeShape};
use protocol::api::{FailureKind, Props};
use protocol::property::Settable;

use crate::failure::{Failure, Result};
use crate::host::process::system::new_guid;
use crate::state::callers::channel::Channel;
use crate::state::datasets::properties;
use crate::state::keys::key_material::material;
use crate::state::keys::keyring::{KeyOrigin, OwnKey, new_keyring, new_wrapping};
use crate::state::pools::active_pool::ActivePool;

/// The properties and the key of a new dataset, as decided from a command.
pub(crate) struct DatasetSpec {
    props: BTreeMap<String, String>,
    suite: Option<Suite>,
    /// The dataset's own key, if it does not inherit one.
    own: Option<OwnKey>,
    /// The suite of the dataset above. The other fields depend on it.
    suite_above: u8,
    volume: Option<VolumeShape>,
}

impl DatasetSpec {
    /// Decides from a command, and asks for a key if the dataset is to have a key of its own. `suite_above` is 0 for
    /// the root dataset of a pool.
    pub(crate) fn new(
        suite_above: u8,
        name: &str,
        given: &Props,
        channel: &mut dyn Channel,
    ) -> Result<DatasetSpec> {
        let (mut spec, source) = DatasetSpec::without_key(suite_above, name, given)?;
        properties::tell_checksum(given, channel);
        if let Some(source) = source {
            let suite = spec.suite.map_or(0, Suite::id);
            let material = material(&source, (name, suite), true, channel)?;
            spec.own = Some(new_wrapping(&material, None)?);
        }
        Ok(spec)
    }

    /// Decides as [`DatasetSpec::new`], but returns the source of the dataset's own key instead of reading the key.
    pub(crate) fn without_key(
        suite_above: u8,
        name: &str,
        given: &Props,
    ) -> Result<(DatasetSpec, Option<KeySource>)> {
        let mut props = checked(given)?;
        let suite = match props.get("encryption").map(String::as_str) {
            None if suite_above == 0 => None,
            // Below an encrypted dataset, only an explicit 'off' makes a dataset without encryption.
            None => Some(Suite::from_id(suite_above).ok_or_else(|| {
                let text = format!("the cipher of the dataset above '{name}' is not known");
                Failure::new(FailureKind::TooNew, text)
            })?),
            Some("off") => None,
            Some(name) => Suite::from_name(name),
        };
        let source = match suite {
            None if props.contains_key("keysource") => {
                return Err(Failure::usage(
                    "a keysource is for encrypted datasets; add -o encryption=on",
                ));
            }
            None => None,
            Some(_) if suite_above != 0 && !props.contains_key("keysource") => None,
            Some(_) => {
                let default = KeySource::default().to_string();
                let source = props.entry("keysource".into()).or_insert(default);
                Some(source.parse::<KeySource>()?)
            }
        };
        if let (Some(value), Some(suite)) = (props.get_mut("encryption"), suite) {
            *value = suite.name().into();
        }
        let spec = DatasetSpec {
            props,
            suite,
            own: None,
            suite_above,
            volume: None,
        };
        Ok((spec, source))
    }

    /// Returns whether the dataset is encrypted. If [`DatasetSpec::without_key`] returned no source, the key of the
    /// dataset above wraps its keys.
    pub(crate) fn is_sealed(&self) -> bool {
        self.suite.is_some()
    }

    /// Makes it a volume, if `volume` is given.
    pub(crate) fn of_volume(self, volume: Option<VolumeShape>) -> DatasetSpec {
        DatasetSpec { volume, ..self }
    }

    /// Makes its keys. `above` is its pool and its parent; `None` for the root dataset of a pool.
    pub(crate) fn carry_out(
        self,
        above: Option<(&ActivePool, &Entry)>,
        name: &str,
    ) -> Result<(NewDataset, Option<WrappingKey>)> {
        let guid = new_guid();
        let volume = self.volume;
        let (keys, mut props) = self.keys(above, name, guid)?;
        let kind = match volume {
            None => DatasetKind::FileSystem,
            Some(_) => DatasetKind::Volume,
        };
        props.extend(volume.map(|shape| shape.mark()));
        let mut new = NewDataset {
            kind,
            guid,
            suite: 0,
            keyring: None,
            is_key_root: false,
            props,
        };
        let Some(keys) = keys else {
            return Ok((new, None));
        };
        new.suite = keys.suite.id();
        new.keyring = Some(keys.keyring);
        new.is_key_root = keys.own.is_some();
        Ok((new, keys.own))
    }

    /// Makes the keys of a dataset of this family, if it is encrypted, and returns its properties.
    pub(crate) fn keys(
        self,
        above: Option<(&ActivePool, &Entry)>,
        name: &str,
        family: u64,
    ) -> Result<(Option<NewDatasetKeys>, BTreeMap<String, String>)> {
        if above.map_or(0, |(_, parent)| parent.suite) != self.suite_above {
            return Err(Failure::new(
                FailureKind::Busy,
                format!("the dataset above '{name}' was replaced meanwhile; try again"),
            ));
        }
        let Some(suite) = self.suite else {
            return Ok((None, self.props));
        };
        let key = match (self.own, above) {
            (Some(own), _) => KeyOrigin::Own(own),
            (None, Some((active, parent))) => {
                KeyOrigin::Inherited(active.loaded_key(active.key_root(parent)?)?)
            }
            (None, None) => return Err(Failure::other("a pool has no key to inherit")),
        };
        let (keyring, own) = new_keyring(key, family, suite)?;
        let keys = NewDatasetKeys {
            suite,
            keyring,
            own,
        };
        Ok((Some(keys), self.props))
    }
}

pub(crate) struct NewDatasetKeys {
    pub(crate) suite: Suite,
    pub(crate) keyring: MakeKeyring,
    /// The wrapping key, if the dataset has one of its own.
    pub(crate) own: Option<WrappingKey>,
}

/// The given properties, after a check that a command may set them.
pub(crate) fn checked(given: &Props) -> Result<BTreeMap<String, String>> {
    let mut props = BTreeMap::new();
    for (key, value) in given {
        properties::check(key, value, Settable::AtCreation)?;
        let Some(value) = properties::stored(key, value) else {
            continue;
        };
        if props.insert(key.clone(), value).is_some() {
            return Err(Failure::usage(format!(
                "the property '{key}' is given twice"
            )));
        }
    }
    Ok(props)
}
