//! The identity of a mapping: it recognises its header and its key after a suspension.

use secret::Secret;

use crate::keyslots::material;
use crate::model::{KeyDigest, Segment};
use crate::{Container, Error, Result};

/// The segment and the digest by which a container is recognised. The key itself is not here.
pub(super) struct MappingIdentity {
    pub(super) segment: Segment,
    pub(super) digest: KeyDigest,
}

impl MappingIdentity {
    pub(super) fn of(container: &Container) -> Result<MappingIdentity> {
        Ok(MappingIdentity {
            segment: container.segment()?,
            digest: container.digest()?,
        })
    }

    /// Checks that this is the key of the data.
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
