//! LUKS2: two copies of a header, each with its checksum, and areas for key material behind them.
//!
//! The copies are written one after the other, each whole and flushed before the next begins. So a power cut at any
//! moment leaves one that is whole, the old or the new. A program that opens the container to change it makes both
//! equal first. Key material is durable before a header that refers to it is written, and overwritten when no header
//! refers to it any more.

mod change;
mod layout;
mod object;
mod reencryption;
mod view;

use std::io::IoSlice;

use block::BlockDevice;
use cipher::Random;
use serde_json::{Map, Value};
use zerocopy::IntoBytes;

use crate::{Error, Result};
use layout::{Binary, field, lossy_text, text};

pub(crate) use change::{ReencryptionEntry, ReencryptionPlan};
pub(crate) use layout::SECOND_MAGIC;
pub use layout::{BINARY_LEN, COPY_SIZES, HeaderCopy, MAGIC};
pub(crate) use reencryption::{
    Course, DataExtent, DataPart, HOT_ZONE_MAX, ReencryptionMode, ReencryptionRefusal,
    ReencryptionState, Resilience, State,
};
pub(crate) use view::{AREA_ALIGN, AREAS_MAX, DIGESTS_MAX, HeaderView, OBJECTS_MAX};

/// A LUKS2 header in memory.
#[derive(Clone, Debug)]
pub struct Header {
    /// The number of changes so far.
    pub epoch: u64,
    /// A name for people; may be empty.
    pub label: String,
    /// The program that owns the container; may be empty.
    pub subsystem: String,
    /// The UUID of the container.
    pub uuid: String,
    pub(crate) checksum_hash: String,
    /// Label and subsystem as they were read: they need not be text.
    read_names: ([u8; 48], [u8; 48]),
    json: Map<String, Value>,
    view: HeaderView,
}

/// The state of a copy of the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// Whole, and as new as the other.
    Current,
    /// Whole, but older than the other.
    Old,
    /// The copy is not whole, for this reason.
    Bad(String),
    /// The device fails where it is, so that what it says is not known.
    Unreadable(String),
}

/// A header and the state of its copies.
#[derive(Clone, Debug)]
pub struct HeaderCopies {
    /// The newest whole copy.
    pub header: Header,
    /// The first copy.
    pub first: CopyState,
    /// The second copy.
    pub second: CopyState,
    /// True if something else was written over the first copy. Zeros do not count.
    pub is_overwritten: bool,
}

impl HeaderCopies {
    /// Returns whether both copies are whole and equal.
    pub fn is_whole(&self) -> bool {
        self.first == CopyState::Current && self.second == CopyState::Current
    }

    /// Returns whether the device fails in one of the copies.
    pub(crate) fn is_unreadable(&self) -> bool {
        let copies = [&self.first, &self.second];
        copies
            .iter()
            .any(|of| matches!(of, CopyState::Unreadable(_)))
    }
}

impl Header {
    /// A header of this JSON, checked.
    pub(crate) fn new(
        uuid: String,
        json: Map<String, Value>,
    ) -> std::result::Result<Header, String> {
        Ok(Header {
            epoch: 1,
            label: String::new(),
            subsystem: String::new(),
            uuid,
            checksum_hash: "sha256".into(),
            read_names: ([0; 48], [0; 48]),
            view: HeaderView::read(&json)?,
            json,
        })
    }

    /// Returns the parsed contents of the JSON area.
    pub(crate) fn view(&self) -> &HeaderView {
        &self.view
    }

    /// The JSON area, with everything in it that this program does not know.
    pub fn json(&self) -> &Map<String, Value> {
        &self.json
    }

    /// Returns the length of the header with all key material, in bytes.
    pub fn header_len(&self) -> u64 {
        self.view.header_len()
    }

    /// Changes the JSON. What would not be a header any more is refused, and nothing is changed.
    pub(crate) fn change(&mut self, edit: impl FnOnce(&mut Map<String, Value>)) -> Result<()> {
        let mut json = self.json.clone();
        edit(&mut json);
        let view = HeaderView::read(&json).map_err(Error::Usage)?;
        let area_len = view.copy_len as usize - BINARY_LEN;
        check_json_len(&encode_json(&json), area_len)?;
        self.json = json;
        self.view = view;
        Ok(())
    }

