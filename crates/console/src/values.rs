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

/// The seconds in a time such as `90d`: a number with s, m, h or d. `None` for another text, and for 0.
pub fn seconds(text: &str) -> Option<u64> {
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    let number = &text[..text.len() - 1];
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let number = number.parse::<u64>().ok().filter(|_| is_number)?;
    number.checked_mul(unit).filter(|seconds| *seconds > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        for (text, is) in [("1s", 1), ("5m", 300), ("2h", 7200), ("90d", 7_776_000)] {
            assert_eq!(seconds(text), Some(is), "{text}");
        }
        for wrong in [
            "",
            "5",
            "h",
            "0h",
            "-1h",
            "+1h",
            "1w",
            "99999999999999999999d",
            "1.5h",
            "5é",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

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
