//! Policies that the holder of a key signs: the files with the signatures, and their approval by the TPM.

pub(super) mod approval;
pub(super) mod file;
pub(super) mod policy;
