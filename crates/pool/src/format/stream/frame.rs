//! The frames of a stream.

use std::io::{ErrorKind, Read, Write};

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::{BEGIN_MAX, Begin, Package, StreamPosition};
use crate::error::{Error, Result};
use crate::format::records::array_kind::ArrayKind;
use crate::format::records::pointer::{RECORD_MAX, RecordIdentity, SLOT_LIMIT};

const MAGIC: [u8; 4] = *b"SRSF";

const BEGIN: u8 = 1;
const RECORD: u8 = 2;
const EMPTY: u8 = 3;
const END: u8 = 4;
const PLAIN: u8 = 5;
const PACKAGE: u8 = 6;

/// The beginning of each frame; `len` bytes follow.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct FrameHeader {
    magic: [u8; 4],
    kind: u8,
    array: u8,
    reserved: [u8; 2],
    /// The slot of a record, or the first that is empty.
    slot: U64,
    /// The number of empty slots; at the end, the number of frames before.
    count: U64,
    len: U32,
    reserved_too: U32,
    identity: RecordIdentity,
    /// BLAKE3 of what follows.
    payload: [u8; 32],
    /// BLAKE3 of that of the frame before and of everything above.
    chain: [u8; 32],
}

const _: () = assert!(size_of::<FrameHeader>() == 160);

/// The bytes of the header of a frame.
pub(crate) const FRAME_HEAD: u64 = size_of::<FrameHeader>() as u64;

/// The contents of a frame.
pub(crate) enum StreamFrame {
    /// A description of the streams after it.
    Package(Box<Package>),
    /// The beginning: what is sent.
    Begin(Box<Begin>),
    /// A record, and the hash of its bytes.
    Record {
        array: ArrayKind,
        slot: u64,
        identity: RecordIdentity,
        hash: [u8; 32],
    },
    /// A record in the clear.
    Plain { array: ArrayKind, slot: u64 },
    /// A run of slots without a record.
    Empty {
        array: ArrayKind,
        slot: u64,
        count: u64,
    },
    /// The end of the stream.
    End,
}

impl FrameHeader {
    fn new(kind: u8) -> FrameHeader {
        let mut head = FrameHeader::new_zeroed();
        head.magic = MAGIC;
        head.kind = kind;
        head
    }

    fn link(&self, before: &[u8; 32]) -> [u8; 32] {
        let own = &self.as_bytes()[..size_of::<FrameHeader>() - 32];
        let mut hasher = blake3::Hasher::new();
        hasher.update(before).update(own);
        *hasher.finalize().as_bytes()
    }

    /// The largest length of the data after the header.
    fn limit(&self) -> u32 {
        match self.kind {
            BEGIN | PACKAGE => BEGIN_MAX,
            RECORD | PLAIN => RECORD_MAX,
            _ => 0,
        }
    }
}

impl Package {
    /// Writes the package. Its streams follow.
    ///
    /// # Errors
    /// [`Error::StreamIo`]; [`Error::Stream`] if there are more names than a package can have.
    pub fn write(&self, out: &mut dyn Write) -> Result<()> {
        let payload = self.encode();
        if payload.len() > BEGIN_MAX as usize {
            return Err(Error::stream(
                "would have more datasets and snapshots than a stream can have; send parts of it",
            ));
        }
        let (chain, frames) = ([0; 32], 0);
        let mut writer = FrameWriter { out, chain, frames };
        let hash = *blake3::hash(&payload).as_bytes();
        writer.put(FrameHeader::new(PACKAGE), &payload, hash)
    }

    /// Bytes that [`Package::write`] writes.
    pub fn size(&self) -> u64 {
        FRAME_HEAD + self.encode().len() as u64
    }
}

/// Writes the frames of one stream.
pub(crate) struct FrameWriter<'a> {
    out: &'a mut dyn Write,
    chain: [u8; 32],
    frames: u64,
}

