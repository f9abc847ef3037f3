//! By what a suspended mapping recognises its header and its key.

use secret::Secret;

use crate::keyslots::material;
use crate::model::{KeyDigest, Segment};
use crate::{Container, Error, Result};

/// What a container says of its data and of its key. The key itself is not here.
pub(super) struct Own {
    pub(super) segment: Segment,
    pub(super) digest: KeyDigest,
}

impl Own {
    pub(super) fn of(container: &Container) -> Result<Own> {
        Ok(Own {
            segment: container.segment()?,
            digest: container.digest()?,
        })
    }

    /// Whether this is the key of the data.
    pub(super) fn check(&self, key: &Secret) -> Result<()> {
        match material::is_key_of(&self.digest, key)? {
            true => Ok(()),
            false => Err(other_header()),
        }
    }
}

pub(super) fn other_header() -> Error {
    Error::usage(
        "the header is not the one with which the mapping was opened: restore it, or close the mapping",
    )
}
