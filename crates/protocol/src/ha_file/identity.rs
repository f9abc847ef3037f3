//! The identity that a unit had in another storage, so that its initiators find their disk again.

use super::items::NounRefusal;
use super::nouns::Nouns;

/// The list of identities.
const LIST: &str = "identities";
/// The properties of volumes in which stmf-ha stores identities begin with this.
pub const STMF_PROPERTY: &str = "org.illumos.stmf-ha:";
/// The highest number of a unit.
pub const LUN_MAX: u16 = 0x3fff;
/// The length of a NAA designator, by its first digit (SPC-4, section 7.8.6.6).
const NAA_LENS: [(u8, usize); 4] = [(2, 8), (3, 8), (5, 8), (6, 16)];
/// A serial number has at most so many characters.
const SERIAL_MAX: usize = 64;
/// The sizes of blocks that initiators know.
const BLOCKS: [u32; 2] = [512, 4096];

/// The identity of a volume's unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HaIdentity {
    /// The line, from 1; 0 if it comes from properties.
    pub line: usize,
    /// The volume.
    pub volume: String,
    /// The number of the unit at its targets.
    pub lun: Option<u16>,
    /// The serial number.
    pub serial: Option<String>,
    /// The NAA designator: 8 or 16 bytes.
    pub naa: Option<Vec<u8>>,
    /// The size of a block, in bytes.
    pub block: Option<u32>,
}

impl HaIdentity {
    /// Takes one of the properties of stmf-ha, named without its beginning.
    ///
    /// # Errors
    /// If there is no such property, or its value is none.
    pub fn take_property(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "lun" => self.lun = Some(parse_lun(value)?),
            "guid" => self.naa = Some(parse_naa(value)?),
            "blk" => self.block = Some(parse_block(value)?),
            _ => return Err("there is no such property; stmf-ha has lun, guid and blk".into()),
        }
        Ok(())
    }

    /// The identity with these words, none of which has to be there.
    ///
    /// # Errors
    /// If one of them is none.
    pub fn parse(
        serial: Option<&str>,
        naa: Option<&str>,
        block: Option<&str>,
    ) -> Result<HaIdentity, String> {
        Ok(HaIdentity {
            serial: serial.map(parse_serial).transpose()?,
            naa: naa.map(parse_naa).transpose()?,
            block: block.map(parse_block).transpose()?,
            ..HaIdentity::default()
        })
    }

    fn is_empty(&self) -> bool {
        let HaIdentity {
            lun,
            serial,
            naa,
            block,
            ..
        } = self;
        lun.is_none() && serial.is_none() && naa.is_none() && block.is_none()
    }
}

impl Nouns<'_> {
    /// The identities of units. None is there twice.
    pub(super) fn identities(&mut self) -> Result<Vec<HaIdentity>, NounRefusal> {
        let mut all: Vec<HaIdentity> = Vec::new();
        for (line, name) in self.names(LIST)? {
            let refused = |what: String| NounRefusal::new(line, LIST, what);
            let volume = self.word(&format!("{name}_lu"))?;
            let (_, volume) = volume.ok_or_else(|| refused(format!("'{name}_lu' is missing")))?;
            let new = HaIdentity {
                line,
                volume,
                lun: self.parsed(&format!("{name}_lun"), parse_lun)?,
                serial: self.parsed(&format!("{name}_serial"), parse_serial)?,
                naa: self.parsed(&format!("{name}_naa"), parse_naa)?,
                block: self.parsed(&format!("{name}_block_size"), parse_block)?,
            };
            if new.is_empty() {
                let what = format!("'{name}' has no lun, serial, naa or block_size");
                return Err(refused(what));
            }
            let is_same = |old: &HaIdentity| {
                old.volume == new.volume
                    || old.serial.is_some() && old.serial == new.serial
                    || old.naa.is_some() && old.naa == new.naa
            };
            if let Some(old) = all.iter().find(|old| is_same(old)) {
                let what = format!(
                    "'{name}' has the volume, the serial number or the NAA of line {}",
                    old.line
                );
                return Err(refused(what));
            }
            all.push(new);
        }
        Ok(all)
    }

    fn parsed<T>(
        &mut self,
        noun: &str,
        parse: fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, NounRefusal> {
        let Some((line, word)) = self.word(noun)? else {
            return Ok(None);
        };
        parse(&word)
            .map(Some)
            .map_err(|what| NounRefusal::new(line, noun, what))
    }
}

/// The number of a unit, as digits.
///
/// # Errors
/// If no unit can have it.
pub fn parse_lun(digits: &str) -> Result<u16, String> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let lun = digits
        .parse()
        .ok()
        .filter(|lun| is_number && *lun <= LUN_MAX);
    lun.ok_or_else(|| format!("'{digits}' is not the number of a unit; use 0 to {LUN_MAX}"))
}

/// A serial number, as it is written.
fn parse_serial(text: &str) -> Result<String, String> {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    match is_plain && text.trim() == text && (1..=SERIAL_MAX).contains(&text.len()) {
        true => Ok(text.into()),
        false => Err(format!(
            "a serial number has 1 to {SERIAL_MAX} printable characters, and no space at either end"
        )),
    }
}

/// A NAA designator in hexadecimal digits, with or without `naa.` before it.
fn parse_naa(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.strip_prefix("naa.").unwrap_or(text).as_bytes();
    let value = |digit: &u8| char::from(*digit).to_digit(16).map(|value| value as u8);
    let values: Option<Vec<u8>> = digits.iter().map(value).collect();
    let values = values.unwrap_or_default();
    let has_len = |len: usize| values.len() == 2 * len;
    let first = values.first();
    match NAA_LENS
        .iter()
        .any(|(kind, len)| first == Some(kind) && has_len(*len))
    {
        true => Ok(values
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()),
        false => Err(format!(
            "'{text}' is not a NAA designator: it has 32 hexadecimal digits and begins with 6, or 16 and begins with 2, 3 \
             or 5"
        )),
    }
}

/// The size of a block, in bytes.
fn parse_block(text: &str) -> Result<u32, String> {
    let size = text.parse().ok().filter(|size| BLOCKS.contains(size));
    size.ok_or_else(|| format!("'{text}' is not a size of a block; use 512 or 4096"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_of_others_are_read() {
        let comstar = parse_naa("600144F0C0FFEE000000512E9A0B0001").unwrap();
        assert_eq!((comstar.len(), comstar[0], comstar[15]), (16, 0x60, 1));
        assert_eq!(parse_naa("naa.5001405aabbccdd0").unwrap().len(), 8);
        for none in [
            "",
            "6001",
            "7001405aabbccdd0",
            "600144F0C0FFEE00",
            "5001405aabbccdd€",
        ] {
            assert!(parse_naa(none).is_err(), "{none}");
        }
        assert_eq!(parse_serial("a b-1").as_deref(), Ok("a b-1"));
        for none in ["", " a", "a\n", "é", &"x".repeat(65)] {
            assert!(parse_serial(none).is_err(), "{none}");
        }
        assert_eq!(
            (parse_block("4096"), parse_block("512")),
            (Ok(4096), Ok(512))
        );
        assert!(parse_block("1024").is_err() && parse_block("-512").is_err());
    }
}
