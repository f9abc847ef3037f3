//! Gets keys of datasets from where they come from: prompts, files, servers, tokens, the TPM.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cipher::{Suite, SystemRandom};
use keys::{KeyMaterial, KeySource, Location, MaterialFormat, WrappingKey, WrappingKeyAccess};
use protocol::api::{Ask, AskFormat, FailureKind};
use secret::Secret;

use crate::failure::{Failure, Result};
use crate::host::pkcs11::token_modules;
use crate::state::callers::channel::{Channel, NonInteractive};

/// The time limit for a key server, a provider program, or the file system of a key file.
const KEY_TIME: Duration = Duration::from_secs(30);

/// A later limit, so that a source that ends at [`KEY_TIME`] can still report why there is no key.
const KEY_TIME_OUTER: Duration = Duration::from_secs(35);

/// The time limit for a TPM, which may have many slots to open, and for parts of a key.
const UNLOCK_TIME: Duration = Duration::from_secs(90);

/// Gets a key for a dataset with this cipher suite from where it comes from. `new`: it is made now, so a person types
/// it twice.
pub(crate) fn material(
    source: &KeySource,
    (dataset, suite): (&str, u8),
    new: bool,
    channel: &mut dyn Channel,
) -> Result<KeyMaterial> {
    let what = format!("the key of '{dataset}'");
    let material = any_material(source, (dataset, &what), new, channel)?;
    match new {
        true => suited(material, suite)
            .map_err(|failure| failure.context(format_args!("the key of '{dataset}'"))),
        // A received dataset has the key of the sender's key root, which may have another suite.
        false => Ok(material),
    }
}

/// The keys that several sources have, and the first failure of the others.
#[derive(Default)]
pub(crate) struct Materials {
    pub(crate) found: Vec<(KeySource, KeyMaterial)>,
    pub(crate) failure: Option<Failure>,
}

impl Materials {
    /// Makes the material of a single key.
    pub(crate) fn one(source: &KeySource, key: KeyMaterial) -> Materials {
        Materials {
            found: vec![(source.clone(), key)],
            failure: None,
        }
    }

    fn add(&mut self, source: &KeySource, key: Result<KeyMaterial>) {
        match key {
            Ok(key) => self.found.push((source.clone(), key)),
            Err(failure) => drop(self.failure.get_or_insert(failure)),
        }
    }

    /// The first failure if there is no key.
    fn any(self) -> Result<Materials> {
        match self.failure {
            Some(failure) if self.found.is_empty() => Err(failure),
            _ => Ok(self),
        }
    }
}

/// The keys of all sources that have one. What is told about them is told once.
///
/// # Errors
/// As for [`material`] if none has a key.
pub(crate) fn materials(
    sources: &[KeySource],
    dataset: (&str, u8),
    channel: &mut dyn Channel,
) -> Result<Materials> {
    if let [source] = sources {
        let key = material(source, dataset, false, channel)?;
        return Ok(Materials::one(source, key));
    }
    if are_typed(sources) {
        let what = format!("the key of '{}'", dataset.0);
        let format = typed_format(sources[0].format());
        let typed = asked(
            &sources[0],
            (dataset.0, &what),
            (format, false),
            false,
            channel,
        )?;
        return typed_materials(sources, &typed);
    }
    let mut quiet = NonInteractive::default();
    let mut all = Materials::default();
    for source in sources {
        all.add(source, material(source, dataset, false, &mut quiet));
    }
    quiet.notices.dedup();
    quiet
        .notices
        .into_iter()
        .for_each(|text| channel.notice(text));
    all.any()
}

/// Returns whether a person types the key, in the format of any of these sources.
fn are_typed(sources: &[KeySource]) -> bool {
    let is_typed = |source: &KeySource| matches!(source.location(), Location::Prompt);
    !sources.is_empty() && sources.iter().all(is_typed)
}

/// The keys that a text can be, in the formats of these sources.
fn typed_materials(sources: &[KeySource], typed: &Secret) -> Result<Materials> {
    let mut all = Materials::default();
    for source in sources {
        let key = typed_material(source.format(), typed.try_clone()?, false);
        all.add(source, key.map_err(Into::into));
    }
    all.any()
}

