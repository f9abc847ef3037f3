//! The image of a pool in an object store.

pub(crate) mod image_copies;
pub(crate) mod image_follower;
