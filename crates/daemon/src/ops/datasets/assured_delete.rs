//! Assured delete: destroys a dataset with its keys, and reports what this proves.
//!
//! 1. The keyring is wrapped with a random key, which is then discarded. This overwrites the old keyring.
//! 2. The dataset is destroyed. This overwrites the new keyring too.
//! 3. The places of both keyrings are read back from every device.
//!
//! Devices that are away, and clones with the same data keys, are out of reach. The command names them, or refuses
//! before it changes anything.

use std::collections::BTreeSet;
use std::sync::Arc;

use cipher::SystemRandom;
use keys::{Argon2Params, KeyMaterial, WrappingKey, WrappingKeyAccess};
use pool::{DeviceInfo, Entry, NewKeyring, Origin, Reach};
use protocol::api::{FailureKind, ShredReport, Survivor};

use crate::failure::{Failure, Result};
use crate::host::process::system::now_secs;
use crate::ops::devices::commands::is_away;
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::front_end::ExclusiveUse;
use crate::state::keys::keyring::has_generation;
use crate::state::pools::active_pool::ActivePool;
use crate::state::pools::images::image_follower::COPY_OF_KEYS;

/// The keysource of a dataset whose key is unknown: each read of it gives another key.
const NOWHERE: &str = "raw,file:///dev/random";

