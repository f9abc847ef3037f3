//! The files of the tool `fscrypt`: what opens a master key.
//!
//! ```text
//! passphrase --Argon2id--> wrapping key --unwraps--> key of a protector --unwraps--> master key of a policy
//! key file   ------------> wrapping key
//! ```
//!
//! A directory `.fscrypt` has a file for each policy and each protector, in the encoding of Protocol
//! Buffers. Such files come from other users: sizes and the costs of password hashes are bounded.
//!
//! Layers, lowest first:
//! - `error`; `wire`: the encoding; `hex`: descriptors in text;
//! - `wrapped`: one key under another; `costs`: password hashes;
//! - `protector`, `policy`: the files; `config`: `/etc/fscrypt.conf`;
//! - `link`, `store`: the directory.

mod config;
mod costs;
mod error;
mod hex;
mod link;
mod policy;
mod protector;
mod store;
mod wire;
mod wrapped_key;

pub use config::{CONFIG_MAX, Config};
pub use costs::Costs;
pub use error::{Error, Result};
pub use hex::{key_name, key_name_from, parse as parse_descriptor, text as descriptor_text};
pub use link::ProtectorLink;
pub use policy::{Options, ProtectedPolicy};
pub use protector::{Descriptor, Protector, ProtectorSource};
pub use store::{DIRECTORY_NAME, FILE_MAX, MetadataStore, ProtectorEntry, Writers};
pub use wrapped_key::WrappedKeyData;
