//! The encoding of Protocol Buffers, version 3: as much of it as the tool's files have.
//!
//! Fields that are not known are kept as they are and written back, as the tool does it.

use super::error::{Result, damaged};

pub(super) struct MessageField<'a> {
    pub(super) number: u64,
    value: FieldValue<'a>,
    /// All of it, as it is written.
    pub(super) raw: &'a [u8],
}

enum FieldValue<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// A value of fixed length: no known field is one.
    Fixed,
}

impl<'a> MessageField<'a> {
    pub(super) fn number_value(&self) -> Result<i64> {
        match self.value {
            FieldValue::Varint(value) => Ok(value as i64),
            _ => Err(damaged(format!("field {} is no number", self.number))),
        }
    }

    pub(super) fn bytes(&self) -> Result<&'a [u8]> {
        match self.value {
            FieldValue::Bytes(bytes) => Ok(bytes),
            _ => Err(damaged(format!("field {} is no string", self.number))),
        }
    }

    pub(super) fn text(&self) -> Result<String> {
        let text = str::from_utf8(self.bytes()?);
        let text = text.map_err(|_| damaged(format!("field {} is no text", self.number)));
        text.map(str::to_owned)
    }

    pub(super) fn array<const LEN: usize>(&self) -> Result<[u8; LEN]> {
        let bytes = self.bytes()?.try_into();
        bytes.map_err(|_| damaged(format!("field {} does not have {LEN} bytes", self.number)))
    }
}

/// Calls `each` with the fields of a message.
pub(super) fn read<'a>(
    message: &'a [u8],
    mut each: impl FnMut(&MessageField<'a>) -> Result<()>,
) -> Result<()> {
    let mut rest = message;
    while !rest.is_empty() {
        let before = rest;
        let cut = || damaged("it ends inside of a field");
        let key = varint(&mut rest).ok_or_else(cut)?;
        let value = match key & 7 {
            0 => varint(&mut rest).map(FieldValue::Varint),
            1 => take(&mut rest, 8).map(|_| FieldValue::Fixed),
            2 => varint(&mut rest)
                .and_then(|len| take(&mut rest, len))
                .map(FieldValue::Bytes),
            5 => take(&mut rest, 4).map(|_| FieldValue::Fixed),
            _ => return Err(damaged("it is not in the encoding of Protocol Buffers")),
        };
        let field = MessageField {
            number: key >> 3,
            value: value.ok_or_else(cut)?,
            raw: &before[..before.len() - rest.len()],
        };
        if field.number == 0 {
            return Err(damaged("a field has the number 0"));
        }
        each(&field)?;
    }
    Ok(())
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(rest: &mut &'a [u8], len: u64) -> Option<&'a [u8]> {
    let (bytes, after) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    *rest = after;
    Some(bytes)
}

/// A message that is being written. What has its default value is left out.
#[derive(Default)]
pub(super) struct MessageWriter(Vec<u8>);

impl MessageWriter {
    pub(super) fn number(mut self, field: u64, value: i64) -> MessageWriter {
        if value != 0 {
            self.varint(field << 3);
            self.varint(value as u64);
        }
        self
    }

    pub(super) fn bytes(self, field: u64, bytes: &[u8]) -> MessageWriter {
        match bytes.is_empty() {
            true => self,
            false => self.message(field, bytes),
        }
    }

    /// Another message, which may be empty.
    pub(super) fn message(mut self, field: u64, bytes: &[u8]) -> MessageWriter {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Fields as they were read.
    pub(super) fn done(mut self, unknown: &[u8]) -> Vec<u8> {
        self.0.extend_from_slice(unknown);
        self.0
    }

    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}