pub(crate) struct OpenedSlot {
    pub(crate) source: KeySource,
    pub(crate) slot: u32,
    pub(crate) key: WrappingKey,
}

/// Tries keys on all slots, one key after the other.
///
/// # Errors
/// The first failure that says more than that no slot opens; else [`keys::Error::WrongKey`] if a slot takes keys of the
/// kind of one of them; else why a source has no key, or the last failure.
pub(crate) fn first_that_opens(
    wrapping: &WrappingKeyAccess,
    keys: Materials,
) -> Result<OpenedSlot> {
    use keys::Error::{KindMismatch, WrongKey};
    let (mut wrong, mut other, mut mismatch) = (None, None, None);
    for (source, material) in keys.found {
        let error = match unlocked_slot(wrapping, material) {
            Ok((slot, key)) => return Ok(OpenedSlot { source, slot, key }),
            Err(error) => error,
        };
        match error {
            WrongKey => wrong = Some(error),
            KindMismatch(_) => mismatch = Some(error),
            _ => other = other.or(Some(error)),
        }
    }
    Err(match (other.or(wrong), keys.failure) {
        (Some(error), _) => error.into(),
        (None, Some(failure)) => failure,
        (None, None) => mismatch.unwrap_or(WrongKey).into(),
    })
}

/// Refuses a key that is not as long as the cipher suite needs. What has an unknown suite is refused elsewhere.
fn suited(material: KeyMaterial, suite: u8) -> Result<KeyMaterial> {
    if let Some(suite) = Suite::from_id(suite) {
        material.check_for(suite)?;
    }
    Ok(material)
}

/// `what` it is, for errors.
fn any_material(
    source: &KeySource,
    (dataset, what): (&str, &str),
    new: bool,
    channel: &mut dyn Channel,
) -> Result<KeyMaterial> {
    let context = |error: keys::Error| failure_of(error, new).context(what);
    let ask = |format, twice, channel: &mut dyn Channel| {
        asked(source, (dataset, what), (format, twice), new, channel)
    };
    match source.location() {
        Location::File(path) => {
            let path = path.display().to_string();
            let source = source.clone();
            let read = keys::in_time(&path, KEY_TIME, move || {
                let mut warned = None;
                let material = keys::read_file_with(&source, |warning| warned = Some(warning))?;
                Ok((material, warned))
            });
            let (material, warned) = read.map_err(context)?;
            if let Some(warning) = warned {
                channel.notice(warning.to_string());
            }
            Ok(material)
        }
        Location::Https(url) => {
            let (url, format) = (url.clone(), source.format());
            let origin = "the key server";
            keys::in_time(origin, KEY_TIME_OUTER, move || {
                keys::fetch(&url, format, KEY_TIME)
            })
            .map_err(context)
        }
        Location::Provider(provider) => {
            let (provider, format) = (provider.clone(), source.format());
            let name = dataset.to_owned();
            let ask = move || {
                let request = keys::KeyRequest {
                    format,
                    dataset: &name,
                    places: &provider_places(),
                    time_max: KEY_TIME,
                };
                keys::ask_provider(&provider, &request)
            };
            let origin = "the key provider";
            keys::in_time(origin, KEY_TIME_OUTER, ask).map_err(context)
        }
        Location::Token(uri) => {
            let pin = match uri.pin_source() {
                Some(path) => {
                    let (shown, path) = (path.display().to_string(), path.to_owned());
                    keys::in_time(&shown, KEY_TIME, move || keys::read_pin(&path))
                        .map_err(context)?
                }
                None => ask(AskFormat::Pin, false, channel)?,
            };
            keys::token_material(&token_modules(None), uri, source.format(), pin).map_err(context)
        }
        Location::Tang(server) => {
            let server = server.clone();
            let work = move || {
                let key = keys::TangKey::new(&server, KEY_TIME)?;
                // A slot that exists says itself what the server is to be asked.
                let key = if new { key.ask()? } else { key };
                Ok(KeyMaterial::Tang(Box::new(key)))
            };
            keys::in_time("the Tang server", KEY_TIME_OUTER, work).map_err(context)
        }
        Location::Tpm(tpm) => {
            // Asked once: a wrong one counts.
            let pin = match tpm.has_pin() {
                true => Some(ask(AskFormat::Pin, new, channel)?),
                false => None,
            };
            let key = keys::TpmKey::new(tpm, pin).map_err(context)?;
            let work = move || {
                let key = if new { key.seal(&SystemRandom)? } else { key };
                Ok(KeyMaterial::Tpm(Box::new(key)))
            };
            keys::in_time("the TPM", KEY_TIME_OUTER, work).map_err(context)
        }
        Location::Shared(shared) => {
            shared_material(shared, dataset, new, channel).map_err(|failure| failure.context(what))
        }
        Location::Prompt => {
            let typed = ask(typed_format(source.format()), new, channel)?;
            typed_material(source.format(), typed, new).map_err(context)
        }
    }
}

