//! Providers: the implementations of an algorithm in this crate.

use std::fmt;

/// An implementation of algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Provider {
    /// `ring`: C and assembly. AES-GCM alone, on processors where it is faster than AWS-LC: with vector
    /// instructions for AES, without AVX-512.
    Ring,
    /// AWS-LC: C and assembly, with the processor's instructions.
    AwsLc,
    /// The system's OpenSSL 3, if this program was built with the feature `openssl`.
    OpenSsl,
    /// The system's libgcrypt, if there is one: Twofish alone.
    Libgcrypt,
    /// The crates of RustCrypto: Rust, with the processor's instructions for AES and SHA.
    Portable,
}

impl Provider {
    /// Every provider, the first choice first.
    pub const ALL: [Provider; 5] = [
        Provider::Ring,
        Provider::AwsLc,
        Provider::OpenSsl,
        Provider::Libgcrypt,
        Provider::Portable,
    ];

    /// The name in commands and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Provider::Ring => "ring",
            Provider::AwsLc => "aws-lc",
            Provider::OpenSsl => "openssl",
            Provider::Libgcrypt => "libgcrypt",
            Provider::Portable => "portable",
        }
    }

    /// Returns whether the provider is a part of this program on every processor. A library that is loaded is none: it
    /// can go away.
    pub const fn is_built(self) -> bool {
        match self {
            Provider::AwsLc | Provider::Portable => true,
            Provider::OpenSsl => cfg!(feature = "openssl"),
            Provider::Ring | Provider::Libgcrypt => false,
        }
    }

    /// The provider with this name, or what is wrong with the name.
    ///
    /// # Errors
    /// A sentence with the names that there are.
    pub fn read(name: &str) -> Result<Provider, String> {
        Provider::from_name(name).ok_or_else(|| {
            let names = Provider::ALL.map(Provider::name).join(", ");
            format!("there is no provider '{name}': {names}")
        })
    }

    /// The provider with this name.
    pub fn from_name(name: &str) -> Option<Provider> {
        Provider::ALL
            .into_iter()
            .find(|provider| provider.name() == name)
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
