//! Sizes as users write them: one parser for options and properties.

/// A number of bytes: `4G`, `1.5T`, `128K`, `512MiB`, `4096`. The error says how to write one.
///
/// # Errors
/// How to write a size.
pub fn parse(text: &str) -> Result<u64, String> {
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

/// A size that is not 0.
pub fn positive(text: &str) -> Option<u64> {
    parse(text).ok().filter(|bytes| *bytes > 0)
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
            assert_eq!(parse(text), Ok(bytes), "{text}");
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
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
