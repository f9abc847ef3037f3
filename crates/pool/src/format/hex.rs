//! Bytes as hexadecimal digits in texts of entries.

/// The digits of bytes, in lower case.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of digits; `None` if the text is none, or has digits in upper case.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    bytes.filter(|_| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_and_nothing_else() {
        let bytes = [0, 9, 10, 0xff];
        assert_eq!(hex(&bytes), "00090aff");
        assert_eq!(unhex("00090aff"), Some(bytes.to_vec()));
        for text in ["0", "0g", "0A", "é", "00 "] {
            assert_eq!(unhex(text), None, "{text}");
        }
        assert_eq!(unhex(""), Some(Vec::new()));
    }
}
