//! Keys: making them, loading and unloading them, and putting others in their place.
//!
//! A dataset either has key slots of its own (it is a *key root*) or inherits the wrapping key of the
//! key root above it. A change of keys rewraps every keyring below the key root in one commit, so
//! that at no moment a keyring names a wrapping key that nothing unwraps.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cipher::{Suite, SystemRandom};
use keys::{
    Argon2Params, DataKeys, Format, Generation, KeyMaterial, KeySource, Keyring, Location,
    Wrapping, WrappingKey,
};
use pool::{Entry, MakeKeyring, NewKeyring, Origin};

use crate::api::{Ask, AskFormat, Failure, FailureKind};
use crate::failure::Result;
use crate::imported::Imported;
use crate::properties;

/// A passphrase takes about this long to try.
const KDF_TIME: Duration = Duration::from_millis(500);

/// Whoever can ask a person.
pub(crate) trait Asker {
    /// Asks for a secret; `None` if there will be none.
    fn ask(&mut self, ask: Ask) -> Result<Option<keys::Secret>>;

    /// Tells a person something.
    fn notice(&mut self, text: String);
}

/// Seconds since 1970.
pub(crate) fn now_secs() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
}

/// Gets a key from where it comes from. `new`: it is made now, so a person types it twice.
pub(crate) fn material(
    source: &KeySource,
    dataset: &str,
    new: bool,
    asker: &mut dyn Asker,
) -> Result<KeyMaterial> {
    let context = |failure: Failure| failure.context(format_args!("the key of '{dataset}'"));
    match source.location() {
        Location::File(_) => {
            let read = keys::read_file_with(source, |warning| asker.notice(warning.to_string()));
            read.map_err(|error| context(error.into()))
        }
        Location::Prompt => {
            let format = match source.format() {
                Format::Hex => AskFormat::Hex,
                Format::Passphrase | Format::Raw => AskFormat::Passphrase,
            };
            let ask = Ask {
                dataset: dataset.into(),
                format,
                twice: new,
            };
            let typed = asker.ask(ask)?.ok_or_else(|| {
                Failure::new(
                    FailureKind::NoKey,
                    format!("the key of '{dataset}' was not given; its keysource is '{source}'"),
                )
            })?;
            keys::material_from_prompt(source.format(), typed)
                .map_err(|error| context(error.into()))
        }
    }
}

/// A wrapping key of its own for a dataset, and the slot that unwraps it.
fn new_wrapping(material: &KeyMaterial) -> Result<(Wrapping, WrappingKey)> {
    let params = match material {
        KeyMaterial::Passphrase(_) => Argon2Params::calibrate(KDF_TIME)?,
        KeyMaterial::Key(_) => Argon2Params::RECOMMENDED,
    };
    Ok(Wrapping::create(
        material,
        &params,
        now_secs(),
        &SystemRandom,
    )?)
}

/// Where the keys of a new dataset come from.
pub(crate) enum NewKey {
    /// From a key of its own.
    Own(KeyMaterial),
    /// From the key of the dataset above.
    Inherited(WrappingKey),
}

/// What a new encrypted dataset needs: its keyring, once the transaction group is known, and its
/// wrapping key, if it has one of its own.
pub(crate) fn new_keyring(
    key: NewKey,
    family: u64,
    suite: Suite,
) -> Result<(MakeKeyring, Option<WrappingKey>)> {
    let (wrapping, key, own) = match key {
        NewKey::Own(material) => {
            let (wrapping, key) = new_wrapping(&material)?;
            let own = key.try_clone()?;
            (wrapping, key, Some(own))
        }
        NewKey::Inherited(key) => (Wrapping::Inherited { id: *key.id() }, key, None),
    };
    let make = move |txg| {
        let (generation, _) =
            Generation::create(&key, family, 1, txg, suite, now_secs(), &SystemRandom)?;
        Ok(Keyring::new(family, wrapping, vec![generation])?.encode())
    };
    let make: MakeKeyring =
        Box::new(move |txg| make(txg).map_err(|error: keys::Error| error.to_string()));
    Ok((make, own))
}

impl Imported {
    /// The keyring of a dataset; of a snapshot, its dataset's.
    pub(crate) fn keyring(&self, entry: &Entry) -> Result<Keyring> {
        let bytes = self.pool.keyring(entry.id)?;
        let name = self.pool.name_of(entry.id)?;
        Keyring::decode(&bytes)
            .map_err(|error| Failure::from(error).context(format_args!("the keyring of '{name}'")))
    }

    /// Where the key of a key root comes from.
    pub(crate) fn keysource(&self, key_root: &Entry) -> Result<KeySource> {
        let (value, _) = properties::effective(&self.pool, key_root, "keysource")?;
        Ok(value.parse::<KeySource>()?)
    }

