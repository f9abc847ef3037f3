//! A checkpoint: the state after a log object, as one object, so that an import reads only what follows.
//!
//! ```text
//! | head | extents | objects | ranges held | windows | deleted | doomed | checksum |
//! ```

use twox_hash::XxHash3_128;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::extent_map::{ExtentMap, MapSource};
use super::history::{DOOMED_MAX, LineHistory, ObjectRecord};
use super::log_object::{BatchPart, END_MAX, OBJECT_MAX};
use super::ranges::NumberSet;
use super::replay::TOO_MANY;

/// A checkpoint has no more bytes than this: stores take no larger object with one request.
pub(crate) const SIZE_MAX: u64 = 4 << 30;

const MAGIC: [u8; 8] = *b"SR-MAP_1";
/// The place of a range of zeros in its object.
const NO_PLACE: u32 = u32::MAX;
const SUM: usize = 16;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct HeadLayout {
    magic: [u8; 8],
    device: [u8; 16],
    number: U64,
    extents: U64,
    objects: U64,
    held: U64,
    windows: U64,
    deleted: U64,
    doomed: U64,
    deletions: U64,
    is_released: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ExtentLayout {
    offset: U64,
    len: U64,
    object: U64,
    origin: U64,
    at: U32,
    reserved: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ObjectLayout {
    number: U64,
    size: U64,
    is_mark: U32,
    batch: U32,
}

/// A range, and for ranges that an object held the object.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RangeLayout {
    object: U64,
    start: U64,
    end: U64,
}

/// Encodes the state after its last object. All objects up to it must be durable.
pub(crate) fn encode(history: &LineHistory, device: [u8; 16]) -> Vec<u8> {
    let held = history.objects.values().map(|is| is.held.iter().count());
    let head = HeadLayout {
        magic: MAGIC,
        device,
        number: history.last.into(),
        extents: (history.map.len() as u64).into(),
        objects: (history.objects.len() as u64).into(),
        held: (held.sum::<usize>() as u64).into(),
        windows: (history.windows.iter().count() as u64).into(),
        deleted: (history.deleted.iter().count() as u64).into(),
        doomed: (history.doomed.iter().count() as u64).into(),
        deletions: history.deletions.into(),
        is_released: u64::from(history.is_released).into(),
    };
    let mut out = head.as_bytes().to_vec();
    for (offset, len, is) in history.map.iter() {
        let layout = ExtentLayout {
            offset: offset.into(),
            len: len.into(),
            object: is.object.into(),
            origin: is.origin.into(),
            at: is.at.unwrap_or(NO_PLACE).into(),
            reserved: 0.into(),
        };
        out.extend_from_slice(layout.as_bytes());
    }
    for (number, is) in &history.objects {
        let layout = ObjectLayout {
            number: (*number).into(),
            size: is.size.into(),
            is_mark: u32::from(is.is_mark).into(),
            batch: (is.batch as u32).into(),
        };
        out.extend_from_slice(layout.as_bytes());
    }
    for (number, is) in &history.objects {
        put_ranges(&mut out, *number, &is.held);
    }
    put_ranges(&mut out, 0, &history.windows);
    put_ranges(&mut out, 0, &history.deleted);
    put_ranges(&mut out, 0, &history.doomed);
    let sum = XxHash3_128::oneshot(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

fn put_ranges(out: &mut Vec<u8>, object: u64, ranges: &NumberSet) {
    for range in ranges.iter() {
        let layout = RangeLayout {
            object: object.into(),
            start: range.start.into(),
            end: range.end.into(),
        };
        out.extend_from_slice(layout.as_bytes());
    }
}

/// Reads a checkpoint.
///
/// # Errors
/// The reason why it is none of this device and number.
pub(crate) fn decode(
    bytes: &[u8],
    device: [u8; 16],
    number: u64,
) -> Result<LineHistory, &'static str> {
    const SHORT: &str = "it is shorter than its head says";
    let (body, sum) = bytes.split_last_chunk::<SUM>().ok_or("it is too short")?;
    if XxHash3_128::oneshot(body).to_le_bytes() != *sum {
        return Err("its checksum is wrong");
    }
    let (head, rest) = HeadLayout::ref_from_prefix(body).map_err(|_| "it is too short")?;
    if head.magic != MAGIC {
        return Err("it is no checkpoint, or a newer version made it");
    }
    if head.device != device {
        return Err("it belongs to another pool");
    }
    if head.number.get() != number {
        return Err("it is a copy of another object");
    }
    let mut history = LineHistory {
        last: number,
        deletions: head.deletions.get(),
        is_released: head.is_released.get() != 0,
        ..LineHistory::default()
    };
    let (extents, rest) = take::<ExtentLayout>(rest, &head.extents).ok_or(SHORT)?;
    let (objects, rest) = take::<ObjectLayout>(rest, &head.objects).ok_or(SHORT)?;
    let (held, rest) = take::<RangeLayout>(rest, &head.held).ok_or(SHORT)?;
    let (windows, rest) = take::<RangeLayout>(rest, &head.windows).ok_or(SHORT)?;
    let (deleted, rest) = take::<RangeLayout>(rest, &head.deleted).ok_or(SHORT)?;
    let (doomed, rest) = take::<RangeLayout>(rest, &head.doomed).ok_or(SHORT)?;
    if !rest.is_empty() {
        return Err("it is longer than its head says");
    }
    read_objects(&mut history, objects)?;
    read_extents(&mut history, extents)?;
    for layout in held {
        let object = history.objects.get_mut(&layout.object.get());
        let object = object.ok_or("it names an object that it does not list")?;
        object.held.insert(range_of(layout)?);
    }
    for (layouts, set) in [
        (windows, &mut history.windows),
        (deleted, &mut history.deleted),
        (doomed, &mut history.doomed),
    ] {
        for layout in layouts {
            set.insert(range_of(layout)?);
        }
    }
    // Without these limits a forged one would keep an import busy for ever.
    if history.deleted.end().max(history.doomed.end()) > number + 1 {
        return Err("it lists deleted objects that are younger than itself");
    }
    match history.doomed.count() > DOOMED_MAX {
        true => Err(TOO_MANY),
        false => Ok(history),
    }
}

/// Reads the records of objects. A younger one would be confused with an object that a writer makes later.
fn read_objects(history: &mut LineHistory, objects: &[ObjectLayout]) -> Result<(), &'static str> {
    let last = history.last;
    let read = objects.iter().map(|layout| {
        let (number, size) = (layout.number.get(), layout.size.get());
        if !(1..=last).contains(&number) {
            return Err("it lists objects that are younger than itself");
        }
        if size > OBJECT_MAX {
            return Err("it lists an object that is larger than any");
        }
        let part = BatchPart::from_number(layout.batch.get().into());
        let record = ObjectRecord {
            size,
            is_mark: layout.is_mark.get() != 0,
            batch: part.ok_or("a newer version made it")?,
            ..ObjectRecord::default()
        };
        Ok((number, record))
    });
    history.objects = read.collect::<Result<_, _>>()?;
    Ok(())
}

fn read_extents(history: &mut LineHistory, extents: &[ExtentLayout]) -> Result<(), &'static str> {
    let (objects, last) = (&mut history.objects, history.last);
    let mut from = 0;
    let read = extents.iter().map(|layout| {
        let (offset, len) = (layout.offset.get(), layout.len.get());
        let end = offset
            .checked_add(len)
            .filter(|end| len > 0 && offset >= from && *end <= END_MAX);
        from = end.ok_or("its extents are out of order")?;
        let at = layout.at.get();
        let source = MapSource {
            object: layout.object.get(),
            at: (at != NO_PLACE).then_some(at),
            origin: layout.origin.get(),
        };
        if source.origin > last {
            return Err("an extent of it is younger than itself");
        }
        let object = objects.get_mut(&source.object);
        let object = object.ok_or("it names an object that it does not list")?;
        match source.at {
            Some(at) if object.size.checked_sub(at.into()) < Some(len) => {
                return Err("an extent lies outside its object");
            }
            Some(_) => object.live += len,
            None => object.zeros += len,
        }
        Ok((offset, len, source))
    });
    history.map = ExtentMap::of_ordered(read)?;
    Ok(())
}

