//! Bytes as hexadecimal digits.

/// The digits for these bytes, in lower case.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that these digits stand for; `None` if they are something else.
pub fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8]| Some((digit(pair[0])? << 4 | digit(*pair.get(1)?)?) as u8);
    digits.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        assert_eq!(hex(&[0, 0x1f, 0xff]), "001fff");
        assert_eq!(unhex("001fFF").unwrap(), [0, 0x1f, 0xff]);
        assert!(unhex("").unwrap().is_empty());
        for bad in ["0", "0g", "000", "+1", "é"] {
            assert_eq!(unhex(bad), None, "{bad}");
        }
    }
}
