//! The first frame of a stream: it describes the snapshot that is sent.

use std::collections::BTreeMap;

use zerocopy::IntoBytes;

use super::StreamPosition;
use crate::error::{Error, Result};
use crate::format::codec::{ValueReader, ValueWriter};
use crate::format::datasets::past_seal::{self, PAST};
use crate::format::datasets::sealed_facts::{FACTS, SealedFacts};
use crate::format::datasets::volume_shape::VolumeShape;
use crate::format::logs::log_head::LogHead;
use crate::format::records::pointer::{LEVEL_MAX, RecordIdentity, RecordPtr};
use crate::names::DatasetName;

const MAGIC: [u8; 8] = *b"SRSTREAM";
/// The version of streams of sealed records.
const VERSION_SEALED: u16 = 1;
/// The version of streams in the clear.
const VERSION_PLAIN: u16 = 2;
/// Versions of streams of volumes are higher by this.
const OF_VOLUMES: u16 = 2;
/// The version of streams of sealed records that may have the hash of their ciphertext, of files and volumes.
const VERSION_CHECKED: u16 = 5;

/// The longest that it can be: a keyring of all blocks that one can have, properties, and numbers.
pub(crate) const BEGIN_MAX: u32 = 8 << 20;

/// Numbers that are counted up stay below this.
const COUNT_LIMIT: u64 = 1 << 62;

/// The sender of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The pool.
    pub pool_guid: u64,
    /// The name of the snapshot there.
    pub name: String,
    /// The number of bytes of records and nodes that the snapshot reaches there.
    pub referenced: u64,
}

/// Names the state of a dataset in a snapshot, also where it was sealed anew: the hash of the identities of its
/// roots where it was made.
pub type Lineage = [u8; 32];