fn range_of(layout: &RangeLayout) -> Result<std::ops::Range<u64>, &'static str> {
    let range = layout.start.get()..layout.end.get();
    (!range.is_empty())
        .then_some(range)
        .ok_or("a range of it is empty")
}

/// The first `count` structures of some bytes, and the rest.
fn take<'a, T: FromBytes + Immutable + KnownLayout + Unaligned>(
    bytes: &'a [u8],
    count: &U64,
) -> Option<(&'a [T], &'a [u8])> {
    let len = usize::try_from(count.get())
        .ok()?
        .checked_mul(size_of::<T>())?;
    let (own, rest) = bytes.split_at_checked(len)?;
    Some((<[T]>::ref_from_bytes(own).ok()?, rest))
}

/// Makes the checksum and the magic number of a checkpoint right.
#[cfg(fuzzing)]
pub(crate) fn repair(bytes: &mut [u8]) {
    if let Some((body, sum)) = bytes.split_last_chunk_mut::<SUM>()
        && let Some(magic) = body.first_chunk_mut()
    {
        *magic = MAGIC;
        *sum = XxHash3_128::oneshot(body).to_le_bytes();
    }
}

/// The device and the number of a checkpoint.
#[cfg(fuzzing)]
pub(crate) fn identity(bytes: &[u8]) -> Option<([u8; 16], u64)> {
    let (head, _) = HeadLayout::ref_from_prefix(bytes).ok()?;
    Some((head.device, head.number.get().min(1 << 40)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::log_object::{LineEntry, LogKind, Run, RunKind};

    fn sample() -> LineHistory {
        let mut history = LineHistory::default();
        let data = |number: u64, is_header, runs: &[(RunKind, u64, u64)]| LineEntry {
            kind: LogKind::Data,
            is_header,
            batch: BatchPart::End,
            device: [1; 16],
            writer: [2; 16],
            number,
            first: 1,
            after: 0,
            runs: runs
                .iter()
                .map(|&(kind, offset, len)| Run {
                    kind,
                    offset,
                    len,
                    origin: number,
                })
                .collect(),
            data_len: 0,
            data_sum: 0,
        };
        history.enter(&data(5, true, &[(RunKind::Bytes, 0, 64)]), 1000);
        let runs = [
            (RunKind::Bytes, 4096, 512),
            (RunKind::Zeros, 8192, 1 << 20),
            (RunKind::Discard, 4200, 8),
        ];
        history.enter(&data(6, false, &runs), 1000);
        history.windows.insert(1..5);
        history.deleted.insert(2..4);
        history.doomed.insert(3..4);
        history.deletions = 5;
        history
    }

    /// The reason why the encoding of a changed sample is refused.
    fn refusal(forge: impl FnOnce(&mut LineHistory)) -> &'static str {
        let mut history = sample();
        forge(&mut history);
        let forged = decode(&encode(&history, [1; 16]), [1; 16], 6);
        forged.expect_err("it is forged")
    }

    #[test]
    fn a_forged_checkpoint_is_refused() {
        // A writer would make this object later, with other contents in memory.
        let younger = "it lists objects that are younger than itself";
        for number in [0, 7, u64::MAX] {
            let record = ObjectRecord::default();
            let is = refusal(|history| drop(history.objects.insert(number, record)));
            assert_eq!(is, younger, "{number}");
        }
        let resized = |size| {
            move |history: &mut LineHistory| history.objects.entry(6).or_default().size = size
        };
        for size in [OBJECT_MAX + 1, u64::MAX] {
            let is = refusal(resized(size));
            assert_eq!(is, "it lists an object that is larger than any");
        }
        assert_eq!(refusal(resized(100)), "an extent lies outside its object");
        let extent = |object, at, origin| {
            let source = MapSource { object, at, origin };
            move |history: &mut LineHistory| history.map.insert(1 << 40, 64, source)
        };
        for (at, origin) in [(Some(970), 6), (Some(OBJECT_MAX as u32), 6)] {
            let is = refusal(extent(6, at, origin));
            assert_eq!(is, "an extent lies outside its object");
        }
        let is = refusal(extent(6, None, 7));
        assert_eq!(is, "an extent of it is younger than itself");
        let is = refusal(extent(4, None, 4));
        assert_eq!(is, "it names an object that it does not list");
        // No device is so large, and a longer run would not fit into the map.
        let source = MapSource {
            object: 6,
            at: None,
            origin: 6,
        };
        let is = refusal(|history| history.map.insert(END_MAX - 10, 11, source));
        assert_eq!(is, "its extents are out of order");
    }

    #[test]
    fn a_checkpoint_with_very_many_objects_to_remove_is_refused() {
        let with = |count| {
            let mut history = LineHistory {
                last: 1 << 40,
                ..LineHistory::default()
            };
            history.doomed.insert(1..1 + count);
            decode(&encode(&history, [1; 16]), [1; 16], history.last).err()
        };
        assert_eq!(with(DOOMED_MAX), None);
        assert_eq!(with(DOOMED_MAX + 1), Some(TOO_MANY));
    }

    #[test]
    fn a_checkpoint_is_read_as_it_was_written_and_each_flipped_bit_is_found() {
        let history = sample();
        let bytes = encode(&history, [1; 16]);
        assert_eq!(decode(&bytes, [1; 16], 6), Ok(history));
        assert!(decode(&bytes, [3; 16], 6).is_err() && decode(&bytes, [1; 16], 7).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged, [1; 16], 6).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len], [1; 16], 6).is_err(), "{len} bytes");
        }
    }
}