/// Asks a person for a key, twice if it has to be repeated. `new`: for a key that is made now.
fn asked(
    source: &KeySource,
    (dataset, what): (&str, &str),
    (format, twice): (AskFormat, bool),
    new: bool,
    channel: &mut dyn Channel,
) -> Result<Secret> {
    let ask = Ask {
        dataset: dataset.into(),
        format,
        twice,
        again: false,
    };
    channel.ask(ask)?.ok_or_else(|| {
        Failure::new(
            FailureKind::NoKey,
            format!(
                "{what} was not given; its keysource is '{source}': {}",
                match new {
                    true => "type it at a terminal, or give it on the standard input".into(),
                    false => format!(
                        "'strongroom key load {dataset}' asks for it at a terminal, and so does \
                         'strongroom mount -a -l' for all"
                    ),
                }
            ),
        )
    })
}

/// Gets what the sources have that hold a key together, all at the same time. The PIN of a TPM is asked for at the end, so
/// that nobody gives it in vain.
fn shared_material(
    shared: &keys::SharedSource,
    dataset: &str,
    new: bool,
    channel: &mut dyn Channel,
) -> Result<KeyMaterial> {
    let get = |location: &Location, channel: &mut dyn Channel| {
        let source = KeySource::new(MaterialFormat::Raw, location.clone())?;
        any_material(&source, (dataset, &location.to_string()), new, channel)
    };
    let (asking, others): (Vec<&Location>, Vec<&Location>) =
        shared.parts().iter().partition(|part| part.asks());
    let mut parts = Vec::new();
    for (part, notices) in at_the_same_time(&others, get) {
        notices.into_iter().for_each(|text| channel.notice(text));
        parts.push(part);
    }
    for location in asking {
        // A new key needs all of them, one that exists only some.
        let is_in_vain = new && parts.iter().any(Result::is_err);
        if !is_in_vain {
            parts.push(get(location, channel));
        }
    }
    let mut held = Vec::new();
    for part in parts {
        match part {
            Err(failure) if new => return Err(failure),
            part => held.push(part.map_err(|failure| failure.message.clone())),
        }
    }
    let key = KeyMaterial::shared(shared.threshold(), held);
    let work = move || {
        let key = if new { key.seal(&SystemRandom)? } else { key };
        Ok(KeyMaterial::Shared(Box::new(key)))
    };
    Ok(keys::in_time("the parts of the key", KEY_TIME_OUTER, work)?)
}

/// Gets parts of a key on threads, and what is to be told about them.
fn at_the_same_time(
    locations: &[&Location],
    get: impl Fn(&Location, &mut dyn Channel) -> Result<KeyMaterial> + Sync,
) -> Vec<(Result<KeyMaterial>, Vec<String>)> {
    let failed = || Failure::other("a thread for a part of the key failed");
    let caller = keys::HashCaller::present();
    std::thread::scope(|scope| {
        let (get, caller) = (&get, &caller);
        let start = |location| {
            threads::start_in(scope, "key part", move || {
                let _scope = keys::hash_for(caller.clone());
                let mut nobody = NonInteractive::default();
                (get(location, &mut nobody), nobody.notices)
            })
        };
        let threads: Vec<_> = locations.iter().copied().map(start).collect();
        let threads = threads.into_iter();
        let ends = threads.map(|thread| thread.ok().and_then(|thread| thread.join().ok()));
        ends.map(|end| end.unwrap_or_else(|| (Err(failed()), Vec::new())))
            .collect()
    })
}

