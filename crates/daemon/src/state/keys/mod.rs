//! Keys of datasets: their sources, the loaded keys, and their users.

pub(crate) mod acceptances;
pub(crate) mod accepted_sources;
pub(crate) mod idle_keys;
pub(crate) mod key_material;
pub(crate) mod key_uses;
pub(crate) mod keyring;
pub(crate) mod loaded_keys;
pub(crate) mod wrong_keys;
pub(crate) mod wrong_tries;
