//! Secrets, and where they come from.
//!
//! - [`Secret`], [`Key`] and [`Locked`] keep secrets in locked memory. None can be cloned by accident
//!   or printed, and all are wiped when dropped. [`harden_process`] keeps them out of core dumps.
//! - [`KeySource`] says where the key of a dataset comes from, in the property syntax of ZFS;
//!   [`read_file`] and [`material_from_prompt`] turn it into [`KeyMaterial`]; [`keygen`] and
//!   [`write_key_file`] make new key files.

mod error;
mod keyfile;
mod material;
mod memory;
mod process;
mod secret;
mod source;

pub use error::{Error, Result};
pub use keyfile::{keygen, write_key_file};
pub use material::{
    KeyMaterial, PASSPHRASE_MAX, PASSPHRASE_MIN, Warning, material_from_prompt, read_file,
    read_file_with,
};
pub use memory::Locked;
pub use process::harden_process;
pub use secret::{Key, Secret};
pub use source::{Format, KeySource, Location};
