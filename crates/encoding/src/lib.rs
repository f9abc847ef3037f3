//! Bytes as hexadecimal digits.

#![forbid(unsafe_code)]

/// Returns the digits of these bytes, in lower case.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes of these digits; `None` if the text is anything else. Digits may be in upper case.
pub fn unhex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? << 4 | digit(*low)?) as u8);
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    bytes.filter(|_| rest.is_empty())
}

/// Returns the bytes of these digits, which must be in lower case: each value has one text.
pub fn unhex_lower(digits: &str) -> Option<Vec<u8>> {
    let is_lower = !digits.bytes().any(|byte| byte.is_ascii_uppercase());
    unhex(digits).filter(|_| is_lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_and_nothing_else() {
        let bytes = [0, 9, 10, 0x1f, 0xff];
        assert_eq!(hex(&bytes), "00090a1fff");
        assert_eq!(unhex("00090a1fFF"), Some(bytes.to_vec()));
        assert_eq!(unhex_lower("00090a1fff"), Some(bytes.to_vec()));
        assert_eq!(unhex_lower("00090a1fFF"), None);
        assert_eq!(unhex(""), Some(Vec::new()));
        for text in ["0", "0g", "000", "+1", "é", "00 "] {
            assert_eq!(unhex(text), None, "{text}");
            assert_eq!(unhex_lower(text), None, "{text}");
        }
    }
}
