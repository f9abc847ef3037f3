//! Key slots: several keys that open the wrapping key of one dataset.

use cipher::SystemRandom;
use keys::{KeySlot, KeySource, SlotKind, WrappingKeyAccess};
use pool::{Entry, NewKeyring, Origin};
use protocol::api::{SlotRow, command};

use crate::failure::{Failure, Result};
use crate::host::process::system::now_secs;
use crate::ops::keys::change::{SlotChange, check_has_keyring, still_opens};
use crate::state::callers::context::CallerContext;
use crate::state::callers::decision::Decide;
use crate::state::keys::key_material::material;
use crate::state::keys::keyring::{cost, replace_slots};
use crate::state::pools::active_pool::ActivePool;

impl ActivePool {
    /// Adds a slot that a new key opens, and returns its number. Takes the lock of the pool, but not while a user is
    /// asked.
    pub(crate) fn add_slot(
        &self,
        entry: &Entry,
        add: &command::KeyAdd,
        context: &mut CallerContext<'_>,
    ) -> Result<u32> {
        let name = self.pool.name_of(entry.id)?;
        self.check_key_root(entry, &name)?;
        let key = self.loaded_key(entry.id)?;
        context.may_hand_all(self, entry, None)?;
        let source = match &add.keysource {
            Some(text) => text.parse::<KeySource>()?,
            None => KeySource::default(),
        };
        let material = material(&source, (&name, entry.suite), true, context.channel)?;
        let cost = cost(&material, add.pbkdf)?;
        // A password hash waits for its turn, so it is made before the lock of the pool is taken.
        let before = self.keyring(entry)?.wrapping().clone();
        let mut tried = before.clone();
        let number = tried.add_slot(
            &key,
            add.priority,
            &material,
            cost,
            now_secs(),
            &SystemRandom,
        )?;
        self.change_slots(
            entry,
            context.decision,
            &context.origin(),
            |now, wrapping| {
                context.may_hand_all(self, now, None)?;
                replace_slots(wrapping, &before, tried, &name)?;
                Ok(SlotChange {
                    done: format!("key slot {number} added"),
                    props: Vec::new(),
                })
            },
        )?;
        Ok(number)
    }

    /// Removes a slot. The new value of `keysource` must open one of the remaining slots, unless `force` is given.
    pub(crate) fn remove_slot(
        &self,
        entry: &Entry,
        number: u32,
        keysource: Option<&str>,
        force: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let name = self.pool.name_of(entry.id)?;
        self.check_key_root(entry, &name)?;
        let key = self.loaded_key(entry.id)?;
        let source = match keysource {
            Some(text) => text.parse::<KeySource>()?,
            None if force => self.keysource(entry)?,
            None => self.accepted_source(entry)?,
        };
        // Tried before the lock of the pool is taken: the source of the key may be slow.
        let mut tried = self.keyring(entry)?.wrapping().clone();
        let before = tried.clone();
        tried.remove_slot(number, &key)?;
        if !force {
            let dataset = (name.as_str(), entry.suite);
            still_opens(&tried, &source, number, dataset, context.channel)?;
        }
        let props = keysource.map(|_| ("keysource".to_owned(), Some(source.to_string())));
        self.change_slots(entry, context.decision, &context.origin(), |_, wrapping| {
            replace_slots(wrapping, &before, tried, &name)?;
            Ok(SlotChange {
                done: format!("key slot {number} removed"),
                props: props.into_iter().collect(),
            })
        })?;
        if keysource.is_some() {
            self.accept_as_set(entry.id);
        }
        Ok(())
    }

    /// The slots of the key root of a dataset. No key is needed.
    pub(crate) fn slot_rows(&self, entry: &Entry) -> Result<Vec<SlotRow>> {
        let name = self.pool.name_of(entry.id)?;
        if entry.suite == 0 {
            return Err(Failure::other(format!("'{name}' is not encrypted")));
        }
        let root = self.pool.entry(self.key_root(entry)?)?;
        let key_root = self.pool.name_of(root.id)?;
        let keyring = self.keyring(&root)?;
        let row = |slot: &KeySlot| SlotRow {
            key_root: key_root.clone(),
            slot: slot.number(),
            kind: kind_name(slot.kind()).into(),
            priority: slot.priority(),
            created: slot.created(),
            cost: match slot.kind() {
                SlotKind::Passphrase { cost, .. } => Some(cost.to_string()),
                SlotKind::Key { .. }
                | SlotKind::Token(_)
                | SlotKind::Tang(_)
                | SlotKind::Tpm(_)
                | SlotKind::Shared(_)
                | SlotKind::Other { .. } => None,
            },
        };
        Ok(keyring.wrapping().slots().iter().map(row).collect())
    }

    /// Changes the slots of a key root whose key is loaded. `change` waits for nothing: it has the lock of the pool.
    pub(crate) fn change_slots(
        &self,
        entry: &Entry,
        decision: &dyn Decide,
        origin: &Origin,
        change: impl FnOnce(&Entry, &mut WrappingKeyAccess) -> Result<SlotChange>,
    ) -> Result<()> {
        let name = self.pool.name_of(entry.id)?;
        let _admin = self.lock(decision)?;
        let now = self.again(entry, &name, decision)?;
        self.check_key_root(&now, &name)?;
        self.loaded_key(now.id)?;
        let mut keyring = self.keyring(&now)?;
        let mut wrapping = keyring.wrapping().clone();
        let SlotChange { done, props } = change(&now, &mut wrapping)?;
        keyring.set_wrapping(wrapping)?;
        let change = NewKeyring {
            id: now.id,
            keyring: keyring.encode(),
            key_root: now.id,
            props,
            done,
        };
        self.replace_keyrings(&[change], origin)
    }

    /// Refuses a dataset that has no slots of its own.
    fn check_key_root(&self, entry: &Entry, name: &str) -> Result<()> {
        check_has_keyring(entry, name)?;
        if entry.key_root == entry.id {
            return Ok(());
        }
        let root = self.pool.name_of(entry.key_root)?;
        Err(Failure::other(format!(
            "'{name}' has its key from '{root}', which has the slots"
        )))
    }
}

fn kind_name(kind: &SlotKind) -> &'static str {
    match kind {
        SlotKind::Passphrase { .. } => "passphrase",
        SlotKind::Key { .. } => "key",
        SlotKind::Token(_) => "token",
        SlotKind::Tang(_) => "tang",
        SlotKind::Tpm(_) => "tpm2",
        SlotKind::Shared(_) => "sss",
        SlotKind::Other { .. } => "unknown",
    }
}
