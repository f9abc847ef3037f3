//! What reads key files, without a file, for `fuzz/`.

use secret::Secret;

use crate::{Format, KeyMaterial, Result};

/// Reads what would be in a key file.
pub fn key_file(format: Format, contents: &[u8]) -> Result<KeyMaterial> {
    crate::material::material(format, Secret::from_slice(contents)?, "the fuzzer", None)
}