impl Daemon {
    /// Destroys datasets and their keys. With `dry_run` it only reports what would be destroyed, and what would stay
    /// readable.
    pub(crate) fn shred(
        self: &Arc<Self>,
        name: &str,
        reach: Reach,
        force: bool,
        dry_run: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<ShredReport> {
        if name.contains('@') {
            return Err(Failure::usage(format!(
                "'{name}' has the keys of its dataset; only a dataset can be shredded"
            )));
        }
        let active = self.pool_of(name)?;
        let _admin = active.lock(context.decision)?;
        let doomed = active.pool.doomed(name, reach)?;
        if context.creator().is_some() {
            active.may_destroy(&doomed, &context.peer)?;
        }
        let heads = active.shreddable(&doomed)?;
        let devices = active.all_devices()?;
        let mut report = ShredReport {
            devices: devices.len(),
            survivors: active.survivors(&heads)?,
            ..ShredReport::default()
        };
        for entry in &doomed {
            report.destroyed.push(active.pool.name_of(entry.id)?);
        }
        if dry_run {
            return Ok(report);
        }
        active.pool.check_writable()?;
        self.may_go(&ExclusiveUse::Datasets(&active, &doomed))?;
        let ids: Vec<u64> = doomed.iter().map(|entry| entry.id).collect();
        active.close_snapshots(&ids);
        let own_dirs = active.own_dirs(ids.iter().copied());
        let withdrawn = self.withdraw(&[(&active, ids.clone())], force)?;
        context.tell_cuts(&active);
        let mut blocks = active.key_blocks(&heads)?;
        let destroyed = active
            .forget_keys(&heads, &context.origin(), &mut report)
            .and_then(|()| {
                blocks.extend(active.key_blocks(&heads)?);
                Ok(active
                    .pool
                    .destroy_dataset(name, reach, &context.origin())?)
            });
        if let Err(failure) = destroyed {
            context.tell(withdrawn.offer_again(self));
            return Err(failure);
        }
        withdrawn.clear();
        active.remove_left_dirs(own_dirs);
        active.keys.remove(&ids);
        active.wake();
        active.prove(&blocks)?;
        report.key_blocks = blocks.len();
        Ok(report)
    }
}

impl ActivePool {
    /// The datasets among these. All of them must have keys to destroy.
    fn shreddable(&self, doomed: &[Arc<Entry>]) -> Result<Vec<Arc<Entry>>> {
        let heads = doomed.iter().filter(|entry| !entry.is_snapshot());
        let heads: Vec<Arc<Entry>> = heads.cloned().collect();
        for head in &heads {
            if !self.pool.checkpoint_has_keys(head.id)? {
                continue;
            }
            let pool = self.pool.name();
            return Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "the checkpoint of '{pool}' has keys of '{}', which would come back with it; discard it first: \
                     strongroom pool checkpoint -d {pool}",
                    self.pool.name_of(head.id)?
                ),
            ));
        }
        match heads.iter().find(|head| head.suite == 0) {
            None => Ok(heads),
            Some(clear) => Err(Failure::usage(format!(
                "'{}' is not encrypted: its data stays on the devices until it is overwritten; destroy the \
                 dataset without --shred",
                self.pool.name_of(clear.id)?
            ))),
        }
    }

    /// The devices of the pool. None may be missing: it would keep the keys.
    fn all_devices(&self) -> Result<Vec<DeviceInfo>> {
        let devices = self.pool.devices();
        match devices.iter().find(|device| is_away(device)) {
            None => Ok(devices),
            Some(away) => Err(Failure::new(
                FailureKind::Device,
                format!(
                    "{path} is missing, and its wrapped keys cannot be overwritten; bring it back with 'pool \
                     online', or take it out with 'pool detach', which says whether its keys could be \
                     overwritten",
                    path = away.path
                ),
            )),
        }
    }

    /// The datasets that stay and have some of the data keys of the destroyed ones. Refuses if one of them has the
    /// newest data key: then nothing separates what the two wrote.
    fn survivors(&self, heads: &[Arc<Entry>]) -> Result<Vec<Survivor>> {
        let doomed: BTreeSet<u64> = heads.iter().map(|head| head.id).collect();
        let mut survivors = Vec::new();
        for other in self.all_heads()? {
            let relatives = heads.iter().filter(|head| head.family == other.family);
            if doomed.contains(&other.id) || other.suite == 0 {
                continue;
            }
            for head in relatives {
                survivors.extend(self.survivor(head, &other)?);
            }
        }
        Ok(survivors)
    }

    /// The part of a dataset that stays readable with the keys of another one.
    fn survivor(&self, head: &Arc<Entry>, other: &Arc<Entry>) -> Result<Option<Survivor>> {
        let (name, kept_by) = (self.pool.name_of(head.id)?, self.pool.name_of(other.id)?);
        let ((own, _), (theirs, _)) = (self.opened_keyring(head)?, self.opened_keyring(other)?);
        if has_generation(&theirs, own.newest()) {
            return Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "'{kept_by}' has the data keys of '{name}', so all data of '{name}' would stay readable; \
                     give '{name}' data keys of its own: strongroom key rotate --reencrypt {name}"
                ),
            ));
        }
        let shared = own.generations().iter();
        let shared: Vec<u32> = shared
            .filter(|generation| has_generation(&theirs, generation))
            .map(|generation| generation.number())
            .collect();
        if shared.is_empty() {
            return Ok(None);
        }
        let found = self.records_by_generation(head.id, &mut || Ok(()))?;
        let of_shared = shared.iter().filter_map(|number| found.get(number));
        let (records, bytes) = of_shared.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        Ok(Some(Survivor {
            dataset: name,
            kept_by,
            generations: shared,
            records,
            bytes,
        }))
    }

    /// Wraps keyrings with random keys and discards these keys, as far as the keys that open the keyrings are loaded.
    /// The old wrapped keys are overwritten.
    fn forget_keys(
        &self,
        heads: &[Arc<Entry>],
        origin: &Origin,
        report: &mut ShredReport,
    ) -> Result<()> {
        let mut changes = Vec::new();
        let mut new_keys = Vec::new();
        for head in heads {
            if !self.has_key(head.key_root) {
                let name = self.pool.name_of(head.id)?;
                report.not_rewrapped.push(name);
                continue;
            }
            let (wrapping, new) = random_wrapping()?;
            let old = self.loaded_key(head.key_root)?;
            let (keyring, _) = self.opened_keyring(head)?;
            let keyring = keyring.rewrap(&old, wrapping, &new, &SystemRandom)?;
            changes.push(NewKeyring {
                id: head.id,
                keyring: keyring.encode(),
                key_root: head.id,
                props: vec![("keysource".to_owned(), Some(NOWHERE.to_owned()))],
                done: "keyring wrapped by a random key".into(),
            });
            new_keys.push((head.id, new));
        }
        if changes.is_empty() {
            return Ok(());
        }
        report.rewrapped = changes.len();
        self.replace_keyrings(&changes, origin)?;
        // With the new keys loaded, the command can run again if the datasets cannot be destroyed now.
        for (id, key) in new_keys {
            self.keys.put(id, key);
        }
        Ok(())
    }

    /// The blocks that hold the keyrings of datasets.
    fn key_blocks(&self, heads: &[Arc<Entry>]) -> Result<BTreeSet<u32>> {
        let mut blocks = BTreeSet::new();
        for head in heads {
            let now = self.pool.entry(head.id)?;
            blocks.extend(now.keyring.iter().flat_map(|keyring| &keyring.blocks));
        }
        Ok(blocks)
    }

    /// Says how many devices keep wrapped keys that a command has just replaced. They are not named: a tenant may see this.
    pub(crate) fn tell_old_keys(&self, context: &mut CallerContext<'_>) {
        let away = self.pool.devices().iter().filter(|it| is_away(it)).count();
        if away > 0 {
            context.channel.notice(format!(
                "{away} of the devices of the pool could not be reached, and may keep the old wrapped keys; they are \
                 overwritten before such a device is used again, or by 'pool detach' if it can be reached"
            ));
        }
        if let Err(why) = self.copy_now(COPY_OF_KEYS) {
            tracing::warn!(
                pool = self.pool.name(),
                why,
                "the image of the pool may have old wrapped keys"
            );
            context.channel.notice(
                "the image of the pool in its object store could not be brought up to date, and may keep the old wrapped \
                 keys; they are removed when it follows again (pool status)"
                    .into(),
            );
        }
    }

    /// Reads every device to prove that nothing of the keyrings is left.
    fn prove(&self, blocks: &BTreeSet<u32>) -> Result<()> {
        let unproved = |why: String| {
            Failure::new(
                FailureKind::Device,
                format!("the dataset was destroyed, but {why}; overwrite or destroy that device"),
            )
        };
        if let Some(failed) = self.pool.devices().iter().find(|device| is_away(device)) {
            return Err(unproved(format!(
                "{} failed meanwhile and may keep the keys",
                failed.path
            )));
        }
        let image = self.pool.follower().info().map(|info| info.path);
        if let Err(why) = self.copy_now(COPY_OF_KEYS) {
            let path = image.unwrap_or_default();
            return Err(Failure::new(
                FailureKind::Device,
                format!(
                    "the dataset was destroyed, but it is not proven that its wrapped keys are gone from the image in \
                     {path}: {why}; they are removed when the image follows again, which pool status shows"
                ),
            ));
        }
        for block in blocks {
            if !self.pool.key_block_is_blank(*block)? {
                return Err(unproved(format!(
                    "key block {block} does not read as zeros on every device"
                )));
            }
        }
        Ok(())
    }
}