impl FrameWriter<'_> {
    pub(crate) fn begin<'a>(out: &'a mut dyn Write, begin: &Begin) -> Result<FrameWriter<'a>> {
        let (chain, frames) = ([0; 32], 0);
        let mut writer = FrameWriter { out, chain, frames };
        let payload = begin.encode();
        let hash = *blake3::hash(&payload).as_bytes();
        writer.put(FrameHeader::new(BEGIN), &payload, hash)?;
        Ok(writer)
    }

    /// `hash` is that of the bytes.
    pub(crate) fn record(
        &mut self,
        array: ArrayKind,
        slot: u64,
        identity: RecordIdentity,
        bytes: &[u8],
        hash: [u8; 32],
    ) -> Result<()> {
        let mut head = FrameHeader::new(RECORD);
        head.array = array as u8;
        head.slot = slot.into();
        head.identity = identity;
        self.put(head, bytes, hash)
    }

    /// A record in the clear; `hash` is that of the bytes.
    pub(crate) fn plain(
        &mut self,
        array: ArrayKind,
        slot: u64,
        bytes: &[u8],
        hash: [u8; 32],
    ) -> Result<()> {
        let mut head = FrameHeader::new(PLAIN);
        head.array = array as u8;
        head.slot = slot.into();
        self.put(head, bytes, hash)
    }

    pub(crate) fn empty(&mut self, array: ArrayKind, slot: u64, count: u64) -> Result<()> {
        let mut head = FrameHeader::new(EMPTY);
        head.array = array as u8;
        head.slot = slot.into();
        head.count = count.into();
        self.put(head, &[], *blake3::hash(&[]).as_bytes())
    }

    pub(crate) fn end(mut self) -> Result<()> {
        let mut head = FrameHeader::new(END);
        head.count = self.frames.into();
        self.put(head, &[], *blake3::hash(&[]).as_bytes())?;
        self.out.flush().map_err(Error::StreamIo)
    }

    fn put(&mut self, mut head: FrameHeader, payload: &[u8], hash: [u8; 32]) -> Result<()> {
        head.len = (payload.len() as u32).into();
        head.payload = hash;
        head.chain = head.link(&self.chain);
        self.chain = head.chain;
        self.frames += 1;
        let out = &mut self.out;
        let written = out.write_all(head.as_bytes());
        let written = written.and_then(|()| out.write_all(payload));
        written.map_err(Error::StreamIo)
    }
}

/// Reads the frames of streams, one stream behind the other.
pub(crate) struct FrameReader<'a> {
    input: &'a mut dyn Read,
    chain: [u8; 32],
    frames: u64,
    /// True if it is one in the clear.
    is_plain: bool,
    /// True if records may have the hash of their ciphertext in their identity.
    is_checked: bool,
    /// The position before which everything is done.
    done: StreamPosition,
    /// The bytes of the last frame.
    pub(crate) payload: Vec<u8>,
}

