//! Values in arguments: sizes and properties.

use crate::show::properties;

/// `name=value`, with the name spelled out where there is a short form of it.
pub(crate) fn property(text: &str) -> Result<(String, String), String> {
    if is_keysource(text) {
        return Ok(("keysource".into(), text.into()));
    }
    let (name, value) = text
        .split_once('=')
        .ok_or("write it as PROPERTY=VALUE, as in compression=zstd-3")?;
    if name.is_empty() {
        return Err("there is no property name before the '='".into());
    }
    Ok((properties::canonical(name).into(), value.into()))
}

/// Whether this is a source of keys without the name of the property, as Solaris takes it: `raw,file:///key`.
pub(crate) fn is_keysource(text: &str) -> bool {
    let formats = ["raw,", "hex,", "passphrase,"];
    formats.iter().any(|format| text.starts_with(format))
}

/// A number of bytes: `4G`, `1.5T`, `128K`, `512MiB`, `4096`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let refused = || "write a size as 4096, 128K, 512M, 4G or 1.5T".to_string();
    let unit_at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let shift = unit_shift(unit).ok_or_else(refused)?;
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return Err(refused()),
        None => (number, ""),
    };
    let whole: u64 = whole.parse().map_err(|_| refused())?;
    let mut bytes = u128::from(whole) << shift;
    if !fraction.is_empty() {
        // 18 digits are more than a byte of an exbibyte needs.
        if fraction.len() > 18 {
            return Err(refused());
        }
        let digits: u128 = fraction.parse().map_err(|_| refused())?;
        bytes += (digits << shift) / 10u128.pow(fraction.len() as u32);
    }
    // No file is larger, nor any disk.
    match u64::try_from(bytes) {
        Ok(bytes) if bytes <= i64::MAX as u64 => Ok(bytes),
        _ => Err("a size is less than 8 EiB".into()),
    }
}

/// By how many bits a unit shifts: `K`, `KB` and `KiB` are all 1024, as for `zfs`.
fn unit_shift(unit: &str) -> Option<u32> {
    let unit = unit.to_ascii_uppercase();
    let letter = unit
        .strip_suffix("IB")
        .or_else(|| unit.strip_suffix('B'))
        .unwrap_or(&unit);
    match (letter, unit.as_str()) {
        ("", "" | "B") => Some(0),
        ("K", _) => Some(10),
        ("M", _) => Some(20),
        ("G", _) => Some(30),
        ("T", _) => Some(40),
        ("P", _) => Some(50),
        ("E", _) => Some(60),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("512b", 512),
            ("128K", 128 << 10),
            ("128kb", 128 << 10),
            ("512MiB", 512 << 20),
            ("4G", 4 << 30),
            ("1.5T", 3 << 39),
            ("0.5K", 512),
            ("7E", 7 << 60),
            ("9223372036854775807", i64::MAX as u64),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "G",
            "-1",
            "+1",
            "1.",
            ".5G",
            "1.5.5G",
            "4X",
            "4GG",
            "4iB",
            "1e3",
            "4 G",
            "8E",
            "16E",
            "99999P",
            "340282366920938463463374607431768211456",
        ] {
            assert!(size(text).is_err(), "{text}");
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