    /// Returns whether a re-encryption of a known kind is under way, and nothing else is required.
    pub(crate) fn is_in_reencryption(&self) -> bool {
        reencryption::is_under_way(&self.view)
    }

    /// The re-encryption that is under way.
    pub(crate) fn reencryption(
        &self,
    ) -> std::result::Result<ReencryptionState, ReencryptionRefusal> {
        reencryption::read(&self.view, &self.json)
    }

    /// Adds a key slot of the new key beside one of the old key.
    pub(crate) fn follow(&mut self, slots: (u32, u32), slot: Value, digest: u32) -> Result<()> {
        self.change(|json| change::follow(json, slots, slot, digest))
    }

    /// Enters a re-encryption.
    pub(crate) fn begin(&mut self, entry: ReencryptionEntry<'_>) -> Result<()> {
        self.change(|json| change::begin(json, entry))
    }

    /// Enters that `done` of `total` bytes are new, and that a part is hot.
    pub(crate) fn advance(
        &mut self,
        state: &ReencryptionState,
        total: u64,
        done: u64,
        hot: Option<&DataPart>,
    ) -> Result<()> {
        self.change(|json| change::advance(json, state, total, done, hot))
    }

    /// Enters that all data is new, and removes the re-encryption.
    pub(crate) fn finish(&mut self, state: &ReencryptionState) -> Result<()> {
        self.change(|json| change::finish(json, state))
    }

    /// Reads the header. Nothing is written.
    ///
    /// # Errors
    /// [`Error::NotLuks`]; [`Error::Damaged`] if no copy is whole; [`Error::TooSmall`]; [`Error::Device`] if the
    /// device fails where a copy is, and the other one is not whole.
    pub fn read(device: &dyn BlockDevice) -> Result<HeaderCopies> {
        let first = read_copy(device, HeaderCopy::First, 0);
        let second = match &first.copy {
            Some(copy) => read_copy(device, HeaderCopy::Second, copy.copy_len),
            None => find_second(device),
        };
        if !first.has_magic && second.copy.is_none() {
            return Err(match (first.why_not, second.why_not) {
                (CopyFailure::Unreadable(error), _) | (_, CopyFailure::Unreadable(error)) => {
                    error.into()
                }
                _ => Error::NotLuks {
                    device: device.name(),
                },
            });
        }
        choose(device, first, second)
    }

    /// Writes both copies, in an order such that one is whole at any moment, and makes them durable.
    ///
    /// # Errors
    /// If the device fails, either the old header or this one is found when it is read again.
    pub(crate) fn write(&mut self, device: &dyn BlockDevice, random: &dyn Random) -> Result<()> {
        self.epoch += 1;
        for which in [HeaderCopy::First, HeaderCopy::Second] {
            self.write_copy(device, which, random)?;
        }
        Ok(())
    }

    /// The variant of [`Header::write`] for a change that makes the old header worthless. If one copy cannot be
    /// written, the other one still is.
    ///
    /// # Errors
    /// The first failure.
    pub(crate) fn write_what_goes(
        &mut self,
        device: &dyn BlockDevice,
        random: &dyn Random,
    ) -> Result<()> {
        self.epoch += 1;
        let first = self.write_copy(device, HeaderCopy::First, random);
        first.and(self.write_copy(device, HeaderCopy::Second, random))
    }

    /// Writes one copy and makes it durable.
    pub(crate) fn write_copy(
        &self,
        device: &dyn BlockDevice,
        which: HeaderCopy,
        random: &dyn Random,
    ) -> Result<()> {
        let bytes = self.encode(which, random)?;
        let offset = which.offset(self.view.copy_len);
        device.write_at(offset, &[IoSlice::new(&bytes)])?;
        Ok(device.flush()?)
    }

