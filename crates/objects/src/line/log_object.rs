//! A log object: data, the runs that say where it lies on the device, and a footer.
//!
//! ```text
//! | data of run 0 | data of run 1 | ... | run 0 | run 1 | ... | footer |
//! ```
//!
//! The data comes first, so that a writer appends to one buffer. The list of a store gives the size of an object, and with
//! it the place of the footer. All numbers are little-endian.

use twox_hash::XxHash3_128;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The magic number of a log object.
const MAGIC: [u8; 8] = *b"SR-LINE1";
/// A writer puts no more runs than this into an object with data.
pub(crate) const RUNS_MAX: usize = 4096;
/// No object has more runs than this. A list of deletions may need many.
const RUNS_LIMIT: usize = 1 << 18;
/// An object has no more data than this.
pub(crate) const DATA_MAX: usize = 8 << 20;
/// No device ends behind this byte.
pub(crate) const END_MAX: u64 = i64::MAX as u64;
/// The first read of an object's end takes so many bytes: the footer, the runs of most objects, and all of an object that has
/// one block for both headers.
pub(crate) const END_READ: u64 = 12 << 10;

/// The identity of a writer: random, made when it takes the line.
pub(crate) type WriterId = [u8; 16];

/// The kind of a log object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogKind {
    /// Runs of bytes.
    Data,
    /// A writer takes the line.
    Take,
    /// A number that no older writer can use any more.
    Fence,
    /// The writer has ended, and everything it wrote is durable.
    Release,
    /// All numbers that were deleted or emptied. Each run is a range of numbers. The runs of objects that are perhaps still
    /// there are discards, the others are zeros.
    Deletions,
    /// An object whose contents were removed. Its number must not become free.
    Emptied,
}

const KINDS: [LogKind; 6] = [
    LogKind::Data,
    LogKind::Take,
    LogKind::Fence,
    LogKind::Release,
    LogKind::Deletions,
    LogKind::Emptied,
];

/// The part that an object has in a batch: changes that count together or not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BatchPart {
    /// None: the object counts by itself.
    #[default]
    None,
    /// The object counts if the end of its batch does.
    Member,
    /// The end: with it, all objects of its writer since the end before count.
    End,
}

const BATCH_PARTS: [BatchPart; 3] = [BatchPart::None, BatchPart::Member, BatchPart::End];

impl BatchPart {
    /// Reads the number of a part. `None` if a newer version wrote it.
    pub(crate) fn from_number(number: u64) -> Option<BatchPart> {
        let number = usize::try_from(number).ok()?;
        BATCH_PARTS.get(number).copied()
    }
}

/// The effect of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunKind {
    /// The bytes are in the object.
    Bytes,
    /// The range reads as zeros.
    Zeros,
    /// The range is not needed any more.
    Discard,
}

const RUN_KINDS: [RunKind; 3] = [RunKind::Bytes, RunKind::Zeros, RunKind::Discard];

/// A range of the device, as an object describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The effect.
    pub(crate) kind: RunKind,
    /// The first byte on the device.
    pub(crate) offset: u64,
    /// The length in bytes.
    pub(crate) len: u64,
    /// The number of the object that wrote this first. A copy that collection made has an older one than its own.
    pub(crate) origin: u64,
}

/// The facts in the footer of an object, and its runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineEntry {
    /// The kind.
    pub(crate) kind: LogKind,
    /// True if the data is of a header of the device. Such objects hold nothing else.
    pub(crate) is_header: bool,
    /// The part in a batch.
    pub(crate) batch: BatchPart,
    /// The guid of the device.
    pub(crate) device: [u8; 16],
    /// The writer.
    pub(crate) writer: WriterId,
    /// The number, which is also its name.
    pub(crate) number: u64,
    /// The first number of the writer.
    pub(crate) first: u64,
    /// The object counts only if all numbers from `first` to this are of the same writer.
    pub(crate) after: u64,
    /// The runs. The data of those with bytes follows one after the other.
    pub(crate) runs: Vec<Run>,
    /// The bytes of data.
    pub(crate) data_len: u64,
    /// The checksum of the data.
    pub(crate) data_sum: u128,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RunLayout {
    offset: U64,
    len: U64,
    origin: U64,
    kind: U32,
    reserved: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FooterLayout {
    device: [u8; 16],
    writer: [u8; 16],
    number: U64,
    first: U64,
    after: U64,
    data_len: U64,
    data_sum: [u8; 16],
    runs: U32,
    kind: u8,
    is_header: u8,
    batch: u8,
    reserved: u8,
    /// The checksum of the runs and of all fields before this.
    sum: [u8; 16],
    magic: [u8; 8],
}

const RUN: usize = 32;
const FOOTER: usize = 112;
/// No object has more bytes than this.
pub(crate) const OBJECT_MAX: u64 = (DATA_MAX + RUNS_LIMIT * RUN + FOOTER) as u64;
/// The bytes of a footer before its checksum.
const SUMMED: usize = FOOTER - 24;
const _: () = assert!(size_of::<RunLayout>() == RUN && size_of::<FooterLayout>() == FOOTER);

/// The checksum of objects. It finds damage; the pool finds forgeries.
pub(crate) fn checksum(bytes: &[u8]) -> u128 {
    XxHash3_128::oneshot(bytes)
}

/// The outcome of reading the end of an object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EndOf {
    /// The object, whole.
    Entry(LineEntry),
    /// The end has more bytes than were read: so many are needed.
    Longer(u64),
}

