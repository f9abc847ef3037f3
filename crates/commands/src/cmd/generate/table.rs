//! Lines of fstab(5) and crypttab(5).

/// A line: its fields, without escapes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FieldLine {
    pub(super) number: usize,
    pub(super) fields: Vec<String>,
}

impl FieldLine {
    pub(super) fn field(&self, index: usize) -> &str {
        self.fields.get(index).map_or("", String::as_str)
    }

    pub(super) fn options(&self, index: usize) -> Vec<&str> {
        let words = self.field(index).split(',');
        words.filter(|word| !word.is_empty()).collect()
    }
}

/// The lines that are no comments.
pub(super) fn lines(text: &str) -> impl Iterator<Item = FieldLine> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let fields: Vec<String> = line.split_ascii_whitespace().map(unescaped).collect();
        let is_comment = fields.first().is_none_or(|first| first.starts_with('#'));
        (!is_comment).then_some(FieldLine {
            number: index + 1,
            fields,
        })
    })
}

/// A field with its octal escapes, such as `\040` for a space, resolved.
fn unescaped(field: &str) -> String {
    let bytes = field.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 4).unwrap_or_default();
        let is_octal =
            digits.len() == 3 && digits.iter().all(|digit| (b'0'..=b'7').contains(digit));
        let value = digits.iter().fold(0, |value, digit| {
            value * 8 + u32::from(digit.wrapping_sub(b'0'))
        });
        match u8::try_from(value) {
            Ok(value) if *byte == b'\\' && is_octal => {
                plain.push(value);
                at += 4;
            }
            _ => {
                plain.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_others_read_them() {
        let text =
            "# comment\n\n  tank/a\t/a\\040b\\134 strongroom ro,,nofail 0 0\nx \\9\\04 \\777";
        let found: Vec<FieldLine> = lines(text).collect();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].number, found[0].field(1)), (3, "/a b\\"));
        assert_eq!(found[0].options(3), ["ro", "nofail"]);
        assert_eq!(found[1].fields, ["x", "\\9\\04", "\\777"]);
        assert_eq!(found[1].field(7), "");
    }
}