    /// A copy of the wrapping key of a key root, if it is loaded.
    pub(crate) fn wrapping_key(&self, key_root: u64) -> Result<Option<WrappingKey>> {
        let keys = self.keys.lock();
        Ok(keys
            .get(&key_root)
            .map(WrappingKey::try_clone)
            .transpose()?)
    }

    /// A copy of the wrapping key of a key root, which has to be loaded.
    pub(crate) fn loaded_key(&self, key_root: u64) -> Result<WrappingKey> {
        self.wrapping_key(key_root)?.ok_or_else(|| {
            let name = self.pool.name_of(key_root).unwrap_or_default();
            Failure::new(
                FailureKind::NoKey,
                format!(
                    "the key of '{name}' is not loaded; load it with 'strongroom key load {name}'"
                ),
            )
        })
    }

    /// The data keys of a dataset or snapshot, if it is encrypted.
    pub(crate) fn data_keys(&self, entry: &Entry) -> Result<Option<Vec<DataKeys>>> {
        if entry.suite == 0 {
            return Ok(None);
        }
        let key = self.loaded_key(entry.key_root)?;
        let opened = self.keyring(entry)?.open(&key);
        let name = self.pool.name_of(entry.id)?;
        opened
            .map(Some)
            .map_err(|error| Failure::from(error).context(format_args!("the keyring of '{name}'")))
    }

    /// Loads the key of a key root, from `source` or from where its property says. With `dry_run`
    /// only tries it.
    pub(crate) fn load_key(
        &self,
        key_root: &Entry,
        source: Option<&KeySource>,
        dry_run: bool,
        asker: &mut dyn Asker,
    ) -> Result<()> {
        let name = self.pool.name_of(key_root.id)?;
        if !dry_run && self.keys.lock().contains_key(&key_root.id) {
            return Err(Failure::new(
                FailureKind::Exists,
                format!("the key of '{name}' is loaded already"),
            ));
        }
        let keyring = self.keyring(key_root)?;
        let own = self.keysource(key_root)?;
        let material = material(source.unwrap_or(&own), &name, false, asker)?;
        let key = keyring
            .unlock(&material)
            .map_err(|error| Failure::from(error).context(format_args!("the key of '{name}'")))?;
        if !dry_run {
            self.keys.lock().insert(key_root.id, key);
        }
        Ok(())
    }

    /// Puts another key in the place of a dataset's, or gives a key of its own to one that inherits.
    pub(crate) fn change_key(
        &self,
        entry: &Entry,
        keysource: Option<&str>,
        origin: &Origin,
        asker: &mut dyn Asker,
    ) -> Result<()> {
        let name = self.pool.name_of(entry.id)?;
        if entry.suite == 0 {
            return Err(Failure::other(format!("'{name}' is not encrypted")));
        }
        if entry.is_snapshot() {
            return Err(Failure::other(format!(
                "'{name}' is a snapshot and has the key of its dataset; change that"
            )));
        }
        let old = self.loaded_key(entry.key_root)?;
        let source = match keysource {
            Some(text) => text.parse::<KeySource>()?,
            None if entry.key_root == entry.id => self.keysource(entry)?,
            None => KeySource::default(),
        };
        let material = material(&source, &name, true, asker)?;
        let (wrapping, new) = new_wrapping(&material)?;
        let mut changes = Vec::new();
        for below in self.heads_below(entry)? {
            if below.key_root != entry.key_root {
                continue;
            }
            let is_root = below.id == entry.id;
            let wrapping = match is_root {
                true => wrapping.clone(),
                false => Wrapping::Inherited { id: *new.id() },
            };
            let keyring = self
                .keyring(&below)?
                .rewrap(&old, wrapping, &new, &SystemRandom)?;
            let props = match is_root {
                true => vec![("keysource".to_owned(), Some(source.to_string()))],
                false => Vec::new(),
            };
            changes.push(NewKeyring {
                id: below.id,
                keyring: keyring.encode(),
                key_root: entry.id,
                props,
            });
        }
        self.pool.replace_keyrings(&changes, origin)?;
        self.keys.lock().insert(entry.id, new);
        Ok(())
    }

    /// Every dataset, without snapshots.
    pub(crate) fn all_heads(&self) -> Result<Vec<Arc<Entry>>> {
        self.heads_below(self.pool.top()?.as_ref())
    }

    /// A dataset and the datasets below it, without snapshots.
    pub(crate) fn heads_below(&self, entry: &Entry) -> Result<Vec<Arc<Entry>>> {
        let listed = self.pool.list(entry.id)?;
        Ok(listed
            .into_iter()
            .map(|listed| listed.entry)
            .filter(|entry| !entry.is_snapshot())
            .collect())
    }
}