/// A wrapping key with one slot. The key that opens it is forgotten when this returns.
fn random_wrapping() -> Result<(WrappingKeyAccess, WrappingKey)> {
    let material = KeyMaterial::Key(keys::random_key(&SystemRandom)?);
    Ok(WrappingKeyAccess::create(
        &material,
        &Argon2Params::RECOMMENDED,
        now_secs(),
        &SystemRandom,
    )?)
}

#[cfg(test)]
mod tests {
    use secret::Key;

    use super::*;
    use crate::tests::{command, create, create_pool, daemon, encrypted, key_file};

    /// The keys are destroyed before the dataset. If the dataset cannot be destroyed, or the power fails between the
    /// two, no existing key opens what is left.
    #[test]
    fn what_is_forgotten_opens_with_no_key_that_there_was() {
        let dir = tempfile::tempdir().unwrap();
        let daemon = daemon(dir.path());
        let active = create_pool(&daemon, dir.path(), "tank");
        create(&daemon, "tank/a", &encrypted(&key_file(dir.path(), "key")));
        let heads = vec![active.pool.find("tank/a").unwrap()];
        let old = active.loaded_key(heads[0].key_root).unwrap();
        let file = std::fs::read(dir.path().join("key")).unwrap();
        let known = KeyMaterial::Key(Key::from_bytes(&file.try_into().unwrap()).unwrap());
        active.keyring(&heads[0]).unwrap().unlock(&known).unwrap();
        let blocks = active.key_blocks(&heads).unwrap();

        let mut report = ShredReport::default();
        let forgotten = |context: &mut CallerContext<'_>| {
            active.forget_keys(&heads, &context.origin(), &mut report)
        };
        command(forgotten).unwrap();
        let now = active.pool.find("tank/a").unwrap();
        let keyring = active.keyring(&now).unwrap();
        let unlocked = keyring.unlock(&known);
        assert!(matches!(unlocked, Err(keys::Error::WrongKey)));
        assert!(keyring.open(&old).is_err());
        active.prove(&blocks).unwrap();
    }
}