    fn encode(&self, which: HeaderCopy, random: &dyn Random) -> Result<Vec<u8>> {
        let copy_len = self.view.copy_len;
        let area_len = copy_len as usize - BINARY_LEN;
        let mut json = encode_json(&self.json);
        // A header of another program may be longer when it is written again: without the check it would be cut off.
        check_json_len(&json, area_len)?;
        json.resize(area_len, 0);
        let mut binary = Binary::blank(which, copy_len);
        random.fill(&mut binary.salt)?;
        binary.epoch = self.epoch.into();
        let long = |what| Error::Usage(format!("the {what} is too long for a LUKS2 header"));
        let (label, subsystem) = &self.read_names;
        binary.label = name_field(&self.label, label).ok_or_else(|| long("label"))?;
        binary.checksum_hash = field(&self.checksum_hash).ok_or_else(|| long("hash"))?;
        binary.uuid = field(&self.uuid).ok_or_else(|| long("UUID"))?;
        binary.subsystem =
            name_field(&self.subsystem, subsystem).ok_or_else(|| long("subsystem"))?;
        binary.seal(&json).map_err(Error::Usage)?;
        let mut bytes = binary.as_bytes().to_vec();
        bytes.extend_from_slice(&json);
        Ok(bytes)
    }
}

/// The field of a label or subsystem. One that is not changed keeps its bytes.
fn name_field(name: &str, read: &[u8; 48]) -> Option<[u8; 48]> {
    match lossy_text(read) == name {
        true => Some(*read),
        false => field(name),
    }
}

/// A copy of a header with any JSON area, whose checksum is right.
#[cfg(fuzzing)]
pub(crate) fn sealed_copy(which: HeaderCopy, json: &[u8], copy_len: usize) -> Vec<u8> {
    let mut area = json.to_vec();
    area.resize(copy_len - BINARY_LEN, 0);
    let mut binary = Binary::blank(which, copy_len as u64);
    binary.epoch = 1.into();
    binary.checksum_hash = field("sha256").expect("short");
    binary.seal(&area).expect("a known hash");
    [binary.as_bytes(), &area].concat()
}

/// Checks that the JSON fits its area, with the zero behind it.
fn check_json_len(json: &[u8], area_len: usize) -> Result<()> {
    match json.len() < area_len {
        true => Ok(()),
        false => Err(Error::NoSpace {
            what: format!("its JSON area has {area_len} bytes; remove a key or a token"),
        }),
    }
}

fn encode_json(json: &Map<String, Value>) -> Vec<u8> {
    serde_json::to_vec(json).expect("JSON that was read can be written")
}

/// The result of a look for a copy at one address.
struct CopyProbe {
    /// True if the bytes begin with the magic of a copy.
    has_magic: bool,
    is_zero: bool,
    copy: Option<DecodedCopy>,
    why_not: CopyFailure,
}

/// The reason why there is no copy.
enum CopyFailure {
    Bad(String),
    /// The device failed, so that there may be a copy.
    Unreadable(block::Error),
}

impl From<String> for CopyFailure {
    fn from(what: String) -> CopyFailure {
        CopyFailure::Bad(what)
    }
}

impl CopyFailure {
    fn state(self) -> CopyState {
        match self {
            CopyFailure::Bad(what) => CopyState::Bad(what),
            CopyFailure::Unreadable(error) => CopyState::Unreadable(error.to_string()),
        }
    }
}

/// A copy whose checksum is right.
struct DecodedCopy {
    copy_len: u64,
    header: std::result::Result<Header, String>,
}

fn read_copy(device: &dyn BlockDevice, which: HeaderCopy, offset: u64) -> CopyProbe {
    let mut tried = CopyProbe {
        has_magic: false,
        is_zero: false,
        copy: None,
        why_not: CopyFailure::Bad("it is behind the end of the device".into()),
    };
    if device.size() < offset.saturating_add(BINARY_LEN as u64) {
        return tried;
    }
    let mut bytes = [0; BINARY_LEN];
    if let Err(error) = device.read_at(offset, &mut bytes) {
        // The other copy may be where the device still can be read.
        tried.why_not = CopyFailure::Unreadable(error);
        return tried;
    }
    tried.has_magic = bytes.starts_with(&which.magic());
    tried.is_zero = bytes == [0; BINARY_LEN];
    match decode(device, which, offset, &bytes) {
        Ok(copy) => tried.copy = Some(copy),
        Err(why) => tried.why_not = why,
    }
    tried
}

