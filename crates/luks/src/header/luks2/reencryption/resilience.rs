//! The copy of a hot zone that is kept while the zone is written, so that an interruption loses nothing.

use cipher::Digest as Hash;
use serde_json::{Value, json};

use super::refusal::{ReencryptionRefusal, unsupported};
use crate::header::luks2::object::Object;

/// The longest hot zone, in bytes, as with cryptsetup.
pub(crate) const HOT_ZONE_MAX: u64 = 1 << 30;

/// The copy of a hot zone that is kept while the zone is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resilience {
    None,
    /// A hash of each block as it was.
    Checksum {
        hash: Hash,
        block: u32,
    },
    /// The hot zone as it was.
    Journal,
    /// The data itself: it is written so many bytes beside where it was.
    Shift(u64),
}

impl Resilience {
    /// Returns the length of the data that an area of this length can protect, in bytes, with sectors of `unit` bytes.
    pub(crate) fn capacity(self, area: u64, unit: u32) -> u64 {
        let unit = u64::from(unit);
        match self {
            Resilience::None => HOT_ZONE_MAX,
            Resilience::Shift(shift) => shift.min(HOT_ZONE_MAX),
            Resilience::Journal => (area - area % unit).min(HOT_ZONE_MAX),
            Resilience::Checksum { hash, block } => {
                let blocks = area / hash.output_len() as u64;
                blocks.saturating_mul(block.into()).min(HOT_ZONE_MAX)
            }
        }
    }

    /// Returns the length of a block that is protected as one, in bytes; zero if it does not matter.
    pub(crate) fn block(self) -> u32 {
        match self {
            Resilience::Checksum { block, .. } => block,
            Resilience::None | Resilience::Journal | Resilience::Shift(_) => 0,
        }
    }

    /// Refuses a hot zone of this length that an area of that length cannot keep.
    pub(super) fn check(
        self,
        len: u64,
        area: u64,
        unit: u32,
    ) -> std::result::Result<(), ReencryptionRefusal> {
        if self == Resilience::None {
            return unsupported(
                "its re-encryption was interrupted while data was written, and nothing was kept of that",
            );
        }
        let block = self.block().max(unit);
        let is_whole = len.is_multiple_of(u64::from(block)) && block.is_multiple_of(unit);
        match is_whole && len <= self.capacity(area, unit) {
            true => Ok(()),
            false => Err("the hot zone does not fit its area".to_owned().into()),
        }
    }
}

/// The area of a re-encryption, as headers have it; with what is kept of a moved part, if that is not the same.
pub(crate) fn area_json(of: Resilience, of_moved: Option<Resilience>, area: (u64, u64)) -> Value {
    let name = |of| match of {
        Resilience::None => "none",
        Resilience::Checksum { .. } => "checksum",
        Resilience::Journal => "journal",
        Resilience::Shift(_) => "datashift",
    };
    let kind = match of_moved {
        None => name(of).to_owned(),
        Some(moved) => format!("{}-{}", name(of), name(moved)),
    };
    let mut json = json!({
        "type": kind,
        "offset": area.0.to_string(),
        "size": area.1.to_string(),
    });
    for kept in [Some(of), of_moved].into_iter().flatten() {
        match kept {
            Resilience::Checksum { hash, block } => {
                json["hash"] = hash.name().into();
                json["sector_size"] = block.into();
            }
            Resilience::Shift(shift) => json["shift_size"] = shift.to_string().into(),
            Resilience::None | Resilience::Journal => {}
        }
    }
    json
}

/// Reads the protection of the hot zone and of a moved part. The fields that the digest covers are added to
/// `metadata`.
pub(super) fn read(
    area: &Object<'_>,
    metadata: &mut Vec<u8>,
) -> std::result::Result<(Resilience, Option<Resilience>), ReencryptionRefusal> {
    let kind = area.text("type")?;
    metadata.extend(kind.bytes());
    metadata.extend(area.u64("offset")?.to_be_bytes());
    metadata.extend(area.u64("size")?.to_be_bytes());
    Ok(match kind {
        "none" => (Resilience::None, None),
        "journal" => (Resilience::Journal, None),
        "checksum" => (checksum(area, metadata)?, None),
        "datashift" => (shift(area, metadata)?, None),
        "datashift-journal" => (shift(area, metadata)?, Some(Resilience::Journal)),
        "datashift-checksum" => {
            let checksum = checksum(area, metadata)?;
            (shift(area, metadata)?, Some(checksum))
        }
        other => return unsupported(format!("its re-encryption has the resilience '{other}'")),
    })
}

fn checksum(
    area: &Object<'_>,
    metadata: &mut Vec<u8>,
) -> std::result::Result<Resilience, ReencryptionRefusal> {
    let (name, block) = (area.text("hash")?, area.u32("sector_size")?);
    let Some(hash) = Hash::from_name(name) else {
        return unsupported(format!("its re-encryption has checksums by '{name}'"));
    };
    if !block.is_power_of_two() || !(512..=1 << 16).contains(&block) {
        return Err(format!("checksums of {block} bytes").into());
    }
    metadata.extend(name.bytes());
    metadata.extend(block.to_be_bytes());
    Ok(Resilience::Checksum { hash, block })
}

fn shift(
    area: &Object<'_>,
    metadata: &mut Vec<u8>,
) -> std::result::Result<Resilience, ReencryptionRefusal> {
    let shift = area.u64("shift_size")?;
    if shift == 0 || shift % crate::model::SECTOR != 0 {
        return Err(format!("data is moved by {shift} bytes").into());
    }
    metadata.extend(shift.to_be_bytes());
    Ok(Resilience::Shift(shift))
}