impl LineEntry {
    /// Appends the runs and the footer to the data, which makes it a whole object.
    pub(crate) fn seal(&self, object: &mut Vec<u8>) {
        debug_assert_eq!(object.len() as u64, self.data_len);
        debug_assert!(self.runs.len() <= RUNS_LIMIT, "readers refuse more runs");
        let start = object.len();
        for run in &self.runs {
            let layout = RunLayout {
                offset: run.offset.into(),
                len: run.len.into(),
                origin: run.origin.into(),
                kind: (run.kind as u32).into(),
                reserved: 0.into(),
            };
            object.extend_from_slice(layout.as_bytes());
        }
        let mut footer = FooterLayout {
            device: self.device,
            writer: self.writer,
            number: self.number.into(),
            first: self.first.into(),
            after: self.after.into(),
            data_len: self.data_len.into(),
            data_sum: self.data_sum.to_le_bytes(),
            runs: (self.runs.len() as u32).into(),
            kind: self.kind as u8,
            is_header: self.is_header.into(),
            batch: self.batch as u8,
            reserved: 0,
            sum: [0; 16],
            magic: MAGIC,
        };
        object.extend_from_slice(&footer.as_bytes()[..SUMMED]);
        footer.sum = checksum(&object[start..]).to_le_bytes();
        object.extend_from_slice(&footer.as_bytes()[SUMMED..]);
    }

    /// Reads the end of an object of `size` bytes; `end` are its last bytes.
    ///
    /// # Errors
    /// The reason why this is no log object: it is damaged, shortened, or something else.
    pub(crate) fn read(end: &[u8], size: u64) -> Result<EndOf, &'static str> {
        let start = end.len().checked_sub(FOOTER).ok_or("it is too short")?;
        let footer = FooterLayout::ref_from_bytes(&end[start..]).map_err(|_| "it is too short")?;
        if footer.magic != MAGIC {
            return Err("it is not a log object, or it was shortened");
        }
        let runs = footer.runs.get() as usize;
        let kind = KINDS.get(usize::from(footer.kind));
        let batch = BatchPart::from_number(footer.batch.into());
        let (true, Some(kind), Some(batch)) = (runs <= RUNS_LIMIT, kind, batch) else {
            return Err("it was made by a newer version, or it is damaged");
        };
        let tail = runs * RUN + FOOTER;
        if footer.data_len.get() > DATA_MAX as u64 || footer.data_len.get() + tail as u64 != size {
            return Err("its size is not what its end says");
        }
        let Some(start) = end.len().checked_sub(tail) else {
            return Ok(EndOf::Longer(tail as u64));
        };
        let summed = &end[start..end.len() - (FOOTER - SUMMED)];
        if checksum(summed).to_le_bytes() != footer.sum {
            return Err("its checksum is wrong");
        }
        let layouts = <[RunLayout]>::ref_from_bytes(&end[start..start + runs * RUN]);
        let runs = layouts
            .map_err(|_| "it is too short")?
            .iter()
            .map(Run::read);
        let entry = LineEntry {
            kind: *kind,
            is_header: footer.is_header != 0,
            batch,
            device: footer.device,
            writer: footer.writer,
            number: footer.number.get(),
            first: footer.first.get(),
            after: footer.after.get(),
            runs: runs.collect::<Result<_, _>>()?,
            data_len: footer.data_len.get(),
            data_sum: u128::from_le_bytes(footer.data_sum),
        };
        let bytes = entry.runs.iter().filter(|run| run.kind == RunKind::Bytes);
        let sum = bytes.fold(0_u64, |sum, run| sum.saturating_add(run.len));
        match entry.kind == LogKind::Data && sum != entry.data_len {
            true => Err("its runs are not what its data is"),
            false => Ok(EndOf::Entry(entry)),
        }
    }
}