fn decode(
    device: &dyn BlockDevice,
    which: HeaderCopy,
    offset: u64,
    bytes: &[u8; BINARY_LEN],
) -> std::result::Result<DecodedCopy, CopyFailure> {
    let binary = Binary::decode(bytes, which, offset)?;
    let copy_len = binary.copy_len.get();
    if device.size() < offset + copy_len {
        return Err("it ends behind the end of the device".to_owned().into());
    }
    let mut json = vec![0; copy_len as usize - BINARY_LEN];
    device
        .read_at(offset + BINARY_LEN as u64, &mut json)
        .map_err(CopyFailure::Unreadable)?;
    binary.verify(&json)?;
    let header = parse(&binary, &json);
    Ok(DecodedCopy { copy_len, header })
}

fn parse(binary: &Binary, area: &[u8]) -> std::result::Result<Header, String> {
    let end = area
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    if end == area.len() {
        return Err("its JSON is not ended by a zero".into());
    }
    if !area.starts_with(b"{") {
        return Err("its JSON does not begin with {".into());
    }
    let json: Map<String, Value> = serde_json::from_slice(&area[..end])
        .map_err(|error| format!("its JSON cannot be read: {error}"))?;
    let view = HeaderView::read(&json)?;
    if view.copy_len != binary.copy_len.get() {
        return Err("its JSON says another length than its binary part".into());
    }
    let text_of = |field: &[u8], what| text(field).ok_or(format!("its {what} is no text"));
    Ok(Header {
        epoch: binary.epoch.get(),
        label: lossy_text(&binary.label),
        subsystem: lossy_text(&binary.subsystem),
        read_names: (binary.label, binary.subsystem),
        uuid: text_of(&binary.uuid, "UUID")?,
        checksum_hash: text_of(&binary.checksum_hash, "hash")?,
        json,
        view,
    })
}

/// Looks for the second copy where the first does not say where it is. A place that cannot be read counts for more
/// than one without a copy.
fn find_second(device: &dyn BlockDevice) -> CopyProbe {
    let mut best: Option<CopyProbe> = None;
    for offset in COPY_SIZES {
        let tried = read_copy(device, HeaderCopy::Second, offset);
        let epoch = |tried: &CopyProbe| Some(tried.copy.as_ref()?.header.as_ref().ok()?.epoch);
        let worth = |tried: &CopyProbe| {
            (
                epoch(tried),
                matches!(tried.why_not, CopyFailure::Unreadable(_)),
            )
        };
        if best.as_ref().is_none_or(|best| worth(&tried) > worth(best)) {
            best = Some(tried);
        }
    }
    best.expect("there are offsets to look at")
}

fn choose(device: &dyn BlockDevice, first: CopyProbe, second: CopyProbe) -> Result<HeaderCopies> {
    let is_read = !matches!(first.why_not, CopyFailure::Unreadable(_));
    let is_overwritten = !first.has_magic && !first.is_zero && is_read;
    let (first, second) = (content(first), content(second));
    let found = match (first, second) {
        (Ok(one), Ok(two)) if one.epoch >= two.epoch => HeaderCopies {
            second: state(two.epoch == one.epoch),
            first: CopyState::Current,
            header: one,
            is_overwritten,
        },
        (Ok(_), Ok(two)) => HeaderCopies {
            first: CopyState::Old,
            second: CopyState::Current,
            header: two,
            is_overwritten,
        },
        (Ok(one), Err(why)) => HeaderCopies {
            first: CopyState::Current,
            second: why.state(),
            header: one,
            is_overwritten,
        },
        (Err(why), Ok(two)) => HeaderCopies {
            first: why.state(),
            second: CopyState::Current,
            header: two,
            is_overwritten,
        },
        (Err(CopyFailure::Unreadable(error)), Err(_))
        | (Err(_), Err(CopyFailure::Unreadable(error))) => {
            return Err(error.into());
        }
        (Err(CopyFailure::Bad(one)), Err(CopyFailure::Bad(two))) => {
            let what = format!("the first copy: {one}; the second: {two}");
            return Err(Error::damaged(device, what));
        }
    };
    let needed = found.header.header_len();
    match device.size() {
        size if size < needed => Err(Error::TooSmall {
            device: device.name(),
            size,
            needed,
        }),
        _ => Ok(found),
    }
}

fn content(tried: CopyProbe) -> std::result::Result<Header, CopyFailure> {
    let copy = tried.copy.ok_or(tried.why_not)?;
    copy.header.map_err(CopyFailure::Bad)
}

fn state(is_current: bool) -> CopyState {
    match is_current {
        true => CopyState::Current,
        false => CopyState::Old,
    }
}
