//! Values in arguments: sizes and properties.

use clap::Args;
pub use protocol::sizes::parse as size;

use crate::show::properties;

/// `name=value`, with the name spelled out where there is a short form of it.
pub fn property(text: &str) -> Result<(String, String), String> {
    if is_keysource(text) {
        return Ok(("keysource".into(), text.into()));
    }
    let (name, value) = text
        .split_once('=')
        .ok_or("write PROPERTY=VALUE, as in compression=zstd-3")?;
    if name.is_empty() {
        return Err("there is no property name before the '='".into());
    }
    Ok((properties::canonical(name).into(), value.into()))
}

/// Returns whether this is a source of keys without the name of the property, as Solaris takes it: `raw,file:///key`.
pub fn is_keysource(text: &str) -> bool {
    let formats = ["raw,", "hex,", "passphrase,"];
    formats.iter().any(|format| text.starts_with(format))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties() {
        let pair = |name: &str, value: &str| Ok((name.to_string(), value.to_string()));
        assert_eq!(property("compression=lz4"), pair("compression", "lz4"));
        assert_eq!(property("compress=lz4"), pair("compression", "lz4"));
        assert_eq!(property("org:note=a=b"), pair("org:note", "a=b"));
        assert_eq!(property("org:note="), pair("org:note", ""));
        for source in [
            "raw,file:///k",
            "hex,pkcs11:token=t;object=k",
            "passphrase,prompt",
        ] {
            assert_eq!(property(source), pair("keysource", source));
        }
        assert!(property("compression").is_err());
        assert!(property("=x").is_err());
    }
}

/// The style of a table.
#[derive(Args, Debug)]
pub struct TableStyle {
    /// Print no header, and tabs between columns
    #[arg(short = 'H')]
    pub script: bool,
    /// Print exact numbers
    #[arg(short)]
    pub parsable: bool,
}

/// The greatest cost of the hash of a passphrase.
#[derive(Args, Debug)]
pub struct HashCost {
    /// Let the hash of a passphrase take so many MiB of memory, more than the daemon gives all hashes
    /// together; for root, for key slots that are yours
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=4 << 10))]
    pub hash_memory: Option<u64>,
}