impl FrameReader<'_> {
    pub(crate) fn new(input: &mut dyn Read) -> FrameReader<'_> {
        FrameReader {
            input,
            chain: [0; 32],
            frames: 0,
            is_plain: false,
            is_checked: false,
            done: StreamPosition::START,
            payload: Vec::new(),
        }
    }

    /// The next frame, whole and in its place; `None` if the input ends where a stream would begin.
    pub(crate) fn next(&mut self) -> Result<Option<StreamFrame>> {
        let Some(head) = self.head()? else {
            return Ok(None);
        };
        let len = head.len.get();
        self.payload.clear();
        let mut rest = (&mut *self.input).take(len.into());
        rest.read_to_end(&mut self.payload)
            .map_err(Error::StreamIo)?;
        if self.payload.len() != len as usize {
            return Err(Error::stream("ends too early"));
        }
        if blake3::hash(&self.payload).as_bytes() != &head.payload {
            return Err(damaged());
        }
        let frame = self.understand(&head)?;
        (self.chain, self.frames) = match head.kind {
            END | PACKAGE => ([0; 32], 0),
            _ => (head.chain, self.frames + 1),
        };
        Ok(Some(frame))
    }

    fn head(&mut self) -> Result<Option<FrameHeader>> {
        let mut head = FrameHeader::new_zeroed();
        let bytes = head.as_mut_bytes();
        let mut filled = 0;
        while filled < bytes.len() {
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) if filled == 0 && self.frames == 0 => return Ok(None),
                Ok(0) => return Err(Error::stream("ends too early")),
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::StreamIo(error)),
            }
        }
        if head.magic != MAGIC {
            return Err(match self.frames {
                0 => Error::stream("does not begin as one of 'strongroom send'"),
                _ => damaged(),
            });
        }
        let is_linked = head.link(&self.chain) == head.chain;
        match is_linked && head.len.get() <= head.limit() {
            true => Ok(Some(head)),
            false => Err(damaged()),
        }
    }

    fn understand(&mut self, head: &FrameHeader) -> Result<StreamFrame> {
        let zero = (head.reserved, head.reserved_too.get()) == ([0; 2], 0);
        let is_first = self.frames == 0;
        if !zero || is_first != [BEGIN, PACKAGE].contains(&head.kind) {
            return Err(damaged());
        }
        match head.kind {
            PACKAGE => {
                let package = Package::decode(&self.payload)?;
                Ok(StreamFrame::Package(Box::new(package)))
            }
            BEGIN => {
                let begin = Begin::decode(&self.payload)?;
                self.done = begin.start;
                self.is_plain = begin.plain.is_some();
                self.is_checked = begin.is_checked;
                Ok(StreamFrame::Begin(Box::new(begin)))
            }
            PLAIN if self.is_plain => {
                let (array, slot) = self.advance(head, 1)?;
                let len = head.len.get();
                let has_no_identity = head.identity.as_bytes().iter().all(|byte| *byte == 0);
                if len == 0 || !len.is_multiple_of(store::UNIT) || !has_no_identity {
                    return Err(damaged());
                }
                Ok(StreamFrame::Plain { array, slot })
            }
            RECORD if !self.is_plain => {
                let (array, slot) = self.advance(head, 1)?;
                let len = head.len.get();
                let identity = &head.identity;
                let is_possible = identity.is_of_record()
                    && (self.is_checked || !identity.is_checked())
                    && len > 0
                    && len.is_multiple_of(store::UNIT);
                if !is_possible {
                    return Err(damaged());
                }
                if !identity.admits(&head.payload) {
                    return Err(Error::stream(
                        "has a record that is not the one that was sealed",
                    ));
                }
                Ok(StreamFrame::Record {
                    array,
                    slot,
                    identity: head.identity,
                    hash: head.payload,
                })
            }
            EMPTY => {
                let count = head.count.get();
                let (array, slot) = self.advance(head, count)?;
                Ok(StreamFrame::Empty { array, slot, count })
            }
            END if head.count.get() == self.frames => Ok(StreamFrame::End),
            _ => Err(damaged()),
        }
    }

    /// Slots come in their order.
    fn advance(&mut self, head: &FrameHeader, count: u64) -> Result<(ArrayKind, u64)> {
        let array = ArrayKind::ALL.get(usize::from(head.array)).copied();
        let slot = head.slot.get();
        let end = slot.checked_add(count).filter(|end| *end <= SLOT_LIMIT);
        let (Some(array), Some(end)) = (array, end.filter(|end| *end > slot)) else {
            return Err(damaged());
        };
        if StreamPosition::new(array, slot) < self.done {
            return Err(damaged());
        }
        self.done = StreamPosition::new(array, end);
        Ok((array, slot))
    }
}

fn damaged() -> Error {
    Error::stream("is damaged")
}

#[cfg(fuzzing)]
pub(crate) mod fuzzing {
    use super::*;

