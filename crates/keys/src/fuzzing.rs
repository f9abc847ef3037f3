//! Decoders of key files and tokens without a file or a server, for `fuzz/`.

use secret::Secret;

use crate::{KeyMaterial, MaterialFormat, Result};

/// Reads what would be in a key file.
pub fn key_file(format: MaterialFormat, contents: &[u8]) -> Result<KeyMaterial> {
    crate::material::key_material::material(
        format,
        Secret::from_slice(contents)?,
        "the fuzzer",
        None,
    )
}

/// Reads the answer of a TPM to each kind of command.
pub fn tpm_answer(bytes: &[u8]) {
    crate::tpm::look(bytes);
    crate::tpm::look_at_approval(bytes);
}

/// Reads a token of clevis or systemd, its header, the keys of a Tang server, and signatures of PCRs.
pub fn clevis_token(json: &serde_json::Value) {
    crate::clevis::look(json);
    let _ = crate::TpmToken::read(json);
    crate::tpm::look_at_signatures(json);
    let _ = crate::FidoToken::read(json);
}