/// The wrapping key of these slots. A TPM and the sources of a key in parts are asked only now, and may never answer.
pub(crate) fn unlocked(
    wrapping: &WrappingKeyAccess,
    material: KeyMaterial,
) -> keys::Result<WrappingKey> {
    unlocked_slot(wrapping, material).map(|(_, key)| key)
}

/// Unlocks a wrapping key, and returns the number of the slot that opened too.
fn unlocked_slot(
    wrapping: &WrappingKeyAccess,
    material: KeyMaterial,
) -> keys::Result<(u32, WrappingKey)> {
    match material {
        KeyMaterial::Tpm(_) | KeyMaterial::Shared(_) => {
            let wrapping = wrapping.clone();
            let work = move || wrapping.unlock_slot(&material);
            keys::in_time("the TPM or a part of the key", UNLOCK_TIME, work)
        }
        material => wrapping.unlock_slot(&material),
    }
}

/// Asks again after a wrong key. `None` if no user answers, or if the key does not come from a prompt.
pub(crate) fn typed_again(
    sources: &[KeySource],
    dataset: &str,
    channel: &mut dyn Channel,
) -> Result<Option<Materials>> {
    if !are_typed(sources) {
        return Ok(None);
    }
    let ask = Ask {
        dataset: dataset.into(),
        format: typed_format(sources[0].format()),
        twice: false,
        again: true,
    };
    let typed = channel.ask(ask)?;
    typed
        .map(|typed| typed_materials(sources, &typed))
        .transpose()
}

/// Makes a key of what a person typed. No key that exists has a passphrase that a new one may not have: such a one is
/// wrong.
pub(crate) fn typed_material(
    format: MaterialFormat,
    typed: Secret,
    new: bool,
) -> keys::Result<KeyMaterial> {
    keys::material_from_prompt(format, typed).map_err(|error| match new {
        false if is_of_length(&error) => keys::Error::WrongKey,
        _ => error,
    })
}

/// The failure of a source that gave no key. For a key that exists, a passphrase with an impossible length is wrong.
fn failure_of(error: keys::Error, new: bool) -> Failure {
    let is_wrong = !new && is_of_length(&error);
    let mut failure = Failure::from(error);
    if is_wrong {
        failure.kind = FailureKind::WrongKey;
    }
    failure
}

/// Returns whether a passphrase is shorter or longer than a new one may be.
fn is_of_length(error: &keys::Error) -> bool {
    use keys::Error::{PassphraseLong, PassphraseShort};
    matches!(error, PassphraseShort { .. } | PassphraseLong { .. })
}

/// The form in which a user types a key.
fn typed_format(format: MaterialFormat) -> AskFormat {
    match format {
        MaterialFormat::Hex => AskFormat::Hex,
        MaterialFormat::Passphrase | MaterialFormat::Raw => AskFormat::Passphrase,
    }
}

/// Directories in which programs and sockets give keys: those of the variable `STRONGROOM_KEY_PROVIDERS`,
/// with colons between them, if the daemon was started with it.
fn provider_places() -> Vec<PathBuf> {
    if let Some(places) = std::env::var_os("STRONGROOM_KEY_PROVIDERS") {
        return std::env::split_paths(&places).collect();
    }
    let mut places: Vec<PathBuf> = [
        "/etc/strongroom/key-providers",
        "/usr/local/libexec/strongroom",
        "/usr/libexec/strongroom",
        "/run/strongroom/key-providers",
    ]
    .map(PathBuf::from)
    .into();
    if !rustix::process::geteuid().is_root()
        && let Some(home) = std::env::var_os("HOME")
    {
        places.push(Path::new(&home).join(".local/libexec/strongroom"));
    }
    places
}