impl Run {
    fn read(layout: &RunLayout) -> Result<Run, &'static str> {
        let kind = RUN_KINDS.get(layout.kind.get() as usize);
        let kind = *kind.ok_or("it was made by a newer version")?;
        let end = layout.offset.get().checked_add(layout.len.get());
        end.filter(|end| layout.len.get() > 0 && *end <= END_MAX)
            .ok_or("a run of it lies nowhere")?;
        Ok(Run {
            kind,
            offset: layout.offset.get(),
            len: layout.len.get(),
            origin: layout.origin.get(),
        })
    }
}

/// Makes the checksum and the magic number of the end of an object right. Returns the size that it says.
#[cfg(fuzzing)]
pub(crate) fn repair(end: &mut [u8]) -> u64 {
    let len = end.len();
    let Some(start) = len.checked_sub(FOOTER) else {
        return len as u64;
    };
    let Ok(footer) = FooterLayout::ref_from_bytes(&end[start..]) else {
        return len as u64;
    };
    let tail = footer.runs.get() as usize * RUN + FOOTER;
    let size = footer.data_len.get().saturating_add(tail as u64);
    if let Some(first) = len.checked_sub(tail) {
        let summed = len - (FOOTER - SUMMED);
        let sum = checksum(&end[first..summed]).to_le_bytes();
        end[summed..summed + 16].copy_from_slice(&sum);
    }
    end[len - 8..].copy_from_slice(&MAGIC);
    size
}

#[cfg(fuzzing)]
impl LineEntry {
    /// An object with a run of so many bytes.
    pub(crate) fn sample(len: u64) -> LineEntry {
        let run = |kind, offset| Run {
            kind,
            offset,
            len,
            origin: 5,
        };
        LineEntry {
            kind: LogKind::Data,
            is_header: true,
            batch: BatchPart::None,
            device: [7; 16],
            writer: [8; 16],
            number: 5,
            first: 1,
            after: 0,
            runs: vec![run(RunKind::Bytes, 4096), run(RunKind::Zeros, 0)],
            data_len: len,
            data_sum: checksum(&vec![7; len as usize]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (LineEntry, Vec<u8>) {
        let data = b"seven b".to_vec();
        let run = |kind, offset, len| Run {
            kind,
            offset,
            len,
            origin: 41,
        };
        let entry = LineEntry {
            kind: LogKind::Data,
            is_header: true,
            batch: BatchPart::Member,
            device: [1; 16],
            writer: [2; 16],
            number: 42,
            first: 40,
            after: 41,
            runs: vec![
                run(RunKind::Bytes, 4096, 7),
                run(RunKind::Zeros, 0, 512),
                run(RunKind::Discard, 1 << 40, 1 << 30),
            ],
            data_len: 7,
            data_sum: checksum(&data),
        };
        let mut object = data;
        entry.seal(&mut object);
        (entry, object)
    }

    #[test]
    fn an_object_is_read_as_it_was_sealed() {
        let (entry, object) = sample();
        let size = object.len() as u64;
        assert_eq!(size, 7 + 3 * 32 + 112);
        assert_eq!(
            LineEntry::read(&object, size),
            Ok(EndOf::Entry(entry.clone()))
        );
        assert_eq!(LineEntry::read(&object[7..], size), Ok(EndOf::Entry(entry)));
        let short = &object[object.len() - FOOTER - 5..];
        assert_eq!(
            LineEntry::read(short, size),
            Ok(EndOf::Longer(3 * 32 + 112))
        );
    }

    #[test]
    fn every_flipped_bit_and_every_cut_of_the_end_is_found() {
        let (_, object) = sample();
        let size = object.len() as u64;
        for bit in 7 * 8..object.len() * 8 {
            let mut damaged = object.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let read = LineEntry::read(&damaged, size);
            assert!(!matches!(read, Ok(EndOf::Entry(_))), "bit {bit}");
        }
        for len in 0..object.len() {
            let read = LineEntry::read(&object[..len], len as u64);
            assert!(read.is_err(), "{len} bytes");
        }
    }
}
