//! The features of a directory.

use super::error::Error;

/// The cipher of the contents of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentCipher {
    /// AES-256-GCM with nonces of 16 bytes.
    #[default]
    AesGcm,
    /// AES-SIV with two keys of 256 bits.
    AesSiv,
    /// XChaCha20-Poly1305.
    XChaCha20Poly1305,
}

/// The encryption of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameFeatures {
    /// Each directory has an IV of its own. Without, a name is the same ciphertext everywhere.
    pub dir_iv: bool,
    /// Names that are too long are hashed, and the whole one is in a file beside. Without, they are refused.
    pub long: bool,
    /// The longest encrypted name that is not hashed, in bytes.
    pub long_max: u8,
    /// Base64 without padding.
    pub raw64: bool,
}

/// All features of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// The cipher of contents.
    pub content: ContentCipher,
    /// The encryption of names; nothing if they are clear, and the targets of links with them.
    pub names: Option<NameFeatures>,
    /// Keys come of the master key by HKDF, as in all directories since 2017.
    pub hkdf: bool,
}

impl Default for Features {
    fn default() -> Features {
        Features {
            content: ContentCipher::default(),
            names: Some(NameFeatures::default()),
            hkdf: true,
        }
    }
}

impl Default for NameFeatures {
    fn default() -> NameFeatures {
        NameFeatures {
            dir_iv: true,
            long: true,
            long_max: u8::MAX,
            raw64: true,
        }
    }
}

/// The flags of names, which clear names exclude.
const NAME_FLAGS: [&str; 5] = ["DirIV", "EMENames", "LongNames", "LongNameMax", "Raw64"];

/// The other flags that are understood. A key in a FIDO2 token is not.
const OTHER_FLAGS: [&str; 5] = [
    "PlaintextNames",
    "GCMIV128",
    "AESSIV",
    "HKDF",
    "XChaCha20Poly1305",
];

impl Features {
    /// Reads the flags of a configuration.
    pub(super) fn from_flags(flags: &[String], long_name_max: u8) -> Result<Features, Error> {
        let unknown = flags.iter().find(|flag| {
            !NAME_FLAGS.contains(&flag.as_str()) && !OTHER_FLAGS.contains(&flag.as_str())
        });
        if let Some(flag) = unknown {
            return Err(Error::Unsupported(format!("the feature {flag:?}")));
        }
        let has = |name| flags.iter().any(|flag| flag == name);
        // Only directories of early versions are without these. Gocryptfs refuses them too.
        let wants_iv = !has("GCMIV128") && !has("XChaCha20Poly1305");
        let wants_names = !has("EMENames") && !has("PlaintextNames");
        if let Some(flag) = [(wants_iv, "GCMIV128"), (wants_names, "EMENames")]
            .iter()
            .find_map(|(wants, flag)| wants.then_some(flag))
        {
            return Err(Error::TooOld(format!("no feature {flag:?}")));
        }
        let content = match (has("XChaCha20Poly1305"), has("AESSIV"), has("GCMIV128")) {
            (true, false, false) if has("HKDF") => ContentCipher::XChaCha20Poly1305,
            (false, true, true) => ContentCipher::AesSiv,
            (false, false, true) => ContentCipher::AesGcm,
            _ => return Err(Error::Unsupported("these ciphers of contents".into())),
        };
        let names = match (has("PlaintextNames"), has("EMENames")) {
            (true, false) if !NAME_FLAGS.into_iter().any(has) => None,
            (false, true) if has("LongNameMax") == (long_name_max != 0) => Some(NameFeatures {
                dir_iv: has("DirIV"),
                long: has("LongNames"),
                long_max: match long_name_max {
                    0 => u8::MAX,
                    // Shorter ones would hash the names of the format's own files.
                    max @ 62.. => max,
                    max => return Err(Error::Unsupported(format!("LongNameMax {max}"))),
                },
                raw64: has("Raw64"),
            }),
            _ => return Err(Error::Unsupported("these ciphers of names".into())),
        };
        Ok(Features {
            content,
            names,
            hkdf: has("HKDF"),
        })
    }

    /// The flags of a configuration.
    pub(super) fn flags(&self) -> Vec<String> {
        let names = self.names.unwrap_or(NameFeatures {
            dir_iv: false,
            long: false,
            long_max: u8::MAX,
            raw64: false,
        });
        let is_set = [
            ("HKDF", self.hkdf),
            ("GCMIV128", self.content != ContentCipher::XChaCha20Poly1305),
            (
                "XChaCha20Poly1305",
                self.content == ContentCipher::XChaCha20Poly1305,
            ),
            ("PlaintextNames", self.names.is_none()),
            ("DirIV", names.dir_iv),
            ("LongNameMax", names.long_max != u8::MAX),
            ("EMENames", self.names.is_some()),
            ("LongNames", names.long),
            ("Raw64", names.raw64),
            ("AESSIV", self.content == ContentCipher::AesSiv),
        ];
        let flags = is_set.into_iter().filter(|(_, set)| *set);
        flags.map(|(name, _)| name.to_owned()).collect()
    }

    /// The member `LongNameMax`: 0 if it is left out.
    pub(super) fn long_name_max_byte(&self) -> u8 {
        let max = self.names.map_or(u8::MAX, |names| names.long_max);
        if max == u8::MAX { 0 } else { max }
    }
}
