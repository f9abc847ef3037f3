//! Tokens: data of programs in a LUKS2 header, by which they find a passphrase for key slots.
//! Other programs use only their type and their key slots.

use std::sync::Arc;

use cipher::Random;
use serde_json::{Map, Value, json};

use crate::container::Container;
use crate::header::Header;
use crate::header::luks2::OBJECTS_MAX;
use crate::{Error, Result};

impl Container {
    /// A token, as it stands in the header.
    ///
    /// # Errors
    /// [`Error::NoToken`].
    pub fn token(&self, id: u32) -> Result<&Value> {
        let token = match &self.header {
            Header::V1(_) => None,
            Header::V2(header) => header.json()["tokens"].get(id.to_string()),
        };
        token.ok_or_else(|| self.no_token(id))
    }

    /// The numbers of all tokens.
    pub fn tokens(&self) -> Vec<u32> {
        match &self.header {
            Header::V1(_) => Vec::new(),
            Header::V2(header) => header.view().tokens.keys().copied().collect(),
        }
    }

    /// Adds a token to the header, and returns its number.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is no token, refers to a key slot that is not there, or the number is in
    /// use; [`Error::NoSpace`].
    pub fn add_token(
        &mut self,
        token: Map<String, Value>,
        id: Option<u32>,
        random: &dyn Random,
    ) -> Result<u32> {
        let device = Arc::clone(&self.device);
        let header = self.luks2_mut("tokens")?;
        let used = &header.view().tokens;
        let id = match id {
            Some(id) if used.contains_key(&id) => {
                return Err(Error::Usage(format!("token {id} is in use")));
            }
            Some(id) => id,
            None => (0..OBJECTS_MAX)
                .find(|id| !used.contains_key(id))
                .ok_or(Error::NoSpace {
                    what: format!("there are {OBJECTS_MAX} tokens; remove one"),
                })?,
        };
        let mut changed = header.clone();
        changed.change(|json| json["tokens"][id.to_string()] = token.into())?;
        changed.write(&*device, random)?;
        *header = changed;
        Ok(id)
    }

    /// A token that says under which description a passphrase is in the kernel's keyring.
    ///
    /// It is for this key slot, or for all that there are. [`Container::add_token`] takes it.
    pub fn keyring_token(&self, description: &str, slot: Option<u32>) -> Map<String, Value> {
        let slots = match slot {
            Some(slot) => vec![slot],
            None => self.slots().iter().map(|slot| slot.id).collect(),
        };
        let slots: Vec<String> = slots.iter().map(u32::to_string).collect();
        let mut token = Map::new();
        token.insert("type".into(), "luks2-keyring".into());
        token.insert("keyslots".into(), json!(slots));
        token.insert("key_description".into(), description.into());
        token
    }

    /// Removes a token from the header.
    ///
    /// # Errors
    /// [`Error::NoToken`].
    pub fn remove_token(&mut self, id: u32, random: &dyn Random) -> Result<()> {
        self.token(id)?;
        let device = Arc::clone(&self.device);
        let header = self.luks2_mut("tokens")?;
        let mut changed = header.clone();
        changed.change(|json| {
            if let Some(tokens) = json["tokens"].as_object_mut() {
                tokens.remove(&id.to_string());
            }
        })?;
        changed.write(&*device, random)?;
        *header = changed;
        Ok(())
    }

    fn no_token(&self, token: u32) -> Error {
        Error::NoToken {
            device: self.device.name(),
            token,
        }
    }
}