    /// Reads all frames up to what is none.
    pub(crate) fn read_all(mut bytes: &[u8]) {
        let mut reader = FrameReader::new(&mut bytes);
        while let Ok(Some(frame)) = reader.next() {
            if let StreamFrame::Record { hash, .. } = frame {
                assert_eq!(blake3::hash(&reader.payload).as_bytes(), &hash);
            }
        }
    }

    /// The same bytes with lengths that fit, and hashes that link the frames.
    pub(crate) fn made_to_fit(mut bytes: &[u8]) -> Vec<u8> {
        let (mut out, mut chain) = (Vec::new(), [0; 32]);
        while let Ok((mut head, rest)) = FrameHeader::read_from_prefix(bytes) {
            head.magic = MAGIC;
            let len = (head.len.get() as usize).min(rest.len());
            let (payload, rest) = rest.split_at(len);
            head.len = (len as u32).into();
            head.payload = *blake3::hash(payload).as_bytes();
            head.chain = head.link(&chain);
            chain = match head.kind {
                END | PACKAGE => [0; 32],
                _ => head.chain,
            };
            out.extend_from_slice(head.as_bytes());
            out.extend_from_slice(payload);
            bytes = rest;
        }
        out
    }

    /// Streams with a frame of each kind.
    pub(crate) fn samples() -> [Vec<u8>; 6] {
        let sealed = Begin {
            sender: crate::format::stream::Sender {
                pool_guid: 1,
                name: "tank/a@s".into(),
                referenced: 4096,
            },
            to_guid: 2,
            from_guid: 0,
            from_roots: [RecordIdentity::record([0; 24], [0; 16], 0, 0, 0, 0); 2],
            start: StreamPosition::START,
            family: 3,
            suite: 1,
            plain: None,
            is_checked: false,
            volume: None,
            created: 4,
            keys_txg: 5,
            needed_txg: 5,
            sealed_guid: 6,
            sequence: 7,
            seal: [8; 32],
            log: [0; 3],
            log_states: [[0; 16]; 2],
            roots: [RecordIdentity::node(1, &[9; 32]); 2],
            props: [("compression".into(), "lz4".into())].into(),
            keyring: vec![10; 50],
        };
        let plain = Begin {
            plain: Some([[1; 32], [2; 32]]),
            keyring: Vec::new(),
            ..sealed.clone()
        };
        let volume = |begin: &Begin| Begin {
            volume: crate::VolumeShape::new(8192, 4096),
            ..begin.clone()
        };
        let checked = Begin {
            is_checked: true,
            log_states: [[11; 16], [12; 16]],
            ..volume(&sealed)
        };
        let package = Package {
            root: "tank/a".into(),
            is_incremental: true,
            datasets: vec![super::super::PackedDataset {
                name: "tank/a".into(),
                snapshots: vec![(1, "r".into()), (2, "s".into())],
            }],
        };
        let mut packed = Vec::new();
        package.write(&mut packed).expect("into memory");
        packed.extend(sample(&sealed));
        let volumes = [volume(&sealed), volume(&plain)].map(|begin| sample(&begin));
        let [third, fourth] = volumes;
        let fifth = sample(&checked);
        [
            sample(&sealed),
            sample(&plain),
            third,
            fourth,
            fifth,
            packed,
        ]
    }

    fn sample(begin: &Begin) -> Vec<u8> {
        let mut out = Vec::new();
        let mut frames = FrameWriter::begin(&mut out, begin).expect("into memory");
        let identity = RecordIdentity::record([1; 24], [2; 16], 1, 1, 0, 4096);
        let bytes = [3; 4096];
        let hash = *blake3::hash(&bytes).as_bytes();
        let identity = match begin.is_checked {
            true => identity.with_check(&hash),
            false => identity,
        };
        let record = match begin.plain {
            None => frames.record(ArrayKind::Pages, 0, identity, &bytes, hash),
            Some(_) => frames.plain(ArrayKind::Pages, 0, &bytes, hash),
        };
        record
            .and_then(|()| frames.empty(ArrayKind::Data, 5, 9))
            .and_then(|()| frames.end())
            .expect("into memory");
        out
    }
}