/// The state of which these are the identities of the roots.
pub(crate) fn lineage<'a>(roots: impl Iterator<Item = &'a RecordIdentity>) -> Lineage {
    let mut hasher = blake3::Hasher::new();
    for identity in roots {
        hasher.update(identity.as_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// The contents of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// The sender of the stream; for people, and for a [`ResumeToken`](super::ResumeToken).
    pub sender: Sender,
    /// The snapshot.
    pub to_guid: u64,
    /// The snapshot that the stream starts from, 0 for a full stream.
    pub from_guid: u64,
    /// The identities of the roots there.
    pub from_roots: [RecordIdentity; 2],
    /// The position at which the stream starts. Everything before it was received already.
    pub start: StreamPosition,
    /// Shared by everything that has the same keys.
    pub family: u64,
    /// The cipher suite of the records there, 0 if they are clear.
    pub suite: u8,
    /// The states of the dataset from which a stream in the clear goes on, and which it makes. It has no keys, no seal
    /// and no identities, since the receiver seals what comes anew.
    pub plain: Option<[Lineage; 2]>,
    /// True if records may have the hash of their ciphertext in their identity, and the seal may be over names of
    /// states.
    pub is_checked: bool,
    /// The size of the volume, if it is one.
    pub volume: Option<VolumeShape>,
    /// The time when the snapshot was made.
    pub created: u64,
    /// The transaction group up to which it needs generations of the keyring.
    pub keys_txg: u64,
    /// The transaction group up to which the snapshot needs generations. The keyring may have later ones, if earlier ones
    /// make no seals.
    pub needed_txg: u64,
    /// The dataset that the seal is over.
    pub sealed_guid: u64,
    /// The count in the seal.
    pub sequence: u64,
    /// The seal.
    pub seal: [u8; 32],
    /// Chain, sequence and base of the log that the seal is over.
    pub log: [u64; 3],
    /// The names of states in that log that the seal is over.
    pub log_states: [[u8; 16]; 2],
    /// The identities of the roots that must result.
    pub roots: [RecordIdentity; 2],
    /// Properties of the dataset.
    pub props: BTreeMap<String, String>,
    /// Wrapped keys, with slots; empty if the records are clear.
    pub keyring: Vec<u8>,
}

impl Begin {
    /// The last part of the name of the snapshot.
    pub fn snapshot(&self) -> &str {
        let name = self.sender.name.split_once('@');
        name.map_or("", |(_, snapshot)| snapshot)
    }

    /// Returns whether it is a full stream.
    pub fn is_full(&self) -> bool {
        self.from_guid == 0
    }

    /// The resulting sealed state; `None` for a stream in the clear.
    pub(crate) fn sealed_state(&self) -> Option<Lineage> {
        self.plain.is_none().then(|| lineage(self.roots.iter()))
    }

    /// The resulting state of a stream in the clear.
    pub(crate) fn plain_state(&self) -> Option<Lineage> {
        self.plain.map(|[_, to]| to)
    }

    /// Returns this beginning for a stream in the clear: without everything about keys.
    pub(crate) fn in_the_clear(self, lineage: [Lineage; 2]) -> Begin {
        let none = [RecordPtr::EMPTY.identity; 2];
        Begin {
            plain: Some(lineage),
            is_checked: false,
            family: 0,
            keys_txg: 0,
            needed_txg: 0,
            sealed_guid: 0,
            sequence: 0,
            seal: [0; 32],
            log: [0; 3],
            log_states: [[0; 16]; 2],
            from_roots: none,
            roots: none,
            ..self
        }
    }

    /// The list of earlier seals that the metadata does not have. It travels among the properties.
    pub(crate) fn waiting_seals(&self) -> Option<&String> {
        self.props.get(PAST).filter(|_| self.suite != 0)
    }

    /// The facts outside of its records that the seal covers. They travel among the properties.
    pub(crate) fn sealed_facts(&self) -> Option<&String> {
        self.props.get(FACTS).filter(|_| self.suite != 0)
    }

    /// The part of the log's head that the seal covers.
    pub(crate) fn log_head(&self) -> LogHead {
        let [chain, sequence, base] = self.log;
        let [state, before] = self.log_states;
        LogHead {
            chain,
            sequence,
            base,
            state,
            before,
            ..LogHead::default()
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = ValueWriter::default();
        let of_volumes = if self.volume.is_some() { OF_VOLUMES } else { 0 };
        let version = match self.plain {
            None if self.is_checked => VERSION_CHECKED,
            None => VERSION_SEALED + of_volumes,
            Some(_) => VERSION_PLAIN + of_volumes,
        };
        w.value(&MAGIC).u16(version).u8(self.suite);
        w.u8(self.start.array).u64(self.start.slot);
        let numbers = [
            self.to_guid,
            self.from_guid,
            self.sender.pool_guid,
            self.sender.referenced,
            self.family,
            self.created,
            self.keys_txg,
            self.sealed_guid,
            self.sequence,
        ];
        for number in numbers.into_iter().chain(self.log) {
            w.u64(number);
        }
        match &self.plain {
            Some(lineage) => w.value(lineage),
            None => w
                .value(&self.seal)
                .value(&self.from_roots)
                .value(&self.roots),
        };
        if self.is_checked {
            w.u8(self.volume.is_some().into()).value(&self.log_states);
            w.u64(self.needed_txg);
        }
        if let Some(shape) = &self.volume {
            shape.encode(&mut w);
        }
        w.text(&self.sender.name).u16(self.props.len() as u16);
        for (key, value) in &self.props {
            w.text(key).text(value);
        }
        w.bytes.extend_from_slice(&self.keyring);
        w.bytes
    }

    /// Reads what [`Begin::encode`] made; whatever else the bytes are, it is an error.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Begin> {
        let mut r = ValueReader::new(bytes);
        let head = r.value::<[u8; 8]>().zip(r.u16());
        let version = match head {
            Some((MAGIC, version @ VERSION_SEALED..=VERSION_CHECKED)) => version,
            Some((MAGIC, version)) if version > VERSION_CHECKED => {
                return Err(Error::stream(
                    "is of a later version of the format; update Strongroom to receive it",
                ));
            }
            _ => return Err(Error::stream("is damaged")),
        };
        let begin = Begin::parts(&mut r, version).filter(Begin::is_possible);
        begin.ok_or_else(|| Error::stream("says what cannot be"))
    }

    fn parts(r: &mut ValueReader<'_>, version: u16) -> Option<Begin> {
        let is_checked = version == VERSION_CHECKED;
        let is_plain = [VERSION_PLAIN, VERSION_PLAIN + OF_VOLUMES].contains(&version);
        let suite = r.u8()?;
        let start = StreamPosition::checked(r.u8()?, r.u64()?)?;
        let (to_guid, from_guid, pool_guid) = (r.u64()?, r.u64()?, r.u64()?);
        let (referenced, family, created) = (r.u64()?, r.u64()?, r.u64()?);
        let (keys_txg, sealed_guid, sequence) = (r.u64()?, r.u64()?, r.u64()?);
        let log = [r.u64()?, r.u64()?, r.u64()?];
        let none = [RecordPtr::EMPTY.identity; 2];
        let (plain, seal, from_roots, roots) = match is_plain {
            true => (Some(r.value()?), [0; 32], none, none),
            false => (None, r.value()?, r.value()?, r.value()?),
        };
        let (is_volume, log_states, needed_txg) = match is_checked {
            true => (
                [false, true].get(usize::from(r.u8()?)).copied()?,
                r.value()?,
                r.u64()?,
            ),
            false => (version > OF_VOLUMES, [[0; 16]; 2], keys_txg),
        };
        let volume = match is_volume {
            true => Some(VolumeShape::decode(r)?),
            false => None,
        };
        let name = r.text()?;
        let count = r.u16()?;
        let props = (0..count).map(|_| Some((r.text()?, r.text()?)));
        let props: BTreeMap<String, String> = props.collect::<Option<_>>()?;
        Some(Begin {
            sender: Sender {
                pool_guid,
                name,
                referenced,
            },
            to_guid,
            from_guid,
            from_roots,
            start,
            family,
            suite,
            plain,
            is_checked,
            volume,
            created,
            keys_txg,
            needed_txg,
            sealed_guid,
            sequence,
            seal,
            log,
            log_states,
            roots,
            props,
            keyring: r.rest().to_vec(),
        })
    }

    fn is_possible(&self) -> bool {
        let name = DatasetName::parse(&self.sender.name);
        let [_, sequence, base] = self.log;
        let counts = [self.keys_txg, self.sequence, sequence, base];
        let needs_its_own = self.needed_txg <= self.keys_txg;
        let roots = self.roots.iter().chain(&self.from_roots);
        name.is_ok_and(|name| name.snapshot.is_some())
            && self.to_guid != 0
            && (self.suite == 0 || self.plain.is_some()) == self.keyring.is_empty()
            && self
                .waiting_seals()
                .is_none_or(|mark| past_seal::decode(mark).is_some())
            && self
                .sealed_facts()
                .is_none_or(|mark| SealedFacts::decode(mark).is_some())
            && needs_its_own
            && counts.iter().all(|count| *count < COUNT_LIMIT)
            && roots.into_iter().all(|root| root.level <= LEVEL_MAX)
    }
}
