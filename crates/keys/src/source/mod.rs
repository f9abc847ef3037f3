//! Key sources, as properties name them.

mod key_source;
mod provider;
mod server;
mod tang;
mod token;
mod tpm2;
mod url;

pub use key_source::{KeySource, Location, SharedSource};
pub use provider::ProviderSource;
pub use server::KeyUrl;
pub use tang::TangUrl;
pub(crate) use tang::tang_address;
pub use token::TokenUri;
pub(crate) use tpm2::Pcrs;
pub use tpm2::TpmSource;
