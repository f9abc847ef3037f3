//! The properties of datasets.

use std::collections::BTreeMap;

use crate::engine::history::{Origin, log_about};
use crate::error::{Error, Result};
use crate::format::datasets::entry::{Entry, PROPERTY_MAX, text_bytes};
use crate::ops::pool::Pool;

/// The largest size of the properties that one command sets, for all its datasets together, in bytes.
const TEXTS_MAX: usize = 16 << 20;

impl Pool {
    /// Sets and, where the value is `None`, unsets properties of datasets, all or none.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`]; [`Error::Refused`] if the
    /// properties are too long; [`Error::Limit`],
    /// [`Error::NoSpace`]; as [`Pool::commit`].
    pub fn set_props(
        &self,
        names: &[String],
        changes: &[(String, Option<String>)],
        origin: &Origin,
    ) -> Result<()> {
        let lens = changes
            .iter()
            .map(|(key, value)| key.len() + value.as_ref().map_or(0, String::len));
        if lens.sum::<usize>().saturating_mul(names.len()) > TEXTS_MAX {
            let why = "the command would set too many properties; set fewer at a time";
            return Err(Error::refused(
                names.first().map_or("", String::as_str),
                why,
            ));
        }
        self.engine.commit_within_limits(|commit, state| {
            let mut texts = 0;
            for name in names {
                let id = state.find(name)?.id;
                let entry = state.edit(id)?;
                change_props(entry, changes);
                check_props(name, &entry.props)?;
                texts += text_bytes(&entry.props);
            }
            let _reserved = commit.reserve_entries(names.len(), texts)?;
            let object = match names {
                [name] => state.find(name)?.guid,
                _ => 0,
            };
            log_about(commit, state, origin, object);
            Ok(())
        })
    }

    /// Sets or unsets a property of a dataset that the caller keeps for itself. It is not in the history: frequent
    /// changes by others must not displace the lines about administrators.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] if the id is unknown; otherwise as [`Pool::set_props`].
    pub fn keep_prop(&self, id: u64, key: &str, value: Option<String>) -> Result<()> {
        self.engine.commit_within_limits(|commit, state| {
            let entry = state.edit(id)?;
            change_props(entry, &[(key.to_owned(), value)]);
            let props = entry.props.clone();
            check_props(&state.name_of(state.entry(id)?), &props)?;
            let _reserved = commit.reserve_entries(1, text_bytes(&props))?;
            Ok(())
        })
    }
}

/// Sets and, where the value is `None`, unsets properties of an entry.
pub(crate) fn change_props(entry: &mut Entry, changes: &[(String, Option<String>)]) {
    for (key, value) in changes {
        match value {
            Some(value) => entry.props.insert(key.clone(), value.clone()),
            None => entry.props.remove(key),
        };
    }
}

/// Refuses properties that are too long for an entry.
pub(crate) fn check_props(name: &str, props: &BTreeMap<String, String>) -> Result<()> {
    let bytes = text_bytes(props);
    let longest = props
        .iter()
        .map(|(key, value)| key.len().max(value.len()))
        .max();
    if longest.unwrap_or(0) > PROPERTY_MAX || bytes > 256 << 10 {
        return Err(Error::Refused {
            name: name.into(),
            reason: "its properties are too long".into(),
        });
    }
    Ok(())
}
